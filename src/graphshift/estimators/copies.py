"""Shifted copies of a labelled graph: what a model shows on them, and how right it is, is seen before a shift comes.

Edges are flipped, edges moved from a node of the same class to one of another, columns masked or noised, parts of the
graph taken, class shares changed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from graphshift.data.environment import Environment
from graphshift.explorers.random import Random
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse

_EDITS = (0.25, 0.5, 1.0, 2.0)  # flips for each node, on average
_REWIRED = (0.15, 0.3, 0.5, 0.7)  # shares of the edges within a class that are moved to another
_NOISES = (0.25, 0.5, 1.0)  # in deviations of a column
_MASKED = (0.1, 0.3, 0.5)  # shares of the columns
_PARTS = 4


def shifted_copies(
    environment: Environment, random: np.random.Generator
) -> Iterator[tuple[str, Environment, Tensor | None]]:
    """Copies of a graph, by kind; with the nodes that count there if not all do."""
    n, graph = environment.num_nodes, environment.graph
    yield "none", environment, None
    if n > 2 and graph.num_edges:
        for edits in _EDITS:
            view = Random(max(1, round(edits)), seed=int(random.integers(2**31))).propose(graph)
            if edits < 1:  # of some nodes
                assert view.actions is not None
                keys = view.flips[torch.from_numpy(random.random(view.flips.numel()) < edits)]
                keys = torch.unique(torch.cat([keys, keys % n * n + keys // n])) if graph.undirected else keys
                yield "edges", environment.replace(graph=graph.flip(keys)), None
            else:
                yield "edges", environment.replace(graph=view.graph), None
        for share in _REWIRED:
            yield "labels", environment.replace(graph=moved_edges(environment, share, random)), None
    x = environment.x
    if isinstance(x, Sparse):
        for share in _MASKED:
            keep = torch.from_numpy(random.random(x.shape[1]) >= share).to(x.value)
            yield "features", environment.replace(x=Sparse(x.pattern, x.value * keep[x.pattern.col.long()])), None
    else:
        for share in _MASKED:
            keep = torch.from_numpy(random.random(x.shape[1]) >= share).to(x)
            yield "features", environment.replace(x=x * keep + x.mean(dim=0) * (1 - keep)), None
        for noise in _NOISES:
            added = torch.from_numpy(random.standard_normal(x.shape)).to(x)
            yield "noise", environment.replace(x=x + noise * x.std(dim=0) * added), None
    single = environment.single.cpu()
    assert environment.y is not None
    y = environment.y.cpu()[single].numpy()
    degree = graph.degree.cpu()[single].numpy() if graph.num_edges else np.zeros(len(y))
    order = np.argsort(degree + 0.01 * random.random(len(y)))
    for part in np.array_split(order, _PARTS):
        yield "parts", environment, single[torch.from_numpy(np.sort(part))]
    for k in np.unique(y):  # other class shares: class k half as common, and twice
        for raised in (0.3, 3.0):
            weight = np.where(y == k, raised, 1.0)
            kept = random.random(len(y)) < weight / weight.max()
            yield "shares", environment, single[torch.from_numpy(kept)]


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
