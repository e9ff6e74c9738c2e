"""A GNN for whole graphs: the nodes' states, a readout over the nodes of each graph, a linear layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from graphshift.backbones.base import Backbone, Linear, ModuleBackbone, make_backbone
from graphshift.backbones.memory import Needs
from graphshift.core.errors import GraphshiftError
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


class GraphLevel(Backbone):
    r"""z_G = W · dropout(READOUT_{v ∈ G} ReLU(h_v)) + b, where h is what a backbone gives for the nodes.

    The readout is a mean, a sum or a maximum over the nodes of each graph
    (:meth:`~graphshift.graph.blocks.Blocks.pooled`). A graph's representation is what it gives.

    Args:
        nodes: the backbone, with ``width`` outputs for a node.
        width: of the readout.
        out_channels: outputs for a graph.
        readout: ``"mean"``, ``"sum"`` or ``"max"``.
        dropout: before the last layer.
    """

    def __init__(self, nodes: Backbone, width: int, out_channels: int, *, readout: str, dropout: float) -> None:
        super().__init__()
        self.nodes, self.leave = nodes, Linear(width, out_channels)
        self.width, self.readout, self.dropout = width, readout, dropout
        self.uses_edges, self.uses_edge_features = nodes.uses_edges, nodes.uses_edge_features

    @property
    def save_memory(self) -> bool:
        """As the backbone of the nodes has it."""
        return self.nodes.save_memory

    @save_memory.setter
    def save_memory(self, value: bool) -> None:
        self.nodes.save_memory = value

    def stem(self, x: Tensor | Sparse) -> Tensor:
        """That of the nodes."""
        return self.nodes.stem(x)

    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """The output for every graph, ``[graphs, out_channels]``."""
        return self.represent(h, graph)[1]

    def represent(self, h: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """The readout, ``[graphs, width]``, and the output."""
        if graph.blocks is None:
            raise GraphshiftError("the model predicts whole graphs, and this one is not divided into any.")
        states = self.nodes.propagate(h, graph)
        if states.shape != (graph.num_nodes, self.width):
            raise GraphshiftError(
                f"backbone {type(self.nodes).__name__}: the output has shape {list(states.shape)}; before the readout "
                f"it needs [{graph.num_nodes}, {self.width}], hidden_channels numbers for each node. A module of your "
                "own may do the readout itself: let its forward take `batch`."
            )
        pooled = graph.blocks.pooled(F.relu(states), self.readout)
        return pooled, self.leave(F.dropout(pooled, self.dropout, self.training))

    def memory(self, *, save_memory: bool = False, edge_gradient: bool = False) -> Needs:
        """What the nodes' backbone holds, and their states after the ReLU."""
        own = self.nodes.memory(save_memory=save_memory, edge_gradient=edge_gradient)
        return replace(
            own, kept=own.kept + 2 * self.width, busy=own.busy + self.width, looking=own.looking + self.width
        )


def graph_backbone(
    backbone: str | nn.Module,
    in_channels: int,
    out_channels: int,
    *,
    readout: str,
    hidden_channels: int,
    dropout: float,
    **shape: Any,
) -> Backbone:
    """A backbone for graphs: that of :func:`~graphshift.backbones.base.make_backbone`, with a readout.

    A module of the user's own that takes ``batch`` does the readout itself.

    Args:
        backbone … dropout: as there.
        readout: ``"mean"``, ``"sum"`` or ``"max"``.
        shape: the rest of its arguments.
    """
    how: dict[str, Any] = {"hidden_channels": hidden_channels, "dropout": dropout, **shape}
    whole = make_backbone(backbone, in_channels, out_channels, **how)
    if isinstance(whole, ModuleBackbone):
        if whole.takes_batch:
            return whole
        nodes: Backbone = ModuleBackbone(whole.module, None)  # its width is looked at before the readout
    else:
        nodes = make_backbone(backbone, in_channels, hidden_channels, **how)
    return GraphLevel(nodes, hidden_channels, out_channels, readout=readout, dropout=dropout)
