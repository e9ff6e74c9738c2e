"""CaNet's network (Wu et al., WWW 2024): every layer infers each node's environment and mixes one expert for each."""

import math
from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphshift.backbones.base import BACKBONES, DEPTH, WIDTH, Backbone, Hop, Linear
from graphshift.backbones.memory import Needs
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


def divergence_from_uniform(logits: Tensor) -> Tensor:
    """KL(π ‖ uniform) = Σ_k π_k log π_k + log K of every node's π = softmax(logits), ``[nodes]``."""
    log_pi = torch.log_softmax(logits, dim=-1)
    return (log_pi.exp() * log_pi).sum(dim=-1) + math.log(logits.shape[-1])


class _Mixture(nn.Module):
    """σ(z + Σ_k e_k (Â z W_D^k + z W_S^k)): both products are linear in z, so Â z is computed once for all experts."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.environment = Linear(width, experts)
        self.weight = nn.Parameter(torch.empty(experts, 2 * width, width))
        for weight in self.weight:
            nn.init.xavier_uniform_(weight)

    def forward(self, z: Tensor, graph: Graph, temperature: float | None = None) -> tuple[Tensor, Tensor]:
        """The layer's output and the logits of π. With a temperature e is drawn, else it is π."""
        logits = self.environment(z)
        if temperature is None:
            share = torch.softmax(logits, dim=-1)
        else:  # of logits or of log π, it is the same: the softmax does not see a constant
            share = F.gumbel_softmax(logits, tau=temperature, dim=-1)
        both = torch.cat([graph.normalised @ z, z], dim=1)
        mixed = torch.zeros_like(z)
        for k, weight in enumerate(self.weight):
            mixed = mixed + share[:, k : k + 1] * (both @ weight)
        return torch.relu(z + mixed), logits


@BACKBONES.register("canet")
class CaNetwork(Backbone):
    """CaNet's mixture of experts: Linear → ReLU, L mixtures of K graph convolutions, Linear. See method ``canet``.

    Experts are mixed by the environments' probabilities. The method ``canet`` draws environments in training.

    >>> ring = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)
    >>> CaNetwork(5, 2, hidden_channels=8)(torch.randn(3, 5), ring).shape
    torch.Size([3, 2])

    Args:
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width.
        num_layers: L, the mixtures.
        dropout: after each hidden layer.
        experts: K, the number of environments that are inferred.
        temperature: τ of the Gumbel-softmax that the method ``canet`` draws environments by.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = WIDTH,
        num_layers: int = DEPTH,
        dropout: float = 0.0,
        experts: int = 3,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        self.dropout, self.temperature, self.experts = dropout, temperature, experts
        self.first, self.last = Linear(in_channels, hidden_channels), Linear(hidden_channels, out_channels)
        self.mixtures = nn.ModuleList(_Mixture(hidden_channels, experts) for _ in range(num_layers))

    def stem(self, x: Tensor | Sparse) -> Tensor:
        """The first linear layer."""
        return F.dropout(torch.relu(self.first(x)), self.dropout, self.training)

    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """The mixtures and the last layer."""
        return self.represent(h, graph)[1]

    def represent(self, h: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """The last hidden layer, and the output."""
        z, _ = self._mixed(h, graph)
        return z, self.last(z)

    def hops(self) -> Sequence[Hop]:
        """The mixtures; the last layer comes with the last of them."""
        return [partial(self._hop, i) for i in range(len(self.mixtures))]

    def _hop(self, i: int, h: Tensor, graph: Graph) -> Tensor:
        z: Tensor = F.dropout(self.mixtures[i](h, graph, None)[0], self.dropout, self.training)
        return self.last(z) if i == len(self.mixtures) - 1 else z

    def with_divergence(self, x: Tensor | Sparse, graph: Graph) -> tuple[Tensor, Tensor]:
        """The output with drawn environments, and the mean over layers of KL(q(e | z) ‖ uniform), ``[nodes]``."""
        z, logits = self._mixed(self.stem(x), graph, self.temperature)
        return self.last(z), torch.stack([divergence_from_uniform(one) for one in logits]).mean(dim=0)

    def memory(self, *, save_memory: bool = False, edge_gradient: bool = False) -> Needs:
        """In every layer Â z beside z, and for each expert its product and what it is weighted to."""
        width = self.first.out_features
        kept = len(self.mixtures) * (4 + 2 * self.experts) * width
        return Needs("normalised", 2 * width, width, kept=kept, busy=6 * width, looking=6 * width, width=width)

    def _mixed(self, h: Tensor, graph: Graph, temperature: float | None = None) -> tuple[Tensor, list[Tensor]]:
        found = []
        for mixture in self.mixtures:
            h, logits = mixture(h, graph, temperature)
            h = F.dropout(h, self.dropout, self.training)
            found.append(logits)
        return h, found
