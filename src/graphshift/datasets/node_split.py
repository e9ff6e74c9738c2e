"""Environments out of one graph without a domain column: by a property of its nodes, from those that train outwards."""

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, svds
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.data.communities import communities
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment, as_environment
from graphshift.data.structure import clustering, pagerank, undirected_matrix
from graphshift.datasets.temporal import with_known
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse

#: The properties by which a graph can be split, and which nodes train.
PROPERTIES = {
    "degree": "nodes with many neighbours",
    "popularity": "nodes with a high PageRank",
    "locality": "nodes near the one with the highest PageRank, by personalised PageRank",
    "density": "nodes whose neighbours are neighbours, by the clustering coefficient",
    "feature": "nodes at one end of the features' first principal component",
    "cluster": "some communities of the graph; the others test",
}
_TRAIN, _HELD_OUT = (
    0.3,
    0.1,
)  # of the labelled nodes: one share trains, two held-out ones validate and test; half in all
_COMMUNITIES = 50

#: The name of the test environment that is like training.
ALIKE = "alike"


def split_by(graph: Environment | Data, by: str, *, tests: int = 3, seed: int = 0, name: str = "") -> ShiftDataset:
    """Makes a shift dataset of one graph: half of its nodes are the known world, the others lie outside of it.

    The labelled nodes are put in order by a property, as PyG's ``NodePropertySplit`` does for popularity, locality and
    density. Of the first half three fifths train, one fifth validates and one fifth tests under the name ``alike``. The
    second half is cut into test environments T1, T2, … , further and further from training. All share one graph and
    differ in the nodes that count. So the fall from ``alike`` to the last one is what the shift costs.

    Args:
        graph: with labels. Nodes outside its mask stay in the graph and never count.
        by: one of :data:`PROPERTIES`: ``"degree"``, ``"popularity"``, ``"locality"``, ``"density"``, ``"feature"`` or
            ``"cluster"``.
        tests: how many test environments the second half becomes.
        seed: of the draw inside the first half, of the order of equal nodes, and of communities.
        name: of the dataset; empty for the graph's name and the property.

    >>> import graphshift as gs
    >>> data = gs.split_by(gs.load("planted").train[0], "locality")
    >>> [environment.name for environment in data.tests]
    ['alike', 'T1', 'T2', 'T3']
    """
    whole = as_environment(graph)
    if whole.y is None:
        raise GraphshiftError(f"split_by: {whole.name!r} has no labels `y`; a part of the nodes needs some to train.")
    group, names = grouped(property_values(whole.graph, whole.x, by, seed), whole.mask.numpy(), tests, seed)
    shared = with_known(whole, torch.from_numpy(group == 0) & whole.mask)
    made = [shared.replace(name=one, mask=torch.from_numpy(group == i)) for i, one in enumerate(names)]
    facts = {"split_by": by, "seed": seed}
    return ShiftDataset(name or f"{whole.name} by {by}", made[:1], made[1:2], made[2:], facts=facts)


def grouped(
    values: NDArray[np.float64], counted: NDArray[np.bool_], tests: int, seed: int
) -> tuple[NDArray[np.int64], list[str]]:
    """The environment of each node, -1 for those that do not count, and the environments' names.

    Args:
        values: the property, ``[nodes]``; high values train.
        counted: bool ``[nodes]``.
        tests: how many test environments beside ``alike``.
        seed: of the draw, and of the order of nodes with equal values.
    """
    nodes = np.flatnonzero(counted)
    names = ["train", "val", ALIKE, *(f"T{i + 1}" for i in range(tests))]
    if tests < 1 or len(nodes) < 10 * len(names):
        raise GraphshiftError(
            f"split_by: {len(nodes)} nodes with a label and tests={tests}; expected at least one test environment and "
            f"ten nodes for each of the {max(tests, 1) + 3} environments."
        )
    generator = np.random.default_rng([seed, 5])
    nodes = generator.permutation(nodes)  # equal values in random order
    nodes = nodes[np.argsort(-values[nodes], kind="stable")]
    inside = generator.permutation(nodes[: round((_TRAIN + 2 * _HELD_OUT) * len(nodes))])
    held = round(_HELD_OUT * len(nodes))
    group = np.full(len(values), -1, dtype=np.int64)
    group[inside] = 0
    group[inside[:held]], group[inside[held : 2 * held]] = 1, 2
    for i, part in enumerate(np.array_split(nodes[len(inside) :], tests)):
        group[part] = 3 + i
    return group, names


def property_values(graph: Graph, x: torch.Tensor | Sparse, by: str, seed: int) -> NDArray[np.float64]:
    """The property of each node by which the graph is split, ``[nodes]``; high values train."""
    if by not in PROPERTIES:
        raise GraphshiftError(f"split_by: the property is {by!r}; {expected_one_of(str(by), list(PROPERTIES))}")
    if by == "feature":
        return _first_component(x)
    if not graph.num_edges:
        raise GraphshiftError(f"split_by: the graph has no edge, so {by} is the same for all nodes; use 'feature'.")
    if by == "cluster":
        part = communities(graph, _COMMUNITIES, seed=seed)
        return np.random.default_rng([seed, 6]).permutation(int(part.max()) + 1)[part].astype(np.float64)
    matrix = undirected_matrix(graph)
    if by == "degree":
        return np.diff(matrix.indptr).astype(np.float64)
    if by == "density":
        return clustering(matrix)
    score = pagerank(matrix)
    return score if by == "popularity" else pagerank(matrix, home=int(score.argmax()))


def _first_component(x: torch.Tensor | Sparse) -> NDArray[np.float64]:
    """Each node's coordinate on the first principal component; its sign makes the largest weight positive."""
    if isinstance(x, Sparse):
        parts = (part.cpu().numpy() for part in (x.value.double(), x.pattern.col, x.pattern.rowptr))
        table = scipy.sparse.csr_array(tuple(parts), shape=x.shape)
    else:
        table = x.double().cpu().numpy()
    mean = np.asarray(table.mean(axis=0)).ravel()
    nodes, columns = table.shape
    if columns == 1:
        return np.asarray(table[:, [0]] - mean).ravel() if isinstance(table, np.ndarray) else table.toarray().ravel()
    centred = LinearOperator(
        (nodes, columns),
        matvec=lambda v: table @ v.ravel() - mean @ v.ravel(),
        rmatvec=lambda u: table.T @ u.ravel() - mean * u.sum(),
        dtype=np.float64,
    )
    start = np.random.default_rng(0).standard_normal(min(nodes, columns))
    left, size, right = svds(centred, k=1, v0=start)
    return np.asarray(left[:, 0] * size[0] * np.sign(right[0, np.abs(right[0]).argmax()]))
