"""``adapt="centroids"``: nodes are classified by the training class whose mean hidden state is nearest, in angle."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.graph.graph import Graph

#: How far along edges hidden states may be smoothed; validation chooses.
HOPS = (2, 5)
_TEMPERATURE = 0.1  # of the softmax over cosines; predicted classes and ranks of two classes do not depend on it


def smoothed(hidden: Tensor, graph: Graph, hops: int) -> Tensor:
    """Â^hops h, each row scaled to length 1, ``[nodes, width]``.

    Args:
        hidden: ``[nodes, width]``.
        graph: whose GCN operator is Â.
        hops: how often.
    """
    known = "normalised" in vars(graph)
    for _ in range(hops):
        hidden = graph.normalised @ hidden
    if not known:  # the user's data must not grow by being looked at
        del graph.normalised
    return F.normalize(hidden, dim=1)


def class_centroids(shown: Sequence[tuple[Environment, Tensor]], task: Task, hops: int) -> Tensor:
    """The mean smoothed hidden state of each class, of length 1, ``[classes, width]``; zeros for a class without nodes.

    Args:
        shown: labelled graphs, each with the hidden states of its nodes.
        task: says how many classes there are.
        hops: as in :func:`smoothed`.
    """
    width = shown[0][1].shape[1]
    total = torch.zeros(task.num_classes, width, dtype=torch.float64)
    for environment, hidden in shown:
        found = smoothed(hidden, environment.graph, hops)
        for rows, labels in zip(environment.counted.split(2**16), environment.labels.split(2**16), strict=True):
            total.index_add_(0, labels.cpu(), found[rows].cpu().double())  # a copy of some rows at a time
    return F.normalize(total, dim=1)


def centroid_probabilities(hidden: Tensor, graph: Graph, centroids: Tensor, hops: int) -> Tensor:
    """softmax over classes of the cosine of smoothed hidden state and centroid, by the temperature; on the CPU.

    Args:
        hidden: ``[nodes, width]``.
        graph: of these nodes.
        centroids: ``[classes, width]``; a class whose row is 0 is never predicted.
        hops: as in :func:`smoothed`.
    """
    cosines = smoothed(hidden, graph, hops).cpu().double() @ centroids.t()
    return (cosines / _TEMPERATURE).masked_fill(~centroids.any(dim=1), -torch.inf).softmax(dim=1)
