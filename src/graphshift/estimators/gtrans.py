"""``adapt="gtrans"``: features and edges of the graph that is predicted are edited, the model stays as it is.

After Jin et al. (ICLR 2023), *Empowering Graph Representation Learning with Test-Time Graph Transformation* (GTrans):
edits lower a contrastive loss of the hidden states, by turns of features and of edges within a budget.
"""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment
from graphshift.estimators.tuning import mutual_information
from graphshift.graph.graph import Graph
from graphshift.graph.keys import reverse

_ROUNDS, _FEATURE_STEPS = 5, 4
_FEATURE_RATE, _EDGE_RATE = 0.001, 0.1
_BUDGET = 0.05  # of the number of edges
_KEPT = 0.5  # share of edges in the augmented graph


def contrast(hidden: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Mean over nodes of (1 − cos(z_v, ẑ_v)) − (1 − cos(z_v, z̃_v)).

    Args:
        hidden: z, of the graph, ``[nodes, width]``.
        positive: ẑ, of the graph with some edges.
        negative: z̃, of the graph with features of other nodes.
    """
    return (F.cosine_similarity(hidden, negative) - F.cosine_similarity(hidden, positive)).mean()


def projected(change: Tensor, budget: float) -> Tensor:
    """The nearest d with 0 ≤ d ≤ 1 and Σ d ≤ budget: clip(change − μ, 0, 1), μ ≥ 0 by bisection."""
    found = change.clamp(0, 1)
    if float(found.sum()) <= budget:
        return found
    low, high = 0.0, float(change.max())
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float((change - middle).clamp(0, 1).sum()) > budget else (low, middle)
    return (change - high).clamp(0, 1)


class Pairs:
    """The edges of a graph and as many random pairs that are none, each with a change d from 0 to 1 of its weight.

    An edge's weight is multiplied by 1 − d, another pair's is d. Both directions of an undirected edge go together.

    Attributes:
        edges: how many edges there are; an undirected one counts once.
        count: how many changes there are.

    Args:
        graph: without features of edges.
        generator: draws the pairs.
    """

    def __init__(self, graph: Graph, generator: torch.Generator) -> None:
        n, own = graph.num_nodes, graph.keys.cpu()
        drawn = torch.randint(n * n, (own.numel(),), generator=generator)
        drawn = drawn[(drawn // n != drawn % n) & ~torch.isin(drawn, own)].unique()
        if graph.undirected:
            drawn = torch.cat([drawn, reverse(drawn, n)]).unique()
        keys, order = torch.cat([own, drawn]).sort()
        weight = torch.ones(own.numel()) if graph.weight is None else graph.weight.cpu()
        self.weight = torch.cat([weight, torch.zeros(drawn.numel())])[order]
        self.is_edge = order < own.numel()
        one = torch.minimum(keys, reverse(keys, n)) if graph.undirected else keys
        names, self.place = one.unique(return_inverse=True)
        self.edges, self.count = int(self.place[self.is_edge].unique().numel()), names.numel()
        self.wide = Graph.from_keys(n, keys, self.weight, undirected=graph.undirected)
        if graph.blocks is not None:
            raise GraphshiftError("adapt 'gtrans' edits graphs whose nodes are predicted.")

    def graph(self, change: Tensor, kept: Tensor | None = None) -> Graph:
        """With these changes, ``[count]``, and of all pairs those that are kept, ``[count]`` of 0 and 1."""
        d = change[self.place]
        weight = torch.where(self.is_edge, self.weight * (1 - d), d)
        weight = weight if kept is None else weight * kept[self.place]
        return self.wide.weighted(weight, undirected=self.wide.undirected)


def transformed(backbone: Backbone, environment: Environment) -> Environment:
    """The environment after the edits; as it was, with a warning, if predictions then say less about the classes.

    Args:
        backbone: in evaluation mode, on the CPU's environment; its weights stay.
        environment: whose labels are not looked at. Sparse features stay, and edges alone are edited.
    """
    if environment.stored is not None or environment.num_edge_features:
        what = "is predicted piece by piece" if environment.stored is not None else "has features of edges"
        raise GraphshiftError(
            f"environment {environment.name!r} {what}, which adapt 'gtrans' cannot edit: leave it out."
        )
    device, generator = environment.mask.device, torch.Generator().manual_seed(0)
    pairs = Pairs(environment.graph, generator)
    budget, change = _BUDGET * pairs.edges, torch.zeros(pairs.count)
    x = environment.x
    moved = torch.zeros_like(x) if isinstance(x, Tensor) else None

    def loss(moved: Tensor | None, change: Tensor) -> Tensor:
        features = x if moved is None else x + moved  # type: ignore[operator]
        kept = (torch.rand(pairs.count, generator=generator) < _KEPT).float()
        others = torch.randperm(environment.num_nodes, generator=generator).to(device)
        stem, graph = backbone.stem(features), pairs.graph(change).to(device)
        hidden = backbone.represent(stem, graph)[0]
        positive = backbone.represent(stem, pairs.graph(change, kept).to(device))[0]
        return contrast(hidden, positive, backbone.represent(stem[others], graph)[0])

    with torch.enable_grad():
        if moved is not None:
            moved.requires_grad_()
        optimizer = torch.optim.Adam([moved], lr=_FEATURE_RATE) if moved is not None else None
        for _ in range(_ROUNDS):
            for _ in range(_FEATURE_STEPS if optimizer is not None and moved is not None else 0):
                (moved.grad,) = torch.autograd.grad(loss(moved, change), moved)  # type: ignore[union-attr,arg-type]
                optimizer.step()  # type: ignore[union-attr]
            leaf = change.clone().requires_grad_()
            (slope,) = torch.autograd.grad(loss(None if moved is None else moved.detach(), leaf), leaf)
            largest = float(slope.abs().max()) if slope.numel() else 0.0
            change = projected(change - _EDGE_RATE * slope / largest, budget) if largest else change
    found = environment.replace(graph=pairs.graph(change).to(device))
    found = found if moved is None else found.replace(x=x + moved.detach())  # type: ignore[operator]
    if not _information(backbone, found) >= _information(backbone, environment):  # NaN as well
        warnings.warn(
            f"environment {environment.name!r}: the model was left as it is (gtrans): on the edited graph its "
            "predictions say less about the nodes' classes than before.",
            GraphshiftWarning,
            stacklevel=6,
        )
        return environment
    return found


def _information(backbone: Backbone, environment: Environment) -> float:
    with torch.no_grad():
        p = environment.task.probabilities(backbone(environment.x, environment.graph))
    return mutual_information(p[environment.counted.cpu()])
