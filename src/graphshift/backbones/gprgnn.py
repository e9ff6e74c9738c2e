"""GPRGNN (Chien et al., 2021): an MLP whose outputs are mixed over hops with learned weights."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphshift.backbones.base import BACKBONES, DEPTH, WIDTH, Backbone, Hop, initialise
from graphshift.backbones.memory import Needs
from graphshift.backbones.mlp import MLP
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


@BACKBONES.register("gprgnn")
class GPRGNN(Backbone):
    """Σ_k γ_k Â^k MLP(x), γ_k = α (1 − α)^k at first and (1 − α)^hops for the last, learned. All of the MLP is stem.

    Args:
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width of the MLP.
        num_layers: linear layers of the MLP (the paper's model has 2).
        dropout: after each hidden layer of the MLP.
        hops: how far Â is raised.
        alpha: α of the personalised-PageRank start of γ.
        dprate: dropout of the MLP's output before it is mixed over hops; the authors' code leaves it at 0.5.
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
        hops: int = 10,
        alpha: float = 0.1,
        dprate: float = 0.0,
        init: str = "glorot",
    ) -> None:
        super().__init__()
        self.dprate = dprate
        sizes = {"hidden_channels": hidden_channels, "num_layers": num_layers}
        self.mlp = MLP(in_channels, out_channels, **sizes, dropout=dropout)
        gamma = alpha * (1 - alpha) ** torch.arange(hops + 1, dtype=torch.get_default_dtype())
        gamma[-1] = (1 - alpha) ** hops
        self.gamma = nn.Parameter(gamma)
        initialise(self, init)

    def stem(self, x: Tensor | Sparse) -> Tensor:
        """The whole MLP."""
        return self.mlp.stem(x)

    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """The weighted sum over hops."""
        h = F.dropout(h, self.dprate, self.training)
        out = self.gamma[0] * h
        for gamma in self.gamma[1:]:
            h = graph.normalised @ h
            out = out + gamma * h
        return out

    def hops(self) -> Sequence[Hop]:
        """Beside h the sum goes from hop to hop; it begins with γ_0 h at the first."""
        count = self.gamma.numel() - 1
        if not count:
            return [self.propagate]
        return [partial(self._hop, k, k == count) for k in range(1, count + 1)]

    def _hop(self, k: int, last: bool, h: Tensor, graph: Graph) -> Tensor:
        h, out = (h, self.gamma[0] * h) if k == 1 else h.chunk(2, dim=1)
        h = graph.normalised @ h
        out = out + self.gamma[k] * h
        return out if last else torch.cat([h, out], dim=1)

    def memory(self, *, save_memory: bool = False, edge_gradient: bool = False) -> Needs:
        """The MLP's, and every hop's h for the gradient of its γ; the first is the stem's."""
        mlp, hops = self.mlp.memory(), self.gamma.numel() - 1
        out, looking = mlp.out, max(3 * mlp.out, mlp.width)
        own = {"kept": hops * out, "busy": 3 * out, "width": out, "looking": looking, "lost_by_erm": 1.6}
        return replace(mlp, form="normalised", **own)
