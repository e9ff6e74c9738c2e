"""A multilayer perceptron: what can be had without edges. The control for every shift in the structure."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from graphshift.backbones.base import BACKBONES, DEPTH, WIDTH, Backbone, Hop, Linear
from graphshift.backbones.layered import widths
from graphshift.backbones.memory import Needs
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


@BACKBONES.register("mlp")
class MLP(Backbone):
    """(L − 1) × [Linear → ReLU → dropout] → Linear; edges are never looked at, so it is all stem.

    Args:
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width of the hidden layers.
        num_layers: L.
        dropout: after each hidden layer.
    """

    uses_edges = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = WIDTH,
        num_layers: int = DEPTH,
        dropout: float = 0,
    ) -> None:
        super().__init__()
        shapes = widths(in_channels, hidden_channels, out_channels, num_layers)
        self.layers = nn.ModuleList(Linear(i, o) for i, o in shapes)
        self.dropout = dropout

    def stem(self, x: Tensor | Sparse) -> Tensor:
        """The whole network."""
        h: Tensor = self.layers[0](x)
        for layer in self.layers[1:]:
            h = layer(F.dropout(F.relu(h), self.dropout, self.training))
        return h

    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """Nothing."""
        return h

    def hops(self) -> Sequence[Hop]:
        """None is needed."""
        return ()

    def memory(self, *, save_memory: bool = False, edge_gradient: bool = False) -> Needs:
        """Every hidden layer keeps its ReLU's result, dropout its noise and its own; and the output."""
        *hidden, out = (p.shape[0] for p in self.parameters() if p.dim() > 1)
        whole, widest = (3 if self.dropout else 1) * sum(hidden) + out, max([*hidden, out])
        return Needs("", whole, out, kept=0, busy=out, looking=2 * widest, stem_kept=whole, width=widest)
