"""SGC (Wu et al., 2019): Â^L x W + b, a linear model over L hops."""

from collections.abc import Sequence

from torch import Tensor

from graphshift.backbones.base import BACKBONES, DEPTH, WIDTH, Backbone, Hop, Linear, zeros
from graphshift.backbones.memory import Needs
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


@BACKBONES.register("sgc")
class SGC(Backbone):
    """Â^L (x W) + b. The product with W comes first: it is narrower, and needs no edges.

    Args:
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: not used: the model has no hidden layer.
        num_layers: L, the hops.
        dropout: not used, for the same reason.
    """

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
        self.linear, self.bias = Linear(in_channels, out_channels, bias=False), zeros(out_channels)
        self.num_hops = num_layers

    def stem(self, x: Tensor | Sparse) -> Tensor:
        """x W."""
        return self.linear(x)

    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """Â^L h + b."""
        for _ in range(self.num_hops):
            h = graph.normalised @ h
        return h + self.bias

    def hops(self) -> Sequence[Hop]:
        """Â h, L times, and b at the end."""
        return [*[_spread] * (self.num_hops - 1), lambda h, graph: _spread(h, graph) + self.bias]

    def memory(self, *, save_memory: bool = False, edge_gradient: bool = False) -> Needs:
        """Products with a fixed matrix keep nothing."""
        out = self.linear.out_features
        return Needs("normalised", out, out, kept=0, busy=3 * out, looking=3 * out, width=out)


def _spread(h: Tensor, graph: Graph) -> Tensor:
    return graph.normalised @ h
