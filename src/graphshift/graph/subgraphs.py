"""Parts of a graph as graphs: the entries of some rows, the induced subgraph, sampled neighbours.

The arrays of the whole graph may be memory-mapped: what is read is the entries of the rows that are asked for.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.graph.edge_features import EdgeFeatures
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Pattern, Sparse


def entries_of(rowptr: NDArray[np.integer], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the entries of some rows of a CSR matrix are, row after row, and how many each row has."""
    begin = np.asarray(rowptr[rows], dtype=np.int64)
    count = np.asarray(rowptr[rows + 1], dtype=np.int64) - begin
    return np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(int(count.sum())), count


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """The distinct ones of numbers from 0, increasing. Sorting them is faster than the hashes of ``np.unique``."""
    ordered = np.sort(numbers)
    return ordered[np.diff(ordered, prepend=-1) > 0]


class _Places:
    """Where numbers are among some increasing ones.

    It has a bit for each number that there may be, and for each 64 of them how many come before. A place for each
    number would be filled anew for every batch, and looked up outside of the processor's cache.

    Args:
        numbers: each once, increasing, from 0.
        size: all are below it.
    """

    def __init__(self, numbers: NDArray[np.integer], size: int) -> None:
        words = (size >> 6) + 1
        self.bits, self.before = np.zeros(words, dtype=np.uint64), np.zeros(words, dtype=np.int64)
        if len(numbers):
            word = numbers >> 6
            first = np.flatnonzero(np.diff(word, prepend=-1))
            self.bits[word[first]] = np.bitwise_or.reduceat(_bit(numbers), first)
            self.before[word[first]] = first

    def find(self, wanted: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The place of each, and whether it is there; without meaning where it is not."""
        word, bit = wanted >> 6, _bit(wanted)
        held = self.bits[word]
        return self.before[word] + np.bitwise_count(held & (bit - np.uint64(1))), (held & bit) != 0


def _bit(numbers: NDArray[np.integer]) -> NDArray[np.uint64]:
    return np.uint64(1) << (numbers & 63).astype(np.uint64)


def induced(graph: Graph, rows: NDArray[np.int64]) -> Graph:
    """The graph of some nodes and all entries among them; node i of the result is ``rows[i]``.

    Args:
        graph: on the CPU; its arrays may be memory-mapped.
        rows: each once; increasing, so that sorted columns stay sorted.
    """
    rowptr, col = graph.pattern.rowptr.numpy(), graph.pattern.col.numpy()
    at, count = entries_of(rowptr, rows)
    return _among(graph, rows, at, np.repeat(np.arange(len(rows)), count), col[at])


def receiving(graph: Graph, first: int, last: int, degree: Tensor) -> tuple[NDArray[np.int64], Graph]:
    """The nodes ``first`` … ``last − 1`` and those that they receive from, and the graph of what the former receive.

    A layer's result for these nodes is that of the whole graph: their entries are complete, and degrees are the
    whole's. It is no result for the others.

    Args:
        graph: on the CPU; its arrays may be memory-mapped.
        first, last: a run of nodes.
        degree: of every node of the whole graph.

    Returns:
        The numbers of its nodes in the whole, increasing, and the graph.
    """
    rowptr, col = graph.pattern.rowptr.numpy(), graph.pattern.col.numpy()
    begin, end = int(rowptr[first]), int(rowptr[last])
    senders = np.asarray(col[begin:end])
    nodes = distinct(np.concatenate([senders, np.arange(first, last, dtype=senders.dtype)])).astype(np.int64)
    row = np.repeat(np.searchsorted(nodes, first) + np.arange(last - first), np.diff(rowptr[first : last + 1]))
    at = np.arange(begin, end)
    found = _graph(graph, len(nodes), row, _Places(nodes, graph.num_nodes).find(senders)[0], at, undirected=False)
    found.__dict__["degree"] = degree[torch.from_numpy(nodes)]  # in the place of what a cached property would find
    return nodes, found


def neighbourhood(graph: Graph, rows: NDArray[np.int64], hops: int) -> NDArray[np.int64]:
    """The nodes that are not among ``rows`` and from which these receive within so many hops, increasing."""
    rowptr, col = graph.pattern.rowptr.numpy(), graph.pattern.col.numpy()
    inside, front = rows, rows
    for _ in range(hops):
        front = np.setdiff1d(distinct(col[entries_of(rowptr, front)[0]]).astype(np.int64), inside)
        inside = np.union1d(inside, front)
    return np.setdiff1d(inside, rows)


def sampled(
    graph: Graph, seeds: NDArray[np.int64], fanout: Sequence[int], generator: np.random.Generator
) -> tuple[NDArray[np.int64], Graph]:
    """A neighbour sample (GraphSAGE, Hamilton et al., 2017, Algorithm 2): the nodes, increasing, and their graph.

    Every seed keeps at most ``fanout[0]`` of the nodes that it receives from, drawn without replacement; each of those
    that is new keeps at most ``fanout[1]``, and so on. On an undirected graph a drawn edge is kept in both directions,
    so that the sample is an undirected graph as well.

    Args:
        graph: on the CPU; its arrays may be memory-mapped.
        seeds: nodes, increasing.
        fanout: one number for each hop.
        generator: that draws.
    """
    rowptr, col = graph.pattern.rowptr.numpy(), graph.pattern.col.numpy()
    nodes, front, drawn = seeds, seeds, []
    for most in fanout:
        at, row = _kept(rowptr, front, most, generator)
        senders = np.asarray(col[at])
        drawn.append((front[row], senders.astype(np.int64), at))
        front = distinct(senders[~_Places(nodes, graph.num_nodes).find(senders)[1]]).astype(np.int64)
        nodes = np.sort(np.concatenate([nodes, front]), kind="stable")
    receiver, sender, at = (np.concatenate([part[i] for part in drawn]) for i in range(3))
    places, attributed = _Places(nodes, graph.num_nodes), graph.weight is not None or graph.edge_features is not None
    row, column = places.find(receiver)[0], places.find(sender)[0]
    if graph.undirected:
        key = np.concatenate([row * len(nodes) + column, column * len(nodes) + row])
        if attributed:
            at = np.concatenate([at, _reverse_entries(rowptr, col, receiver, sender, at)])
            key, first = np.unique(key, return_index=True)
            at = at[first]
        else:
            key = distinct(key)
        row, column = np.divmod(key, max(len(nodes), 1))
    else:
        order = np.argsort(row * len(nodes) + column, kind="stable")
        row, column, at = row[order], column[order], at[order]
    return nodes, _graph(graph, len(nodes), row, column, at)


def _kept(
    rowptr: NDArray[np.integer], rows: NDArray[np.int64], most: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the entries are that some rows keep, at most so many of each row, and which of ``rows`` each is of."""
    at, count = entries_of(rowptr, rows)
    row, large = np.repeat(np.arange(len(rows)), count), count > most
    if not large.any():
        return at, row
    kept = ~large[row]
    among = np.flatnonzero(~kept)
    order = among[np.argsort(row[among] + generator.random(len(among)))]  # row after row, each in a random order
    sizes = count[large]
    kept[order[np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes) < most]] = True
    return at[kept], row[kept]


def _reverse_entries(
    rowptr: NDArray[np.integer],
    col: NDArray[np.integer],
    receiver: NDArray[np.int64],
    sender: NDArray[np.int64],
    at: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Where the entry (sender, receiver) is, for each drawn entry (receiver, sender)."""
    there, count = entries_of(rowptr, sender)
    wanted = np.repeat(receiver, count)
    found = np.flatnonzero(col[there] == wanted)
    return there[found]


def _among(
    graph: Graph, rows: NDArray[np.int64], at: NDArray[np.int64], row: NDArray[np.int64], col: NDArray[np.integer]
) -> Graph:
    """The entries whose columns are among the rows."""
    column, there = _Places(rows, graph.num_nodes).find(col)
    kept = np.flatnonzero(there)
    return _graph(graph, len(rows), row[kept], column[kept], at[kept])


def _graph(
    graph: Graph,
    nodes: int,
    row: NDArray[np.int64],
    column: NDArray[np.integer],
    at: NDArray[np.int64],
    *,
    undirected: bool | None = None,
) -> Graph:
    """The graph of entries sorted by row; ``at`` is where they are in the whole graph, for weights and features."""
    rowptr = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=nodes), out=rowptr[1:])
    pattern = Pattern(torch.from_numpy(rowptr), torch.from_numpy(np.ascontiguousarray(column)), (nodes, nodes))
    weight, features = graph.weight, graph.edge_features
    chosen = None if weight is None and features is None else torch.from_numpy(at)
    return Graph(
        pattern,
        None if weight is None or chosen is None else weight[chosen],
        undirected=graph.undirected if undirected is None else undirected,
        edge_features=None
        if features is None or chosen is None
        else EdgeFeatures.of(features.values[features.index[chosen]], features.fill),
    )


def rows_of(matrix: Sparse, rows: NDArray[np.int64]) -> Sparse:
    """Some rows of a sparse matrix."""
    pattern = matrix.pattern
    at, count = entries_of(pattern.rowptr.numpy(), rows)
    rowptr = np.concatenate([[0], np.cumsum(count)])
    chosen = torch.from_numpy(at)
    shape = (len(rows), matrix.shape[1])
    return Sparse(Pattern(torch.from_numpy(rowptr), pattern.col[chosen], shape), matrix.value[chosen])
