"""Shifted copies of a labelled graph: what a model shows on them, and how right it is, is seen before a shift comes.

Edges are flipped, edges moved to other classes, columns masked or noised, parts of the graph taken, class shares
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphshift.data.environment import Environment
from graphshift.explorers.random import Random
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse

#: A graph whose edges join other classes, by how strongly (a share) and where to draw from.
Relabelled: TypeAlias = Callable[[Environment, float, np.random.Generator], Graph]

_PARTS = 4
_SHARES = (0.3, 3.0)  # how much rarer or commoner a class becomes


@dataclass(frozen=True)
class Strengths:
    """How strongly copies are shifted.

    Attributes:
        edits: flips for each node, on average.
        relabelled: shares of edges that join other classes.
        masked: shares of the columns.
        noises: in deviations of a column; of dense features alone.
        classes: how many classes become rarer and commoner.
    """

    edits: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    relabelled: tuple[float, ...] = (0.15, 0.3, 0.5, 0.7)
    masked: tuple[float, ...] = (0.1, 0.3, 0.5)
    noises: tuple[float, ...] = (0.25, 0.5, 1.0)
    classes: int | None = None


#: Many, with which an :class:`~graphshift.estimators.explored.Explored` is made once for each model.
FINE = Strengths()


def shifted_copies(
    environment: Environment,
    random: np.random.Generator,
    strengths: Strengths = FINE,
    *,
    relabel: Relabelled | None = None,
    guided: Callable[[], Iterator[Environment]] | None = None,
) -> Iterator[tuple[str, Environment, Tensor]]:
    """Copies of a graph, by kind, each with the nodes of one label that count there.

    Args:
        environment: with labels.
        random: of what is drawn.
        strengths: of the shifts.
        relabel: moves edges to other classes; None for :func:`moved_edges`.
        guided: further copies, such as those that raise a model's risk.
    """
    graph, every = environment.graph, environment.single.cpu()
    yield "none", environment, every
    if environment.num_nodes > 2 and graph.num_edges:
        for edits in strengths.edits:
            yield "edges", environment.replace(graph=_flipped(graph, edits, random)), every
        for copy in guided() if guided is not None else ():
            yield "gradient", copy, every
        for share in strengths.relabelled:
            made = (relabel or moved_edges)(environment, share, random)
            yield "labels", environment.replace(graph=made), every
    x = environment.x
    for share in strengths.masked:
        yield "features", environment.replace(x=_masked(x, share, random)), every
    if isinstance(x, Tensor):
        for noise in strengths.noises:
            added = torch.from_numpy(random.standard_normal(x.shape)).to(x)
            yield "noise", environment.replace(x=x + noise * x.std(dim=0) * added), every
    assert environment.y is not None
    y = environment.y.cpu()[every].numpy()
    degree = graph.degree.cpu()[every].numpy() if graph.num_edges else np.zeros(len(y))
    order = np.argsort(degree + 0.01 * random.random(len(y)))
    for part in np.array_split(order, _PARTS):
        yield "parts", environment, every[torch.from_numpy(np.sort(part))]
    for k in np.unique(y)[: strengths.classes]:
        for raised in _SHARES:
            weight = np.where(y == k, raised, 1.0)
            kept = random.random(len(y)) < weight / weight.max()
            yield "shares", environment, every[torch.from_numpy(kept)]


def _flipped(graph: Graph, edits: float, random: np.random.Generator) -> Graph:
    """So many flips for each node, on average; of some nodes where it is less than one."""
    n = graph.num_nodes
    view = Random(max(1, round(edits)), seed=int(random.integers(2**31))).propose(graph)
    if edits >= 1:
        return view.graph
    keys = view.flips[torch.from_numpy(random.random(view.flips.numel()) < edits)]
    return graph.flip(torch.unique(torch.cat([keys, keys % n * n + keys // n])) if graph.undirected else keys)


def _masked(x: Tensor | Sparse, share: float, random: np.random.Generator) -> Tensor | Sparse:
    """A share of the columns without what they say: nothing in sparse ones, the mean in dense ones."""
    keep = torch.from_numpy(random.random(x.shape[1]) >= share)
    if isinstance(x, Sparse):
        return Sparse(x.pattern, x.value * keep.to(x.value)[x.pattern.col.long()])
    return torch.where(keep.to(x.device), x, x.mean(dim=0))


def moved_edges(environment: Environment, share: float, random: np.random.Generator) -> Graph:
    """A share of the edges between nodes of one class lead to a random node of another class instead."""
    assert environment.y is not None
    graph, n = environment.graph.to(torch.device("cpu")), environment.num_nodes
    known = np.full(n, -1)
    counted = environment.counted.cpu().numpy()
    known[counted] = environment.y.cpu().numpy()[counted]
    keys = graph.keys.numpy()
    row, column = keys // n, keys % n
    alike = (known[row] == known[column]) & (known[row] >= 0) & ((row < column) | (not graph.undirected))
    taken = alike & (random.random(len(keys)) < share)
    to = random.choice(counted, int(taken.sum()))
    other = known[to] != known[row[taken]]  # moved only where the class differs
    flips = np.concatenate([keys[taken][other], row[taken][other] * n + to[other]])
    if graph.undirected:
        flips = np.concatenate([flips, flips % n * n + flips // n])
    values, counts = np.unique(flips, return_counts=True)
    return graph.flip(torch.from_numpy(values[counts % 2 == 1])).to(environment.graph.device)
