"""GCNII (Chen et al., 2020): a deep GCN with an initial residual and an identity map."""

import math
from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from graphshift.backbones.base import BACKBONES, WIDTH, Backbone, Hop, Linear, initialise
from graphshift.backbones.memory import Needs
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


@BACKBONES.register("gcnii")
class GCNII(Backbone):
    """Linear → ReLU = h0, then L × [ReLU(θ_l s W_l + (1 − θ_l) s)] with s = (1 − α) Â h + α h0, then Linear.

    θ_l = log(λ / l + 1). The stem, h0, needs no edges.

    Args:
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width.
        num_layers: L.
        dropout: before every product but the first.
        alpha: α, the share of the initial residual.
        lamda: λ, how slowly the layers turn into identity maps.
        log_softmax: of the outputs, as in the authors' code, where it goes into the loss as if it were logits.
        init: first weights, ``"glorot"``, or ``"uniform"`` as in PyG, torch and the authors' code.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = WIDTH,
        num_layers: int = 10,
        dropout: float = 0.0,
        alpha: float = 0.1,
        lamda: float = 1.0,
        log_softmax: bool = False,
        init: str = "glorot",
    ) -> None:
        super().__init__()
        self.enter = Linear(in_channels, hidden_channels)
        self.layers = nn.ModuleList(Linear(hidden_channels, hidden_channels, bias=False) for _ in range(num_layers))
        self.leave = Linear(hidden_channels, out_channels)
        self.dropout, self.alpha, self.lamda, self.log_softmax = dropout, alpha, lamda, log_softmax
        initialise(self, init)

    def stem(self, x: Tensor | Sparse) -> Tensor:
        """h0."""
        return F.relu(self.enter(x))

    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """All layers."""
        return self.represent(h, graph)[1]

    def represent(self, h: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """The last hidden layer and the output. To save memory, blocks of √L layers are computed twice."""
        first, depth = h, len(self.layers)
        block = math.isqrt(depth) if self.save_memory and torch.is_grad_enabled() else depth
        for begin in range(0, depth, max(block, 1)):
            layers = range(begin, min(begin + block, depth))
            if block < depth:
                h = checkpoint(self._block, h, first, graph, layers, use_reentrant=False)
            else:
                h = self._block(h, first, graph, layers)
        return h, self._left(h)

    def hops(self) -> Sequence[Hop]:
        """Beside h the stem's h0 goes from layer to layer."""
        depth = len(self.layers)
        return [partial(self._hop, i, i == depth - 1) for i in range(depth)]

    def _hop(self, i: int, last: bool, h: Tensor, graph: Graph) -> Tensor:
        h, first = (h, h) if i == 0 else h.chunk(2, dim=1)
        h = self._block(h, first, graph, range(i, i + 1))
        return self._left(h) if last else torch.cat([h, first], dim=1)

    def _left(self, h: Tensor) -> Tensor:
        out: Tensor = self.leave(F.dropout(h, self.dropout, self.training))
        return out.log_softmax(dim=1) if self.log_softmax else out

    def _block(self, h: Tensor, first: Tensor, graph: Graph, layers: range) -> Tensor:
        for i in layers:
            theta = math.log(self.lamda / (i + 1) + 1)
            h = F.dropout(h, self.dropout, self.training)
            s = (graph.normalised @ h).mul_(1 - self.alpha).add_(first, alpha=self.alpha)
            h = F.relu(self.layers[i](s).mul_(theta).add_(s, alpha=1 - theta), inplace=True)
        return h

    def memory(self, *, save_memory: bool = False, edge_gradient: bool = False) -> Needs:
        """Each layer keeps what its product with W takes and what its ReLU gives; saving memory, √L of them do."""
        width, depth = self.enter.out_features, len(self.layers)
        block = max(math.isqrt(depth), 1) if save_memory else depth
        inputs = math.ceil(depth / block) - 1  # the first block's is the stem
        kept = (inputs + (3 if self.dropout else 2) * block) * width
        # In the backward pass: the gradients before and after an operation.
        each = {"kept": kept, "busy": 2 * width, "looking": 4 * width, "stem_kept": width, "width": width}
        return Needs("normalised", width, width, **each)
