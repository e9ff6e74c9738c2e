"""The table that methods without a GNN learn from: the environment's features, and columns made of its edges."""

from collections.abc import Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from graphshift.data.environment import Environment
from graphshift.data.structure import STRUCTURAL_NAMES, ranks, structural_columns
from graphshift.graph.blocks import Blocks
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse

#: What a row of the table may hold beside the features.
COLUMNS = ("plain", "ranks", "structure", "neighbours", "all")

#: Of these, those that say nothing of edges, and those that hold what a node's edges bring.
WITHOUT_EDGES = ("plain", "ranks")
OF_NEIGHBOURS = ("neighbours", "all")

#: Ranks in (0, 1) have this deviation: 1 / √12.
_RANK_SCALE = 12**0.5

#: A dense array or a sparse matrix, ``[nodes, columns]``, float32.
Table: TypeAlias = Any

_structure: WeakKeyDictionary[Graph, NDArray[np.float32]] = WeakKeyDictionary()  # a fit asks for it several times


def table_of(environment: Environment, kind: str, *, edge_features: bool = True) -> Table:
    """Every node's row: its features, and as ``kind`` says what its edges tell.

    Where graphs have labels, every graph's row: the mean of those of its nodes.

    Args:
        environment: its sparse features stay sparse.
        kind: ``"plain"``: the features alone. ``"ranks"``: :func:`ranks_here` in their place. ``"structure"``: and the
            columns of :func:`~graphshift.data.structure.structural_columns`. ``"neighbours"``: and
            :func:`neighbour_means`, and where edges have features :func:`edge_means`. ``"all"``: and both.
        edge_features: False leaves the features of edges out.
    """
    parts = [ranks_here(environment) if kind == "ranks" else features_of(environment)]
    if kind in OF_NEIGHBOURS:
        parts.append(neighbour_means(environment))
        parts += [edge_means(environment.graph)] if edge_features and environment.num_edge_features else []
    if kind in ("structure", "all"):
        parts.append(_structure_of(environment.graph))
    if environment.graph.blocks is not None:
        parts = [_graph_means(part, environment.graph.blocks) for part in parts]
    if len(parts) == 1:
        return parts[0]
    if scipy.sparse.issparse(parts[0]):
        return scipy.sparse.hstack([scipy.sparse.csr_array(part) for part in parts], format="csr", dtype=np.float32)
    return np.concatenate(parts, axis=1)


def _graph_means(table: Table, blocks: Blocks) -> Table:
    """The mean row of the nodes of each graph, float32."""
    inverse = np.repeat(1 / blocks.sizes.cpu().numpy(), blocks.sizes.cpu().numpy())
    nodes, begin = np.arange(inverse.size), blocks.begin.cpu().numpy()
    mean = scipy.sparse.csr_array((inverse, nodes, begin), shape=(blocks.count, inverse.size))
    return (mean @ table).astype(np.float32)


def width_of(features: int, kind: str, edge_features: int = 0) -> int:
    """How many columns :func:`table_of` makes of so many features of nodes and of edges."""
    own = 2 * features + edge_features if kind in OF_NEIGHBOURS else features
    return own + (len(STRUCTURAL_NAMES) if kind in ("structure", "all") else 0)


def features_of(environment: Environment) -> Table:
    """The features as a numpy array, or as a scipy matrix if they are sparse."""
    x = environment.x
    if not isinstance(x, Sparse):
        return x.detach().cpu().numpy()
    return scipy.sparse.csr_array(
        (x.value.detach().cpu().numpy(), x.pattern.col.cpu().numpy(), x.pattern.rowptr.cpu().numpy()), shape=x.shape
    )


def ranks_here(environment: Environment) -> Table:
    """Each feature's rank among the nodes of this graph, with mean 0 and deviation 1: no change of scale moves it.

    Columns of zeros and ones, and sparse features, stay as they are.
    """
    found = features_of(environment)
    if scipy.sparse.issparse(found):
        return found
    found = found.copy()
    for column in np.flatnonzero(~np.isin(found, (0.0, 1.0)).all(axis=0)):
        found[:, column] = _RANK_SCALE * (ranks(found[:, column].astype(np.float64)) - 0.5)
    return found


def adjacency_of(graph: Graph) -> scipy.sparse.csr_array:
    """The adjacency matrix A, ``[nodes, nodes]``, float64: A[n, m] is the weight of what n receives from m."""
    pattern = graph.pattern
    weight = np.ones(graph.num_edges) if graph.weight is None else graph.weight.detach().cpu().double().numpy()
    return scipy.sparse.csr_array(
        (weight, pattern.col.cpu().numpy(), pattern.rowptr.cpu().numpy()), shape=pattern.shape
    )


def neighbour_means(environment: Environment) -> Table:
    """D⁻¹ A X: the mean of the features that a node receives, by the edges' weights; zeros for one that has no edge."""
    means = _averaging(adjacency_of(environment.graph)) @ features_of(environment)
    return means.astype(np.float32)


def edge_means(graph: Graph) -> NDArray[np.float32]:
    """The mean of the features of the edges that a node receives, by the edges' weights; zeros where there is none."""
    assert graph.edge_attr is not None
    mean = _averaging(adjacency_of(graph))
    entries = np.arange(graph.num_edges)  # in place of the neighbour, the edge itself: its entry of the matrix
    by_edge = scipy.sparse.csr_array((mean.data, entries, mean.indptr), shape=(graph.num_nodes, graph.num_edges))
    means: NDArray[np.float32] = (by_edge @ graph.edge_attr.detach().cpu().numpy()).astype(np.float32)
    return means


def _averaging(adjacency: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """D⁻¹ A, its entries in the order of A's."""
    received = adjacency.sum(axis=1)
    inverse = np.divide(1.0, received, out=np.zeros_like(received), where=received > 0)
    shares = adjacency.data * np.repeat(inverse, np.diff(adjacency.indptr))  # a product of matrices may reorder entries
    return scipy.sparse.csr_array((shares, adjacency.indices, adjacency.indptr), shape=adjacency.shape)


def _structure_of(graph: Graph) -> NDArray[np.float32]:
    if graph not in _structure:
        _structure[graph] = structural_columns(graph).cpu().numpy()
    return _structure[graph]


def pooled(environments: Sequence[Environment], kind: str) -> tuple[Table, NDArray[Any]]:
    """The rows and the labels of the counted nodes of all environments, one after the other."""
    tables, labels = [], []
    for environment in environments:
        table = table_of(environment, kind)
        counted = environment.counted.cpu().numpy()
        tables.append(table[counted] if counted.size < environment.num_items else table)
        labels.append(environment.labels.cpu().numpy())
    if scipy.sparse.issparse(tables[0]):
        return scipy.sparse.vstack(tables, format="csr"), np.concatenate(labels)
    return np.concatenate(tables), np.concatenate(labels)
