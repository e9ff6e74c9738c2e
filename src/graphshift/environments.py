"""Everything that enters graphshift is checked here, once: one graph (Environment) and a set of them (ShiftDataset)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.errors import GraphshiftError, GraphshiftWarning
from graphshift.graphs import Graph
from graphshift.sparse import Sparse
from graphshift.tasks import Task

__all__ = ["Environment", "ShiftDataset", "as_environments", "check_together", "checked_graph", "infer_task"]


class Environment:
    """One named graph under one distribution, checked and ready to compute with.

    Args:
        name: what to call it in tables and messages.
        data: a PyG ``Data`` with ``x`` (``[nodes, features]``, dense or ``torch.sparse``, floating), ``edge_index``
            (``[2, edges]``, int64) and, unless only predictions are wanted, ``y`` (``[nodes]``). Optional:
            ``edge_weight`` (``[edges]``, positive) and ``mask`` (``[nodes]``, bool): the nodes that count. Labels
            outside the mask are never looked at.
        task: what is predicted; None infers it from ``y`` (see :func:`infer_task`).

    Duplicate edges and self-loops are removed with a :class:`~graphshift.errors.GraphshiftWarning` that counts them;
    everything else that does not fit is a :class:`~graphshift.errors.GraphshiftError`.
    """

    def __init__(self, name: str, data: Data, task: Task | None = None) -> None:
        self.name = str(name)
        self.x = _checked_features(self.name, data)
        self.graph = checked_graph(self.name, data, self.num_nodes)
        self.mask = _checked_mask(self.name, data, self.num_nodes)
        self.y: Tensor | None = None
        if data.y is not None:
            self.task = infer_task(data, self.mask, self.name) if task is None else task
            self.y = _checked_labels(self.name, data.y, self.mask, self.task)
        elif task is None:
            raise GraphshiftError(
                f"environment {self.name!r}: there is no `y`, so the task cannot be inferred; pass `task`, "
                "or use a fitted model's `predict`, which knows it."
            )
        else:
            self.task = task

    @property
    def num_nodes(self) -> int:
        """How many nodes, counted or not."""
        return int(self.x.shape[0])

    @property
    def num_features(self) -> int:
        """The width of ``x``."""
        return int(self.x.shape[1])

    @cached_property
    def counted(self) -> Tensor:
        """The indices of the nodes that count."""
        return self.mask.nonzero().squeeze(1)

    @cached_property
    def labels(self) -> Tensor:
        """The labels of the nodes that count."""
        if self.y is None:
            raise GraphshiftError(f"environment {self.name!r} has no labels `y`; they are needed here.")
        return self.y[self.counted]

    @property
    def majority(self) -> float | None:
        """The share of the largest class among the counted nodes: what always answering it would score."""
        if not self.task.is_classification:
            return None
        return float(torch.bincount(self.labels).max()) / self.labels.numel()

    @property
    def data(self) -> Data:
        """The environment as a PyG ``Data``, repairs included."""
        x = self.x.to_torch() if isinstance(self.x, Sparse) else self.x
        return Data(
            x=x, edge_index=self.graph.edge_index, edge_weight=self.graph.weight, y=self.y, mask=self.mask,
            num_nodes=self.num_nodes,
        )  # fmt: skip

    def risk(self, output: Tensor) -> Tensor:
        """L(G, Y; θ): the mean loss over the counted nodes of a backbone's output for all nodes."""
        return self.task.loss(output[self.counted], self.labels)

    def score(self, output: Tensor) -> float:
        """The task's metric over the counted nodes of a backbone's output for all nodes."""
        try:
            return self.task.score(output[self.counted], self.labels)
        except GraphshiftError as error:
            raise GraphshiftError(f"environment {self.name!r}: {error}") from None

    def replace(self, **changes: Any) -> Environment:
        """A copy with some attributes changed (``name``, ``mask``, ``task``, ``graph``…); nothing is checked again."""
        copy = object.__new__(Environment)
        copy.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("counted", "labels")})
        copy.__dict__.update(changes)
        return copy

    def to(self, device: torch.device) -> Environment:
        """The same environment on another device."""
        if device == self.mask.device:
            return self
        y = None if self.y is None else self.y.to(device)
        return self.replace(x=self.x.to(device), graph=self.graph.to(device), mask=self.mask.to(device), y=y)

    def __repr__(self) -> str:
        return (
            f"Environment({self.name!r}, {self.num_nodes} nodes, {self.graph.num_edges} edges, "
            f"{self.num_features} features, {int(self.mask.sum())} counted)"
        )


@dataclass(frozen=True)
class ShiftDataset:
    """Environments in three roles. The dataset owns its split, its task and its metric.

    Args:
        name: the dataset's name.
        train: environments to learn from.
        val: environments to select epochs and settings by; may be empty.
        tests: environments to report; they never choose anything.
        defaults: settings that suit this dataset, by field of the fit configuration.
        facts: what a maker knows beside the graphs, such as ``{"spurious_columns": [16, 17]}``.
    """

    name: str
    train: Sequence[Environment]
    val: Sequence[Environment] = ()
    tests: Sequence[Environment] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for role in ("train", "val", "tests"):
            object.__setattr__(self, role, tuple(getattr(self, role)))
        check_together(self.train, [*self.val, *self.tests], where=f"dataset {self.name!r}")

    @property
    def task(self) -> Task:
        """What is predicted, and how it is scored."""
        return self.train[0].task

    @property
    def environments(self) -> list[Environment]:
        """All environments: train, val, tests."""
        return [*self.train, *self.val, *self.tests]

    def __repr__(self) -> str:
        roles = ", ".join(f"{role} {[e.name for e in getattr(self, role)]}" for role in ("train", "val", "tests"))
        return f"ShiftDataset({self.name!r}, {self.task.kind}, {self.task.metric}, {roles})"


def check_together(train: Sequence[Environment], others: Sequence[Environment], *, where: str) -> None:
    """Checks what only shows when environments stand side by side: names, widths, tasks, classes, labels."""
    if not train:
        raise GraphshiftError(f"{where}: there is no training environment; at least one is needed.")
    first = train[0]
    for environment in train:
        if environment.num_nodes < 2:
            raise GraphshiftError(
                f"{where}: training environment {environment.name!r} has one node; training needs at least two."
            )
    seen: set[str] = set()
    for environment in [*train, *others]:
        if environment.name in seen:
            raise GraphshiftError(f"{where}: two environments are called {environment.name!r}; names must differ.")
        seen.add(environment.name)
        if environment.num_features != first.num_features:
            raise GraphshiftError(
                f"{where}: environment {environment.name!r} has {environment.num_features} features and "
                f"{first.name!r} has {first.num_features}; all need the same columns in the same order."
            )
        if environment.task != first.task:
            raise GraphshiftError(
                f"{where}: environment {environment.name!r} has {environment.task} and {first.name!r} has "
                f"{first.task}; give all environments one task."
            )
        if environment.y is None:
            raise GraphshiftError(
                f"{where}: environment {environment.name!r} has no labels `y`; train, val and tests need them."
            )
    if first.task.is_classification:
        counts = sum(torch.bincount(e.labels, minlength=first.task.num_classes) for e in train)
        assert isinstance(counts, Tensor)
        unseen = (counts == 0).nonzero().squeeze(1).tolist()
        needed = sorted({int(c) for e in others for c in e.labels.unique()} & set(unseen))
        if needed:
            raise GraphshiftError(
                f"{where}: class {', '.join(map(str, needed))} is in the validation or test environments and never "
                "in training, so no method can learn it; move nodes of it into training or mask them."
            )
        if unseen:
            warnings.warn(
                f"{where}: class {', '.join(map(str, unseen))} of {first.task.num_classes} has no node anywhere; "
                "the model keeps an output for it.",
                GraphshiftWarning,
                stacklevel=4,
            )


def infer_task(data: Data, mask: Tensor, name: str) -> Task:
    """Floating labels: regression. Classes 0 and 1: binary. More classes: multiclass."""
    y = data.y
    if not isinstance(y, Tensor) or y.dim() == 0 or y.shape[0] != mask.shape[0]:
        return Task("regression", 0)  # the label check says what is wrong
    if y.is_floating_point():
        return Task("regression", 0)
    counted = y[mask]
    classes = int(counted.max()) + 1 if counted.numel() else 2
    return Task("binary", 2) if classes <= 2 else Task("multiclass", classes)


def as_environment(graph: Environment | Data, task: Task | None = None, name: str = "graph") -> Environment:
    """Takes what a user may pass for a graph: an :class:`Environment` or a PyG ``Data``."""
    if isinstance(graph, Environment):
        return graph
    if isinstance(graph, Data):
        return Environment(name, graph, task)
    raise GraphshiftError(
        f"expected an Environment or a torch_geometric.data.Data, found {type(graph).__name__}; "
        "wrap tensors as Data(x=..., edge_index=..., y=...)."
    )


def as_environments(
    graphs: Environment | Data | Iterable[Environment | Data], task: Task | None = None, name: str = "graph"
) -> list[Environment]:
    """Takes one graph or several. Unnamed ones get ``name`` and, if there are several, a number."""
    if isinstance(graphs, Environment | Data):
        return [as_environment(graphs, task, name)]
    if not isinstance(graphs, Iterable):
        return [as_environment(graphs, task, name)]
    result: list[Environment] = []
    for i, graph in enumerate(graphs):
        result.append(as_environment(graph, task or (result[0].task if result else None), f"{name}{i}"))
    return result


def _checked_features(name: str, data: Data) -> Tensor | Sparse:
    x = data.x
    if not isinstance(x, Tensor):
        raise GraphshiftError(
            f"environment {name!r}: `x` is {type(x).__name__}; expected a [nodes, features] float tensor. For a graph "
            "without features, a column of ones or the nodes' degrees will do."
        )
    if x.dim() != 2 or x.shape[0] == 0 or x.shape[1] == 0:
        raise GraphshiftError(f"environment {name!r}: `x` has shape {list(x.shape)}; expected [nodes, features].")
    if not x.is_floating_point():
        raise GraphshiftError(f"environment {name!r}: `x` is {x.dtype}; expected floats: use `x.float()`.")
    if x.layout == torch.strided:
        x = x.detach().to(torch.float32)
        values = x
    else:
        sparse = Sparse.from_torch(x.detach().to(torch.float32))
        values = sparse.value
    if not bool(torch.isfinite(values).all()):
        bad = int((~torch.isfinite(values)).sum())
        where = ""
        if values.dim() == 2:
            row, column = (~torch.isfinite(values)).nonzero()[0].tolist()
            where = f", first at node {row}, column {column}"
        raise GraphshiftError(
            f"environment {name!r}: `x` has {bad} NaN or infinite values{where}; fill them in or drop the column."
        )
    return x if x.layout == torch.strided else sparse


def checked_graph(name: str, data: Data, num_nodes: int) -> Graph:
    """The structure of a PyG ``Data``, checked, without self-loops and duplicate edges."""
    edge_index = data.edge_index
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        found = list(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise GraphshiftError(
            f"environment {name!r}: `edge_index` is {found}; expected a [2, edges] int64 tensor (use "
            "torch.empty(2, 0, dtype=torch.int64) for a graph without edges)."
        )
    edge_index = edge_index.detach().as_subclass(Tensor)
    if edge_index.dtype not in (torch.int64, torch.int32):
        raise GraphshiftError(
            f"environment {name!r}: `edge_index` is {edge_index.dtype}; expected int64: node numbers, not values."
        )
    edge_index = edge_index.to(torch.int64)
    if edge_index.numel() and (int(edge_index.min()) < 0 or int(edge_index.max()) >= num_nodes):
        bad = ((edge_index < 0) | (edge_index >= num_nodes)).any(dim=0)
        column = int(bad.nonzero()[0])
        raise GraphshiftError(
            f"environment {name!r}: {int(bad.sum())} edges name nodes outside 0…{num_nodes - 1}, first edge {column}: "
            f"{edge_index[:, column].tolist()}; number the nodes as the rows of `x`."
        )
    weight = data.edge_weight if "edge_weight" in data else None
    if weight is not None:
        weight = _checked_weight(name, weight, edge_index.shape[1])
    loops = edge_index[0] == edge_index[1]
    if bool(loops.any()):
        warnings.warn(
            f"environment {name!r}: removed {int(loops.sum())} self-loops; backbones add their own where the paper "
            "does.",
            GraphshiftWarning,
            stacklevel=4,
        )
        edge_index = edge_index[:, ~loops]
        weight = None if weight is None else weight[~loops]
    unique, first = _first_of_each(edge_index[1] * num_nodes + edge_index[0])
    duplicates = edge_index.shape[1] - unique.numel()
    if duplicates:
        warnings.warn(
            f"environment {name!r}: removed {duplicates} duplicate edges"
            + (", keeping the first weight of each." if weight is not None else "."),
            GraphshiftWarning,
            stacklevel=4,
        )
        edge_index = edge_index[:, first]
        weight = None if weight is None else weight[first]
    return Graph.from_edge_index(edge_index, num_nodes, weight)


def _first_of_each(keys: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct keys, sorted, and the position at which each first occurs."""
    ordered, order = torch.sort(keys, stable=True)
    fresh = torch.ones_like(ordered, dtype=torch.bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return ordered[fresh], order[fresh]


def _checked_weight(name: str, weight: Any, num_edges: int) -> Tensor:
    if not isinstance(weight, Tensor) or weight.dim() != 1 or weight.shape[0] != num_edges:
        found = list(weight.shape) if isinstance(weight, Tensor) else type(weight).__name__
        raise GraphshiftError(f"environment {name!r}: `edge_weight` is {found}; expected [{num_edges}], one an edge.")
    weight = weight.detach().to(torch.float32)
    bad = ~(torch.isfinite(weight) & (weight > 0))
    if bool(bad.any()):
        edge = int(bad.nonzero()[0])
        raise GraphshiftError(
            f"environment {name!r}: {int(bad.sum())} edge weights are not positive numbers, first edge {edge}: "
            f"{float(weight[edge])}; drop edges of weight 0, and shift or square negative weights."
        )
    return weight


def _checked_mask(name: str, data: Data, num_nodes: int) -> Tensor:
    mask = data.mask if "mask" in data else None
    if mask is None:
        return torch.ones(num_nodes, dtype=torch.bool)
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (num_nodes,):
        found = f"{mask.dtype} {list(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise GraphshiftError(f"environment {name!r}: `mask` is {found}; expected bool [{num_nodes}].")
    if not bool(mask.any()):
        raise GraphshiftError(f"environment {name!r}: `mask` is empty; at least one node must count.")
    return mask.detach()


def _checked_labels(name: str, y: Any, mask: Tensor, task: Task) -> Tensor:
    if isinstance(y, Tensor) and y.dim() == 2 and y.shape[1] == 1:
        y = y.squeeze(1)
    if not isinstance(y, Tensor) or y.shape != mask.shape:
        found = list(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise GraphshiftError(f"environment {name!r}: `y` is {found}; expected [{mask.shape[0]}], one label a node.")
    y = y.detach()
    if not task.is_classification:
        y = y.to(torch.float32)
        if not bool(torch.isfinite(y[mask]).all()):
            bad = int((~torch.isfinite(y[mask])).sum())
            raise GraphshiftError(
                f"environment {name!r}: {bad} counted nodes have a NaN or infinite `y`; take them out of `mask`."
            )
        return y
    if y.is_floating_point() and not bool((y[mask] == y[mask].round()).all()):
        raise GraphshiftError(f"environment {name!r}: `y` is {y.dtype} with fractions; classes are int64 numbers.")
    y = torch.where(mask, y, torch.zeros_like(y)).to(torch.int64)
    outside = mask & ((y < 0) | (y >= task.num_classes))
    if bool(outside.any()):
        node = int(outside.nonzero()[0])
        raise GraphshiftError(
            f"environment {name!r}: {int(outside.sum())} counted nodes have a class outside 0…{task.num_classes - 1}, "
            f"first node {node}: {int(y[node])}; correct the labels, take these nodes out of `mask`, or pass a `task` "
            "with more classes."
        )
    return y
