"""Sparse features of zeros and ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["binary_features"]


def binary_features(row: NDArray[Any], column: NDArray[Any], shape: tuple[int, int]) -> Tensor:
    """A ``torch.sparse_csr`` matrix, float32, with ones at the given places; a place given twice is one.

    Args:
        row: ``[entries]``.
        column: ``[entries]``.
        shape: of the matrix.
    """
    rows, columns = shape
    keys = np.unique(row.astype(np.int64) * columns + column)
    crow = np.searchsorted(keys, np.arange(rows + 1, dtype=np.int64) * columns)
    return torch.sparse_csr_tensor(
        torch.from_numpy(crow), torch.from_numpy(keys % columns), torch.ones(keys.size), shape
    )  # fmt: skip
