"""GAT's attention by kernels: the same as in torch, forwards and backwards, on every kind of graph."""

from __future__ import annotations

import pytest
import torch

from graphshift.backbones.gat import GATConvolution
from graphshift.graph import kernels
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import native
from reference import KINDS, graph_of, random_data

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels were not compiled")


def both_ways(graph: Graph, heads: int, width: int, scale: float) -> list[list[torch.Tensor]]:
    """The layer's output and all gradients, by the kernels and by torch in float64."""
    torch.manual_seed(0)
    layer = GATConvolution(6, width, heads, concatenate=True)
    x, outer = scale * torch.randn(graph.num_nodes, 6), torch.randn(graph.num_nodes, heads * width)
    found = []
    for dtype in (torch.float32, torch.float64):
        layer.zero_grad()
        layer = layer.to(dtype)
        weight = None if graph.weight is None else graph.weight.to(dtype)
        same = Graph.from_keys(graph.num_nodes, graph.keys, weight, undirected=graph.undirected)
        leaf = x.clone().to(dtype).requires_grad_()
        h = layer.transform(leaf)
        assert native.fits(h.detach(), same.pattern.col, same.weight) == (dtype == torch.float32)
        output = layer.mix(h, same)
        output.backward(outer.to(dtype))
        gradients = [leaf.grad, *(p.grad.clone() for p in layer.parameters())]
        found.append([output.detach(), *gradients])
    return found


@pytest.mark.parametrize("scale", [1.0, 4.0], ids=["even", "peaked"])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_and_torch_agree(kind: str, heads: int, scale: float) -> None:
    graph = graph_of(random_data(23, **KINDS[kind], seed=3))
    fast, plain = both_ways(graph, heads, 5, scale)
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=2e-4, atol=2e-4 * float(other.abs().max()))


def test_threads_share_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(random_data(60, seed=1))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = both_ways(graph, 2, 3, 1.0)[0]
        torch.set_num_threads(3)
        monkeypatch.setattr(native, "SMALL", 7)
        calls: list[tuple[int, int]] = []
        library = native.LIBRARY
        attend = library.graphshift_attend

        class Watched:
            def __getattr__(self, name: str) -> object:
                if name != "graphshift_attend":
                    return getattr(library, name)
                return lambda begin, end, *rest: (calls.append((begin, end)), attend(begin, end, *rest))

        monkeypatch.setattr(native, "LIBRARY", Watched())
        together = both_ways(graph, 2, 3, 1.0)[0]
    finally:
        torch.set_num_threads(threads)
    assert sorted(calls) == [(0, 20), (20, 40), (40, 60)]
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))


def test_scores_far_apart_do_not_overflow() -> None:
    fast, plain = both_ways(graph_of(random_data(12, seed=2)), 1, 4, 500.0)
    assert all(bool(torch.isfinite(t).all()) for t in fast)
    torch.testing.assert_close(fast[0].double(), plain[0], rtol=1e-3, atol=1e-3 * float(plain[0].abs().max()))
