"""Spreading numbers over a graph: the operator that label propagation and Correct & Smooth share."""

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.linalg import cg

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.graph.graph import Graph
from graphshift.methods.columns import adjacency_of

_CLOSE, _STEPS = 1e-8, 10_000  # of conjugate gradients


def operator_of(graph: Graph) -> scipy.sparse.csr_array:
    """S = D^-1/2 W D^-1/2 with W = A, or A + Aᵀ if the graph is directed; no self-loops, zeros for lonely nodes."""
    adjacency = adjacency_of(graph)
    both = adjacency if graph.undirected else scipy.sparse.csr_array(adjacency + adjacency.T)
    degree = both.sum(axis=1)
    root = scipy.sparse.diags_array(np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0))
    return scipy.sparse.csr_array(root @ both @ root)


def diffused(operator: scipy.sparse.csr_array, start: NDArray[Any], alpha: float) -> NDArray[np.float64]:
    """(1 − α) (I − α S)⁻¹ Y: where F ← α S F + (1 − α) Y ends (Zhou et al., 2004).

    The matrix is symmetric and positive definite, so conjugate gradients find it column by column.

    Args:
        operator: S.
        start: Y, ``[nodes, any]``.
        alpha: from 0, nothing spreads, to below 1.
    """
    system = scipy.sparse.csr_array(scipy.sparse.eye_array(operator.shape[0]) - alpha * operator)
    result = np.zeros(start.shape)
    for k in range(start.shape[1]):
        column = np.ascontiguousarray(start[:, k], dtype=np.float64)
        if column.any():
            found, failed = cg(system, (1 - alpha) * column, x0=(1 - alpha) * column, rtol=_CLOSE, maxiter=_STEPS)
            if failed:
                raise GraphshiftError(f"spreading over the graph did not settle with α = {alpha}; take a smaller one.")
            result[:, k] = found
    return result


def known_labels(environment: Environment) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Which nodes' training labels are known, bool ``[nodes]``, and all nodes' numbers; see ``Environment.known_y``."""
    if environment.known_y is None:
        return np.zeros(environment.num_nodes, dtype=bool), np.zeros(environment.num_nodes)
    labels = environment.known_y.cpu().numpy()
    return (labels >= 0 if environment.task.is_classification else ~np.isnan(labels)), labels
