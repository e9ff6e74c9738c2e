"""The backbone interface: ``stem`` needs no edges and runs once for all views; ``propagate`` needs them."""

import copy
import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from graphshift.backbones.memory import Needs
from graphshift.core.arguments import check_types
from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import Registry
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse

#: Width and depth of a backbone that is made by hand; an estimator hands over its own, with the same defaults.
WIDTH, DEPTH = 32, 2


#: One step of :meth:`Backbone.hops`: the nodes' states ``[nodes, any]`` and their graph give the next states.
Hop: TypeAlias = Callable[[Tensor, Graph], Tensor]


class Backbone(nn.Module):
    """A GNN in two parts: ``forward(x, graph) = propagate(stem(x), graph)``.

    All take ``in_channels, out_channels, hidden_channels, num_layers, dropout``, and options of their own, by keyword.
    """

    #: Whether its output depends on edges.
    uses_edges: bool = True
    #: Whether it uses the edges' features, where they have some; then it takes ``edge_channels`` by keyword.
    uses_edge_features: bool = False
    #: Compute some layers again in the backward pass instead of keeping them. Set by EERM's low-memory mode.
    save_memory = False
    #: Whether the graph that is passed in training is an unlabelled target. Set by :meth:`Method.represented`.
    at_target = False

    @abstractmethod
    def stem(self, x: Tensor | Sparse) -> Tensor:
        """The part without edges. Args: x: ``[nodes, in_channels]``, dense or sparse."""

    @abstractmethod
    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """The part with edges: from the stem's ``[nodes, any]`` to ``[nodes, out_channels]``."""

    def represent(self, h: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """What the last layer is given for every node, ``[nodes, any]``, and the output that :meth:`propagate` gives.

        Methods that align representations use it. Where no such layer is known, the output is both.
        """
        output = self.propagate(h, graph)
        return output, output

    def hops(self) -> Sequence[Hop] | None:
        """:meth:`propagate` as a chain of steps, each of which looks one edge far; None where it is not known as one.

        ``for hop in hops(): h = hop(h, graph)`` takes the stem's result to the output. What a step gives for a node
        depends on the states of this node and of those that it receives from alone, and on ``graph.degree``. Graphs
        that do not fit into memory are predicted by it (:mod:`graphshift.backbones.in_chunks`).
        """
        return None

    def forward(self, x: Tensor | Sparse, graph: Graph) -> Tensor:
        """The output for every node, ``[nodes, out_channels]``."""
        return self.propagate(self.stem(x), graph)

    def memory(self, *, save_memory: bool = False, edge_gradient: bool = False) -> Needs:
        """What it holds in memory while it works; by default a generous rule of thumb.

        Args:
            save_memory: as the attribute :attr:`save_memory` will be in the fit.
            edge_gradient: the gradient with respect to edge weights is asked for.
        """
        # Every matrix stands for a layer that gathers its output along edges and keeps it, as PyG's do.
        wide = 4 * sum(max(p.shape) for p in self.parameters() if p.dim() > 1)
        each = {"kept_entries": 2 * wide, "busy_entries": wide, "looking_entries": wide}
        return Needs("edge_index", 0, 0, kept=wide, busy=wide, looking=wide, **each)


#: Every backbone by name.
BACKBONES: Registry[type[Backbone]] = Registry("backbone", "graphshift.backbones")


class Linear(nn.Linear):
    """``torch.nn.Linear`` that also takes sparse features, at the cost of their non-zeros. Glorot, as in GNN papers."""

    def reset_parameters(self) -> None:
        """Glorot-uniform weights and zero bias."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor | Sparse) -> Tensor:
        """``x @ weight.T + bias``."""
        if isinstance(x, Tensor):
            return super().forward(x)
        h = x @ self.weight.t()
        return h if self.bias is None else h + self.bias


def initialise(backbone: nn.Module, init: str) -> None:
    """The first weights of all linear layers: Glorot's, or torch's own, uniform within ±1/√inputs, biases too.

    Args:
        backbone: whose layers.
        init: ``"glorot"``, which they have already, or ``"uniform"``.
    """
    if init not in ("glorot", "uniform"):
        raise GraphshiftError(f"init is {init!r}; expected 'glorot' or 'uniform'.")
    for layer in backbone.modules() if init == "uniform" else ():
        if isinstance(layer, nn.Linear):
            nn.Linear.reset_parameters(layer)


class ModuleBackbone(Backbone):
    """A user's own ``torch.nn.Module`` with ``forward(x, edge_index)``, optionally ``edge_weight`` and ``edge_attr``.

    One that takes ``batch``, the number of each node's graph, predicts whole graphs: it does the readout itself.

    Nothing is known about its inside, so nothing is shared between views: it is all ``propagate``, and its memory is
    estimated by the rule of thumb.

    Args:
        module: the network.
        out_channels: what it must give for a node, or for a graph; None if somebody else looks.
    """

    def __init__(self, module: nn.Module, out_channels: int | None) -> None:
        super().__init__()
        self.module, self.out_channels = module, out_channels
        taken = inspect.signature(module.forward).parameters
        self.takes_weight, self.uses_edge_features = "edge_weight" in taken, "edge_attr" in taken
        self.takes_batch = "batch" in taken and taken["batch"].default is inspect.Parameter.empty

    def stem(self, x: Tensor | Sparse) -> Tensor:
        """The features as they are; sparse ones become dense."""
        return x.to_dense() if isinstance(x, Sparse) else x

    def propagate(self, h: Tensor, graph: Graph) -> Tensor:
        """The user's module."""
        given: dict[str, Tensor] = {}
        if graph.weight is not None and self.takes_weight:
            given["edge_weight"] = graph.weight
        if graph.edge_attr is not None and self.uses_edge_features:
            given["edge_attr"] = graph.edge_attr
        rows = graph.num_nodes
        if self.takes_batch:
            if graph.blocks is None:
                who = type(self.module).__name__
                raise GraphshiftError(
                    f"backbone {who}: forward takes `batch`, and here nodes are predicted, not graphs."
                )
            given["batch"], rows = graph.blocks.batch, graph.blocks.count
        output: Tensor = self.module(h, graph.edge_index, **given)
        output = output.unsqueeze(1) if output.dim() == 1 else output
        if self.out_channels is not None and output.shape != (rows, self.out_channels):
            raise GraphshiftError(
                f"backbone {type(self.module).__name__}: the output has shape {list(output.shape)}; the task needs "
                f"[{rows}, {self.out_channels}] (one logit for binary, one for each class, one value)."
            )
        return output


def zeros(*shape: int) -> nn.Parameter:
    """A bias."""
    return nn.Parameter(torch.zeros(*shape))


@contextmanager
def computed_once(backbone: Backbone) -> Iterator[None]:
    """Turns :attr:`Backbone.save_memory` off: a forward pass that is watched must not be repeated."""
    before, backbone.save_memory = backbone.save_memory, False
    try:
        yield
    finally:
        backbone.save_memory = before


def make_backbone(
    backbone: str | nn.Module,
    in_channels: int,
    out_channels: int,
    *,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    options: dict[str, Any] | None = None,
    edge_channels: int = 0,
) -> Backbone:
    """A new backbone by name, or a copy of the user's own module.

    >>> type(make_backbone("gat", 5, 2, hidden_channels=8, num_layers=2, dropout=0.0, options={"heads": 2})).__name__
    'GAT'

    Args:
        backbone: a name from :data:`BACKBONES`, a :class:`Backbone`, or any module with ``forward(x, edge_index)``.
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width; a module of the user's own has its own.
        num_layers: depth; likewise.
        dropout: likewise.
        options: options of the named backbone, such as ``{"heads": 2}``.
        edge_channels: features of an edge; backbones that do not use them are not told.
    """
    if isinstance(backbone, nn.Module):
        if options:
            raise GraphshiftError(f"backbone_options {options} are for named backbones; your own module has its own.")
        module = copy.deepcopy(backbone)
        return module if isinstance(module, Backbone) else ModuleBackbone(module, out_channels)
    make = BACKBONES.find(backbone)
    check_types(f"backbone {backbone!r}", make, options or {})
    try:
        sizes: dict[str, Any] = {"hidden_channels": hidden_channels, "num_layers": num_layers, "dropout": dropout}
        sizes |= {"edge_channels": edge_channels} if edge_channels and make.uses_edge_features else {}
        return make(in_channels, out_channels, **{**sizes, **(options or {})})
    except (TypeError, ArithmeticError, RuntimeError) as error:
        if not options:
            raise
        raise GraphshiftError(f"backbone {backbone!r}: backbone_options {options} do not fit: {error}.") from None
