"""GINE (Hu et al., ICLR 2020): the graph isomorphism network (Xu et al., 2019) with edge features."""

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphshift.backbones.base import BACKBONES, DEPTH, WIDTH, Backbone, Hop, Linear
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


class GINEConvolution(nn.Module):
    """h'_v = MLP((1 + ε) h_v + Σ_u w_vu ReLU(h_u + W e_vu + b)), over the neighbours u of v; ε is learned.

    Without edge features the message is ReLU(h_u); without weights w = 1.
    """

    def __init__(self, width: int, edge_channels: int) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(()))
        self.edges = Linear(edge_channels, width) if edge_channels else None
        self.first, self.second = Linear(width, width), Linear(width, width)

    def forward(self, h: Tensor, graph: Graph) -> Tensor:
        """The layer."""
        (receiver, sender, weight), features = graph.entries, graph.edge_features
        message = h[sender]
        if self.edges is not None and features is not None:
            message = message + self.edges(features.values)[features.index]  # each row of the table once
        message = F.relu(message)
        if weight is not None:
            message = message * weight.unsqueeze(1)
        total = torch.zeros_like(h).index_add(0, receiver, message)
        return self.second(F.relu(self.first((1 + self.eps) * h + total)))


@BACKBONES.register("gine")
class GINE(Backbone):
    """Linear → L × [GINE layer → batch norm → ReLU → dropout] → Linear; uses edge features.

    Args:
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width of all layers between.
        num_layers: L.
        dropout: after each layer.
        edge_channels: features of an edge; 0 for none.
    """

    uses_edge_features = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = WIDTH,
        num_layers: int = DEPTH,
        dropout: float = 0.0,
        edge_channels: int = 0,
    ) -> None:
        super().__init__()
        self.enter = Linear(in_channels, hidden_channels)
        self.layers = nn.ModuleList(GINEConvolution(hidden_channels, edge_channels) for _ in range(num_layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden_channels) for _ in range(num_layers))
        self.leave = Linear(hidden_channels, out_channels)
        self.dropout = dropout

    def stem(self, x: Tensor | Sparse) -> Tensor:
        """The first linear layer."""
        h: Tensor = self.enter(x)
        return h

    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """All GINE layers, and the last linear one."""
        return self.represent(h, graph)[1]

    def represent(self, h: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """The last hidden layer, and the output."""
        for i in range(len(self.layers)):
            h = self._hop(i, False, h, graph)
        return h, self.leave(h)

    def hops(self) -> Sequence[Hop]:
        """The layers; the last linear one comes with the last of them."""
        return [partial(self._hop, i, i == len(self.layers) - 1) for i in range(len(self.layers))]

    def _hop(self, i: int, last: bool, h: Tensor, graph: Graph) -> Tensor:
        h = F.dropout(F.relu(self.norms[i](self.layers[i](h, graph))), self.dropout, self.training)
        return self.leave(h) if last else h
