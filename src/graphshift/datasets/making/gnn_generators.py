"""Random, untrained GNNs: the paper's makers of labels and of spurious features (its Appendix on Cora and Photo)."""

from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse

#: The width of every hidden layer, head and output.
WIDTH = 10
_HEADS = 2


class GCNGenerator:
    """Â relu(Â x W) V, the weights Glorot's, no biases.

    Args:
        in_channels: columns of the input.
        random: where the weights are drawn from.
    """

    def __init__(self, in_channels: int, random: torch.Generator) -> None:
        self.first, self.second = _glorot(random, in_channels, WIDTH), _glorot(random, WIDTH, WIDTH)

    def __call__(self, x: Tensor | Sparse, graph: Graph) -> Tensor:
        """The output of every node, ``[nodes, WIDTH]``."""
        return graph.normalised @ ((graph.normalised @ (x @ self.first)).relu() @ self.second)


class SGCGenerator:
    """Â² x W, Glorot's, no bias: version 1 of the data; arguments as for :class:`GCNGenerator`."""

    def __init__(self, in_channels: int, random: torch.Generator) -> None:
        self.weight = _glorot(random, in_channels, WIDTH)

    def __call__(self, x: Tensor | Sparse, graph: Graph) -> Tensor:
        """The output of every node, ``[nodes, WIDTH]``."""
        return graph.normalised @ (graph.normalised @ (x @ self.weight))


class UniformSGCGenerator:
    """Â² x W + b, both uniform within 1 / sqrt(in_channels), as ``torch.nn.Linear`` and so the authors' ``SGConv``.

    Arguments as for :class:`GCNGenerator`.
    """

    def __init__(self, in_channels: int, random: torch.Generator) -> None:
        drawn = (2 * torch.rand(in_channels + 1, WIDTH, generator=random) - 1) * in_channels**-0.5
        self.weight, self.bias = drawn[:-1], drawn[-1]

    def __call__(self, x: Tensor | Sparse, graph: Graph) -> Tensor:
        """The output of every node, ``[nodes, WIDTH]``."""
        return graph.normalised @ (graph.normalised @ (x @ self.weight)) + self.bias


class GATGenerator:
    """Two layers of two attention heads, ELU between; the first concatenates its heads, the last averages them.

    Arguments as for :class:`GCNGenerator`.
    """

    def __init__(self, in_channels: int, random: torch.Generator) -> None:
        widths = (in_channels, _HEADS * WIDTH)
        self.weights = [_glorot(random, width, _HEADS * WIDTH) for width in widths]
        self.attention = [tuple(_glorot(random, _HEADS, WIDTH) for _ in range(2)) for _ in widths]

    def __call__(self, x: Tensor | Sparse, graph: Graph) -> Tensor:
        """The output of every node, ``[nodes, WIDTH]``."""
        hidden = F.elu(self._layer(0, x, graph).flatten(1))
        return self._layer(1, hidden, graph).mean(dim=1)

    def _layer(self, layer: int, x: Tensor | Sparse, graph: Graph) -> Tensor:
        """Σ_u softmax_u(leaky_relu(a·Wh_u + b·Wh_v)) Wh_u over v and its neighbours, ``[nodes, heads, WIDTH]``."""
        h = (x @ self.weights[layer]).view(-1, _HEADS, WIDTH)
        itself = torch.arange(graph.num_nodes)
        row, col = torch.cat([graph.pattern.row, itself]), torch.cat([graph.pattern.col, itself])
        a, b = ((h * vector).sum(dim=2) for vector in self.attention[layer])
        score = F.leaky_relu(a[col] + b[row], 0.2)
        top = torch.full_like(a, -torch.inf).scatter_reduce(0, row.unsqueeze(1).expand_as(score), score, "amax")
        weight = (score - top[row]).exp()
        total = torch.zeros_like(a).index_add(0, row, weight)
        return torch.zeros_like(h).index_add(0, row, (weight / total[row]).unsqueeze(2) * h[col])


Maker: TypeAlias = Callable[[int, torch.Generator], Callable[[Tensor | Sparse, Graph], Tensor]]

#: Makers of random GNNs by name.
GENERATORS: dict[str, Maker] = {"gcn": GCNGenerator, "sgc": UniformSGCGenerator, "gat": GATGenerator}

#: The same by version of the data; committed results stand on earlier ones.
VERSIONS: dict[int, dict[str, Maker]] = {1: GENERATORS | {"sgc": SGCGenerator}, 2: GENERATORS}


def _glorot(random: torch.Generator, rows: int, columns: int) -> Tensor:
    bound = (6 / (rows + columns)) ** 0.5
    return (2 * torch.rand(rows, columns, generator=random) - 1) * bound
