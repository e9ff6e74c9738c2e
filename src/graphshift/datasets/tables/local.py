"""Features that depend on the whole graph: ranks among its nodes, and the place of each node in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, Field, PositiveFloat
from torch import Tensor

from graphshift.data.environment import Environment
from graphshift.data.structure import STRUCTURAL_NAMES
from graphshift.datasets.tables.numeric import OF_RANKS, Unit
from graphshift.datasets.tables.scaling import ranked_here, scaled_ranks
from graphshift.graph.sparse import Pattern, Sparse

_VALUES = len(STRUCTURAL_NAMES) // 2  # the other half are ranks


class Structure(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """The structural columns of :func:`~graphshift.data.structure.structural_columns`, scaled.

    Attributes:
        mean, scale: of the values, over the nodes of the training graphs; ranks need none.
    """

    mean: tuple[float, ...] = Field(min_length=_VALUES, max_length=_VALUES)
    scale: tuple[PositiveFloat, ...] = Field(min_length=_VALUES, max_length=_VALUES)

    @property
    def units(self) -> list[Unit]:
        """Of each of its features in which units values are told."""
        values = [Unit(*own) for own in zip(self.mean, self.scale, strict=True)]
        return values + [OF_RANKS] * (len(STRUCTURAL_NAMES) - _VALUES)

    def scaled(self, columns: Tensor) -> NDArray[np.float32]:
        """The features of the nodes of a graph, ``[nodes, 8]``, of its structural columns."""
        found = columns.double().numpy()
        values = (found[:, :_VALUES] - np.array(self.mean)) / np.array(self.scale)
        return np.concatenate([values.astype(np.float32), scaled_ranks(found[:, _VALUES:])], axis=1)


def fit_structure(columns: Sequence[Tensor]) -> Structure:
    """Learns the scale from the structural columns of the training graphs."""
    found = np.concatenate([part[:, :_VALUES].double().numpy() for part in columns])
    deviation = found.std(axis=0)
    constant = found.min(axis=0) == found.max(axis=0)
    scale = np.where(constant | (deviation == 0), 1.0, deviation)
    return Structure(mean=tuple(found.mean(axis=0).tolist()), scale=tuple(scale.tolist()))


def with_local(
    environment: Environment, shared: int, here: NDArray[np.float64], structural: NDArray[np.float32] | None
) -> Environment:
    """Adds the features that depend on the graph to those that do not.

    Args:
        environment: whose ``x`` holds the features that do not, ``shared`` of them; any other column is replaced.
        shared: how many.
        here: the numbers that are ranked among its nodes, ``[nodes, any]``.
        structural: the scaled structural columns of its nodes; None for none.
    """
    parts = [*([ranked_here(here)] if here.shape[1] else [])]
    parts += [] if structural is None else [structural]
    if not parts:
        return environment
    more = torch.from_numpy(np.concatenate(parts, axis=1))
    return environment.replace(x=_beside(environment.x, more) if shared else more)


def placeholder(nodes: int) -> Tensor:
    """Stands for the features until the graph is known, where all depend on it."""
    return torch.zeros(nodes, 1)


def _beside(x: Tensor | Sparse, more: Tensor) -> Tensor | Sparse:
    if not isinstance(x, Sparse):
        return torch.cat([x, more], dim=1)
    arrays = (x.value.numpy(), x.pattern.col.numpy(), x.pattern.rowptr.numpy())
    both = scipy.sparse.hstack([scipy.sparse.csr_array(arrays, shape=x.shape), more.numpy()], format="csr")
    rowptr, col, value = (torch.from_numpy(part) for part in (both.indptr, both.indices, both.data))
    return Sparse(Pattern(rowptr, col, (int(both.shape[0]), int(both.shape[1]))), value)
