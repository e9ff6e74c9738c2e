"""Many small graphs as one: a disjoint union whose nodes stand graph by graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import counter_uniform
from graphshift.core.registry import expected_one_of

#: How the nodes of a graph become one vector.
READOUTS = ("mean", "sum", "max")


@dataclass(frozen=True)
class Parts:
    """Which nodes are of which graph.

    Attributes:
        begin: graph g has the nodes from ``begin[g]`` up to ``begin[g + 1]``, at least one; ``[graphs + 1]``, int64.
    """

    begin: Tensor

    @property
    def count(self) -> int:
        """How many graphs."""
        return self.begin.numel() - 1

    @cached_property
    def sizes(self) -> Tensor:
        """How many nodes each graph has, ``[graphs]``."""
        return self.begin.diff()

    @cached_property
    def index(self) -> Tensor:
        """The graph of each node, ``[nodes]``, int64; PyG's ``batch``."""
        graphs = torch.arange(self.count, device=self.begin.device)
        return torch.repeat_interleave(graphs, self.sizes, output_size=int(self.begin[-1]))

    def pool(self, h: Tensor, readout: str) -> Tensor:
        """One row for each graph of its nodes' rows: their mean, sum or largest number in each column."""
        if readout not in READOUTS:
            raise GraphshiftError(f"readout is {readout!r}; {expected_one_of(readout, list(READOUTS))}")
        if readout == "max":
            at = self.index.unsqueeze(1).expand_as(h)
            return h.new_zeros(self.count, h.shape[1]).scatter_reduce(0, at, h, "amax", include_self=False)
        total = h.new_zeros(self.count, h.shape[1]).index_add(0, self.index, h)
        return total if readout == "sum" else total / self.sizes.unsqueeze(1)

    def other_nodes(self, draws: int, seed: int) -> Tensor:
        """Uniformly random other nodes of each node's own graph, ``[nodes, draws]``, int32.

        A node that is alone in its graph is given itself: there is no pair to draw.
        """
        nodes = int(self.begin[-1])
        first, size = (part[self.index].unsqueeze(1) for part in (self.begin, self.sizes))
        uniform = counter_uniform(seed, torch.arange(nodes * draws)).view(nodes, draws)
        slot = (uniform * (size - 1)).long()
        own = torch.arange(nodes).unsqueeze(1) - first
        return (first + slot + ((slot >= own) & (size > 1)).long()).int()

    def to(self, device: torch.device) -> Parts:
        """The same on another device."""
        return Parts(self.begin.to(device))
