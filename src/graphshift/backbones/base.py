"""The backbone interface: ``stem`` needs no edges and runs once for all views; ``propagate`` needs them."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from graphshift.core.errors import GraphshiftError
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


class Backbone(nn.Module):
    """A GNN in two parts: ``forward(x, graph) = propagate(stem(x), graph)``.

    All take ``in_channels, out_channels, hidden_channels, num_layers, dropout`` by keyword, and options of their own.
    """

    #: Compute some layers again on the way back instead of keeping them; deep backbones do, the low-memory mode asks.
    save_memory = False

    @abstractmethod
    def stem(self, x: Tensor | Sparse) -> Tensor:
        """The part without edges. Args: x: ``[nodes, in_channels]``, dense or sparse."""

    @abstractmethod
    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """The part with edges: from the stem's ``[nodes, any]`` to ``[nodes, out_channels]``."""

    def represent(self, h: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """What the last layer is given for every node, ``[nodes, any]``, and the output that :meth:`propagate` gives.

        Methods that align representations use it. Where no such layer is known, the output is both.
        """
        output = self.propagate(h, graph)
        return output, output

    def forward(self, x: Tensor | Sparse, graph: Graph) -> Tensor:
        """The output for every node, ``[nodes, out_channels]``."""
        return self.propagate(self.stem(x), graph)


@contextmanager
def computed_once(backbone: Backbone) -> Iterator[None]:
    """Explorers that ask for the risk watch its forward pass, which must not happen again on the way back."""
    before, backbone.save_memory = backbone.save_memory, False
    try:
        yield
    finally:
        backbone.save_memory = before


class Linear(nn.Linear):
    """``torch.nn.Linear`` that also takes sparse features, at the cost of their non-zeros. Glorot, as in GNN papers."""

    def reset_parameters(self) -> None:
        """Glorot-uniform weights and zero bias."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor | Sparse) -> Tensor:
        """``x @ weight.T + bias``."""
        if isinstance(x, Tensor):
            return super().forward(x)
        h = x @ self.weight.t()
        return h if self.bias is None else h + self.bias


class ModuleBackbone(Backbone):
    """A user's own ``torch.nn.Module`` with ``forward(x, edge_index)``, optionally with ``edge_weight``.

    Nothing is known about its inside, so nothing is shared between views: it is all ``propagate``.
    """

    def __init__(self, module: nn.Module, out_channels: int) -> None:
        super().__init__()
        self.module, self.out_channels = module, out_channels
        parameters = inspect.signature(module.forward).parameters
        self.takes_weight = "edge_weight" in parameters

    def stem(self, x: Tensor | Sparse) -> Tensor:
        """The features as they are; sparse ones become dense."""
        return x.to_dense() if isinstance(x, Sparse) else x

    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """The user's module."""
        if graph.weight is not None and self.takes_weight:
            output: Tensor = self.module(h, graph.edge_index, edge_weight=graph.weight)
        else:
            output = self.module(h, graph.edge_index)
        output = output.unsqueeze(1) if output.dim() == 1 else output
        if output.shape != (graph.num_nodes, self.out_channels):
            raise GraphshiftError(
                f"backbone {type(self.module).__name__}: the output has shape {list(output.shape)}; the task needs "
                f"[{graph.num_nodes}, {self.out_channels}] (one logit for binary, one for each class, one value)."
            )
        return output


def zeros(*shape: int) -> nn.Parameter:
    """A bias."""
    return nn.Parameter(torch.zeros(*shape))
