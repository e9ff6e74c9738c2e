"""What environments look like side by side: the columns of the paper's Table 1 and Twitch table, and what moves."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import scipy.sparse
import torch
from torch import Tensor

from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse

_FAR = 0.5  # of 1: half of an environment's nodes would have to change their class


def environment_statistics(environment: Environment) -> dict[str, Any]:
    """The statistics of one environment, in time linear in its edges and features.

    The paper's Twitch table counts degrees in the direction in which the files have the edges, and cuts digits off
    instead of rounding; :func:`~graphshift.datasets.twitch.twitch` with ``one_way=True`` gives all its figures.

    Returns:
        As JSON values, None where one has no meaning:

        - ``environment``, ``nodes``, ``counted`` (nodes, or graphs if these have labels), ``features``, ``directed``;
          ``graphs`` only of many small ones;
        - ``edges``: an undirected edge counts once, a directed one as it is;
        - ``density``: pairs of nodes that are joined, in whatever direction, out of all pairs of a graph;
        - ``average_degree``, ``maximum_degree``: of the neighbours that a node receives from, so that an undirected
          edge counts at both of its ends and a directed one at its target; weights do not matter;
        - ``isolated``: nodes without any edge;
        - ``classes``: how many the counted nodes have; ``class_shares`` and ``majority``, the largest share;
        - ``label_rate``: counted nodes out of all, 0 of a target;
        - ``positive_rate``: class 1 among the counted, if binary;
        - ``homophily``: edges that join equal labels out of those that join counted nodes;
        - ``feature_filling``: non-zeros out of all values of ``x``.
    """
    graph, nodes = environment.graph, environment.num_nodes
    received = graph.pattern.rowptr.diff()
    sent = torch.bincount(graph.pattern.col, minlength=nodes)
    joined, sizes = _joined_pairs(graph), torch.tensor([nodes]) if graph.blocks is None else graph.blocks.sizes
    pairs = int((sizes * (sizes - 1)).sum())
    values = environment.x.value if isinstance(environment.x, Sparse) else environment.x
    return {
        "environment": environment.name,
        **({} if graph.blocks is None else {"graphs": graph.blocks.count}),
        "nodes": nodes,
        "counted": int(environment.mask.sum()),
        "features": environment.num_features,
        "directed": not graph.undirected,
        "edges": joined if graph.undirected else graph.num_edges,
        "density": 2 * joined / pairs if pairs else 0.0,
        "average_degree": graph.num_edges / nodes,
        "maximum_degree": int(received.max()),
        "isolated": int(((received == 0) & (sent == 0)).sum()),
        "label_rate": 0.0 if environment.y is None else float(environment.mask.sum()) / environment.num_items,
        **_label_statistics(environment),
        "feature_filling": int(values.count_nonzero()) / (nodes * environment.num_features),
    }


def dataset_statistics(data: ShiftDataset) -> list[dict[str, Any]]:
    """The statistics of every environment, targets included, with its ``role``, ``feature_shift`` and ``class_shift``.

    The class shift is half the sum of the differences between the class shares and those of training: 0 if they agree,
    1 if no class is in both; None without classes.

    The feature shift is the distance of the counted nodes' mean features from those of training, in units of the
    training nodes' root mean square distance from their own mean: 0 if the means agree, 1 if they are as far apart as a
    training node usually is from the centre. None if all training nodes are alike.
    """
    everyone = [(role, e) for role, environments in data.roles.items() for e in environments]
    moments = {e.name: _moments(e) for _, e in everyone}
    training = [moments[e.name] for e in data.train]
    nodes = sum(m.nodes for m in training)
    centre = torch.stack([m.total for m in training]).sum(dim=0) / nodes
    variance = sum(m.squares for m in training) / nodes - float(centre.square().sum())
    rows = []
    for role, environment in everyone:
        own = moments[environment.name]
        distance = float((own.total / own.nodes - centre).norm())
        shift = distance / variance**0.5 if variance > 1e-12 else None
        row = {"role": role, **environment_statistics(environment), "feature_shift": shift}
        rows.append(row | {"class_shift": _class_shift(data.train, environment)})
    return rows


def class_remarks(train: Sequence[Environment], others: Sequence[Environment], names: Sequence[str]) -> list[str]:
    """Environments whose class shares are so far from training's that the labels may mean something else there."""
    remarks = []
    for environment in others:
        distance = _class_shift(train, environment)
        if distance is not None and distance > _FAR:
            before, here = _shares(train), _shares([environment])
            most = int((here - before).abs().argmax())
            remarks.append(
                f"environment {environment.name!r} has other class shares than training (distance {distance:.2f} of "
                f"1): {names[most]!r} is {100 * float(here[most]):.0f} % there and {100 * float(before[most]):.0f} % "
                "in training. Do the labels mean the same?"
            )
    return remarks


def _class_shift(train: Sequence[Environment], environment: Environment) -> float | None:
    if environment.y is None or not environment.task.is_classification:
        return None
    return float((_shares([environment]) - _shares(train)).abs().sum()) / 2


def _shares(environments: Sequence[Environment]) -> Tensor:
    labels = torch.cat([e.labels for e in environments])
    return torch.bincount(labels, minlength=environments[0].task.num_classes).double() / labels.numel()


def _joined_pairs(graph: Graph) -> int:
    if graph.undirected:
        return graph.num_edges // 2
    pattern = graph.pattern
    ones = torch.ones(graph.num_edges, dtype=torch.bool).numpy()
    A = scipy.sparse.csr_array((ones, pattern.col.cpu().numpy(), pattern.rowptr.cpu().numpy()), shape=pattern.shape)
    both_ways = A.multiply(A.T.tocsr()).nnz  # scipy transposes by counting and merges rows: linear
    return graph.num_edges - both_ways // 2


def _label_statistics(environment: Environment) -> dict[str, Any]:
    task = environment.task
    if environment.y is None or not task.is_classification:
        return dict.fromkeys(("classes", "class_shares", "majority", "positive_rate", "homophily"))
    shares = torch.bincount(environment.labels, minlength=task.num_classes).double() / environment.labels.numel()
    return {
        "classes": int((shares > 0).sum()),
        "class_shares": shares.tolist(),
        "majority": float(shares.max()),
        "positive_rate": float(shares[1]) if task.kind == "binary" else None,
        "homophily": None if task.is_graph_level else _homophily(environment),
    }


def _homophily(environment: Environment) -> float | None:
    row, col = environment.graph.pattern.row, environment.graph.pattern.col
    assert environment.y is not None
    between = environment.mask[row] & environment.mask[col]
    equal = between & (environment.y[row] == environment.y[col])
    return int(equal.sum()) / int(between.sum()) if bool(between.any()) else None


class _Moments(NamedTuple):
    nodes: int
    total: Tensor  # of each column over the counted nodes
    squares: float  # of all values of the counted nodes


def _moments(environment: Environment) -> _Moments:
    x, mask, blocks = environment.x, environment.mask, environment.graph.blocks
    mask = mask if blocks is None else mask[blocks.batch]  # the nodes of the graphs that count
    if isinstance(x, Sparse):
        value = torch.where(mask[x.pattern.row], x.value, 0).double()
        total = torch.zeros(x.shape[1], dtype=torch.float64).index_add(0, x.pattern.col, value)
    else:
        value = x[mask].double()
        total = value.sum(dim=0)
    return _Moments(int(mask.sum()), total, float(value.square().sum()))
