"""Communities: a graph cut into parts with few edges between them, in time linear in the edges."""

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from graphshift.data.structure import undirected_matrix
from graphshift.graph.graph import Graph

_ROUNDS = 4  # of label propagation at each level
_ENOUGH = 0.95  # a level that leaves more groups than this share of them ends the propagation


def communities(graph: Graph, parts: int, *, seed: int = 0) -> NDArray[np.int64]:
    """The community of each node, numbered from 0: about ``parts`` of them, none much larger than the others.

    Label propagation in which a group may not outgrow its share (Meyerhenke et al., 2014): every node joins the group
    to which most of its edges go, the groups become the nodes of a smaller graph, and so on. Groups that nothing joins
    any more, such as small components, are put together at random. Weights are not used.

    Args:
        graph: of any size; it may have no edge.
        parts: how many are wanted; fewer if there are fewer nodes.
        seed: of the order in which nodes choose.

    Returns:
        ``[nodes]``, int64.
    """
    generator = np.random.default_rng(seed)
    nodes = graph.num_nodes
    parts = max(min(parts, nodes), 1)
    most = max(int(np.ceil(nodes / parts)), 1)
    matrix, size = undirected_matrix(graph), np.ones(nodes, dtype=np.int64)
    place = np.arange(nodes)
    while matrix.shape[0] > parts and matrix.nnz:
        label = _propagated(matrix, size, most, generator)
        found, label = np.unique(label, return_inverse=True)
        if len(found) > _ENOUGH * matrix.shape[0]:
            break
        place = label[place]
        size = np.bincount(label, weights=size).astype(np.int64)
        matrix = _contracted(matrix, label, len(found))
    return _packed(size, most, parts, generator)[place]


def _propagated(
    matrix: scipy.sparse.csr_array, size: NDArray[np.int64], most: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """One level: the group of each node; a group's size stays at ``most``, or at that of one node."""
    count = matrix.shape[0]
    label, held = np.arange(count, dtype=matrix.indices.dtype), size.copy()
    for _ in range(_ROUNDS):
        asked = np.flatnonzero(generator.random(count) < 0.5)  # not all at once, or neighbours swap for ever
        best = _best(matrix[asked], label)
        moves = (best >= 0) & (best != label[asked])
        movers = generator.permutation(asked[moves])
        label_of = np.full(count, -1)
        label_of[asked] = best
        to = label_of[movers]
        order = np.argsort(to, kind="stable")
        movers, to = movers[order], to[order]
        joined = np.cumsum(size[movers])
        begin = np.searchsorted(to, to)
        joined -= np.where(begin > 0, joined[begin - 1], 0)
        fits = held[to] + joined <= most
        movers, to = movers[fits], to[fits]
        np.subtract.at(held, label[movers], size[movers])
        np.add.at(held, to, size[movers])
        label[movers] = to
    return label


def _best(matrix: scipy.sparse.csr_array, group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group of columns to which most weight of each row goes, the first of equal ones; -1 without edges."""
    table = scipy.sparse.csr_array((matrix.data, group[matrix.indices], matrix.indptr), shape=matrix.shape)
    table.sum_duplicates()  # sorts groups
    best = np.full(matrix.shape[0], -1)
    length = np.diff(table.indptr)
    some = np.flatnonzero(length)
    if not len(some):
        return best
    highest = np.maximum.reduceat(table.data, table.indptr[some])
    top = np.flatnonzero(table.data == np.repeat(highest, length[some]))
    owner = np.repeat(some, length[some])[top]
    _, first = np.unique(owner, return_index=True)
    best[owner[first]] = table.indices[top[first]]
    return best


def _contracted(matrix: scipy.sparse.csr_array, label: NDArray[np.int64], count: int) -> scipy.sparse.csr_array:
    """The graph of groups: how much weight joins two of them."""
    own = scipy.sparse.csr_array(
        (np.ones(len(label)), np.argsort(label, kind="stable"), np.searchsorted(np.sort(label), np.arange(count + 1))),
        shape=(count, len(label)),
    )
    to = scipy.sparse.csr_array((matrix.data, label[matrix.indices], matrix.indptr), shape=(len(label), count))
    found = (own @ to).tocoo()
    apart = found.row != found.col
    return scipy.sparse.csr_array((found.data[apart], (found.row[apart], found.col[apart])), shape=(count, count))


def _packed(size: NDArray[np.int64], most: int, parts: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Puts groups together until they are about ``parts``: in a random order, into the next bin when one is full."""
    order = generator.permutation(len(size))
    full = 0.75 * most
    large = size[order] >= full
    order = np.concatenate([order[large], order[~large]])  # a large group stays alone
    number = np.arange(large.sum())
    rest = size[order[len(number) :]]
    wanted = max(parts - len(number), 1)
    bins = np.minimum((np.cumsum(rest) - rest) * wanted // max(int(rest.sum()), 1), wanted - 1) + len(number)
    result = np.empty(len(size), dtype=np.int64)
    result[order] = np.concatenate([number, bins])
    return np.unique(result, return_inverse=True)[1].astype(np.int64)
