"""A graph as the CSR pattern of its adjacency matrix, and how it is edited in linear time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.graph import kernels
from graphshift.graph.blocks import Blocks
from graphshift.graph.edge_features import EdgeFeatures
from graphshift.graph.keys import are_sorted, keys_of, reverse
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
    and target n. There are no self-loops: backbones that want them add them, and explorers never propose one.

    >>> triangle = Graph.from_edge_index(torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]]), 3)
    >>> triangle
    Graph(3 nodes, 6 undirected entries)
    >>> triangle.flip_rows(torch.tensor([[1], [0], [0]])).num_edges  # without 0 – 1 and 0 – 2
    2

    Args:
        pattern: where the entries are, ``[nodes, nodes]``; the columns of a row in any order.
        weight: one positive weight for each entry, in the order of the pattern; None for ones.
        undirected: promises that (n, m) is there whenever (m, n) is, with the same weight.
        edge_features: of the entries, in the order of the pattern; None for none. The two directions of an edge may
            differ in them.
        blocks: the small graphs that stand side by side in this one, if it is one of many; explorers edit inside each.
            None for one graph.
    """

    def __init__(
        self,
        pattern: Pattern,
        weight: Tensor | None = None,
        *,
        undirected: bool,
        edge_features: EdgeFeatures | None = None,
        blocks: Blocks | None = None,
    ) -> None:
        self.pattern, self.weight, self.undirected = pattern, weight, undirected
        self.edge_features, self.blocks = edge_features, blocks

    @classmethod
    def from_keys(
        cls,
        num_nodes: int,
        keys: Tensor,
        weight: Tensor | None = None,
        *,
        undirected: bool,
        edge_features: EdgeFeatures | None = None,
    ) -> Graph:
        """Takes the keys ``row * num_nodes + column`` of the entries, sorted and unique; the rest in their order.

        >>> Graph.from_keys(3, torch.tensor([1, 3]), undirected=True).edge_index
        tensor([[1, 0],
                [0, 1]])
        """
        rowptr = torch.searchsorted(keys, torch.arange(num_nodes + 1, device=keys.device) * num_nodes)
        pattern = Pattern(rowptr, keys % num_nodes if num_nodes else keys, (num_nodes, num_nodes))
        return cls(pattern, weight, undirected=undirected, edge_features=edge_features)

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor,
        num_nodes: int,
        weight: Tensor | None = None,
        *,
        undirected: bool | None = None,
        edge_attr: Tensor | None = None,
    ) -> Graph:
        """Sorts PyG's ``edge_index`` (source, target) into a graph. Edges must be unique and without self-loops.

        ``undirected=None`` looks whether every edge has its reverse with the same weight.
        """
        source, target = edge_index
        keys, order = torch.sort(target * num_nodes + source)
        weight = None if weight is None else weight[order]
        features = None if edge_attr is None else EdgeFeatures.of(edge_attr[order])
        if undirected is None:
            backward, order = torch.sort(reverse(keys, num_nodes))
            undirected = torch.equal(keys, backward) and (weight is None or torch.equal(weight, weight[order]))
        return cls.from_keys(num_nodes, keys, weight, undirected=undirected, edge_features=features)

    @property
    def num_nodes(self) -> int:
        """How many nodes."""
        return self.pattern.shape[0]

    @property
    def within(self) -> kernels.Within | None:
        """For each node the nodes that an edit may join it to; None for all."""
        return None if self.blocks is None else self.blocks.within

    @property
    def num_edges(self) -> int:
        """How many directed entries; an undirected edge counts twice, as in PyG."""
        return self.pattern.col.numel()

    @property
    def device(self) -> torch.device:
        """Where the graph lives."""
        return self.pattern.col.device

    @property
    def keys(self) -> Tensor:
        """The entries' keys ``row * num_nodes + column``, sorted, int64; computed at every call.

        The weights are in the order of the keys only if the columns of each row are sorted.
        """
        keys = keys_of(self.pattern.rowptr.cpu(), self.pattern.col.cpu())  # not every device has 64-bit arithmetic
        return (keys if are_sorted(keys) else keys.sort().values).to(self.device)

    @property
    def new_weight(self) -> Tensor | float:
        """The weight of an edge that an edit adds: the mean of the graph's weights."""
        return 1.0 if self.weight is None or not self.num_edges else self.weight.mean()

    @cached_property
    def edge_index(self) -> Tensor:
        """PyG's ``edge_index``: sources above targets, ``[2, num_edges]``."""
        return torch.stack([self.pattern.col.long(), self.pattern.row.long()])

    @property
    def edge_attr(self) -> Tensor | None:
        """PyG's ``edge_attr``: the features of every entry, ``[num_edges, width]``; None if there are none."""
        return None if self.edge_features is None else self.edge_features.attr

    @property
    def entries(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The receiver, the sender and the weight of every entry; None for weights of 1."""
        return self.pattern.row, self.pattern.col, self.weight

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
        inverse_root = (self.degree + 1).rsqrt()
        value = kernels.scale(self.pattern.rowptr, self.pattern.col, self.weight, inverse_root)
        return Normalised(Sparse(self.pattern, value, symmetric=self.undirected), inverse_root.square())

    def forget(self) -> None:
        """Drops what can be computed again: the forms that backbones multiply by."""
        for name in ("adjacency", "degree", "normalised"):
            self.__dict__.pop(name, None)
        self.pattern.forget()

    def flip_rows(self, actions: Tensor, *, directed: bool = False) -> Graph:
        """A + B ∘ (complement(A) − A) (Eq. 5), where B marks ``actions``: the columns to flip in every row.

        B is Boolean, so a pair that is named twice is flipped once.

        Args:
            actions: ``[nodes, any]``; never the row itself, but for a node that is alone in its small graph, where it
                stands for no edit. An added edge weighs the mean of the graph's weights.
            directed: flip (n, m) alone also in an undirected graph, where (m, n) otherwise flips with it.
        """
        nodes, draws = actions.shape
        each = torch.full((nodes,), draws, dtype=torch.int32, device=actions.device)
        if self.within is not None and bool(self.within.alone.any()):
            actions, each = actions[~self.within.alone], each.masked_fill(self.within.alone, 0)
        first = torch.cat([each.new_zeros(1), each.cumsum(0, dtype=torch.int32)])
        return self.flip_lists(first, actions.int().flatten(), directed=directed)

    def flip_lists(self, first: Tensor, columns: Tensor, *, directed: bool = False) -> Graph:
        """:meth:`flip_rows` where row n flips the pairs with ``columns[first[n] : first[n + 1]]``; both int32."""
        both, pattern = self.undirected and not directed, self.pattern

        def edit(weight: Tensor | None, new: Tensor | float) -> kernels.CSR:
            return kernels.edit(pattern.rowptr, pattern.col, weight, first, columns, new_weight=new, both=both)

        return self._edited(edit, undirected=both)

    def flip(self, flips: Tensor, *, undirected: bool | None = None) -> Graph:
        """A + B ∘ (complement(A) − A): the graph with the given entries flipped, in O(edges + flips log edges).

        The columns of each row of the result are sorted, so that its weights are in the order of its keys.

        Args:
            flips: keys, sorted and unique; each is removed where it is there and added where it is not. An added
                edge weighs the mean of the graph's weights. On an undirected graph the caller flips both directions,
            undirected: or says here that the result is not undirected; None keeps what the graph is.
        """
        if self.undirected and undirected is None and not torch.equal(reverse(flips, self.num_nodes).sort()[0], flips):
            raise GraphshiftError(
                "flips: one direction of an edge is flipped and the other is not, and the graph is undirected; flip "
                "both (gs.explorers.apply_actions does), or say undirected=False."
            )
        pattern = self.pattern

        def edit(weight: Tensor | None, new: Tensor | float) -> kernels.CSR:
            return kernels.flip(pattern.rowptr, pattern.col, weight, flips, new_weight=new)

        return self._edited(edit, undirected=self.undirected if undirected is None else undirected)

    def _edited(self, edit: Callable[[Tensor | None, Tensor | float], kernels.CSR], *, undirected: bool) -> Graph:
        """The graph that a kernel makes of weights and the weight of new entries; edge features follow entries."""
        weight, features = self.weight, self.edge_features
        if features is None:
            rowptr, col, weight = edit(weight, self.new_weight)
            return self._with(Pattern(rowptr, col, self.pattern.shape), weight, undirected=undirected)
        # Kernels copy weights and compute nothing with them. So the bits of the entries' numbers, from 1, can go in
        # their place; those of a new entry are 0.
        whole, single = (torch.int32, torch.float32) if self.num_edges < 2**31 - 1 else (torch.int64, torch.float64)
        number = torch.arange(1, self.num_edges + 1, dtype=whole, device=self.device)
        rowptr, col, bits = edit(number.view(single), 0.0)
        assert bits is not None
        place = bits.view(whole).long() - 1
        if weight is not None:
            fresh = torch.as_tensor(self.new_weight, dtype=weight.dtype, device=self.device)
            weight = torch.where(place < 0, fresh, torch.cat([weight, weight.new_zeros(1)])[place])
        pattern = Pattern(rowptr, col, self.pattern.shape)
        moved = features.edited(place, pattern.row, pattern.col)
        return self._with(pattern, weight, undirected=undirected, edge_features=moved)

    def _with(
        self, pattern: Pattern, weight: Tensor | None, *, undirected: bool, edge_features: EdgeFeatures | None = None
    ) -> Graph:
        blocks = self.blocks
        return Graph(pattern, weight, undirected=undirected, edge_features=edge_features, blocks=blocks)

    def weighted(self, weight: Tensor, *, undirected: bool) -> Graph:
        """The same entries with other weights."""
        return self._with(self.pattern, weight, undirected=undirected, edge_features=self.edge_features)

    def filled(self, fill: str) -> Graph:
        """The same graph, whose added edges have other features (:class:`EdgeFeatures`); itself if it has none."""
        features = None if self.edge_features is None else self.edge_features.filled(fill)
        if features is self.edge_features:
            return self
        return self._with(self.pattern, self.weight, undirected=self.undirected, edge_features=features)

    def in_blocks(self, blocks: Blocks) -> Graph:
        """The same entries, of small graphs that stand side by side; :class:`GraphshiftError` if one joins two."""
        pattern, batch = self.pattern, blocks.batch
        if batch.numel() != self.num_nodes:
            raise GraphshiftError(f"{batch.numel()} nodes are in small graphs; the graph has {self.num_nodes}.")
        crossing = batch[pattern.row.long()] != batch[pattern.col.long()]
        if bool(crossing.any()):
            at = int(crossing.nonzero()[0])
            ends = [int(pattern.col[at]), int(pattern.row[at])]
            raise GraphshiftError(
                f"{int(crossing.sum())} edges join nodes of two graphs, first {ends}, of graphs "
                f"{[int(batch[end]) for end in ends]}; an edge stays inside its graph."
            )
        features = self.edge_features
        return Graph(pattern, self.weight, undirected=self.undirected, edge_features=features, blocks=blocks)

    def to(self, device: torch.device) -> Graph:
        """The same graph on another device."""
        if device == self.device:
            return self
        weight = None if self.weight is None else self.weight.to(device)
        features = None if self.edge_features is None else self.edge_features.to(device)
        blocks = None if self.blocks is None else self.blocks.to(device)
        pattern, both = self.pattern.to(device), self.undirected
        return Graph(pattern, weight, undirected=both, edge_features=features, blocks=blocks)

    def __repr__(self) -> str:
        kind = "undirected" if self.undirected else "directed"
        many = "" if self.blocks is None else f"{self.blocks.count} graphs, "
        return f"Graph({many}{self.num_nodes} nodes, {self.num_edges} {kind} entries)"


_all_ones = torch.empty(0)


def _ones(count: int, device: torch.device) -> Tensor:
    """A part of one array of ones that all unweighted graphs on the CPU share."""
    global _all_ones
    if device.type != "cpu":
        return torch.ones(count, device=device)
    if _all_ones.numel() < count or _all_ones.dtype != torch.get_default_dtype():
        _all_ones = torch.ones(count)
    return _all_ones[:count]
