"""``adapt="neighbours"``: the target's edges are weighted so that nodes of a class see classes as often as in training.

After Hsu et al. (2025), *Structural Alignment Improves Graph Test-Time Adaptation* (TSA): its weighting of neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from graphshift.data.environment import Environment
from graphshift.estimators.tuning import entropy
from graphshift.graph.graph import Graph

_UNSURE = 0.5  # of the largest entropy: a node with more is not used
_BOUND = 10.0  # of a weight, and of its inverse: rates of rare pairs are noise
_AT_ONCE = 2**20  # edges that are looked at together: their classes take more memory than they do


def _pairs(graph: Graph, classes: Tensor) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """Classes of receivers and senders, a piece of the edges at a time, and which edges those are."""
    for receiver, part in graph.pattern.rows_by_piece(_AT_ONCE):
        yield classes[receiver], classes[graph.pattern.col[part].long()], part


def pair_counts(graph: Graph, classes: Tensor, count: int) -> Tensor:
    """How many edges go to a node of class i from one of class j, by weight, ``[classes, classes]``, float64.

    Args:
        graph: the edges.
        classes: of each node, -1 where it is not to count, ``[nodes]``.
        count: how many classes there are.
    """
    weight, total = graph.weight, torch.zeros(count * count, dtype=torch.float64)
    for i, j, part in _pairs(graph, classes):
        both = (i >= 0) & (j >= 0)
        ones = torch.ones(int(both.sum()), dtype=torch.float64) if weight is None else weight[part][both].double().cpu()
        total.index_add_(0, (i[both] * count + j[both]).cpu(), ones)
    return total.view(count, count)


def labelled_counts(environments: Sequence[Environment]) -> Tensor:
    """:func:`pair_counts` of the labelled nodes of several graphs together."""
    total = []
    for e in environments:
        classes = torch.full((e.num_nodes,), -1, device=e.mask.device)
        classes[e.counted] = e.labels
        total.append(pair_counts(e.graph, classes, e.task.num_classes))
    return torch.stack(total).sum(dim=0)


def adjusted_homophily(counts: Tensor) -> float:
    """(h − Σ_c s_c²) / (1 − Σ_c s_c²): the share h of edges inside a class, above what the ends' shares s give.

    1 where all edges are inside classes, about 0 where they do not know them (Platonov et al., NeurIPS 2023); 0
    without edges.

    Args:
        counts: of pairs, ``[classes, classes]``.
    """
    total = float(counts.sum())
    if not total:
        return 0.0
    ends = (counts.sum(dim=0) + counts.sum(dim=1)) / (2 * total)
    expected = float(ends.square().sum())
    return (float(counts.trace()) / total - expected) / max(1 - expected, 1e-12)


def sure_classes(probabilities: Tensor) -> Tensor:
    """The likeliest class of nodes whose entropy is at most half of the largest, -1 for the others, ``[nodes]``."""
    unsure = entropy(probabilities) > _UNSURE * math.log(probabilities.shape[1])
    return probabilities.argmax(dim=1).masked_fill(unsure, -1)


def pair_weights(source: Tensor, target: Tensor) -> Tensor:
    """γ_ij = P_S(neighbour is j | node is i) / P_T(the same); 1 where either has no such pair, ``[classes, classes]``.

    Weighted by γ, the edges to nodes of class i come from the classes as often as in the source.

    Args:
        source, target: :func:`pair_counts`.
    """
    known = (source > 0) & (target > 0)
    rates = [counts / counts.sum(dim=1, keepdim=True).clamp(min=1e-300) for counts in (source, target)]
    return torch.where(known, rates[0] / rates[1].clamp(min=1e-300), 1.0)


def aligned(environment: Environment, probabilities: Tensor, source: Tensor) -> Environment:
    """The environment with weights of its edges, by the classes of sure nodes at their ends; others stay as they are.

    Args:
        environment: the target; its labels are not looked at.
        probabilities: the model's there, ``[nodes, classes]``.
        source: :func:`pair_counts` of training.
    """
    graph, classes = environment.graph, sure_classes(probabilities).to(environment.mask.device)
    gamma = pair_weights(source, pair_counts(graph, classes, probabilities.shape[1]))
    gamma = gamma.clamp(1 / _BOUND, _BOUND).float().to(environment.mask.device)
    factor = torch.empty(graph.num_edges, device=environment.mask.device)
    for i, j, part in _pairs(graph, classes):
        factor[part] = torch.where((i >= 0) & (j >= 0), gamma[i.clamp(min=0), j.clamp(min=0)], 1.0)
    factor = factor if graph.weight is None else factor * graph.weight
    return environment.replace(graph=graph.weighted(factor, undirected=False))
