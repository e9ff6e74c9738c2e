from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from graphshift.graph.sparse import (
    Pattern,
    Shifted,
    Sparse,
    _csr,
    _gather_multiply,
    _gather_sampled_product,
    _multiply,
    _sampled_product,
)

SHAPES = {"square": (6, 6), "tall": (7, 3), "wide": (3, 7)}


def random_sparse(shape: tuple[int, int], seed: int = 0, density: float = 0.4) -> tuple[Pattern, Tensor]:
    """A pattern with an empty row and an empty column, and random values for it."""
    generator = torch.Generator().manual_seed(seed)
    filled = torch.rand(shape, generator=generator) < density
    filled[1], filled[:, 0] = False, False
    rows, columns = filled.nonzero().t()
    rowptr = torch.tensor([0, *filled.sum(dim=1).cumsum(0).tolist()])
    assert filled.any()
    return Pattern(rowptr, columns, shape), torch.randn(rows.numel(), dtype=torch.float64, generator=generator)


def as_dense(pattern: Pattern, value: Tensor) -> Tensor:
    """The dense matrix, entry by entry from rowptr and col; differentiable in the values."""
    rows = [r for r in range(pattern.shape[0]) for _ in range(int(pattern.rowptr[r + 1] - pattern.rowptr[r]))]
    place = torch.tensor(rows, dtype=torch.int64) * pattern.shape[1] + pattern.col
    return (
        torch.zeros(pattern.shape[0] * pattern.shape[1], dtype=value.dtype).scatter(0, place, value).view(pattern.shape)
    )


def random_symmetric(size: int = 6) -> tuple[Pattern, Tensor, Tensor]:
    """A symmetric pattern, the pair of each non-zero, and a random value for each pair."""
    filled = torch.rand(size, size) < 0.5
    filled = (filled | filled.t()).fill_diagonal_(False)
    rows, columns = filled.nonzero().t()
    rowptr = torch.tensor([0, *filled.sum(dim=1).cumsum(0).tolist()])
    low, high = torch.minimum(rows, columns), torch.maximum(rows, columns)
    pairs, pair = torch.unique(low * size + high, return_inverse=True)
    values = torch.randn(pairs.numel(), dtype=torch.float64)
    return Pattern(rowptr, columns, (size, size)), pair, values


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_rows_by_piece_are_those_of_all_non_zeros(size: int) -> None:
    pattern, value = random_sparse((7, 5))
    pieces = list(pattern.rows_by_piece(size))
    assert "row" not in vars(pattern)
    assert torch.cat([rows for rows, _ in pieces]).tolist() == pattern.row.tolist()
    assert [i for _, piece in pieces for i in range(len(value))[piece]] == list(range(len(value)))
    assert not list(
        Pattern(torch.zeros(4, dtype=torch.int64), torch.empty(0, dtype=torch.int64), (3, 3)).rows_by_piece(2)
    )


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_product_and_both_gradients_equal_the_dense_ones(shape: tuple[int, int]) -> None:
    pattern, value = random_sparse(shape)
    value.requires_grad_()
    dense = torch.randn(shape[1], 4, dtype=torch.float64, requires_grad=True)
    outer = torch.randn(shape[0], 4, dtype=torch.float64)
    ours, expected = Sparse(pattern, value) @ dense, as_dense(pattern, value) @ dense
    torch.testing.assert_close(ours, expected)
    ours_grads = torch.autograd.grad((ours * outer).sum(), [value, dense])
    expected_grads = torch.autograd.grad((expected * outer).sum(), [value, dense])
    torch.testing.assert_close(ours_grads, expected_grads)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_gradients_pass_finite_differences(shape: tuple[int, int]) -> None:
    pattern, value = random_sparse(shape, seed=1)
    dense = torch.randn(shape[1], 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda v, h: Sparse(pattern, v) @ h, (value.requires_grad_(), dense))


@pytest.mark.parametrize("values_symmetric", [True, False])
def test_gradients_of_symmetric_matrices_pass_finite_differences(values_symmetric: bool) -> None:
    pattern, pair, values = random_symmetric()
    dense = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    if values_symmetric:  # perturb a pair, so that the promise holds
        function = lambda v, h: Sparse(pattern, v[pair], symmetric=True) @ h  # noqa: E731
    else:  # a symmetric pattern with other values, as in attention
        values = torch.randn(pair.numel(), dtype=torch.float64)
        function = lambda v, h: Sparse(pattern, v) @ h  # noqa: E731
    assert gradcheck(function, (values.requires_grad_(), dense))


def test_second_derivatives_pass_finite_differences() -> None:  # penalties on gradients need them
    pattern, value = random_sparse((5, 5))
    dense = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(lambda v, h: (Sparse(pattern, v) @ h) ** 3, (value.requires_grad_(), dense))


def test_a_constant_matrix_keeps_no_operand_alive() -> None:
    pattern, value = random_sparse((6, 6))
    dense = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    assert (Sparse(pattern, value) @ dense).grad_fn.saved_tensors[1] is None
    assert (Sparse(pattern, value.requires_grad_()) @ dense).grad_fn.saved_tensors[1] is not None


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_gather_fallbacks_equal_the_csr_products(shape: tuple[int, int]) -> None:
    pattern, value = random_sparse(shape)
    dense, left = torch.randn(shape[1], 4, dtype=torch.float64), torch.randn(shape[0], 4, dtype=torch.float64)
    torch.testing.assert_close(_gather_multiply(pattern, value, dense), _multiply(pattern, value, dense, None))
    torch.testing.assert_close(_gather_sampled_product(pattern, left, dense), _sampled_product(pattern, left, dense))
    full = left @ dense.t()
    torch.testing.assert_close(
        as_dense(pattern, _gather_sampled_product(pattern, left, dense)) != 0,
        as_dense(pattern, torch.ones_like(value)) != 0,
    )
    torch.testing.assert_close(_gather_sampled_product(pattern, left, dense), full[pattern.row, pattern.col])


def test_operands_need_not_be_contiguous() -> None:
    pattern, value = random_sparse((6, 6))
    dense = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    product = Sparse(pattern, value.requires_grad_()) @ dense.t()
    torch.testing.assert_close(product, as_dense(pattern, value) @ dense.t())
    grads = torch.autograd.grad(product.t().sum(), [value, dense])
    expected = torch.autograd.grad((as_dense(pattern, value) @ dense.t()).sum(), [value, dense])
    torch.testing.assert_close(grads, expected)


def test_a_matrix_without_non_zeros() -> None:
    pattern = Pattern(torch.zeros(4, dtype=torch.int64), torch.empty(0, dtype=torch.int64), (3, 5))
    value = torch.empty(0, requires_grad=True)
    dense = torch.randn(5, 2, requires_grad=True)
    product = Sparse(pattern, value) @ dense
    product.sum().backward()
    assert torch.equal(product, torch.zeros(3, 2))
    assert torch.equal(dense.grad, torch.zeros(5, 2))
    assert value.grad.shape == (0,)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_transposed_pattern(shape: tuple[int, int]) -> None:
    pattern, value = random_sparse(shape)
    transposed, order = pattern.transposed
    assert transposed.shape == shape[::-1]
    assert torch.equal(as_dense(transposed, value[order]), as_dense(pattern, value).t())


def test_a_symmetric_pattern_is_its_own_transpose_with_values_reordered() -> None:
    pattern, pair, _ = random_symmetric()
    value = torch.randn(pair.numel(), dtype=torch.float64)
    transposed, order = pattern.transposed
    assert torch.equal(transposed.rowptr, pattern.rowptr)
    assert torch.equal(transposed.col, pattern.col)
    assert torch.equal(as_dense(pattern, value[order]), as_dense(pattern, value).t())


@pytest.mark.parametrize("layout", ["coo", "uncoalesced", "csr", "csc"])
def test_torch_sparse_of_any_layout_round_trips(layout: str) -> None:
    dense = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 3.0], [0.0, 5.0, 0.5]])
    made = {
        "coo": dense.to_sparse_coo,
        # 3.0 at (2, 2) given in two parts, in no order
        "uncoalesced": lambda: torch.sparse_coo_tensor(
            [[3, 2, 0, 2, 3, 2], [2, 2, 1, 0, 1, 2]], [0.5, 1.0, 2.0, -1.0, 5.0, 2.0], (4, 3), check_invariants=True
        ),
        "csr": dense.to_sparse_csr,
        "csc": dense.to_sparse_csc,
    }[layout]()
    sparse = Sparse.from_torch(made)
    assert sparse.shape == (4, 3)
    assert sparse.dtype == torch.float32
    assert torch.equal(sparse.to_dense(), dense)
    assert torch.equal(sparse.to_torch().to_dense(), dense)
    h = torch.randn(3, 2)
    torch.testing.assert_close(sparse @ h, dense @ h)


def test_moving_to_a_device_moves_everything() -> None:
    pattern, value = random_sparse((6, 6))
    moved = Sparse(pattern, value, symmetric=True).to(torch.device("meta"))
    assert moved.device.type == moved.pattern.col.device.type == moved.pattern.rowptr.device.type == "meta"
    assert moved.symmetric
    assert moved.shape == (6, 6)


# --- indices of 32 bits


def test_indices_are_kept_in_32_bits() -> None:
    pattern, value = random_sparse((6, 6))
    for made in (
        pattern,
        pattern.transposed[0],
        pattern.to(torch.device("cpu")),
        Sparse.from_torch(as_dense(pattern, value).to_sparse_csr()).pattern,
    ):
        assert made.rowptr.dtype == made.col.dtype == torch.int32
    csr = _csr(pattern, value)
    assert csr.crow_indices().dtype == csr.col_indices().dtype == torch.int32
    given = Sparse(pattern, value).to_torch()  # the rest of torch has 64
    assert given.crow_indices().dtype == given.col_indices().dtype == torch.int64


def test_indices_that_do_not_fit_into_32_bits_have_64() -> None:
    wide = Pattern(torch.tensor([0, 1]), torch.tensor([2**31]), (1, 2**31 + 1))
    assert wide.rowptr.dtype == wide.col.dtype == torch.int64
    assert wide.col.tolist() == [2**31]


# --- with a diagonal


def with_diagonal(symmetric: bool) -> tuple[Pattern, Tensor, Tensor, Tensor]:
    """A pattern, values, a diagonal, and all of it as a dense matrix."""
    if symmetric:
        pattern, pair, values = random_symmetric()
        value = values[pair]
    else:
        pattern, value = random_sparse((6, 6))
    diagonal = torch.randn(6, dtype=torch.float64)
    return pattern, value, diagonal, as_dense(pattern, value) + torch.diag(diagonal)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_product_with_a_diagonal_and_its_gradient_equal_the_dense_ones(symmetric: bool) -> None:
    pattern, value, diagonal, full = with_diagonal(symmetric)
    matrix = Sparse(pattern, value, symmetric=symmetric)
    dense = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    for outer in torch.randn(2, 6, 4, dtype=torch.float64):  # the second time with what was kept
        product = matrix.plus_diagonal(diagonal, dense)
        torch.testing.assert_close(product, full @ dense)
        (found,) = torch.autograd.grad((product * outer).sum(), dense)
        torch.testing.assert_close(found, full.t() @ outer)
    assert ("transposed" in pattern.__dict__) == (not symmetric)  # a symmetric matrix needs no transpose


@pytest.mark.parametrize("symmetric", [True, False])
def test_products_with_a_diagonal_pass_finite_differences(symmetric: bool) -> None:
    pattern, value, diagonal, _ = with_diagonal(symmetric)
    dense = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    matrix = Sparse(pattern, value, symmetric=symmetric)
    assert gradcheck(lambda h: matrix.plus_diagonal(diagonal, h), (dense,))
    assert gradgradcheck(lambda h: matrix.plus_diagonal(diagonal, h) ** 3, (dense,))
    if not symmetric:  # values that are learned
        learned = value.requires_grad_()
        assert gradcheck(lambda v, h: Sparse(pattern, v).plus_diagonal(diagonal, h), (learned, dense))


def test_a_diagonal_takes_operands_that_are_not_contiguous() -> None:
    pattern, value, diagonal, full = with_diagonal(False)
    dense = torch.randn(3, 6, dtype=torch.float64)
    before = dense.clone()
    torch.testing.assert_close(Sparse(pattern, value).plus_diagonal(diagonal, dense.t()), full @ dense.t())
    assert torch.equal(dense, before)  # the product is added in place, but not to the operand


# --- what is kept of a matrix of constants


def test_constants_are_transposed_once() -> None:
    pattern, value = random_sparse((6, 6))
    matrix, dense = Sparse(pattern, value), torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    for outer in torch.randn(2, 6, 2, dtype=torch.float64):
        (found,) = torch.autograd.grad(((matrix @ dense) * outer).sum(), dense)
        torch.testing.assert_close(found, as_dense(pattern, value).t() @ outer)
    assert torch.equal(as_dense(pattern.transposed[0], matrix.transposed_value), as_dense(pattern, value).t())
    assert matrix.transposed_value is matrix.transposed_value


def test_values_that_are_learned_are_transposed_anew() -> None:
    """They change in place between steps, while the matrix stays."""
    pattern, value = random_sparse((6, 6))
    matrix, dense = Sparse(pattern, value.requires_grad_()), torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    for _ in range(2):
        outer = torch.randn(6, 2, dtype=torch.float64)
        (found,) = torch.autograd.grad(((matrix @ dense) * outer).sum(), dense)
        torch.testing.assert_close(found, as_dense(pattern, value.detach()).t() @ outer)
        with torch.no_grad():
            value.mul_(3)


def test_a_shifted_matrix_is_not_filled_in() -> None:
    torch.manual_seed(0)
    dense = torch.randn(6, 4, dtype=torch.float64) * (torch.rand(6, 4) < 0.4)
    shift = torch.randn(4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    found = Shifted(Sparse.from_torch(dense.to_sparse_csr()), shift)
    expected = (dense + shift) @ weight
    torch.testing.assert_close(found @ weight, expected)
    torch.testing.assert_close(found.to(torch.device("cpu")).to_dense(), dense + shift)
    cotangent = torch.randn(6, 3, dtype=torch.float64)
    ours = torch.autograd.grad((found @ weight * cotangent).sum(), (shift, weight))
    for one, other in zip(ours, torch.autograd.grad((expected * cotangent).sum(), (shift, weight)), strict=True):
        torch.testing.assert_close(one, other)
