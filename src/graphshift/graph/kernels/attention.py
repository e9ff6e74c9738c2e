"""GAT's attention over a node and its neighbours: ``attention.c``, and the same in torch.

It stands apart from the other kernels because it needs :mod:`graphshift.graph.sparse`, which needs them.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from graphshift.graph.edge_list import EdgeList
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import native
from graphshift.graph.kernels.checks import check_rows, check_shape
from graphshift.graph.sparse import Sparse


def attend(graph: Graph, h: Tensor, source: Tensor, target: Tensor, along: Tensor | None = None) -> Tensor:
    """Σ_u α_vu h_u over v and its neighbours u, α_vu ∝ w_vu exp(LeakyReLU(source_u + target_v)); differentiable.

    ``h`` and the result are ``[nodes, heads, width]``, ``source`` and ``target`` ``[nodes, heads]``. The gradient of
    the graph's weights w comes from the torch version alone. So do scores of edges, ``along``, ``[entries, heads]``,
    which are added inside LeakyReLU; a node's own is the mean of those that it receives, 0 without any.
    """
    if isinstance(graph, EdgeList):  # of a model that is exported
        return graph.attend(h, source, target)
    pattern, nodes = graph.pattern, graph.num_nodes
    check_rows(pattern.rowptr, pattern.col, nodes, nodes)
    check_shape(graph.weight, pattern.col.numel(), what="edge weights")
    check_shape(h, nodes, *h.shape[1:2], *h.shape[2:3], what="attention's input")
    for scores in (source, target):
        check_shape(scores, nodes, h.shape[1], what="attention's scores")
    floats = (h.detach(), source.detach(), target.detach(), graph.weight)
    if along is None and native.fits(*floats, pattern.col, count=nodes):
        mixed: Tensor = _Attention.apply(h.contiguous(), source.contiguous(), target.contiguous(), graph)
        return mixed
    return _attend_in_torch(graph, h, source, target, along)


class _Attention(torch.autograd.Function):
    """In C: no number is kept for any edge, where autograd would keep ten for each head."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, source: Tensor, target: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        top, total, mixed = torch.empty_like(source), torch.empty_like(source), torch.empty_like(h)
        rows = (graph.pattern.rowptr, graph.pattern.col, graph.weight)
        native.call_in_parts("attend", *h.shape, *rows, h, source, target, top, total, mixed)
        ctx.save_for_backward(h, source, target, top, total, mixed)
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        graph: Graph = ctx.graph
        pattern, weight, gradient = graph.pattern, graph.weight, gradients[0].contiguous()
        rows = across = (pattern.rowptr, pattern.col, weight)
        if not graph.undirected:
            transposed, order = pattern.transposed
            across = (transposed.rowptr, transposed.col, None if weight is None else weight[order])
        h, source, target, top, total, mixed = ctx.saved_tensors
        inner, d_target, d_source = (torch.empty_like(source) for _ in range(3))
        d_h, saved = torch.empty_like(h), (h, source, target, top, total)
        receivers = (mixed, gradient, inner, d_target, d_source, d_h)
        native.call_in_parts("attend_back_receivers", *h.shape, *rows, *saved, *receivers)
        native.call_in_parts("attend_back_senders", *h.shape, *across, *saved, gradient, inner, d_source, d_h)
        return d_h, d_source, d_target, None


def _attend_in_torch(graph: Graph, h: Tensor, source: Tensor, target: Tensor, of_edges: Tensor | None = None) -> Tensor:
    pattern = graph.pattern
    along, alone = source[pattern.col] + target[pattern.row], source + target  # [edges, heads]; the self-loop
    if of_edges is not None:
        check_shape(of_edges, pattern.col.numel(), h.shape[1], what="attention's scores of edges")
        along = along + of_edges
        received = torch.zeros_like(alone).index_add(0, pattern.row, of_edges)
        alone = alone + received / pattern.rowptr.diff().clamp(min=1).unsqueeze(1)
    along, alone = F.leaky_relu(along, 0.2), F.leaky_relu(alone, 0.2)
    with torch.no_grad():  # softmax does not change when a row's maximum is taken off; exp then cannot overflow
        receiver = pattern.row.long().unsqueeze(1).expand_as(along)
        top = alone.scatter_reduce(0, receiver, along, "amax")
    along, alone = (along - top[pattern.row]).exp(), (alone - top).exp()
    if graph.weight is not None:
        along = along * graph.weight.unsqueeze(1)
    heads = []
    one = h.new_ones(h.shape[0], 1)
    for k in range(h.shape[1]):
        # With a column of ones beside h, one product gives the softmax's numerator and denominator.
        message = torch.cat([h[:, k], one], dim=1)
        mixed = Sparse(pattern, along[:, k]) @ message + alone[:, k : k + 1] * message
        heads.append(mixed[:, :-1] / mixed[:, -1:])
    return torch.stack(heads, dim=1)
