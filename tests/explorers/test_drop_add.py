"""The controls that only remove or only add: what they flip, how much, and that every pair is as likely as another."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.explorers import AddEdge, DropEdge, as_graph
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import native
from reference import KINDS, random_data


def graph_of(kind: str, nodes: int = 20, seed: int = 0) -> Graph:
    options: dict[str, Any] = KINDS[kind]
    return as_graph(random_data(nodes, density=0.2, seed=seed, **options))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_dropping_removes_the_budget_and_nothing_else(kind: str, seed: int) -> None:
    graph = graph_of(kind)
    view = DropEdge(1, seed=seed).propose(graph)
    before, after = set(graph.keys.tolist()), set(view.graph.keys.tolist())
    assert after < before
    each = 2 if graph.undirected else 1
    assert len(before) - len(after) == each * min(20, graph.num_edges // each // 2)
    assert set(view.flips.tolist()) == before - after
    assert view.graph.undirected == graph.undirected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_adding_joins_new_pairs_and_nothing_else(kind: str, seed: int) -> None:
    graph = graph_of(kind)
    view = AddEdge(2, seed=seed).propose(graph)
    before, after = set(graph.keys.tolist()), set(view.graph.keys.tolist())
    assert before < after
    assert set(view.flips.tolist()) == after - before
    assert len(after - before) <= (2 if graph.undirected else 1) * 20 * 2
    assert all(key // 20 != key % 20 for key in after)
    if graph.undirected:
        assert all((key % 20) * 20 + key // 20 in after for key in after)


def test_directed_edits_break_symmetry_only_where_asked() -> None:
    graph = graph_of("undirected")
    for explorer in (DropEdge(1, directed=True, seed=1), AddEdge(1, directed=True, seed=1)):
        assert not explorer.propose(graph).graph.undirected


def test_every_edge_is_as_likely_to_go() -> None:
    graph = graph_of("undirected")
    explorer, counts = DropEdge(1, seed=0), torch.zeros(400)
    for _ in range(3000):
        counts[explorer.propose(graph).flips] += 1
    edges = counts[graph.keys]
    share = min(20, graph.num_edges // 4) / (graph.num_edges / 2)
    assert float((edges / 3000 - share).abs().max()) < 5 * (share * (1 - share) / 3000) ** 0.5
    assert float(counts.sum()) == float(edges.sum())


def test_every_missing_pair_is_as_likely_to_come() -> None:
    graph = graph_of("directed")
    explorer, counts = AddEdge(1, seed=0), torch.zeros(400)
    for _ in range(4000):
        counts[explorer.propose(graph).flips] += 1
    missing = [k for k in range(400) if k // 20 != k % 20 and k not in set(graph.keys.tolist())]
    share = 1 / 19
    assert float((counts[missing] / 4000 - share).abs().max()) < 5 * (share * (1 - share) / 4000) ** 0.5


def test_without_kernels_the_same_edges_come(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of("undirected")
    fast = AddEdge(3, seed=4).propose(graph).flips
    monkeypatch.setattr(native, "LIBRARY", None)
    assert AddEdge(3, seed=4).propose(graph).flips.equal(fast)


def test_no_more_than_a_share_goes_and_wrong_shares_are_refused() -> None:
    graph = graph_of("undirected")
    assert DropEdge(100, most=1.0).propose(graph).graph.num_edges == 0
    assert DropEdge(100, most=0.0).propose(graph).graph.keys.equal(graph.keys)
    with pytest.raises(GraphshiftError, match=r"explorer most is 1\.5; expected a share from 0 to 1"):
        DropEdge(1, most=1.5)


@pytest.mark.parametrize("name", ["drop-edge", "add-edge"])
def test_models_train_with_them(name: str) -> None:
    data = gs.load("planted", nodes=60)
    model = gs.EERM(explorer=name, epochs=3, edits_per_node=1, hidden_channels=8).fit(data.train, val=data.val)
    assert model.history_[-1]["variance"] > 0
    lean = gs.EERM(explorer=name, epochs=3, edits_per_node=1, hidden_channels=8, low_memory=True)
    assert lean.fit(data.train, val=data.val).history_[-1]["variance"] == pytest.approx(
        model.history_[-1]["variance"], rel=1e-2
    )
