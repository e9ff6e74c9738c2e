"""Scaling and transposing a CSR matrix: the kernels and the plain code against dense matrices."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphshift.graph import kernels
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import native
from graphshift.graph.sparse import Pattern, Sparse
from reference import KINDS, dense_adjacency, dense_normalised, graph_of, random_data


def scattered(shape: tuple[int, int], density: float, *, seed: int = 0) -> tuple[Pattern, Tensor]:
    """A pattern whose rows are not sorted, and its values as a dense matrix: 1, 2, 3, … in its order."""
    generator = torch.Generator().manual_seed(seed)
    rowptr, col, dense = [0], [], torch.zeros(shape)
    for row in range(shape[0]):
        order = torch.randperm(shape[1], generator=generator)
        columns = order[torch.rand(shape[1], generator=generator) < density].tolist()
        for column in columns:
            col.append(column)
            dense[row, column] = len(col)
        rowptr.append(len(col))
    return Pattern(torch.tensor(rowptr), torch.tensor(col, dtype=torch.int64), shape), dense


SHAPES = [(6, 6), (7, 3), (3, 7), (1, 5), (5, 1), (60, 40)]


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("density", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_transpose_and_the_order_that_takes_values_to_it(shape: tuple[int, int], density: float) -> None:
    pattern, dense = scattered(shape, density)
    transposed, order = pattern.transposed
    value = torch.arange(1.0, pattern.col.numel() + 1)
    assert transposed.shape == shape[::-1]
    assert torch.equal(Sparse(transposed, value[order]).to_dense(), dense.t())
    expected = dense.t().to_sparse_csr()
    assert torch.equal(transposed.rowptr, expected.crow_indices())
    assert torch.equal(transposed.col, expected.col_indices())  # its rows are sorted
    assert transposed.rowptr.dtype == transposed.col.dtype == torch.int32


@pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_scaling_multiplies_rows_and_columns(density: float, weighted: bool) -> None:
    pattern, dense = scattered((30, 30), density)
    scale, weight = torch.rand(60)[::2], torch.rand(2 * pattern.col.numel())[::2]  # neither lies without gaps
    found = kernels.scale(pattern.rowptr, pattern.col, weight if weighted else None, scale)
    expected = torch.diag(scale) @ (dense > 0).float() @ torch.diag(scale)
    if weighted:
        expected *= Sparse(pattern, weight).to_dense()
    torch.testing.assert_close(Sparse(pattern, found).to_dense(), expected)


@pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
@pytest.mark.parametrize("draws", [0, 3], ids=["graph", "view"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_normalised_operator_has_the_same_bits_without_kernels(
    kind: str, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_of(random_data(30, **KINDS[kind]))
    graph = graph.flip_rows(kernels.draw(30, draws, 4)) if draws else graph
    fast = graph.normalised.off.value
    dense = dense_normalised(dense_adjacency(graph.edge_index, 30, graph.weight)).float()
    full = graph.normalised.off.to_dense() + torch.diag(graph.normalised.diagonal)
    torch.testing.assert_close(full, dense)
    monkeypatch.setattr(native, "LIBRARY", None)
    again = Graph(graph.pattern, graph.weight, undirected=graph.undirected)
    assert torch.equal(again.normalised.off.value, fast)
