"""A graph as plain operations along a list of edges, which torch's and ONNX's exporters can follow."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from graphshift.graph.graph import Graph


class EdgeList(Graph):
    """What backbones need of a :class:`~graphshift.graph.graph.Graph`, for any number of nodes and edges.

    Slower than CSR, and the same to rounding. Edges must be unique; self-loops are left out, as everywhere.

    Args:
        edge_index: sources above targets, ``[2, edges]``, in any order.
        num_nodes: how many nodes; a symbol while a model is exported.
        weight: ``[edges]``; None for ones.
    """

    def __init__(self, edge_index: Tensor, num_nodes: Any, weight: Tensor | None = None) -> None:
        self._edge_index, self._num_nodes, self.weight, self.undirected = edge_index, num_nodes, weight, False
        self.source, self.target = edge_index[0], edge_index[1]
        loops = self.source == self.target
        ones = torch.ones_like(self.source, dtype=torch.float32) if weight is None else weight
        self._weight = ones.masked_fill(loops, 0.0)
        self.edge_features = None

    @property
    def num_nodes(self) -> Any:
        """How many nodes."""
        return self._num_nodes

    @cached_property
    def edge_index(self) -> Tensor:
        """As it was given."""
        return self._edge_index

    @property
    def entries(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The receiver, the sender and the weight of every edge; self-loops weigh 0."""
        return self.target, self.source, self._weight

    @cached_property
    def adjacency(self) -> Any:
        """A: ``adjacency @ h`` adds up along edges."""
        return _Along(self, self._weight)

    @cached_property
    def degree(self) -> Tensor:
        """Row sums of A."""
        return (self.adjacency @ torch.ones(self._num_nodes, 1, dtype=self._weight.dtype)).squeeze(1)

    @cached_property
    def normalised(self) -> Any:
        """Â = D^-1/2 (A + I) D^-1/2."""
        root = (self.degree + 1).rsqrt()
        return _Along(self, root[self.target] * self._weight * root[self.source], root.square())

    def attend(self, h: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """:func:`graphshift.graph.kernels.attention.attend` along edges."""
        along = F.leaky_relu(source[self.source] + target[self.target], 0.2)  # [edges, heads]
        alone = F.leaky_relu(source + target, 0.2)  # the self-loop
        receiver = self.target.unsqueeze(1).expand(-1, h.shape[1])
        top = alone.scatter_reduce(0, receiver, along, "amax")
        along = (along - top[self.target]).exp() * self._weight.unsqueeze(1)
        alone = (alone - top).exp()
        total = alone.index_add(0, self.target, along)
        mixed = alone.unsqueeze(2) * h
        mixed = mixed.index_add(0, self.target, along.unsqueeze(2) * h[self.source])
        return mixed / total.unsqueeze(2)

    def __repr__(self) -> str:
        return f"EdgeList({self.num_nodes} nodes)"


class _Along:
    """A sparse matrix whose non-zeros are the edges, and perhaps a diagonal."""

    def __init__(self, graph: EdgeList, value: Tensor, diagonal: Tensor | None = None) -> None:
        self.graph, self.value, self.diagonal = graph, value, diagonal

    def __matmul__(self, h: Tensor) -> Tensor:
        start = torch.zeros_like(h) if self.diagonal is None else self.diagonal.unsqueeze(1) * h
        return start.index_add(0, self.graph.target, h[self.graph.source] * self.value.unsqueeze(1))
