"""Edge features through edits, against a dictionary of pairs; with C and with torch."""

from __future__ import annotations

import pytest
import torch

from graphshift.core.errors import GraphshiftError
from graphshift.graph import kernels
from graphshift.graph.graph import Graph


def described(graph: Graph) -> dict[tuple[int, int], tuple[float, ...]]:
    """The features, and the weight, of every entry by its two nodes."""
    assert graph.edge_attr is not None
    weight = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    rows = torch.cat([graph.edge_attr, weight.unsqueeze(1)], dim=1).tolist()
    return {(int(u), int(v)): tuple(row) for (u, v), row in zip(graph.edge_index.t(), rows, strict=True)}


def a_graph(*, undirected: bool, weighted: bool, nodes: int = 12, seed: int = 0) -> Graph:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(nodes, (2, 30), generator=generator)
    ends = ends[:, ends[0] < ends[1]].unique(dim=1)
    attr = torch.rand(ends.shape[1], 2, generator=generator)
    weight = torch.rand(ends.shape[1], generator=generator) + 0.5
    if undirected:
        ends, attr, weight = torch.cat([ends, ends.flip(0)], dim=1), attr.repeat(2, 1), weight.repeat(2)
    return Graph.from_edge_index(ends, nodes, weight if weighted else None, edge_attr=attr)


@pytest.fixture(params=["C", "torch"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "torch":
        monkeypatch.setattr("graphshift.graph.kernels.native.LIBRARY", None)
    elif not kernels.available():
        pytest.skip("the kernels are not compiled")
    return str(request.param)


@pytest.mark.parametrize("fill", ["draw", "mean", "zeros"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("undirected", [False, True])
def test_kept_edges_keep_their_features_and_added_ones_have_the_fill(
    engine: str, undirected: bool, weighted: bool, fill: str
) -> None:
    graph = a_graph(undirected=undirected, weighted=weighted).filled(fill)
    before = described(graph)
    edited = graph.flip_rows(kernels.draw(graph.num_nodes, 4, 3))
    after = described(edited)
    assert set(before) - set(after)
    added = set(after) - set(before)
    assert added
    for pair in set(before) & set(after):
        assert after[pair] == before[pair]
    mean = torch.tensor([row[:2] for row in before.values()]).mean(dim=0)
    for u, v in added:
        own = torch.tensor(after[u, v][:2])
        if fill == "draw":
            assert any(torch.equal(own, torch.tensor(row[:2])) for row in before.values())
        else:
            torch.testing.assert_close(own, mean if fill == "mean" else torch.zeros(2))
        if undirected:
            assert after[u, v] == after[v, u]
        if weighted:
            assert after[u, v][2] == pytest.approx(float(graph.weight.mean()))
    # By keys, and edits of edits, the same.
    changed = set(before) ^ set(after)
    keys = torch.tensor(sorted(v * graph.num_nodes + u for u, v in changed))
    assert described(graph.flip(keys)) == after
    assert set(described(edited.flip(keys))) == set(before)


def test_draws_are_uniform_over_edges_and_fixed_for_a_pair() -> None:
    nodes = 400
    ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    graph = Graph.from_edge_index(ring, nodes, edge_attr=(torch.arange(nodes) % 4).float().unsqueeze(1))
    views = [graph.flip_rows(kernels.draw(nodes, 30, seed)) for seed in range(2)]
    first, second = (described(view) for view in views)
    both = (set(first) & set(second)) - set(described(graph))
    assert both
    assert all(first[pair] == second[pair] for pair in both)
    drawn = torch.tensor([first[pair][0] for pair in set(first) - set(described(graph))])
    shares = torch.bincount(drawn.long(), minlength=4) / drawn.numel()
    assert float((shares - 0.25).abs().max()) < 4 * (0.25 * 0.75 / drawn.numel()) ** 0.5


def test_a_graph_without_edges_and_an_unknown_fill() -> None:
    empty = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 4, edge_attr=torch.empty(0, 3))
    for fill in ("draw", "mean", "zeros"):
        edited = empty.filled(fill).flip_rows(torch.tensor([[1], [0], [3], [2]]))
        assert torch.equal(edited.edge_attr, torch.zeros(4, 3))
    with pytest.raises(GraphshiftError, match="the features of new edges are 'most'; expected"):
        empty.filled("most")


def test_the_two_directions_may_differ() -> None:
    ends = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph = Graph.from_edge_index(ends, 3, edge_attr=torch.arange(4.0).unsqueeze(1))
    assert graph.undirected
    left = described(graph.flip_rows(torch.tensor([[1], [0], [0]])))  # without 0 – 1, with 0 – 2
    assert {pair: row[0] for pair, row in left.items() if 1 in pair} == {(1, 2): 2.0, (2, 1): 3.0}
