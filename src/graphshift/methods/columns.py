"""The table that methods without a GNN learn from: the environment's features, and columns made of its edges."""

from collections.abc import Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from graphshift.data.environment import Environment
from graphshift.data.structure import STRUCTURAL_NAMES, structural_columns
from graphshift.graph.blocks import Blocks
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse

#: What a row of the table may hold beside the features.
COLUMNS = ("plain", "structure", "neighbours", "all")

#: A dense array or a sparse matrix, ``[nodes, columns]``, float32.
Table: TypeAlias = Any

_structure: WeakKeyDictionary[Graph, NDArray[np.float32]] = WeakKeyDictionary()  # a fit asks for it several times


def table_of(environment: Environment, kind: str) -> Table:
    """Every node's row: its features, and as ``kind`` says what its edges tell.

    Where graphs have labels, every graph's row: the mean of those of its nodes.

    Args:
        environment: its sparse features stay sparse.
        kind: ``"plain"``: the features alone. ``"structure"``: and the columns of
            :func:`~graphshift.data.structure.structural_columns`. ``"neighbours"``: and :func:`neighbour_means`.
            ``"all"``: and both.
    """
    parts = [features_of(environment)]
    if kind in ("neighbours", "all"):
        parts.append(neighbour_means(environment))
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


def width_of(features: int, kind: str) -> int:
    """How many columns :func:`table_of` makes of so many features."""
    own = features * (2 if kind in ("neighbours", "all") else 1)
    return own + (len(STRUCTURAL_NAMES) if kind in ("structure", "all") else 0)


def features_of(environment: Environment) -> Table:
    """The features as a numpy array, or as a scipy matrix if they are sparse."""
    x = environment.x
    if not isinstance(x, Sparse):
        return x.detach().cpu().numpy()
    return scipy.sparse.csr_array(
        (x.value.detach().cpu().numpy(), x.pattern.col.cpu().numpy(), x.pattern.rowptr.cpu().numpy()), shape=x.shape
    )


def adjacency_of(graph: Graph) -> scipy.sparse.csr_array:
    """The adjacency matrix A, ``[nodes, nodes]``, float64: A[n, m] is the weight of what n receives from m."""
    pattern = graph.pattern
    weight = np.ones(graph.num_edges) if graph.weight is None else graph.weight.detach().cpu().double().numpy()
    return scipy.sparse.csr_array(
        (weight, pattern.col.cpu().numpy(), pattern.rowptr.cpu().numpy()), shape=pattern.shape
    )


def neighbour_means(environment: Environment) -> Table:
    """D⁻¹ A X: the mean of the features that a node receives, by the edges' weights; zeros for one that has no edge."""
    adjacency = adjacency_of(environment.graph)
    received = adjacency.sum(axis=1)
    inverse = np.divide(1.0, received, out=np.zeros_like(received), where=received > 0)
    means = scipy.sparse.diags_array(inverse) @ adjacency @ features_of(environment)
    return means.astype(np.float32)


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
