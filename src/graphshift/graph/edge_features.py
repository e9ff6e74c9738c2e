"""Edge features: one table of values for a graph and all its views, and the row of it that each entry has."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import counter_hash, counter_uniform
from graphshift.core.registry import expected_one_of

#: What an edge that an edit adds can have as features.
FILLS = ("draw", "mean", "zeros")


@dataclass(frozen=True)
class EdgeFeatures:
    """The features of a graph's entries, ``values[index]``.

    Edits move the index alone: no value is copied. An added entry has row ``index`` of its fill:

    - ``"draw"``: the row of an edge of the graph, drawn uniformly. A hash of the two nodes draws it, so both directions
      have the same value, and a pair has the same one whenever it is added.
    - ``"mean"``: the mean over the graph's entries.
    - ``"zeros"``.

    Attributes:
        values: ``[rows + 1, width]``: a row for each entry of the graph before any edit, then what ``"mean"`` and
            ``"zeros"`` give.
        index: the row of each entry, ``[entries]``, int64.
        fill: one of :data:`FILLS`.
    """

    values: Tensor
    index: Tensor
    fill: str = FILLS[0]

    @classmethod
    def of(cls, attr: Tensor, fill: str = FILLS[0]) -> EdgeFeatures:
        """The features of a graph that no edit has changed, ``[entries, width]``, in the order of its entries."""
        if fill not in FILLS:
            raise GraphshiftError(f"the features of new edges are {fill!r}; {expected_one_of(fill, list(FILLS))}")
        last = attr.mean(dim=0, keepdim=True) if fill == "mean" and attr.shape[0] else attr.new_zeros(1, attr.shape[1])
        return cls(torch.cat([attr, last]), torch.arange(attr.shape[0], device=attr.device), fill)

    @property
    def width(self) -> int:
        """How many numbers an edge has."""
        return self.values.shape[1]

    @property
    def rows(self) -> int:
        """How many rows are of edges; the last one of the table is not."""
        return self.values.shape[0] - 1

    @property
    def attr(self) -> Tensor:
        """The features of every entry, ``[entries, width]``."""
        return self.values[self.index]

    def filled(self, fill: str) -> EdgeFeatures:
        """The same for an unedited graph, with another fill."""
        return self if fill == self.fill else replace(EdgeFeatures.of(self.values[:-1], fill), index=self.index)

    def edited(self, place: Tensor, row: Tensor, col: Tensor) -> EdgeFeatures:
        """The features after an edit, in time linear in its entries.

        Args:
            place: where each entry was before the edit, ``[entries]``, int64; -1 for an added one.
            row, col: its two nodes.
        """
        index = self.index[place.clamp(min=0)] if self.index.numel() else torch.zeros_like(place)
        added = (place < 0).nonzero().squeeze(1)
        if self.fill == "draw" and self.rows:
            one, other = row[added].long(), col[added].long()
            pair = counter_uniform(counter_hash(0, torch.minimum(one, other)), torch.maximum(one, other))
            index[added] = (pair * self.rows).long()
        else:
            index[added] = self.rows
        return replace(self, index=index)

    def kept(self, entries: Tensor) -> EdgeFeatures:
        """Those of some entries (bool ``[entries]``), and of no other: for a graph of its own, not a view."""
        return EdgeFeatures.of(self.attr[entries], self.fill)

    def to(self, device: torch.device) -> EdgeFeatures:
        """The same on another device."""
        return replace(self, values=self.values.to(device), index=self.index.to(device))
