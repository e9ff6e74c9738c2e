"""A graph with other edges between its classes, or with other features: what copies are made of."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.data.environment import Environment
from graphshift.data.remarks import check_squares
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse

Array = NDArray[np.float64]

_SCALED = (0.1, 10.0)  # by what the deviation of a column may be multiplied
_FULL = 0.95  # nodes with an entry in a column that counts as a dense one


def class_pairs(graph: Graph, classes: NDArray[np.int64], count: int) -> Array:
    """How many edges join nodes of two classes, both directions, ``[classes, classes]``; class −1 is none."""
    row, column = (end.cpu().numpy() for end in graph.edge_index)
    known = (classes[row] >= 0) & (classes[column] >= 0)
    cell = classes[row[known]] * count + classes[column[known]]
    return np.bincount(cell, minlength=count**2).reshape(count, count).astype(np.float64)


def rewired(
    graph: Graph, classes: NDArray[np.int64], wanted: Array, random: np.random.Generator, denser: float = 1.0
) -> Graph:
    """The graph with other shares of edges between nodes of two classes.

    Where there are too many, edges are left out at random. Where there are too few, edges are added between nodes of
    the two classes, drawn by their degree; a pair that is joined already stays one edge.

    Args:
        graph: undirected edges keep both directions.
        classes: of every node; edges at a node without one (−1) stay.
        wanted: shares, symmetric, ``[classes, classes]``.
        random: of what is drawn.
        denser: by what the number of edges is multiplied.
    """
    n, count, both = graph.num_nodes, len(wanted), graph.undirected
    home = graph.to(torch.device("cpu"))
    keys = home.keys.numpy()
    row, column = keys // n, keys % n
    own = (classes[row] >= 0) & (classes[column] >= 0) & ((row < column) | (not both))
    row, column = row[own], column[own]
    first, second = classes[row], classes[column]
    if both:  # two classes are one cell, in whatever order
        first, second = np.minimum(first, second), np.maximum(first, second)
        wanted = np.triu(wanted + wanted.T, 1) + np.diag(np.diag(wanted))
    order = random.permutation(len(row))
    row, column, cell = row[order], column[order], (first * count + second)[order]
    goal = np.round(wanted.ravel() / wanted.sum() * len(row) * denser).astype(np.int64)
    size = np.bincount(cell, minlength=count**2)
    order = np.argsort(cell, kind="stable")
    place = np.empty(len(row), dtype=np.int64)  # of each edge in its cell
    place[order] = np.arange(len(row)) - (np.cumsum(size) - size)[cell[order]]
    gone = place >= goal[cell]
    weight = home.degree.numpy().astype(np.float64) + 1e-3
    added = [np.empty((2, 0), dtype=np.int64)]
    for one in np.flatnonzero(goal > size):
        ends = [_drawn(np.flatnonzero(classes == c), weight, goal[one] - size[one], random) for c in divmod(one, count)]
        added.append(np.stack(ends))
    fresh = np.setdiff1d(_keys(np.concatenate(added, axis=1), n, both), keys)
    flips = np.union1d(_keys(np.stack([row[gone], column[gone]]), n, both), fresh)
    return graph if not len(flips) else home.flip(torch.from_numpy(flips)).to(graph.device)


def _drawn(members: NDArray[np.int64], weight: Array, number: int, random: np.random.Generator) -> NDArray[np.int64]:
    chance = weight[members]
    return np.asarray(random.choice(members, number, p=chance / chance.sum()))


def _keys(ends: NDArray[np.int64], n: int, both: bool) -> NDArray[np.int64]:
    ends = ends[:, ends[0] != ends[1]]
    keys = ends[0] * n + ends[1]
    return np.unique(np.concatenate([keys, ends[1] * n + ends[0]]) if both else keys)


def stored_as(environment: Environment, other: Environment) -> Environment:
    """The environment with features stored as another one's: what comes over HTTP is dense, whatever training had."""
    x, sparse = environment.x, isinstance(other.x, Sparse)
    if isinstance(x, Sparse) == sparse:
        return environment
    return environment.replace(x=x.to_dense() if isinstance(x, Sparse) else Sparse.from_torch(x.to_sparse_csr()))


def moved_features(environment: Environment, target: Environment, random: np.random.Generator) -> Environment:
    """The environment with the target's mean and deviation of every column.

    Nodes that count are moved to the target's that count, the others to the others, if it has some: in a graph that
    grows these are the nodes of before. Of sparse features entries are left out at random, where a column has more of
    them than the target's; none are added, for nobody knows where. Columns that are full in both are not sparse, in
    whatever way they are stored.
    """
    check_squares([environment, target])
    x, other = environment.x, stored_as(target, environment).x
    here, there = environment.mask.cpu(), target.mask.cpu()
    rest = there if bool(there.all()) else ~there
    for rows, wanted in ((here, there), (~here, rest)):
        if min(int(rows.sum()), int(wanted.sum())) < 2:
            continue
        if isinstance(x, Sparse) and isinstance(other, Sparse):
            x = _thinned(x, rows.numpy(), _rates(other, wanted.numpy()), random)
            x = _scaled_full(x, rows.numpy(), other, wanted.numpy())
        elif not isinstance(x, Sparse) and not isinstance(other, Sparse):
            x = _scaled(x, rows.to(x.device), other[wanted.to(other.device)].to(x))
    return environment.replace(x=x)


def _thinned(x: Sparse, rows: NDArray[np.bool_], wanted: Array, random: np.random.Generator) -> Sparse:
    """Some rows with fewer entries in columns that have more than a share ``wanted`` there."""
    keep = np.minimum(wanted / np.maximum(_rates(x, rows), 1e-12), 1.0)
    row, column = x.pattern.row.cpu().numpy(), x.pattern.col.cpu().numpy()
    kept = ~rows[row] | (random.random(len(column)) < keep[column])
    return Sparse(x.pattern, x.value * torch.from_numpy(kept).to(x.value))


def _scaled(x: Tensor, rows: Tensor, wanted: Tensor) -> Tensor:
    """Some rows with the mean and deviation of other ones."""
    own = x[rows]
    deviation = own.std(dim=0)
    scale = (wanted.std(dim=0) / deviation.clamp(min=1e-9)).clamp(*_SCALED)
    moved = (own - own.mean(dim=0)) * torch.where(deviation > 1e-9, scale, 1.0) + wanted.mean(dim=0)
    return x.index_put((rows.nonzero().squeeze(1),), moved)


def _scaled_full(x: Sparse, rows: NDArray[np.bool_], other: Sparse, wanted: NDArray[np.bool_]) -> Sparse:
    """Columns in which nearly all nodes have an entry with the mean and deviation of the other's."""
    full = np.minimum(_rates(x, rows), _rates(other, wanted)) >= _FULL
    own, goal = _moments(x, rows), _moments(other, wanted)
    scale = np.where(own[1] > 1e-9, (goal[1] / np.maximum(own[1], 1e-9)).clip(*_SCALED), 1.0)
    value, column = x.value.cpu().numpy().astype(np.float64), x.pattern.col.cpu().numpy()
    moved = (value - own[0][column]) * scale[column] + goal[0][column]
    found = np.where((value != 0) & rows[x.pattern.row.cpu().numpy()] & full[column], moved, value)
    return Sparse(x.pattern, torch.from_numpy(found).to(x.value))


def _moments(x: Sparse, rows: NDArray[np.bool_]) -> Array:
    """Of each column the mean of the entries in some rows, and their deviation, ``[2, columns]``."""
    value, column = x.value.cpu().numpy().astype(np.float64), x.pattern.col.cpu().numpy()
    there = (value != 0) & rows[x.pattern.row.cpu().numpy()]
    value, column = value[there], column[there]
    number = np.maximum(np.bincount(column, minlength=x.shape[1]), 1)
    mean = np.bincount(column, value, x.shape[1]) / number
    square = np.bincount(column, np.square(value - mean[column]), x.shape[1]) / number
    return np.stack([mean, np.sqrt(square)])


def _rates(x: Sparse, rows: NDArray[np.bool_]) -> Array:
    """Of each column the share of some rows that have an entry."""
    there = (x.value.cpu().numpy() != 0) & rows[x.pattern.row.cpu().numpy()]
    return np.bincount(x.pattern.col.cpu().numpy()[there], minlength=x.shape[1]) / max(int(rows.sum()), 1)
