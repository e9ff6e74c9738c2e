from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from graphshift.core.errors import GraphshiftError
from graphshift.graph.graph import Graph, reverse
from graphshift.graph.sparse import Pattern
from reference import dense_adjacency, dense_normalised, dense_of, graph_of


def dense_graph(graph: Graph) -> Tensor:
    return dense_adjacency(graph.edge_index, graph.num_nodes, graph.weight)


def from_dense(matrix: Tensor, *, weighted: bool = False) -> Graph:
    target, source = matrix.nonzero().t()
    weight = matrix[target, source] if weighted else None
    return Graph.from_edge_index(torch.stack([source, target]), matrix.shape[0], weight)


def keys_of(matrix: Tensor) -> Tensor:
    return matrix.flatten().nonzero().squeeze(1)


def complement(matrix: Tensor) -> Tensor:
    """1 − I − A of a 0/1 matrix: the diagonal is left out."""
    return 1 - torch.eye(matrix.shape[0], dtype=matrix.dtype) - matrix


# --- what a graph is


def test_edges_are_sorted_by_target_then_source(any_data: Data) -> None:
    graph = graph_of(any_data)
    assert bool((graph.keys.diff() > 0).all())
    target, source = graph.edge_index[1], graph.edge_index[0]
    assert torch.equal(graph.keys, target * graph.num_nodes + source)
    assert graph.num_edges == any_data.num_edges
    assert torch.equal(dense_graph(graph), dense_of(any_data))  # weights went along with their edges


def test_the_csr_pattern(any_data: Data) -> None:
    pattern, expected = graph_of(any_data).pattern, dense_of(any_data).to_sparse_csr()
    assert torch.equal(pattern.rowptr, expected.crow_indices())
    assert torch.equal(pattern.col, expected.col_indices())


def test_undirected_is_detected(any_data: Data) -> None:
    weight = any_data.edge_weight if "edge_weight" in any_data else None
    expected = is_undirected(any_data.edge_index, weight, num_nodes=any_data.num_nodes)
    assert graph_of(any_data).undirected == expected


def test_undirected_needs_every_reverse_edge() -> None:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    assert Graph.from_edge_index(edges, 3).undirected
    assert not Graph.from_edge_index(edges[:, :3], 3).undirected
    assert not Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3).undirected  # a directed ring


def test_undirected_needs_equal_weights() -> None:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    assert Graph.from_edge_index(edges, 3, torch.tensor([2.0, 2.0, 3.0, 3.0])).undirected
    assert not Graph.from_edge_index(edges, 3, torch.tensor([2.0, 3.0, 2.0, 3.0])).undirected


def test_undirected_can_be_said() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    assert not Graph.from_edge_index(edges, 2, undirected=False).undirected


def test_a_graph_without_edges_is_undirected() -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 3)
    assert graph.undirected
    assert graph.edge_index.shape == (2, 0)
    assert torch.equal(graph.degree, torch.zeros(3))
    h = torch.randn(3, 2)
    torch.testing.assert_close(graph.normalised @ h, h)
    assert torch.equal(graph.adjacency @ h, torch.zeros(3, 2))


# --- the operators


@pytest.mark.usefixtures("float64")
def test_adjacency_degree_and_normalised_equal_the_dense_ones(any_data: Data) -> None:
    graph, dense = graph_of(any_data), dense_of(any_data)
    h = torch.randn(graph.num_nodes, 3)
    torch.testing.assert_close(graph.adjacency.to_dense(), dense)
    torch.testing.assert_close(graph.degree, dense.sum(dim=1))
    torch.testing.assert_close(graph.adjacency @ h, dense @ h)
    torch.testing.assert_close(graph.normalised @ h, dense_normalised(dense) @ h)
    full = graph.normalised.off.to_dense() + torch.diag(graph.normalised.diagonal)
    torch.testing.assert_close(full, dense_normalised(dense))


@pytest.mark.usefixtures("float64")
def test_gradients_pass_back_through_the_normalised_operator(any_data: Data) -> None:
    graph, dense = graph_of(any_data), dense_of(any_data)
    h, outer = torch.randn(graph.num_nodes, 3, requires_grad=True), torch.randn(graph.num_nodes, 3)
    (found,) = torch.autograd.grad(((graph.normalised @ h) * outer).sum(), h)
    torch.testing.assert_close(found, dense_normalised(dense).t() @ outer)


@pytest.mark.usefixtures("float64")
def test_the_normalised_operator_is_differentiable_in_the_weights(any_data: Data) -> None:
    graph = graph_of(any_data)
    weight = torch.rand(graph.num_edges).add(0.5).requires_grad_()
    dense = dense_of(any_data)
    if graph.undirected:  # weights must stay symmetric
        weight = (weight.detach() + weight.detach()[graph.pattern.transposed[1]]).requires_grad_()
    h, outer = torch.randn(graph.num_nodes, 3), torch.randn(graph.num_nodes, 3)
    ours = Graph.from_keys(graph.num_nodes, graph.keys, weight, undirected=graph.undirected).normalised @ h
    row, column = graph.keys // graph.num_nodes, graph.keys % graph.num_nodes
    expected = dense_normalised(torch.zeros_like(dense).index_put((row, column), weight)) @ h
    torch.testing.assert_close(ours, expected)
    found = torch.autograd.grad((ours * outer).sum(), weight)
    torch.testing.assert_close(found, torch.autograd.grad((expected * outer).sum(), weight))


# --- flipping


@st.composite
def flips(draw: st.DrawFn) -> tuple[Tensor, Tensor, bool]:
    """A 0/1 matrix A, a 0/1 matrix B, both without diagonal and both symmetric or both not, and whether weighted."""
    n = draw(st.integers(1, 6))
    bits = st.lists(st.booleans(), min_size=n * n, max_size=n * n)
    matrices = [torch.tensor(draw(bits), dtype=torch.float64).view(n, n).fill_diagonal_(0) for _ in range(2)]
    if draw(st.booleans()):
        matrices = [(m + m.t()).clamp(max=1) for m in matrices]
    return matrices[0], matrices[1], draw(st.booleans())


def flipped(graph: Graph, b: Tensor) -> Graph:
    """Flips what b has; an undirected graph wants both directions, or to be told that it will be none."""
    if graph.undirected and not torch.equal(b, b.t()):
        with pytest.raises(GraphshiftError, match="one direction of an edge is flipped and the other is not"):
            graph.flip(keys_of(b))
        return graph.flip(keys_of(b), undirected=False)
    return graph.flip(keys_of(b))


@given(flips())
def test_flip_is_a_plus_b_times_complement_minus_a(case: tuple[Tensor, Tensor, bool]) -> None:
    a, b, weighted = case
    n = a.shape[0]
    number = torch.arange(n, dtype=torch.float64)
    values = a * (1 + number[:, None] + number[None, :])  # symmetric weights, 0 where there is no edge
    graph = from_dense(values if weighted else a, weighted=weighted)
    before = graph.keys.clone(), None if graph.weight is None else graph.weight.clone()
    edited = flipped(graph, b)

    expected = a + b * (complement(a) - a)
    if weighted:
        added = b * (1 - a)
        mean = values.sum() / a.sum() if a.any() else 1.0
        expected = torch.where(added == 1, mean, values * expected)
    torch.testing.assert_close(dense_graph(edited), expected)
    assert torch.equal(edited.keys, keys_of(expected))  # sorted, unique
    assert torch.equal(edited.pattern.rowptr, expected.to_sparse_csr().crow_indices())
    assert torch.equal(edited.pattern.col, expected.to_sparse_csr().col_indices())
    assert edited.undirected == (graph.undirected and torch.equal(b, b.t()))
    assert torch.equal(graph.keys, before[0])  # nothing in place
    assert graph.weight is None or torch.equal(graph.weight, before[1])


@given(flips())
def test_flipping_twice_gives_the_graph_back(case: tuple[Tensor, Tensor, bool]) -> None:
    a, b, _ = case
    graph = from_dense(a)
    twice = flipped(flipped(graph, b), b)
    assert torch.equal(twice.keys, graph.keys)


def test_an_empty_graph_gains_what_is_flipped() -> None:
    empty = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 3)
    assert empty.flip(torch.tensor([1, 3])).edge_index.tolist() == [[1, 0], [0, 1]]
    weighted = Graph.from_keys(3, empty.keys, torch.empty(0), undirected=True)
    assert weighted.flip(torch.tensor([1, 3])).weight.tolist() == [1.0, 1.0]


def test_flipping_everything_gives_the_complement_and_flipping_all_edges_the_empty_graph(any_data: Data) -> None:
    a = (dense_of(any_data) > 0).double()
    graph = graph_of(any_data)
    everything = keys_of(complement(torch.zeros_like(a)))
    assert torch.equal((dense_graph(graph.flip(everything)) > 0).double(), complement(a))
    emptied = graph.flip(graph.keys)
    assert emptied.num_edges == 0
    assert torch.equal(emptied.degree, torch.zeros_like(emptied.degree))


def test_flipping_nothing_changes_nothing(weighted: Data) -> None:
    graph = graph_of(weighted)
    same = graph.flip(torch.empty(0, dtype=torch.int64))
    assert torch.equal(same.keys, graph.keys)
    assert torch.equal(same.weight, graph.weight)


def test_the_gradient_of_weights_passes_through_a_flip() -> None:
    weight = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    graph = Graph.from_keys(3, torch.tensor([1, 2, 5]), weight, undirected=False)
    edited = graph.flip(torch.tensor([1, 7]))  # deletes (0, 1), adds (2, 1) with the mean weight
    assert edited.weight.tolist() == [2.0, 6.0, 3.0]
    edited.weight.sum().backward()
    torch.testing.assert_close(weight.grad, torch.tensor([1 / 3, 4 / 3, 4 / 3]))


# --- a graph that is given by a pattern, its rows in any order


def shuffled(graph: Graph) -> Graph:
    """The same graph with the columns of each row in random order, weights with them."""
    order = torch.argsort(graph.pattern.row + torch.rand(graph.num_edges) * 0.9)
    pattern = Pattern(graph.pattern.rowptr, graph.pattern.col[order], graph.pattern.shape)
    return Graph(pattern, None if graph.weight is None else graph.weight[order], undirected=graph.undirected)


def test_a_pattern_of_any_order_is_the_same_graph(any_data: Data) -> None:
    graph, dense = graph_of(any_data), dense_of(any_data)
    mixed = shuffled(graph)
    assert not torch.equal(mixed.pattern.col, graph.pattern.col)
    assert torch.equal(dense_graph(mixed), dense)  # edge_index and weights go together
    assert mixed.edge_index.dtype == torch.int64
    assert torch.equal(mixed.keys, graph.keys)
    assert (mixed.num_nodes, mixed.num_edges, mixed.device) == (graph.num_nodes, graph.num_edges, graph.device)
    assert mixed.undirected == graph.undirected
    assert repr(mixed) == repr(graph)


@pytest.mark.usefixtures("float64")
def test_operators_do_not_depend_on_the_order(any_data: Data) -> None:
    graph = graph_of(any_data)
    mixed, h = shuffled(graph), torch.randn(graph.num_nodes, 3, requires_grad=True)
    torch.testing.assert_close(mixed.degree, graph.degree)
    for operator in ("adjacency", "normalised"):
        products = [getattr(g, operator) @ h for g in (mixed, graph)]
        torch.testing.assert_close(*products)
        outer = torch.randn_like(products[0])
        torch.testing.assert_close(*(torch.autograd.grad((product * outer).sum(), h) for product in products))


def test_flips_do_not_depend_on_the_order(any_data: Data) -> None:
    graph = graph_of(any_data)
    flips = torch.tensor([1, 9, 2 * 9 + 5, 5 * 9 + 2])
    left, right = shuffled(graph).flip(flips), graph.flip(flips)
    assert torch.equal(left.keys, right.keys)
    torch.testing.assert_close(dense_graph(left), dense_graph(right))


def test_moving_a_graph_that_is_given_by_a_pattern(weighted: Data) -> None:
    graph = shuffled(graph_of(weighted))
    assert graph.to(torch.device("cpu")) is graph
    moved = graph.to(torch.device("meta"))
    assert moved.device.type == moved.weight.device.type == moved.pattern.rowptr.device.type == "meta"
    assert moved.num_edges == graph.num_edges
    assert moved.undirected


def test_what_is_forgotten_is_made_again(any_data: Data) -> None:
    for graph in (graph_of(any_data), shuffled(graph_of(any_data))):
        h = torch.randn(graph.num_nodes, 2)
        before = graph.normalised @ h, graph.adjacency @ h, graph.degree, graph.edge_index, graph.pattern.row
        graph.forget()
        assert not {"normalised", "adjacency", "degree"} & graph.__dict__.keys()
        after = graph.normalised @ h, graph.adjacency @ h, graph.degree, graph.edge_index, graph.pattern.row
        assert all(torch.equal(left, right) for left, right in zip(before, after, strict=True))


def test_unweighted_graphs_of_any_size_and_type_are_of_ones() -> None:
    """They share one array of ones, which grows and changes its type as needed."""
    try:
        for nodes, dtype in ((3, torch.float32), (9, torch.float32), (4, torch.float64), (9, torch.float32)):
            torch.set_default_dtype(dtype)
            full = 1 - torch.eye(nodes)
            adjacency = from_dense(full).adjacency
            assert adjacency.value.shape == (nodes * (nodes - 1),)
            assert adjacency.dtype == dtype
            assert torch.equal(adjacency.to_dense(), full)
    finally:
        torch.set_default_dtype(torch.float32)


# --- the rest


def test_reverse() -> None:
    assert reverse(torch.tensor([0 * 4 + 3, 2 * 4 + 1, 3 * 4 + 0]), 4).tolist() == [3 * 4 + 0, 1 * 4 + 2, 0 * 4 + 3]


def test_moving(weighted: Data) -> None:
    graph = graph_of(weighted)
    assert graph.to(torch.device("cpu")) is graph
    moved = graph.to(torch.device("meta"))
    assert moved.device.type == moved.weight.device.type == "meta"
    assert moved.undirected
    assert moved.num_edges == graph.num_edges


def test_repr_says_size_and_kind(undirected: Data, directed: Data) -> None:
    assert repr(graph_of(undirected)) == f"Graph(9 nodes, {undirected.num_edges} undirected entries)"
    assert "directed entries" in repr(graph_of(directed))
    assert "undirected" not in repr(graph_of(directed))
