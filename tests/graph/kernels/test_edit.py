"""Editing a graph: the kernel and the plain code against the dense A + B ∘ (complement(A) − A)."""

from __future__ import annotations

import itertools
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphshift.graph import kernels
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import native
from graphshift.graph.keys import keys_of
from reference import dense_adjacency

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


def graph_with(nodes: int, pairs: list[tuple[int, int]], *, undirected: bool, weighted: bool) -> Graph:
    """Entries (n, m), and (m, n) if undirected; weights are whole numbers, another one for every pair."""
    if undirected:
        pairs = pairs + [(m, n) for n, m in pairs]
    pairs = sorted(set(pairs))
    ends = [sorted(pair) if undirected else pair for pair in pairs]
    weight = torch.tensor([1.0 + n * nodes + m for n, m in ends]) if weighted else None
    keys = torch.tensor([n * nodes + m for n, m in pairs], dtype=torch.int64)
    return Graph.from_keys(nodes, keys, weight, undirected=undirected)


def dense(graph: Graph) -> Tensor:
    return dense_adjacency(graph.edge_index, graph.num_nodes, graph.weight)


def flipped(graph: Graph, actions: Tensor, both: bool) -> Tensor:
    """What Eq. 5 says, entry by entry; an added edge weighs the mean of the weights, or 1."""
    a, n = dense(graph), graph.num_nodes
    b = torch.zeros(n, n, dtype=torch.float64)
    for row, columns in enumerate(actions.tolist()):
        for column in columns:
            b[row, column] = 1
            b[column, row] = max(float(b[column, row]), float(both))
    there = (a > 0).double()
    after = there + b * ((1 - torch.eye(n) - there) - there)
    mean = float(a.sum() / there.sum()) if graph.weight is not None and there.any() else 1.0
    return torch.where(there > 0, a, mean) * after


def check_form(graph: Graph, both: bool) -> None:
    """A valid CSR without duplicates and self-loops; all that is derived from it fits together."""
    n, pattern = graph.num_nodes, graph.pattern
    assert pattern.rowptr.dtype == pattern.col.dtype == torch.int32
    rowptr, col = pattern.rowptr.tolist(), pattern.col.tolist()
    assert (rowptr[0], rowptr[-1], len(rowptr)) == (0, len(col), n + 1) == (0, graph.num_edges, n + 1)
    for row, (begin, end) in enumerate(itertools.pairwise(rowptr)):
        assert begin <= end
        columns = col[begin:end]
        assert len(set(columns)) == len(columns)
        assert all(0 <= column < n and column != row for column in columns)
    assert graph.undirected == graph.adjacency.symmetric == both
    matrix = dense(graph)
    assert not both or torch.equal(matrix, matrix.t())
    assert graph.edge_index.dtype == graph.keys.dtype == torch.int64
    assert torch.equal(graph.keys, matrix.flatten().nonzero().squeeze(1))  # sorted, unique
    if graph.weight is not None:
        assert graph.weight.dtype == torch.float32
        assert torch.equal(graph.weight.double(), matrix[graph.edge_index[1], graph.edge_index[0]])


def check_edit(graph: Graph, actions: Tensor, *, directed: bool = False) -> Graph:
    """The edited graph, which the kernel and the plain code agree on, and the dense formula with them."""
    both = graph.undirected and not directed
    before, expected = dense(graph), flipped(graph, actions, both)
    with patch.object(native, "call", wraps=native.call) as kernel:
        fast = graph.flip_rows(actions, directed=directed)
        with patch.object(native, "LIBRARY", None):
            plain = graph.flip_rows(actions, directed=directed)
    assert kernel.call_count == 1
    assert bool((keys_of(plain.pattern.rowptr, plain.pattern.col).diff() > 0).all())  # its rows are sorted
    for view in (fast, plain):
        check_form(view, both)
        torch.testing.assert_close(dense(view), expected, rtol=1e-6, atol=0)  # a mean in 32 bits
    assert torch.equal(fast.keys, plain.keys)
    assert torch.equal(dense(graph), before)  # nothing in place
    return fast


COMPLETE = list(itertools.combinations(range(5), 2))
CASES: dict[str, tuple[int, list[tuple[int, int]], list[list[int]]]] = {
    "no edges": (4, [], [[1], [2], [3], [0]]),
    "complete": (5, COMPLETE, [[1, 2], [3, 4], [0, 1], [4, 2], [0, 3]]),
    "complete, all of it flipped": (5, COMPLETE, [[m for m in range(5) if m != n] for n in range(5)]),
    "two nodes, joined": (2, [(0, 1)], [[1], [0]]),
    "two nodes, apart": (2, [], [[1, 1], [0, 0]]),
    "an edge drawn twice": (4, [(0, 1), (1, 2)], [[1, 1], [3, 3], [0, 0], [2, 2]]),
    "a gap drawn twice": (4, [(0, 1)], [[2, 2], [3, 3], [3, 3], [0, 0]]),
    "an edge drawn from both ends": (3, [(0, 1), (1, 2)], [[1], [0], [0]]),
    "a gap drawn from both ends": (3, [(0, 1)], [[2], [2], [0]]),
    "both ends draw twice": (3, [(0, 1)], [[1, 1], [0, 0], [0, 1]]),
    "more draws than neighbours": (4, [(0, 1), (2, 3)], [[1, 2, 3, 1, 2], [0, 2, 3, 0, 3], [3, 0, 1, 1, 3], [2] * 5]),
    "a star loses its centre": (5, [(0, m) for m in range(1, 5)], [[1], [0], [0], [0], [0]]),
    "isolated nodes": (6, [(0, 1), (1, 2)], [[1], [0], [1], [4], [5], [3]]),
    "the first and the last of a row": (5, [(2, 0), (2, 1), (2, 3), (2, 4)], [[1], [0], [0], [2], [2]]),
}


@pytest.mark.parametrize("name", CASES)
def test_an_edit_is_a_plus_b_times_complement_minus_a(name: str) -> None:
    nodes, pairs, actions = CASES[name]
    for undirected, weighted, directed in itertools.product((True, False), repeat=3):
        graph = graph_with(nodes, pairs, undirected=undirected, weighted=weighted)
        view = check_edit(graph, torch.tensor(actions), directed=directed)
        again = check_edit(view, torch.tensor(actions), directed=directed)
        if view.undirected == graph.undirected:
            assert torch.equal(again.keys, graph.keys)  # flipping twice gives the graph back


@st.composite
def edits(draw: st.DrawFn) -> tuple[Graph, Tensor, bool]:
    """A graph, columns for each of its rows, and whether only one direction is flipped."""
    nodes = draw(st.integers(2, 7))
    possible = [(n, m) for n in range(nodes) for m in range(nodes) if n != m]
    pairs = draw(st.lists(st.sampled_from(possible), max_size=30))
    graph = graph_with(nodes, pairs, undirected=draw(st.booleans()), weighted=draw(st.booleans()))
    draws = draw(st.integers(1, 8))
    slots = st.lists(st.integers(0, nodes - 2), min_size=draws, max_size=draws)
    slot = torch.tensor([draw(slots) for _ in range(nodes)])
    return graph, slot + (slot >= torch.arange(nodes).unsqueeze(1)), draw(st.booleans())


@given(edits())
def test_any_edit_is_that_of_the_dense_formula(case: tuple[Graph, Tensor, bool]) -> None:
    graph, actions, directed = case
    view = check_edit(graph, actions, directed=directed)
    if view.undirected == graph.undirected:
        assert torch.equal(view.flip_rows(actions, directed=directed).keys, graph.keys)


@pytest.mark.parametrize("undirected", [True, False])
def test_edits_of_a_larger_graph_and_of_what_they_give(undirected: bool) -> None:
    """Views of views: the rows that the kernel is given are not sorted then."""
    nodes, generator = 80, torch.Generator().manual_seed(2)
    pairs = torch.randint(nodes, (700, 2), generator=generator).tolist()
    graph = graph_with(nodes, [(n, m) for n, m in pairs if n != m], undirected=undirected, weighted=True)
    for draws in (1, 30, 6):
        graph = check_edit(graph, kernels.draw(nodes, draws, draws))
    assert bool((graph.pattern.col.diff() < 0)[graph.pattern.row.diff() == 0].any())


@pytest.mark.parametrize("undirected", [True, False])
def test_a_weighted_graph_without_edges_gains_edges_of_weight_one(undirected: bool) -> None:
    graph = Graph.from_keys(3, torch.empty(0, dtype=torch.int64), torch.empty(0), undirected=undirected)
    torch.full((64,), 7.0)  # memory that is used again holds something
    check_edit(graph, torch.tensor([[1], [2], [0]]))


def test_indices_and_weights_may_lie_anywhere_in_memory() -> None:
    graph = graph_with(5, COMPLETE[:7], undirected=True, weighted=True)
    actions = torch.tensor(CASES["complete"][2])
    expected = graph.flip_rows(actions)
    for spelled in (actions.t().contiguous().t(), actions.int(), torch.stack([actions, -actions], dim=2)[..., 0]):
        spread = Graph(graph.pattern, torch.stack([graph.weight, -graph.weight], dim=1)[:, 0], undirected=True)
        view = spread.flip_rows(spelled)
        assert torch.equal(view.keys, expected.keys)
        assert torch.equal(view.weight, expected.weight)


def test_weights_that_are_learned_take_the_plain_way() -> None:
    """The kernel gives no gradient. Double precision is not its business either."""
    graph = graph_with(4, [(0, 1), (1, 2)], undirected=False, weighted=True)
    actions = torch.tensor([[1], [0], [0], [0]])
    learned = graph.weight.clone().requires_grad_()
    view = Graph.from_keys(4, graph.keys, learned, undirected=False).flip_rows(actions)
    view.weight.sum().backward()
    torch.testing.assert_close(learned.grad, torch.tensor([1.5, 2.5]))  # (0, 1) is gone, three edges are the mean
    double = Graph.from_keys(4, graph.keys, graph.weight.double(), undirected=False).flip_rows(actions)
    assert double.weight.dtype == torch.float64
    assert double.weight.tolist() == view.weight.tolist()


def test_many_draws_leave_room_for_all_of_them() -> None:
    """Every node draws every other one, several times over: as many flips as there can be."""
    nodes = 40
    others = torch.tensor([[m for m in range(nodes) if m != n] for n in range(nodes)])
    graph = graph_with(nodes, [(n, n + 1) for n in range(nodes - 1)], undirected=True, weighted=False)
    view = check_edit(graph, others.repeat(1, 3))
    assert view.num_edges == nodes * (nodes - 1) - 2 * (nodes - 1)
