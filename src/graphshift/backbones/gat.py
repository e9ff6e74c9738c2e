"""GAT (Veličković et al., 2018): attention over a node and its neighbours."""

import torch
from torch import Tensor, nn

from graphshift.backbones.base import BACKBONES, DEPTH, WIDTH, Linear, zeros
from graphshift.backbones.layered import Convolution, Layered
from graphshift.backbones.memory import Needs
from graphshift.graph import kernels
from graphshift.graph.graph import Graph
from graphshift.graph.kernels.attention import attend
from graphshift.graph.sparse import Sparse


class GATConvolution(Convolution):
    """h'_v = Σ_u α_vu W h_u over v and its neighbours, α = softmax_u LeakyReLU(a_s · W h_u + a_t · W h_v).

    With edge weights w, α_vu ∝ w_vu exp(…): all weights 1 is the plain layer. With edge features e, a_e · W_e e_vu is
    added inside LeakyReLU; a node's own e is the mean of those that it receives, as in PyG.
    """

    def __init__(self, in_width: int, width: int, heads: int, concatenate: bool, edge_channels: int = 0) -> None:
        super().__init__()
        self.heads, self.width, self.concatenate = heads, width, concatenate
        self.out_width = heads * width if concatenate else width
        self.linear = Linear(in_width, heads * width, bias=False)
        self.from_source = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, width)))
        self.to_target = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, width)))
        self.bias = zeros(self.out_width)
        if edge_channels:
            self.edges = Linear(edge_channels, heads * width, bias=False)
            self.from_edge = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, width)))
        self.edge_channels = edge_channels

    def transform(self, x: Tensor | Sparse) -> Tensor:
        """W h, ``[nodes, heads * width]``."""
        return self.linear(x)

    def mix(self, h: Tensor, graph: Graph) -> Tensor:
        """Attention along edges."""
        h = h.view(-1, self.heads, self.width)
        source, target = (h * self.from_source).sum(-1), (h * self.to_target).sum(-1)
        features, along = graph.edge_features if self.edge_channels else None, None
        if features is not None:
            scores = (self.edges(features.values).view(-1, self.heads, self.width) * self.from_edge).sum(-1)
            along = scores[features.index]
        mixed = attend(graph, h, source, target, along)
        return (mixed.flatten(1) if self.concatenate else mixed.mean(dim=1)) + self.bias


@BACKBONES.register("gat")
class GAT(Layered):
    """The paper's GAT: (L − 1) × [attention → batch norm → ELU → dropout] → attention, the last averaging its heads.

    Args:
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width of each head in the hidden layers, whose heads are concatenated.
        num_layers: L.
        dropout: after each hidden layer.
        heads: attention heads of every layer.
        edge_channels: features of an edge, which enter the attention; 0 for none.
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
        heads: int = 4,
        edge_channels: int = 0,
    ) -> None:
        layers: list[Convolution] = []
        width = in_channels
        for _ in range(num_layers - 1):
            layers.append(GATConvolution(width, hidden_channels, heads, True, edge_channels))
            width = layers[-1].out_width
        layers.append(GATConvolution(width, out_channels, heads, False, edge_channels))
        super().__init__(layers, dropout, activation=nn.ELU(inplace=True))

    def memory(self, *, save_memory: bool = False, edge_gradient: bool = False) -> Needs:
        """Attention keeps little in C; in torch (gradients of edge weights, edge features) numbers for every entry."""
        of_edges = any(isinstance(layer, GATConvolution) and layer.edge_channels for layer in self.layers)
        in_torch = edge_gradient or of_edges or not kernels.available()
        layers = [layer for layer in self.layers if isinstance(layer, GATConvolution)]
        kept = kept_entries = busy_entries = 0.0
        for i, layer in enumerate(layers):
            wide = layer.heads * layer.width
            # Of W h (the stem's at the first layer), what attention gives, and four numbers of a node for each head.
            kept += (wide if i else 0) + wide + 4 * layer.heads
            kept += self._kept_after * layer.out_width if i < len(layers) - 1 else 0
            if in_torch:
                # For each head, h with a column of ones; along edges, scores before LeakyReLU, and their exponentials.
                kept += layer.heads * (layer.width + 1)
                kept_entries += 4 * 2 * layer.heads
                busy_entries = max(busy_entries, 4 * (4 * layer.heads + 3) + 8)  # gradients of scores, 64-bit indices
        stem, widest = layers[0].heads * layers[0].width, max(layer.heads * layer.width for layer in layers)
        form = "attention in torch" if in_torch else "attention"
        nodes = {"kept": kept, "busy": 2 * widest, "looking": 3 * widest, "stem_kept": stem, "width": widest}
        entries = {"kept_entries": kept_entries, "busy_entries": busy_entries, "looking_entries": busy_entries}
        return Needs(form, stem, stem, **nodes, **entries, lost=0.9, lost_by_erm=0.85)
