"""Which part each node is in: METIS where it fits into memory, a streaming partitioner where not."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.core.extras import missing_extra, require_extra

#: How nodes can be divided. ``auto``: METIS if it is installed and fits into memory, else streaming.
Divider: TypeAlias = Literal["auto", "metis", "streaming"]
DIVIDERS = ("auto", "metis", "streaming")

_SLACK = 1.03  # how much larger than the mean a part may be
_PASSES = 6  # over the nodes, of the streaming partitioner
_BLOCKS = 100  # at least so many blocks of nodes
_TABLE, _BLOCK = 2_000_000, 1_000  # nodes of a block times parts at most, unless it has no more nodes than that
#: What METIS holds, in bytes: measured as a rule of thumb over its coarsened graphs.
_METIS_NODE, _METIS_ENTRY = 250, 60


def divide(
    rowptr: NDArray[np.integer],
    col: NDArray[np.integer],
    parts: int,
    *,
    by: Divider = "auto",
    seed: int = 0,
    memory: float | None = None,
    undirected: bool = True,
) -> tuple[NDArray[np.int32], str]:
    """The part of each node, from 0, ``[nodes]``, and how they were found: ``"metis"`` or ``"streaming"``.

    Args:
        rowptr, col: the graph in CSR form; memory-mapped or not.
        parts: how many.
        by: a name from :data:`DIVIDERS`.
        seed: of METIS and of the stream's order.
        memory: bytes that METIS may take; None for any number.
        undirected: whether each entry has its reverse; METIS needs them.
    """
    if by not in DIVIDERS:
        raise GraphshiftError(f"by is {by!r}; expected one of {', '.join(DIVIDERS)}.")
    nodes = len(rowptr) - 1
    if not 1 <= parts <= max(nodes, 1):
        raise GraphshiftError(f"parts is {parts}; expected a number from 1 to {nodes:,}, the nodes of the graph.")
    if parts == 1:
        return np.zeros(nodes, dtype=np.int32), "metis" if by == "metis" else "streaming"
    if by == "auto":
        need = nodes * _METIS_NODE + len(col) * _METIS_ENTRY * (1 if undirected else 2)
        absent = missing_extra("pymetis", "METIS") is not None
        by = "streaming" if absent or (memory is not None and need > memory) else "metis"
    if by == "metis":
        return _metis(rowptr, col, parts, seed, undirected=undirected), by
    return _streamed(rowptr, col, parts, seed), by


def _metis(
    rowptr: NDArray[np.integer], col: NDArray[np.integer], parts: int, seed: int, *, undirected: bool
) -> NDArray[np.int32]:
    require_extra("pymetis", "dividing a graph by METIS")
    import pymetis
    import scipy.sparse

    if not undirected:
        nodes = len(rowptr) - 1
        one = scipy.sparse.csr_array((np.ones(len(col), dtype=np.int8), col, rowptr), shape=(nodes, nodes))
        both = (one + one.T).tocsr()
        rowptr, col = both.indptr, both.indices
    options = pymetis.Options(seed=seed)
    graph = pymetis.CSRAdjacency(np.asarray(rowptr), np.asarray(col))
    _, found = pymetis.part_graph(parts, adjacency=graph, options=options)
    return np.asarray(found, dtype=np.int32)


def _streamed(rowptr: NDArray[np.integer], col: NDArray[np.integer], parts: int, seed: int) -> NDArray[np.int32]:
    """Linear deterministic greedy (Stanton and Kliot, KDD 2012), restreamed (Nishimura and Ugander, KDD 2013).

    A node goes to the part i with the largest |P_i ∩ N(v)| (1 − |P_i| / C), as long as it holds fewer than C nodes. In
    every further pass parts are filled anew, and neighbours that have not come yet are where they were before. We take
    a block of consecutive nodes at a time, blocks in a random order; nodes of a block do not see each other's new
    place. Memory is that of a few numbers for each node, and of one block's entries.
    """
    nodes = len(rowptr) - 1
    place = np.full(nodes, parts, dtype=np.int32)  # nowhere
    most = int(np.ceil(_SLACK * nodes / parts))
    block = min(max(_TABLE // parts, _BLOCK), max(nodes // _BLOCKS, 1))
    generator = np.random.default_rng(seed)
    begins = np.arange(0, nodes, block)
    for _ in range(_PASSES):
        size, before = np.zeros(parts, dtype=np.int64), place.copy()
        for begin in generator.permutation(begins):
            end = min(begin + block, nodes)
            row = np.repeat(np.arange(end - begin), np.diff(rowptr[begin : end + 1]))
            there = place[col[int(rowptr[begin]) : int(rowptr[end])]]
            best, score = _best(row, there, end - begin, 1 - size / most)
            place[begin:end] = _fitting(best, score, most - size)
            size += np.bincount(place[begin:end], minlength=parts)
        if int((place != before).sum()) < nodes // 1000:
            break
    return place


def _best(
    row: NDArray[np.int64], part: NDArray[np.int32], nodes: int, room: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of each node the part with the highest score, the first of equals, and that score.

    Args:
        row, part: of every entry the node and the part of its neighbour; ``len(room)`` where that is nowhere.
        nodes: how many.
        room: the share of each part that is free.

    Returns:
        ``len(room)`` and 0 where no part has a score above 0.
    """
    parts = len(room)
    best, score = np.full(nodes, parts, dtype=np.int64), np.zeros(nodes)
    known = part < parts
    key, count = np.unique(row[known] * parts + part[known], return_counts=True)  # only parts that are met
    at, to = key // parts, key % parts
    value = count * room[to]
    at, to, value = at[value > 0], to[value > 0], value[value > 0]
    if not len(at):
        return best, score
    first = np.flatnonzero(np.diff(at, prepend=-1))
    score[at[first]] = np.maximum.reduceat(value, first)
    highest = np.flatnonzero(value == score[at])[::-1]
    best[at[highest]] = to[highest]  # in reverse, so that the first of equals is written last
    return best, score


def _fitting(wanted: NDArray[np.int64], score: NDArray[np.float64], free: NDArray[np.int64]) -> NDArray[np.int64]:
    """The part of each node: the wanted one, for the highest scores as long as it has room; else where room is.

    Those without a wanted part (its number is that of the parts) fill the room in runs, since nodes with numbers close
    to each other are often neighbours.
    """
    order = np.lexsort((-score, wanted))
    to = wanted[order]
    rank = np.arange(len(to)) - np.searchsorted(to, to)
    found = wanted.copy()
    found[order[rank >= np.append(free, 0)[to]]] = len(free)
    rest = np.flatnonzero(found == len(free))
    left = free - np.bincount(found, minlength=len(free) + 1)[: len(free)]
    # The same share of every part's room, rounded up or down so that it adds up.
    limits = np.floor(np.cumsum(left) * len(rest) / max(int(left.sum()), 1) + 1e-9).astype(np.int64)
    limits[-1] = len(rest)
    found[rest] = np.searchsorted(limits, np.arange(len(rest)), side="right")
    return found
