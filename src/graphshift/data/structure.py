"""Columns that describe where a node stands in its graph; edge weights are not used."""

import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from graphshift.core.errors import GraphshiftWarning
from graphshift.graph.graph import Graph

_KINDS = ("log degree", "core number", "clustering", "log PageRank")

#: The names of the columns of :func:`structural_columns`, in order: four values, then their ranks inside the graph.
STRUCTURAL_NAMES = (*_KINDS, *(f"{kind} rank" for kind in _KINDS))

#: Clustering is exact up to so many paths of two edges (a few seconds), and estimated from pairs above.
MOST_PATHS = 100_000_000
_PAIRS, _SEED = 32, 0  # of the estimate: pairs of neighbours drawn for each node
_BLOCK = 4_000_000  # paths that are held at once
_DAMPING, _TOLERANCE, _ROUNDS = 0.85, 1e-9, 200  # of PageRank


def structural_columns(graph: Graph) -> Tensor:
    """Describes each node by its place in the graph, in time linear in the edges for graphs of bounded degree.

    The columns are, in the order of :data:`STRUCTURAL_NAMES`: log(1 + number of neighbours); the core number; the
    clustering coefficient (0 below two neighbours); log(nodes × PageRank), so 0 on average whatever the size; then the
    rank of each of the four inside the graph, in (0, 1), equal values sharing their mean rank. PageRank (damping 0.85)
    follows the direction of the edges, the others ignore it. Of many small graphs, each is described for itself.

    Clustering is exact unless the graph has very many paths of two edges. Then it is estimated from 32 pairs of
    neighbours a node, drawn with seed 0, and a :class:`~graphshift.core.errors.GraphshiftWarning` says so.

    Args:
        graph: of any size; it may have no edge.

    Returns:
        ``[nodes, 8]``, float32, on the CPU.
    """
    directed = _matrix(graph)
    both = undirected_matrix(graph)
    batch = None if graph.blocks is None else graph.blocks.batch.cpu().numpy()
    values = [
        np.log1p(np.diff(both.indptr)),
        core_numbers(both),
        clustering(both),
        # Rounding makes equal what only the order of additions tells apart, for the ranks.
        np.log(graph.num_nodes * pagerank(directed, batch=batch)).round(7),
    ]
    table = np.stack([*values, *(ranks(value, batch) for value in values)], axis=1)
    return torch.from_numpy(table.astype(np.float32))


def undirected_matrix(graph: Graph) -> scipy.sparse.csr_array:
    """The adjacency matrix of ones, both ways, as :func:`core_numbers` and :func:`clustering` take it."""
    directed = _matrix(graph)
    return directed if graph.undirected else _simple(directed + directed.T)


def ranks(values: NDArray[np.float64], batch: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """The place of each value among all of them, in (0, 1); equal values share their mean rank, and NaN stays NaN.

    With ``batch``, the number of each one's graph: among those of the same graph.
    """
    if batch is not None:
        own = pd.Series(values).groupby(batch)
        return np.asarray((own.rank() - 0.5) / own.transform("count"))
    known = ~np.isnan(values)
    result = np.full(values.shape, np.nan)
    result[known] = (rankdata(values[known]) - 0.5) / max(int(known.sum()), 1)
    return result


def core_numbers(matrix: scipy.sparse.csr_array) -> NDArray[np.float64]:
    """The largest k such that a node is in a part of the graph where all have at least k neighbours.

    ``matrix`` is the adjacency matrix of an undirected graph. Nodes are peeled off in rounds, each edge is seen once.
    """
    degree = np.diff(matrix.indptr).astype(np.int64)
    core = np.zeros(len(degree), dtype=np.int64)
    left = np.arange(len(degree))
    gone = np.zeros(len(degree), dtype=bool)
    k = 0
    while len(left):
        k = max(k, int(degree[left].min()))
        peeled = left[degree[left] <= k]
        while len(peeled):
            core[peeled] = k
            gone[peeled] = True
            touched, times = np.unique(_neighbours(matrix, peeled), return_counts=True)
            touched, times = touched[~gone[touched]], times[~gone[touched]]
            degree[touched] -= times
            peeled = touched[degree[touched] <= k]
        left = left[~gone[left]]
    return core.astype(np.float64)


def clustering(matrix: scipy.sparse.csr_array) -> NDArray[np.float64]:
    """The share of the pairs of a node's neighbours that are neighbours; 0 below two neighbours.

    ``matrix`` is the adjacency matrix of an undirected graph.
    """
    degree = np.diff(matrix.indptr).astype(np.float64)
    pairs = degree * (degree - 1) / 2
    upper = _oriented(matrix)
    leaving = np.diff(upper.indptr).astype(np.int64)
    if int(np.square(leaving).sum() + leaving[upper.indices].sum()) > MOST_PATHS:
        warnings.warn(
            f"clustering coefficients are estimated from {_PAIRS} pairs of neighbours a node (seed {_SEED}): the graph "
            f"has over {MOST_PATHS:,} paths of two edges.",
            GraphshiftWarning,
            stacklevel=3,
        )
        return _sampled_clustering(matrix)
    return np.divide(_triangles(upper), pairs, out=np.zeros_like(degree), where=pairs > 0)


def _oriented(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Each edge once, from the end with fewer neighbours: that bounds the number of paths, hubs or not."""
    degree = np.diff(matrix.indptr)
    order = np.lexsort((np.arange(len(degree)), degree))
    place = np.empty(len(degree), dtype=np.int64)
    place[order] = np.arange(len(degree))
    row = np.repeat(np.arange(len(degree)), degree)
    up = place[row] < place[matrix.indices]
    ones = np.ones(int(up.sum()), dtype=np.int32)
    rowptr = np.concatenate([[0], np.cumsum(np.bincount(row[up], minlength=len(degree)))])
    return scipy.sparse.csr_array((ones, matrix.indices[up], rowptr), shape=matrix.shape)


def _triangles(upper: scipy.sparse.csr_array) -> NDArray[np.float64]:
    """How many triangles each node is in; each is a → b → c with a → c once."""
    count = np.zeros(upper.shape[0])
    for start, closed in _closed(upper, upper, upper):  # at (a, c): how many b
        count[start : start + closed.shape[0]] += closed.sum(axis=1)
    for start, closed in _closed(upper.T.tocsr(), upper, upper):  # at (b, c): how many a
        count[start : start + closed.shape[0]] += closed.sum(axis=1)
        count += closed.sum(axis=0)
    return count


def _closed(
    left: scipy.sparse.csr_array, right: scipy.sparse.csr_array, mask: scipy.sparse.csr_array
) -> Iterator[tuple[int, scipy.sparse.csr_array]]:
    """Blocks of rows of ``(left @ right) * mask``, each with its first row, so that little is held at once."""
    before = np.concatenate([[0], np.cumsum(np.diff(right.indptr)[left.indices], dtype=np.int64)])[left.indptr]
    start = 0
    while start < left.shape[0]:
        end = max(int(np.searchsorted(before, before[start] + _BLOCK, side="right")) - 1, start + 1)
        yield start, (left[start:end] @ right).multiply(mask[start:end])
        start = end


def _sampled_clustering(matrix: scipy.sparse.csr_array) -> NDArray[np.float64]:
    generator = np.random.default_rng(_SEED)
    degree = np.diff(matrix.indptr).astype(np.int64)
    result = np.zeros(len(degree))
    enough = np.flatnonzero(degree > 1)
    for nodes in np.array_split(enough, max(1, len(enough) * _PAIRS // _BLOCK)):
        first = generator.integers(degree[nodes][:, None], size=(len(nodes), _PAIRS))
        second = generator.integers(degree[nodes][:, None] - 1, size=(len(nodes), _PAIRS))
        second += second >= first
        begin = matrix.indptr[nodes][:, None].astype(np.int64)
        one, other = (matrix.indices[begin + drawn].ravel() for drawn in (first, second))
        # Looking in the shorter of two lists is faster.
        one, other = np.where(degree[one] < degree[other], (one, other), (other, one))
        result[nodes] = np.asarray(matrix[one, other]).reshape(first.shape).mean(axis=1)
    return result


def pagerank(
    matrix: scipy.sparse.csr_array, home: int | None = None, *, batch: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """PageRank by power iteration; an entry (n, m) is an edge from m to n.

    ``home`` is the node that all jumps lead to (personalised PageRank: how near to it a node is). None: all nodes.
    With ``batch``, the number of each node's graph, none leaves its graph, and each graph has its share of the nodes.
    """
    nodes = matrix.shape[0]
    leaving = np.bincount(matrix.indices, minlength=nodes).astype(np.float64)
    share = np.divide(1.0, leaving, out=np.zeros(nodes), where=leaving > 0)
    jump = np.full(nodes, 1 / nodes)
    if home is not None:
        jump = np.zeros(nodes)
        jump[home] = 1.0
    score = jump
    ends, among = leaving == 0, jump if batch is None else 1 / np.bincount(batch)[batch]
    for _ in range(_ROUNDS):  # what nodes without a way out have goes where jumps lead
        stuck = score[ends].sum() if batch is None else np.bincount(batch, weights=score * ends)[batch]
        following = _DAMPING * (matrix @ (score * share) + stuck * among) + (1 - _DAMPING) * jump
        change = np.abs(following - score).sum()
        score = following
        if change < _TOLERANCE:
            break
    return score


def _neighbours(matrix: scipy.sparse.csr_array, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The neighbours of some nodes, one after the other."""
    length = matrix.indptr[nodes + 1] - matrix.indptr[nodes]
    offset = np.repeat(matrix.indptr[nodes] - np.concatenate([[0], np.cumsum(length)[:-1]]), length)
    return np.asarray(matrix.indices[offset + np.arange(len(offset))])


def _matrix(graph: Graph) -> scipy.sparse.csr_array:
    pattern = graph.pattern
    rowptr, col = pattern.rowptr.cpu().numpy(), pattern.col.cpu().numpy()
    return _simple(scipy.sparse.csr_array((np.ones(len(col)), col, rowptr), shape=pattern.shape))


def _simple(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Ones in the order of the columns; a copy, because the graph's own arrays may be in another order."""
    matrix = matrix.sorted_indices()
    matrix.data[:] = 1
    return matrix
