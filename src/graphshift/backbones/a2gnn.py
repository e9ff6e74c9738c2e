"""The network of A2GNN (Liu et al., AAAI 2024): hidden states, smoothed in few steps in training and in many after it.

Propagation brings the source and the target together, and too much of it costs the source its detail. So labelled
training graphs are smoothed little, and graphs that are predicted, and an unlabelled target in training, a lot.
"""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from graphshift.backbones.base import BACKBONES, DEPTH, WIDTH, Backbone, Hop, Linear
from graphshift.backbones.layered import widths
from graphshift.backbones.memory import Needs
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


@BACKBONES.register("a2gnn")
class A2GNN(Backbone):
    """(L − 1) × [Linear → ReLU → dropout] → Â^k → Linear: k is small on training graphs and large elsewhere.

    Args:
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width of the hidden layers.
        num_layers: L, at least 2.
        dropout: after each hidden layer.
        hops: k on graphs that are predicted, and on an unlabelled target in training.
        source_hops: k on labelled graphs in training.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = WIDTH,
        num_layers: int = DEPTH,
        dropout: float = 0.0,
        hops: int = 10,
        source_hops: int = 0,
    ) -> None:
        super().__init__()
        shapes = widths(in_channels, hidden_channels, out_channels, max(num_layers, 2))
        self.layers = nn.ModuleList(Linear(i, o) for i, o in shapes)
        self.dropout, self.target_hops, self.source_hops = dropout, hops, source_hops

    def stem(self, x: Tensor | Sparse) -> Tensor:
        """The hidden layers."""
        h: Tensor = x  # type: ignore[assignment]
        for layer in self.layers[:-1]:
            h = F.dropout(F.relu(layer(h)), self.dropout, self.training)
        return h

    def represent(self, h: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """The smoothed hidden states, and the output."""
        h = self._smoothed(h, graph)
        return h, self.layers[-1](h)

    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """Smoothing and the last layer, in the order that smooths fewer columns: (Â^k h) Wᵀ = Â^k (h Wᵀ)."""
        weight, bias = self.layers[-1].parameters()
        if weight.shape[0] >= weight.shape[1]:
            return self.represent(h, graph)[1]
        return self._smoothed(h @ weight.t(), graph) + bias

    def _smoothed(self, h: Tensor, graph: Graph) -> Tensor:
        for _ in range(self.source_hops if self.training and not self.at_target else self.target_hops):
            h = graph.normalised @ h
        return h

    def hops(self) -> Sequence[Hop]:
        """Â h so often, and the last layer at the end."""
        if not self.target_hops:
            return [self.propagate]
        return [*[_spread] * (self.target_hops - 1), lambda h, graph: self.layers[-1](_spread(h, graph))]

    def memory(self, *, save_memory: bool = False, edge_gradient: bool = False) -> Needs:
        """Every hidden layer keeps its ReLU's result; a product of Â keeps nothing, the last layer what it is given."""
        *hidden, out = (p.shape[0] for p in self.parameters() if p.dim() > 1)
        whole, last = (3 if self.dropout else 1) * sum(hidden), hidden[-1]
        steps = {"kept": last + out, "busy": 2 * last + out, "looking": 3 * last + out}
        return Needs("normalised", whole, last, **steps, stem_kept=whole, width=max(hidden))


def _spread(h: Tensor, graph: Graph) -> Tensor:
    return graph.normalised @ h
