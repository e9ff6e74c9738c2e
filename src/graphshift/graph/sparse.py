"""One sparse product for features and graphs, with the gradient that PyTorch lacks on the CPU.

``torch.sparse`` multiplies CSR matrices fast, but its backward pass transposes the matrix anew each time, and
gather-scatter, as in message passing, is slower still (``make bench`` measures both). The costs vanish once the
transpose is kept; an undirected graph is its own. Indices have 32 bits where they fit: half the memory, and the form
that the kernels of MKL take without converting.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from graphshift.graph import kernels

# torch warns once in every process that CSR is in beta; the user can do nothing about it.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")


class Pattern:
    """Where the non-zeros of a matrix are, in CSR form.

    Args:
        rowptr: where rows begin, ``[rows + 1]``.
        col: the columns of row n are ``col[rowptr[n] : rowptr[n + 1]]``, each once, in any order; ``[non-zeros]``.
        shape: rows and columns.
    """

    def __init__(self, rowptr: Tensor, col: Tensor, shape: tuple[int, int]) -> None:
        narrow = max(col.numel(), *shape) < 2**31
        self.rowptr, self.col = (t.int() if narrow else t.long() for t in (rowptr, col))
        self.shape = shape

    @cached_property
    def row(self) -> Tensor:
        """The row of every non-zero."""
        rows = torch.arange(self.shape[0], device=self.rowptr.device, dtype=self.rowptr.dtype)
        return torch.repeat_interleave(rows, self.rowptr.diff(), output_size=self.col.numel())

    def rows_by_piece(self, size: int) -> Iterator[tuple[Tensor, slice]]:
        """The rows of ``size`` non-zeros at a time, and which non-zeros those are; nothing is kept."""
        for begin in range(0, self.col.numel(), size):
            piece = slice(begin, min(begin + size, self.col.numel()))
            bounds = self.rowptr.clamp(piece.start, piece.stop)
            first, last = (int(torch.searchsorted(self.rowptr, at, right=True)) for at in (begin, piece.stop - 1))
            rows = torch.arange(first - 1, last, device=self.rowptr.device)
            yield torch.repeat_interleave(rows, bounds[first - 1 : last + 1].diff()), piece

    @cached_property
    def transposed(self) -> tuple[Pattern, Tensor]:
        """The transposed pattern, its rows sorted, and the order that takes this pattern's values to it."""
        device, (rows, columns) = self.col.device, self.shape
        begin, receivers, order = kernels.transpose(self.rowptr.cpu(), self.col.cpu(), columns)
        return Pattern(begin.to(device), receivers.to(device), (columns, rows)), order.to(device)

    def forget(self) -> None:
        """Drops what can be made again."""
        for name in ("row", "transposed"):
            self.__dict__.pop(name, None)

    def to(self, device: torch.device) -> Pattern:
        """The same pattern on another device."""
        return Pattern(self.rowptr.to(device), self.col.to(device), self.shape)


class Sparse:
    """A sparse matrix: a :class:`Pattern` and a value for each non-zero. ``matrix @ dense`` is differentiable in both.

    >>> matrix = Sparse.from_torch(torch.tensor([[0.0, 2.0], [3.0, 0.0]]))
    >>> matrix @ torch.ones(2, 1)
    tensor([[2.],
            [3.]])

    Args:
        pattern: where the non-zeros are.
        value: their values, ``[non-zeros]``; may require a gradient.
        symmetric: promises that the matrix equals its transpose, values included.
    """

    def __init__(self, pattern: Pattern, value: Tensor, symmetric: bool = False) -> None:
        self.pattern, self.value, self.symmetric = pattern, value, symmetric

    @classmethod
    def from_torch(cls, tensor: Tensor) -> Sparse:
        """Takes a ``torch.sparse`` matrix of any layout."""
        csr = tensor.coalesce().to_sparse_csr() if tensor.layout == torch.sparse_coo else tensor.to_sparse_csr()
        rows, columns = csr.shape
        return cls(Pattern(csr.crow_indices(), csr.col_indices(), (rows, columns)), csr.values())

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.pattern.shape

    @property
    def device(self) -> torch.device:
        """Where the values live."""
        return self.value.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the values."""
        return self.value.dtype

    @cached_property
    def transposed_value(self) -> Tensor:
        """The values in the order of the transposed pattern; kept, for a matrix of constants."""
        return self.value[self.pattern.transposed[1]]

    def to(self, device: torch.device) -> Sparse:
        """The same matrix on another device."""
        return Sparse(self.pattern.to(device), self.value.to(device), self.symmetric)

    def to_torch(self) -> Tensor:
        """A ``torch.sparse_csr`` tensor with 64-bit indices, as the rest of torch has them."""
        rowptr, col = self.pattern.rowptr.long(), self.pattern.col.long()
        return torch.sparse_csr_tensor(rowptr, col, self.value, self.shape, check_invariants=False)

    def to_dense(self) -> Tensor:
        """A dense tensor."""
        dense = torch.zeros(self.shape, dtype=self.value.dtype, device=self.value.device)
        dense[self.pattern.row, self.pattern.col] = self.value
        return dense

    def __matmul__(self, dense: Tensor) -> Tensor:
        result: Tensor = _Product.apply(self.value, dense, self, None)
        return result

    def plus_diagonal(self, diagonal: Tensor, dense: Tensor) -> Tensor:
        """``(self + diag(diagonal)) @ dense`` in one pass; the diagonal is a constant, ``[rows]``."""
        result: Tensor = _Product.apply(self.value, dense, self, diagonal)
        return result


class Shifted(Sparse):
    """A sparse matrix, and a number for each column that is added in every row; it is not filled in.

    Args:
        matrix: what is shifted.
        shift: ``[columns]``; may require a gradient.
    """

    def __init__(self, matrix: Sparse, shift: Tensor) -> None:
        super().__init__(matrix.pattern, matrix.value)
        self.shift = shift

    def to(self, device: torch.device) -> Shifted:
        """The same on another device."""
        return Shifted(super().to(device), self.shift.to(device))

    def to_dense(self) -> Tensor:
        """A dense tensor."""
        return super().to_dense() + self.shift

    def __matmul__(self, dense: Tensor) -> Tensor:
        return super().__matmul__(dense) + self.shift @ dense


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, dense: Tensor, matrix: Sparse, diagonal: Tensor | None) -> Tensor:
        ctx.matrix = matrix
        # A product by a matrix of constants needs no operand in the backward pass: keep none alive.
        ctx.save_for_backward(value, dense if value.requires_grad else None, diagonal)
        return _multiply(matrix.pattern, value, dense, diagonal)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (gradient,) = gradients
        matrix: Sparse = ctx.matrix
        value, dense, diagonal = ctx.saved_tensors
        for_value = for_dense = None
        if ctx.needs_input_grad[0]:  # d/dA_ij of (A H) is <G_i, H_j>, at the non-zeros only
            for_value = _sampled_product(matrix.pattern, gradient, dense)
        if ctx.needs_input_grad[1]:  # A^T G
            if matrix.symmetric:
                for_dense = _multiply(matrix.pattern, value, gradient, diagonal)
            else:
                pattern, order = matrix.pattern.transposed
                across = value[order] if value.requires_grad else matrix.transposed_value
                for_dense = _multiply(pattern, across, gradient, diagonal)
        return for_value, for_dense, None, None


def _csr(pattern: Pattern, value: Tensor) -> Tensor:
    # The pattern was checked when it was made; checking again would cost more than the product.
    return torch.sparse_csr_tensor(pattern.rowptr, pattern.col, value, pattern.shape, check_invariants=False)


def _multiply(pattern: Pattern, value: Tensor, dense: Tensor, diagonal: Tensor | None) -> Tensor:
    dense = dense.contiguous()
    if dense.device.type == "mps":  # no sparse kernels there
        product = _gather_multiply(pattern, value, dense)
        return product if diagonal is None else torch.addcmul(product, diagonal.unsqueeze(1), dense)
    if diagonal is None:
        return _csr(pattern, value) @ dense
    # The product is added in place to what the diagonal gives: no pass over zeros, no pass for the sum.
    return (diagonal.unsqueeze(1) * dense).addmm_(_csr(pattern, value), dense)


def _gather_multiply(pattern: Pattern, value: Tensor, dense: Tensor) -> Tensor:
    result = torch.zeros(pattern.shape[0], dense.shape[1], dtype=dense.dtype, device=dense.device)
    return result.index_add_(0, pattern.row, dense[pattern.col] * value.unsqueeze(1))


def _sampled_product(pattern: Pattern, left: Tensor, right: Tensor) -> Tensor:
    if left.device.type == "mps":
        return _gather_sampled_product(pattern, left, right)
    zero = torch.zeros(pattern.col.numel(), dtype=left.dtype, device=left.device)
    return torch.sparse.sampled_addmm(_csr(pattern, zero), left.contiguous(), right.t()).values()


def _gather_sampled_product(pattern: Pattern, left: Tensor, right: Tensor) -> Tensor:
    return (left[pattern.row] * right[pattern.col]).sum(dim=1)
