"""GraphSAGE (Hamilton et al., 2017) with mean aggregation: h'_v = W_n mean_u(h_u) + W_r h_v + b."""

from torch import Tensor, cat, nn

from graphshift.backbones.base import BACKBONES, DEPTH, WIDTH, Linear, initialise
from graphshift.backbones.layered import Convolution, Layered, widths
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


class SAGEConvolution(Convolution):
    """The mean is linear, so both products come first and one `transform` gives the two halves side by side."""

    sides = 2

    def __init__(self, in_width: int, out_width: int, self_loops: bool) -> None:
        super().__init__()
        self.neighbours = Linear(in_width, out_width, bias=False)
        self.root = Linear(in_width, out_width)
        self.out_width, self.self_loops = out_width, self_loops

    def transform(self, x: Tensor | Sparse) -> Tensor:
        """[h W_n, h W_r + b], ``[nodes, 2 * out_width]``."""
        return cat([self.neighbours(x), self.root(x)], dim=1)

    def mix(self, h: Tensor, graph: Graph) -> Tensor:
        """The (weighted) mean over incoming neighbours of the first half, plus the second half."""
        h, root = h.chunk(2, dim=1)
        total = graph.adjacency @ h
        if self.self_loops:
            return total.add_(h).div_((graph.degree + 1).unsqueeze(1)).add_(root)
        # A node without neighbours has mean 0, as in PyG; positive degrees below 1 occur with weights.
        degree = graph.degree.masked_fill(graph.degree == 0, 1.0)
        return total.div_(degree.unsqueeze(1)).add_(root)


@BACKBONES.register("sage")
class SAGE(Layered):
    """The paper's GraphSAGE: (L − 1) × [convolution → batch norm → ReLU → dropout] → convolution.

    Args:
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width of the hidden layers.
        num_layers: L.
        dropout: after each hidden layer.
        self_loops: the mean is over the node and its neighbours, as the paper says; False leaves the node out, as
            PyG's ``SAGEConv`` does.
        init: first weights, ``"glorot"``, or ``"uniform"`` as in PyG, torch and the authors' code.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = WIDTH,
        num_layers: int = DEPTH,
        dropout: float = 0.0,
        self_loops: bool = True,
        init: str = "glorot",
    ) -> None:
        shapes = widths(in_channels, hidden_channels, out_channels, num_layers)
        layers = [SAGEConvolution(i, o, self_loops) for i, o in shapes]
        super().__init__(layers, dropout, activation=nn.ReLU(inplace=True))
        initialise(self, init)
