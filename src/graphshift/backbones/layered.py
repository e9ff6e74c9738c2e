"""What GCN, GraphSAGE and GAT share: (L − 1) × [convolution → batch norm → activation → dropout] → convolution."""

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from graphshift.backbones.base import Backbone, Hop
from graphshift.backbones.memory import Needs
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


class Convolution(nn.Module):
    """One layer in two parts: ``transform`` needs no edges, ``mix`` does."""

    #: The width of the layer's output.
    out_width: int
    #: What it multiplies by (:class:`~graphshift.backbones.memory.Needs`), and how many results stand side by side.
    form, sides = "adjacency", 1

    @abstractmethod
    def transform(self, x: Tensor | Sparse) -> Tensor:
        """The dense part."""

    @abstractmethod
    def mix(self, h: Tensor, graph: Graph) -> Tensor:
        """The part along edges."""


class Layered(Backbone):
    """Stacked convolutions; the stem is the first one's dense part.

    ``activation`` may work in place: batch normalisation keeps its input for the backward pass, not its result.
    """

    def __init__(self, layers: Sequence[Convolution], dropout: float, *, activation: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.BatchNorm1d(layer.out_width) for layer in layers[:-1])
        self.dropout, self.activation = dropout, activation

    def stem(self, x: Tensor | Sparse) -> Tensor:
        """The first layer's dense part."""
        return self._layer(0).transform(x)

    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """All layers' parts along edges, and the dense parts of all but the first."""
        return self.represent(h, graph)[1]

    def represent(self, h: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """The last hidden layer; of a single layer its dense part."""
        hidden = h
        for i in range(len(self.norms)):
            hidden = self._hidden(i, h, graph)
            h = self._layer(i + 1).transform(hidden)
        return hidden, self._layer(len(self.norms)).mix(h, graph)

    def _hidden(self, i: int, h: Tensor, graph: Graph) -> Tensor:
        hidden = self.activation(self.norms[i](self._layer(i).mix(h, graph)))
        return F.dropout(hidden, self.dropout, self.training)

    def hops(self) -> Sequence[Hop]:
        """The layers: a part along edges, with the next layer's dense part."""
        return [partial(self._hop, i) for i in range(len(self.layers))]

    def _hop(self, i: int, h: Tensor, graph: Graph) -> Tensor:
        if i == len(self.norms):
            return self._layer(i).mix(h, graph)
        return self._layer(i + 1).transform(self._hidden(i, h, graph))

    def memory(self, *, save_memory: bool = False, edge_gradient: bool = False) -> Needs:
        """What convolutions hold that keep nothing themselves: products with a fixed matrix."""
        widths = [self._layer(i).out_width for i in range(len(self.layers))]
        widest, sides = max(widths), self._layer(0).sides
        # In the backward pass: the gradients before and after an operation, and the output's. Mixing keeps nothing.
        kept, busy = self._kept_after * sum(widths[:-1]), 2 * widest + widths[-1]
        each = {"kept": kept, "busy": busy, "looking": (2 + sides) * widest, "width": widest}
        lost, by_erm = (1.65, 2.6) if sides == 2 else (1.1, 2.1)  # arrays of two widths break the heap up more
        stem = sides * widths[0]
        return Needs(self._layer(0).form, stem, stem, **each, lost=lost, lost_by_erm=by_erm)

    @property
    def _kept_after(self) -> int:
        """What autograd keeps after a hidden layer, in its widths: of batch norm its input, of the rest the results."""
        return 4 if self.dropout else 2  # dropout: its noise and its own result

    def _layer(self, i: int) -> Convolution:
        layer = self.layers[i]
        assert isinstance(layer, Convolution)
        return layer


def widths(in_channels: int, hidden_channels: int, out_channels: int, num_layers: int) -> list[tuple[int, int]]:
    """The input and output width of each of ``num_layers`` layers."""
    return list(itertools.pairwise([in_channels, *[hidden_channels] * (num_layers - 1), out_channels]))
