"""Groups of nodes that a method takes as environments: the training graphs themselves, or parts of one."""

from collections.abc import Sequence
from typing import Any

import scipy.sparse
import torch
from scipy.sparse.linalg import ArpackError
from sklearn.decomposition import PCA
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.graph.sparse import Sparse

#: How groups can be made. ``auto``: the graphs where there are several, else parts by degree.
GROUPINGS = ("auto", "graphs", "degree", "features", "time")


def grouping(environments: Sequence[Environment], by: str = "auto") -> str:
    """What ``auto`` stands for with these training graphs: ``graphs`` if there are at least two, else ``degree``."""
    if by not in GROUPINGS:
        raise GraphshiftError(f"group_by is {by!r}; expected one of {', '.join(GROUPINGS)}.")
    if by == "auto":
        by = "graphs" if len(environments) > 1 else "degree"
    if by == "graphs" and len(environments) < 2:
        raise GraphshiftError(
            "group_by is 'graphs' and there is one training graph; a method that compares groups needs at least two: "
            "give more graphs, or group_by 'degree' or 'features'."
        )
    return by


def divided(environments: Sequence[Environment], by: str = "auto", count: int = 4) -> list[list[Tensor]]:
    """For each environment the groups of its counted nodes, as indices.

    Args:
        environments: the training graphs.
        by: ``"graphs"``: each graph is a group. ``"degree"``: a graph's nodes in order of their degree, cut into
            ``count`` parts of equal size (nodes of one degree may be separated, in the order of their numbers).
            Of whole graphs it is the mean degree, and the mean features.
            ``"features"``: the same along the direction in which features vary most (the first principal component).
            ``"time"``: the same in order of time, for graphs whose nodes have one. See :func:`grouping` for
            ``"auto"``.
        count: parts of each graph, where graphs are divided; a graph with fewer nodes has one for each.
    """
    by = grouping(environments, by)
    return [parts_of(environment, by, count) for environment in environments]


def parts_of(environment: Environment, by: str, count: int) -> list[Tensor]:
    """The groups of one environment, as in :func:`divided`."""
    if by == "graphs":
        return [environment.counted]
    if environment.counted.numel() < 2:
        name = environment.name
        raise GraphshiftError(f"training graph {name!r}: one node counts; {count} groups cannot be made of it.")
    order = {"degree": _by_degree, "features": _by_features, "time": _by_time}[by]
    ranked = environment.counted[torch.argsort(order(environment)[environment.counted], stable=True)]
    return [part for part in torch.tensor_split(ranked, count) if part.numel()]


def _by_degree(environment: Environment) -> Tensor:
    """Of whole graphs the mean degree of their nodes."""
    degree, blocks = environment.graph.pattern.rowptr.diff(), environment.graph.blocks
    return degree if blocks is None else blocks.pooled(degree.double().unsqueeze(1), "mean").squeeze(1)


def _by_time(environment: Environment) -> Tensor:
    time = environment.time
    if time is None or bool(time[environment.counted].isnan().any()):
        found = "has no `time`" if time is None else "has nodes without a time"
        raise GraphshiftError(
            f"group_by is 'time' and training graph {environment.name!r} {found}; expected a number for each node: "
            "give it as `time` of a PyG Data, split tables by a time column, or group_by 'degree' or 'features'."
        )
    return time


def _by_features(environment: Environment) -> Tensor:
    """Every node's coordinate along the first principal component; of whole graphs that of their nodes' mean."""
    x, blocks = environment.x, environment.graph.blocks
    if blocks is not None:
        x = blocks.pooled(x.to_dense() if isinstance(x, Sparse) else x, "mean")
    if environment.num_features == 1:
        return (x.to_dense() if isinstance(x, Sparse) else x).squeeze(1)
    matrix: Any = x.cpu().double().numpy() if isinstance(x, Tensor) else _csr(x)
    try:
        # ARPACK takes sparse matrices and centres them without filling them in.
        found = PCA(1, svd_solver="arpack", random_state=0).fit_transform(matrix)
    except (ArpackError, ValueError):
        raise GraphshiftError(
            f"group_by is 'features' and the features of training graph {environment.name!r} do not vary; expected "
            "columns that differ between nodes: give others, or group_by 'degree'."
        ) from None
    return torch.from_numpy(found[:, 0]).to(environment.mask.device)  # its columns are reversed, which torch refuses


def _csr(x: Sparse) -> scipy.sparse.csr_array:
    parts = (part.cpu().numpy() for part in (x.value.double(), x.pattern.col, x.pattern.rowptr))
    return scipy.sparse.csr_array(tuple(parts), shape=x.shape)
