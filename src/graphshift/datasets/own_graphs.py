"""A user's own graphs with labels as a shift dataset: a list of PyG ``Data`` for each environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task

#: What a graph may have; anything else that it has is not looked at.
_PARTS = ("x", "edge_index", "edge_weight", "edge_attr")

Lists: TypeAlias = Mapping[str, Iterable[Data]]


def from_lists(
    lists: Lists, roles: Mapping[str, str | Sequence[str]], *, kind: str | None, metric: str, name: str
) -> ShiftDataset:
    """Makes a shift dataset of lists of graphs that have a label each.

    A graph whose class is below 0, or whose value is NaN, has no label: it does not count.

    Args:
        lists: the graphs of each environment, by its name; any iterable of ``Data``, such as a PyG dataset.
        roles: the names of the environments of ``train``, ``val``, ``tests`` and ``unlabelled``.
        kind: of the task; None decides by the labels: floating is regression.
        metric: a name from :data:`graphshift.data.metrics.METRICS`; empty for the task's usual one.
        name: of the dataset.
    """
    named = {role: [own] if isinstance(own, str) else list(own) for role, own in roles.items()}
    for own in named.values():
        for one in own:
            if one not in lists:
                raise GraphshiftError(f"from_pyg: there is no list {one!r}; {expected_one_of(one, list(lists))}")
    if not named["train"]:
        raise GraphshiftError(f"from_pyg: train names no list; the lists are {', '.join(map(repr, lists))}.")
    labelled = [one for role in ("train", "val", "tests") for one in named[role]]
    wanted = dict.fromkeys(one for own in named.values() for one in own)
    batches = {one: _joined(one, lists[one], labelled=one in labelled) for one in wanted}
    task = _task([batches[one] for one in labelled], kind, metric)
    made = {role: [Environment(one, batches[one], task) for one in own] for role, own in named.items()}
    return ShiftDataset(name, made["train"], made["val"], made["tests"], target=made["unlabelled"])


def _joined(name: str, graphs: Iterable[Data], *, labelled: bool) -> Data:
    """All graphs of an environment as one, with ``y`` and the mask of those that have a label."""
    own = list(graphs)
    if not own:
        raise GraphshiftError(f"from_pyg: list {name!r} is empty; an environment needs graphs.")
    parts, labels = [], []
    for i, graph in enumerate(own):
        where = f"from_pyg: graph {i} of {name!r}"
        if not isinstance(graph, Data):
            raise GraphshiftError(f"{where} is {type(graph).__name__}; expected a torch_geometric.data.Data.")
        if not isinstance(graph.x, Tensor) or not graph.x.shape[0]:
            raise GraphshiftError(f"{where} has no node with features `x`; give it some, such as a column of ones.")
        if labelled:
            labels.append(_label(graph.y, where))
        parts.append(Data(**{part: graph[part] for part in _PARTS if graph.get(part) is not None}))
    try:
        batch = Batch.from_data_list(parts)
    except (KeyError, RuntimeError) as error:
        raise GraphshiftError(f"from_pyg: the graphs of {name!r} differ in what they have: {error}.") from None
    joined = Data(**{part: batch[part] for part in (*_PARTS, "batch") if batch.get(part) is not None})
    if labelled:
        y = torch.stack(labels)
        joined.mask = ~y.isnan() if y.is_floating_point() else y >= 0
        if not bool(joined.mask.any()):
            raise GraphshiftError(f"from_pyg: no graph of {name!r} has a label; name it under unlabelled.")
        joined.y = y.masked_fill(~joined.mask, 0)
    return joined


def _label(y: Any, where: str) -> Tensor:
    if isinstance(y, Tensor) and y.numel() == 1:
        return y.detach().reshape(())
    if isinstance(y, int | float):
        return torch.tensor(y)
    found = f"`y` of shape {list(y.shape)}" if isinstance(y, Tensor) else f"`y` {y!r}"
    raise GraphshiftError(f"{where} has {found}; expected one label. For several labels make one dataset for each.")


def _task(batches: Sequence[Data], kind: str | None, metric: str) -> Task:
    y = torch.cat([batch.y[batch.mask].reshape(-1) for batch in batches])
    if kind is None:
        kind = "regression" if y.is_floating_point() else "binary" if int(y.max()) < 2 else "multiclass"
    classes = 0 if kind == "regression" else 2 if kind == "binary" else max(int(y.max()) + 1, 2)
    return Task(kind, classes, metric, level="graph")
