"""Pairs of graphs in which one block has moved and nothing else, with three strengths."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.temporal import subgraph
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse
from graphshift.shift.comparing.edges import fitted

Array = NDArray[np.float64]

#: What each strength means, by block.
STRENGTHS = {
    "features": (0.1, 0.2, 0.4),  # a quarter of the columns moves by so many deviations
    "structure": (0.2, 0.4, 0.6),  # this share of edges is lost
    "labels": (0.1, 0.25, 0.5),  # this share of nodes has another class
    "edges": (0.1, 0.2, 0.4),  # this share of edges joins random nodes
}
NAMES = ("weak", "middle", "strong")
_CLASSES, _COLUMNS, _DEGREE, _ASSOCIATION = 4, 16, 8.0, 6.0


def made_pair(block: str, strength: float, seed: int, *, nodes: int = 1500) -> tuple[Environment, Environment]:
    """Two graphs of a degree-corrected block model; in the second one block has moved.

    Classes have a mean each in 16 columns of Gaussian noise. Edges between two nodes of one class are 6 times as likely
    as others, whatever the classes' shares: the table of class pairs is fitted to margins that follow these. Degrees
    have a heavy tail and do not depend on the class.
    """
    generator = np.random.default_rng([seed, 11])
    centres = generator.normal(size=(_CLASSES, _COLUMNS)) * 0.6
    even = np.full(_CLASSES, 1 / _CLASSES)
    moved = even.copy()
    if block == "labels":
        moved[0] += strength
        moved[1:] -= strength / (_CLASSES - 1)
    source, target = (
        _made(name, shares, centres, nodes, generator) for name, shares in (("source", even), ("target", moved))
    )
    return source, target if block == "labels" else planted(target, block, strength, generator)


def _made(name: str, shares: Array, centres: Array, nodes: int, generator: np.random.Generator) -> Environment:
    y = generator.choice(_CLASSES, size=nodes, p=shares)
    x = centres[y] + generator.normal(size=(nodes, _COLUMNS))
    weight = generator.lognormal(sigma=0.5, size=nodes)
    table = fitted(1 + (_ASSOCIATION - 1) * np.eye(_CLASSES), np.bincount(y, minlength=_CLASSES) / nodes)
    count = round(_DEGREE * nodes / 2 * 1.02)
    pair = generator.choice(_CLASSES**2, size=count, p=table.ravel() / table.sum())
    ends = np.empty((2, count), dtype=np.int64)
    for one in range(_CLASSES):
        members = np.flatnonzero(y == one)
        chance = weight[members] / weight[members].sum()
        for row, of in ((0, pair // _CLASSES), (1, pair % _CLASSES)):
            ends[row, of == one] = generator.choice(members, size=int((of == one).sum()), p=chance)
    ends = ends[:, ends[0] != ends[1]]
    edge_index = to_undirected(torch.from_numpy(ends), num_nodes=nodes)
    data = Data(x=torch.from_numpy(x).float(), edge_index=edge_index, y=torch.from_numpy(y))
    return Environment(name, data, Task("multiclass", _CLASSES))


def planted(environment: Environment, block: str, strength: float, generator: np.random.Generator) -> Environment:
    """The environment with one block moved; class shares by leaving nodes out."""
    if block == "features":
        return environment.replace(x=_moved_features(environment.x, strength, generator))
    if block == "labels":
        assert environment.y is not None
        y = environment.y.numpy()
        classes = np.unique(y[environment.mask.numpy()])
        fewer = classes[: max(len(classes) // 2, 1)]
        left_out = np.isin(y, fewer) & (generator.random(len(y)) < 4 * strength)
        return subgraph(environment, torch.from_numpy(~left_out), environment.name)
    ends = environment.graph.edge_index.numpy()
    ends = ends[:, ends[0] < ends[1]]
    chosen = generator.random(ends.shape[1]) < strength
    if block == "structure":
        ends = ends[:, ~chosen]
    else:  # both ends of the chosen edges are dealt anew: degrees stay
        stubs = generator.permutation(ends[:, chosen].ravel())
        ends = np.concatenate([ends[:, ~chosen], stubs.reshape(2, -1)], axis=1)
        ends = ends[:, ends[0] != ends[1]]
    graph = Graph.from_edge_index(
        to_undirected(torch.from_numpy(ends), num_nodes=environment.num_nodes), environment.num_nodes
    )
    return environment.replace(graph=graph)


def _moved_features(x: torch.Tensor | Sparse, strength: float, generator: np.random.Generator) -> torch.Tensor | Sparse:
    """A quarter of the columns moves by so many deviations; of sparse ones, words are lost at twice the rate."""
    columns = generator.permutation(x.shape[1])[: max(x.shape[1] // 4, 1)]
    if not isinstance(x, Sparse):
        step = torch.zeros(x.shape[1])
        step[columns] = (
            strength * x.std(dim=0)[columns] * torch.from_numpy(generator.choice([-1.0, 1.0], len(columns))).float()
        )
        return x + step
    hit = np.isin(x.pattern.col.numpy(), columns) & (generator.random(x.value.numel()) < 2 * strength)
    return Sparse(x.pattern, x.value.masked_fill(torch.from_numpy(hit), 0.0))
