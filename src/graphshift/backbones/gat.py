"""GAT (Veličković et al., 2018): attention over a node and its neighbours."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphshift.backbones.base import Linear, zeros
from graphshift.backbones.layered import Convolution, Layered
from graphshift.graph import kernels
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


class GATConvolution(Convolution):
    """h'_v = Σ_u α_vu W h_u over v and its neighbours, α = softmax_u LeakyReLU(a_s · W h_u + a_t · W h_v).

    With edge weights w, α_vu ∝ w_vu exp(…): all weights 1 is the plain layer.
    """

    def __init__(self, in_width: int, width: int, heads: int, concatenate: bool) -> None:
        super().__init__()
        self.heads, self.width, self.concatenate = heads, width, concatenate
        self.out_width = heads * width if concatenate else width
        self.linear = Linear(in_width, heads * width, bias=False)
        self.from_source = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, width)))
        self.to_target = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, width)))
        self.bias = zeros(self.out_width)

    def transform(self, x: Tensor | Sparse) -> Tensor:
        """W h, ``[nodes, heads * width]``."""
        return self.linear(x)

    def mix(self, h: Tensor, graph: Graph) -> Tensor:
        """Attention along edges."""
        h = h.view(-1, self.heads, self.width)
        source, target = (h * self.from_source).sum(-1), (h * self.to_target).sum(-1)
        pattern, weight = graph.pattern, graph.weight
        if kernels.fits(h.detach(), pattern.col, weight):
            mixed: Tensor = _Attention.apply(h.contiguous(), source, target, graph)
        else:
            mixed = self._mix_plainly(h, source, target, graph)
        return (mixed.flatten(1) if self.concatenate else mixed.mean(dim=1)) + self.bias

    def _mix_plainly(self, h: Tensor, source: Tensor, target: Tensor, graph: Graph) -> Tensor:
        pattern = graph.pattern
        along = F.leaky_relu(source[pattern.col] + target[pattern.row], 0.2)  # [edges, heads]
        alone = F.leaky_relu(source + target, 0.2)  # the self-loop
        with torch.no_grad():  # softmax does not change when a row's maximum is taken off; exp then cannot overflow
            receiver = pattern.row.long().unsqueeze(1).expand_as(along)
            top = alone.scatter_reduce(0, receiver, along, "amax")
        along, alone = (along - top[pattern.row]).exp(), (alone - top).exp()
        if graph.weight is not None:
            along = along * graph.weight.unsqueeze(1)
        heads = []
        one = h.new_ones(h.shape[0], 1)
        for k in range(self.heads):
            # With a column of ones beside h, one product gives the softmax's numerator and denominator.
            message = torch.cat([h[:, k], one], dim=1)
            mixed = Sparse(pattern, along[:, k]) @ message + alone[:, k : k + 1] * message
            heads.append(mixed[:, :-1] / mixed[:, -1:])
        return torch.stack(heads, dim=1)


class _Attention(torch.autograd.Function):
    """The attention by kernels: no number for any edge is kept, where autograd would keep ten for each head."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, source: Tensor, target: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        pattern = graph.pattern
        mixed, top, total = kernels.attend(pattern.rowptr, pattern.col, graph.weight, h, source, target)
        ctx.save_for_backward(h, source, target, top, total, mixed)
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        graph: Graph = ctx.graph
        pattern, weight = graph.pattern, graph.weight
        rows = across = (pattern.rowptr, pattern.col, weight)
        if not graph.undirected:
            transposed, order = pattern.transposed
            across = (transposed.rowptr, transposed.col, None if weight is None else weight[order])
        return *kernels.attend_back(rows, across, gradients[0].contiguous(), *ctx.saved_tensors), None


class GAT(Layered):
    """The paper's GAT: (L − 1) × [attention → batch norm → ELU → dropout] → attention, the last averaging its heads.

    Args:
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width of each head in the hidden layers, whose heads are concatenated.
        num_layers: L.
        dropout: after each hidden layer.
        heads: attention heads of every layer.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 32,
        num_layers: int = 2,
        dropout: float = 0.0,
        heads: int = 4,
    ) -> None:
        layers: list[Convolution] = []
        width = in_channels
        for _ in range(num_layers - 1):
            layers.append(GATConvolution(width, hidden_channels, heads, concatenate=True))
            width = layers[-1].out_width
        layers.append(GATConvolution(width, out_channels, heads, concatenate=False))
        super().__init__(layers, dropout, activation=nn.ELU(inplace=True))
