"""A graph as sorted 64-bit keys, or as the CSR pattern of its adjacency matrix, and how it is edited in linear time."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.graph import kernels
from graphshift.graph.sparse import Pattern, Sparse


class Normalised(NamedTuple):
    """The GCN operator Â = D^-1/2 (A + I) D^-1/2, with its diagonal kept apart: ``Â h = off @ h + diagonal * h``."""

    off: Sparse
    diagonal: Tensor

    def __matmul__(self, h: Tensor) -> Tensor:
        if self.diagonal.requires_grad:  # through the degrees, where edge weights have a gradient
            return torch.addcmul(self.off @ h, self.diagonal.unsqueeze(1), h)
        return self.off.plus_diagonal(self.diagonal, h)


class Graph:
    """The structure of one environment or of one view: no features, no labels, never changed in place.

    An entry (n, m) of the adjacency matrix says that node n receives from node m; in PyG's words an edge with source m
    and target n. It is stored as the key ``n * num_nodes + m``. There are no self-loops: backbones that want them add
    them, and explorers never propose one.

    Args:
        num_nodes: how many nodes.
        keys: the entries' keys, sorted and unique, int64.
        weight: one positive weight for each key, or None for ones.
        undirected: promises that (n, m) is there whenever (m, n) is, with the same weight.
    """

    def __init__(self, num_nodes: int, keys: Tensor, weight: Tensor | None = None, *, undirected: bool) -> None:
        self.num_nodes, self.weight, self.undirected = num_nodes, weight, undirected
        self.__dict__["keys"] = keys
        self._ordered = True

    @classmethod
    def from_edge_index(
        cls, edge_index: Tensor, num_nodes: int, weight: Tensor | None = None, *, undirected: bool | None = None
    ) -> Graph:
        """Sorts PyG's ``edge_index`` (source, target) into a graph. Edges must be unique and without self-loops.

        ``undirected=None`` looks whether every edge has its reverse with the same weight.
        """
        source, target = edge_index
        keys, order = torch.sort(target * num_nodes + source)
        weight = None if weight is None else weight[order]
        if undirected is None:
            backward, order = torch.sort(reverse(keys, num_nodes))
            undirected = torch.equal(keys, backward) and (weight is None or torch.equal(weight, weight[order]))
        return cls(num_nodes, keys, weight, undirected=undirected)

    @classmethod
    def from_pattern(cls, pattern: Pattern, weight: Tensor | None = None, *, undirected: bool) -> Graph:
        """Takes the CSR pattern of the adjacency matrix, columns of a row in any order, weights in the same.

        The keys are made when they are asked for: a view that only multiplies never needs them.
        """
        graph = object.__new__(cls)
        graph.num_nodes, graph.weight, graph.undirected = pattern.shape[0], weight, undirected
        graph.__dict__["pattern"] = pattern
        graph._ordered = False
        return graph

    @property
    def num_edges(self) -> int:
        """How many directed entries; an undirected edge counts twice, as in PyG."""
        return self._indices.numel()

    @property
    def device(self) -> torch.device:
        """Where the graph lives."""
        return self._indices.device

    @property
    def _indices(self) -> Tensor:
        keys: Tensor | None = self.__dict__.get("keys")
        return self.pattern.col if keys is None else keys

    @cached_property
    def keys(self) -> Tensor:
        """The entries' keys, sorted. Weights follow ``pattern``; see :meth:`ordered`."""
        return self._raw_keys() if self._ordered else torch.sort(self._raw_keys()).values

    def _raw_keys(self) -> Tensor:
        return self.pattern.row.long() * self.num_nodes + self.pattern.col

    def ordered(self) -> Graph:
        """The same graph with weights in the order of the keys."""
        if self._ordered:
            return self
        keys, order = torch.sort(self._raw_keys())
        weight = None if self.weight is None else self.weight[order]
        return Graph(self.num_nodes, keys, weight, undirected=self.undirected)

    @cached_property
    def pattern(self) -> Pattern:
        """The CSR pattern of the adjacency matrix."""
        n = self.num_nodes
        bounds = torch.arange(n + 1, device=self.device) * n
        rowptr = torch.searchsorted(self.keys, bounds)
        return Pattern(rowptr, self.keys % n if n else self.keys, (n, n), symmetric=self.undirected)

    @cached_property
    def edge_index(self) -> Tensor:
        """PyG's ``edge_index``: sources above targets, ``[2, num_edges]``."""
        return torch.stack([self.pattern.col.long(), self.pattern.row.long()])

    @cached_property
    def adjacency(self) -> Sparse:
        """The adjacency matrix A, weights as values."""
        weight = _ones(self.num_edges, self.device) if self.weight is None else self.weight
        return Sparse(self.pattern, weight, symmetric=self.undirected)

    @cached_property
    def degree(self) -> Tensor:
        """The weight that each node receives: row sums of A, ``[num_nodes]``."""
        if self.weight is None:
            return self.pattern.rowptr.diff().to(torch.get_default_dtype())
        ones = torch.ones(self.num_nodes, 1, device=self.device, dtype=self.weight.dtype)
        return (self.adjacency @ ones).squeeze(1)

    @cached_property
    def normalised(self) -> Normalised:
        """The GCN operator of Kipf and Welling with self-loops of weight 1."""
        pattern, weight = self.pattern, self.weight
        inverse_root = (self.degree + 1).rsqrt()
        if kernels.fits(pattern.rowptr, pattern.col, weight, inverse_root):
            value = kernels.scale(pattern.rowptr, pattern.col, weight, inverse_root)
        else:
            value = inverse_root[pattern.row] * inverse_root[pattern.col]
            value = value if weight is None else value * weight
        return Normalised(Sparse(pattern, value, symmetric=self.undirected), inverse_root.square())

    def forget(self) -> None:
        """Drops what can be made again: the forms that backbones multiply by, and the keys beside the pattern."""
        for name in ("adjacency", "degree", "normalised", *(["keys"] if "pattern" in self.__dict__ else [])):
            self.__dict__.pop(name, None)
        self.pattern.forget()

    def flip_rows(self, actions: Tensor, *, directed: bool = False) -> Graph:
        """A + B ∘ (complement(A) − A) (Eq. 5), where B marks ``actions``: the columns to flip in every row.

        B is Boolean, so a pair that is named twice is flipped once.

        Args:
            actions: ``[nodes, any]``; never the row itself. An added edge weighs the mean of the graph's weights.
            directed: flip (n, m) alone also in an undirected graph, where (m, n) otherwise flips with it.
        """
        both = self.undirected and not directed
        rowptr, col = self.pattern.rowptr, self.pattern.col
        if not kernels.fits(rowptr, col, self.weight, actions.int(), count=self.num_edges + 2 * actions.numel()):
            return self.flip(keys_of(actions, self.num_nodes, both=both).to(self.device), undirected=both)
        first = torch.arange(actions.shape[0] + 1, dtype=torch.int32) * actions.shape[1]
        return self._edited(first, actions.int().flatten(), both)

    def flip_lists(self, first: Tensor, columns: Tensor, *, directed: bool = False) -> Graph:
        """:meth:`flip_rows` where rows flip different numbers of pairs.

        Args:
            first: row n flips ``columns[first[n] : first[n + 1]]``; int32, ``[nodes + 1]``.
            columns: int32.
            directed: as in :meth:`flip_rows`.
        """
        both = self.undirected and not directed
        rowptr, col = self.pattern.rowptr, self.pattern.col
        if not kernels.fits(rowptr, col, self.weight, first, columns, count=self.num_edges + 2 * columns.numel()):
            row = torch.repeat_interleave(torch.arange(self.num_nodes), first.diff().long())
            keys = row * self.num_nodes + columns.long()
            keys = torch.cat([keys, reverse(keys, self.num_nodes)]) if both else keys
            return self.flip(torch.unique(keys).to(self.device), undirected=both)
        return self._edited(first, columns, both)

    def _edited(self, first: Tensor, columns: Tensor, both: bool) -> Graph:
        rowptr, col = self.pattern.rowptr, self.pattern.col
        new_weight = 1.0 if self.weight is None or not self.num_edges else float(self.weight.mean())
        rowptr, col, weight = kernels.edit(rowptr, col, self.weight, first, columns, new_weight=new_weight, both=both)
        pattern = Pattern(rowptr, col, self.pattern.shape, symmetric=both)
        return Graph.from_pattern(pattern, weight, undirected=both)

    def flip(self, flips: Tensor, *, undirected: bool | None = None) -> Graph:
        """A + B ∘ (complement(A) − A): the graph with the given entries flipped, in O(edges + flips log edges).

        Args:
            flips: keys, sorted and unique; each is removed where it is there and added where it is not. An added
                edge weighs the mean of the graph's weights. On an undirected graph the caller flips both directions,
            undirected: or says here that the result is not undirected; None keeps what the graph is.
        """
        if not self._ordered:
            return self.ordered().flip(flips, undirected=undirected)
        if self.undirected and undirected is None and not torch.equal(reverse(flips, self.num_nodes).sort()[0], flips):
            raise GraphshiftError(
                "flips: one direction of an edge is flipped and the other is not, and the graph is undirected; flip "
                "both (gs.explorers.apply_actions does), or say undirected=False."
            )
        place = torch.searchsorted(self.keys, flips)
        if self.num_edges:
            there = self.keys[place.clamp(max=self.num_edges - 1)] == flips
        else:
            there = torch.zeros_like(flips, dtype=torch.bool)
        kept = torch.ones(self.num_edges, dtype=torch.bool, device=self.device)
        kept[place[there]] = False
        added = flips[~there]
        # Merge two sorted arrays: an added key lands behind the kept keys below it and the added keys before it.
        removed_below = torch.cumsum(there, dim=0)[~there]
        landing = place[~there] - removed_below + torch.arange(added.numel(), device=self.device)
        keys = self.keys.new_empty(int(kept.sum()) + added.numel())
        old = torch.ones(keys.numel(), dtype=torch.bool, device=self.device)
        old[landing] = False
        keys[landing] = added
        keys[old] = self.keys[kept]
        weight = None
        if self.weight is not None:
            weight = self.weight.new_empty(keys.numel())
            weight[landing] = self.weight.mean() if self.num_edges else 1.0
            weight[old] = self.weight[kept]
        return Graph(self.num_nodes, keys, weight, undirected=self.undirected if undirected is None else undirected)

    def to(self, device: torch.device) -> Graph:
        """The same graph on another device."""
        if device == self.device:
            return self
        weight = None if self.weight is None else self.weight.to(device)
        # 64-bit keys are not safe to compute with on every device: the pattern is made before the move.
        pattern = self.pattern.to(device)
        if not self._ordered:
            return Graph.from_pattern(pattern, weight, undirected=self.undirected)
        moved = Graph(self.num_nodes, self.keys.to(device), weight, undirected=self.undirected)
        moved.__dict__["pattern"] = pattern
        return moved

    def __repr__(self) -> str:
        kind = "undirected" if self.undirected else "directed"
        return f"Graph({self.num_nodes} nodes, {self.num_edges} {kind} entries)"


def reverse(keys: Tensor, num_nodes: int) -> Tensor:
    """The keys of the reversed entries, in the order given."""
    return (keys % num_nodes) * num_nodes + keys // num_nodes


def keys_of(actions: Tensor, num_nodes: int, *, both: bool) -> Tensor:
    """The keys of the entries (row, action), sorted and unique; with ``both``, those of their reverses too."""
    rows = torch.arange(num_nodes, device=actions.device).unsqueeze(1)
    keys = (rows * num_nodes + actions).flatten()
    return torch.unique(torch.cat([keys, reverse(keys, num_nodes)]) if both else keys)


_all_ones = torch.empty(0)


def _ones(count: int, device: torch.device) -> Tensor:
    """A part of one array of ones that all unweighted graphs on the CPU share."""
    global _all_ones
    if device.type != "cpu":
        return torch.ones(count, device=device)
    if _all_ones.numel() < count or _all_ones.dtype != torch.get_default_dtype():
        _all_ones = torch.ones(count)
    return _all_ones[:count]
