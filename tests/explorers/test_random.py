from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import chisquare
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.explorers import Random, apply_actions
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import native
from reference import KINDS, dense_adjacency, graph_of, random_data


@pytest.mark.parametrize("nodes", [3, 6])
def test_draws_are_uniform_over_the_other_nodes(nodes: int) -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), nodes)
    actions = Random(12_000, seed=5).propose(graph).actions
    for row in range(nodes):
        counts = torch.bincount(actions[row], minlength=nodes)
        assert counts[row] == 0
        assert chisquare([int(c) for m, c in enumerate(counts) if m != row]).pvalue > 1e-4


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_view_differs_in_exactly_the_pairs_drawn(kind: str, directed: bool) -> None:
    graph = graph_of(random_data(**KINDS[kind]))
    view = Random(3, directed=directed, seed=2).propose(graph)
    n = graph.num_nodes
    assert view.actions.shape == (n, 3)
    b = torch.zeros(n, n).scatter(1, view.actions, 1.0)
    if graph.undirected and not directed:
        b = b.maximum(b.t())
    before, after = (dense_adjacency(g.edge_index, n) > 0 for g in (graph, view.graph))
    assert torch.equal(before != after, b > 0)
    assert view.graph.undirected == (graph.undirected and not directed)
    assert view.flips.tolist() == b.flatten().nonzero().flatten().tolist()


def test_a_pair_drawn_from_both_ends_is_flipped_once() -> None:
    graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 3)
    edited, flips = apply_actions(graph, torch.tensor([[1, 1], [0, 2], [1, 1]]))
    assert edited.edge_index.tolist() == [[2, 1], [1, 2]]  # 0 – 1 is gone, 1 – 2 is there
    assert flips.tolist() == [0 * 3 + 1, 1 * 3 + 0, 1 * 3 + 2, 2 * 3 + 1]
    edited, flips = apply_actions(graph, torch.tensor([[1, 1], [2, 2], [0, 0]]), directed=True)
    assert flips.tolist() == [0 * 3 + 1, 1 * 3 + 2, 2 * 3 + 0]
    assert edited.edge_index.t().tolist() == [[0, 1], [2, 1], [0, 2]]  # 1 → 0 is gone, 0 → 1 stays
    assert not edited.undirected


def test_log_prob_is_that_of_uniform_draws(undirected: Data) -> None:
    assert Random(4).propose(undirected).log_prob == pytest.approx(9 * 4 * math.log(1 / 8))


def test_graphs_of_any_size_in_any_order(undirected: Data) -> None:
    explorer = Random(2)
    assert explorer.propose(undirected).graph.num_nodes == 9
    assert explorer.propose(random_data(5)).graph.num_nodes == 5
    one = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 1)
    assert explorer.propose(one).graph is one
    assert explorer.propose(one).actions is None


def test_seeds_and_state(undirected: Data) -> None:
    first, same, other = Random(3, seed=1), Random(3, seed=1), Random(3, seed=2)
    drawn = first.propose(undirected).actions
    assert torch.equal(drawn, same.propose(undirected).actions)
    assert not torch.equal(drawn, other.propose(undirected).actions)
    other.load_state(first.state())
    assert torch.equal(first.propose(undirected).actions, other.propose(undirected).actions)


def test_nothing_is_learned(undirected: Data) -> None:
    explorer, twin = Random(2, seed=1), Random(2, seed=1)
    explorer.learn(explorer.propose(undirected), 100.0)
    twin.propose(undirected)
    explorer.reset()
    assert torch.equal(explorer.propose(undirected).actions, twin.propose(undirected).actions)


def test_no_edits_are_refused() -> None:
    with pytest.raises(GraphshiftError, match="edits_per_node is 0; expected at least 1"):
        Random(0)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_same_explorer_without_kernels(kind: str, directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(random_data(20, **KINDS[kind]))
    explorers = [Random(3, directed=directed, seed=7) for _ in range(2)]
    fast = [explorers[0].propose(graph) for _ in range(3)]
    monkeypatch.setattr(native, "LIBRARY", None)
    plain = [explorers[1].propose(graph) for _ in range(3)]
    for left, right in zip(fast, plain, strict=True):
        assert torch.equal(left.actions, right.actions)
        assert torch.equal(left.graph.keys, right.graph.keys)
        assert torch.equal(left.flips, right.flips)
        assert left.log_prob == right.log_prob
        assert left.graph.undirected == right.graph.undirected
    assert not torch.equal(fast[0].actions, fast[1].actions)
