"""GCN (Kipf and Welling, 2017): h' = Â h W + b with Â = D^-1/2 (A + I) D^-1/2."""

from typing import Any

from torch import Tensor, nn

from graphshift.backbones.base import BACKBONES, DEPTH, WIDTH, Linear, zeros
from graphshift.backbones.layered import Convolution, Layered, widths
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


class GCNConvolution(Convolution):
    """Â h W + b, or A h W + b without normalisation."""

    def __init__(self, in_width: int, out_width: int, normalize: bool) -> None:
        super().__init__()
        self.linear, self.bias, self.normalize = Linear(in_width, out_width, bias=False), zeros(out_width), normalize
        self.out_width, self.form = out_width, "normalised" if normalize else "adjacency"

    def transform(self, x: Tensor | Sparse) -> Tensor:
        """h W."""
        return self.linear(x)

    def mix(self, h: Tensor, graph: Graph) -> Tensor:
        """Â h + b."""
        mixed = graph.normalised @ h if self.normalize else graph.adjacency @ h
        return mixed.add_(self.bias)  # in place: a product keeps nothing of its result for the backward pass


@BACKBONES.register("gcn")
class GCN(Layered):
    """The paper's GCN: (L − 1) × [convolution → batch norm → ReLU → dropout] → convolution.

    >>> import torch
    >>> ring = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)
    >>> GCN(5, 2, hidden_channels=8)(torch.randn(3, 5), ring).shape
    torch.Size([3, 2])

    Args:
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width of the hidden layers.
        num_layers: L.
        dropout: after each hidden layer.
        normalize: False gives the GCN of the authors' released code, which sums over neighbours without degree
            normalisation and without self-loops (backbone ``"gcn-unnormalised"``). It is there to reproduce their
            numbers; the paper's text describes the normalised one.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = WIDTH,
        num_layers: int = DEPTH,
        dropout: float = 0.0,
        normalize: bool = True,
    ) -> None:
        shapes = widths(in_channels, hidden_channels, out_channels, num_layers)
        layers = [GCNConvolution(i, o, normalize) for i, o in shapes]
        super().__init__(layers, dropout, activation=nn.ReLU(inplace=True))


@BACKBONES.register("gcn-unnormalised")
class UnnormalisedGCN(GCN):
    """``GCN(normalize=False)`` under a name of its own."""

    def __init__(self, in_channels: int, out_channels: int, **sizes: Any) -> None:
        super().__init__(in_channels, out_channels, **sizes, normalize=False)
