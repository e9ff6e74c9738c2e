"""Many small graphs as one: which nodes are whose, and what is pooled over the nodes of each."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.graph.kernels import Within

#: How the nodes of a graph become one vector.
READOUTS = ("mean", "sum", "max")


class Blocks:
    """Small graphs side by side in one large graph, the nodes of each next to each other; no edge joins two.

    >>> blocks = Blocks.of(torch.tensor([0, 0, 1, 1, 1]))
    >>> blocks
    Blocks(2 graphs, 5 nodes)
    >>> blocks.pooled(torch.tensor([[1.0], [3.0], [0.0], [2.0], [4.0]]), "mean").squeeze(1)
    tensor([2., 2.])

    Args:
        begin: the first node of each graph, and at last the number of nodes; ``[graphs + 1]``, int64, growing.
    """

    def __init__(self, begin: Tensor) -> None:
        self.begin = begin

    @classmethod
    def of(cls, batch: Tensor) -> Blocks:
        """Of PyG's ``batch``: the number of each node's graph, from 0, in order; every graph has a node."""
        sizes = torch.bincount(batch)
        return cls(torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))

    @property
    def count(self) -> int:
        """How many graphs."""
        return self.begin.numel() - 1

    @cached_property
    def sizes(self) -> Tensor:
        """The number of nodes of each graph."""
        return self.begin.diff()

    @cached_property
    def batch(self) -> Tensor:
        """The number of each node's graph, ``[nodes]``."""
        every = torch.arange(self.count, device=self.begin.device)
        return torch.repeat_interleave(every, self.sizes)

    @cached_property
    def within(self) -> Within:
        """For each node the nodes that it may be joined to: those of its own graph."""
        return Within(self.begin[:-1][self.batch].int(), self.sizes[self.batch].int())

    def pooled(self, h: Tensor, readout: str) -> Tensor:
        """One row for each graph: the mean, the sum or the largest of the rows of its nodes, column by column.

        Args:
            h: ``[nodes, any]``.
            readout: one of :data:`READOUTS`.
        """
        if readout not in READOUTS:
            raise GraphshiftError(f"readout is {readout!r}; {expected_one_of(readout, list(READOUTS))}")
        rows = h.new_zeros(self.count, h.shape[1])
        if readout == "max":
            return rows.scatter_reduce(0, self.batch.unsqueeze(1).expand_as(h), h, "amax", include_self=False)
        total = rows.index_add(0, self.batch, h)
        return total if readout == "sum" else total / self.sizes.unsqueeze(1)

    def per_graph(self, numbers: Tensor) -> Tensor:
        """The sum over the nodes of each graph, ``[graphs]``, of one number for each node."""
        return numbers.new_zeros(self.count).index_add(0, self.batch, numbers)

    def first(self, count: int) -> Blocks:
        """The first graphs alone."""
        return Blocks(self.begin[: count + 1])

    def to(self, device: torch.device) -> Blocks:
        """The same on another device."""
        return Blocks(self.begin.to(device))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocks) and torch.equal(self.begin, other.begin)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Blocks({self.count} graphs, {int(self.begin[-1])} nodes)"
