"""Methods without epochs, and blends, as modules of plain operations, which torch's and ONNX's exporters can follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from graphshift.data.tasks import Task
from graphshift.estimators.confidence import Confidence
from graphshift.methods.trees import Trees

Array = NDArray[Any]


class RowModule(nn.Module):
    """A model of rows.

    Args:
        neighbours: whether a row holds the mean of what its node receives, too.
        rows: from rows to what :meth:`~graphshift.methods.tabular.TabularModel.rows` gives.
        classes: those that training has, ``[present]``; None in regression.
        task: what is predicted.
    """

    def __init__(self, neighbours: bool, rows: nn.Module, classes: Array | None, task: Task) -> None:
        super().__init__()
        self.neighbours, self.rows, self.task = neighbours, rows, task
        self.classes = None if classes is None else tuple(int(one) for one in classes)

    def forward(self, x: Tensor, graph: Any) -> Tensor:
        """The output, ``[nodes, out_channels]``, float64, as :meth:`DirectEstimator.predict_plain` gives it."""
        table = x
        if self.neighbours:
            ones = torch.ones(x.shape[0], 1, dtype=torch.float64)
            received = graph.adjacency @ ones
            means = (graph.adjacency @ x.double()) / torch.where(received > 0, received, ones)
            table = torch.cat([x, means.float()], dim=1)
        found: Tensor = self.rows(table)
        if self.classes is None:
            return found.unsqueeze(1)
        if len(self.classes) < self.task.num_classes:
            places = torch.eye(self.task.num_classes, dtype=torch.float64)[list(self.classes)]
            found = found @ places
        return self.task.output_of(found)


class LinearRows(nn.Module):
    """softmax(X Wᵀ + b), or X w + b.

    Args:
        weight, offset: W and b.
        classes: whether classes are predicted.
    """

    weight: Tensor
    offset: Tensor

    def __init__(self, weight: Array, offset: Array, *, classes: bool) -> None:
        super().__init__()
        self.register_buffer("weight", torch.from_numpy(weight))
        self.register_buffer("offset", torch.from_numpy(offset))
        self.classes = classes

    def forward(self, table: Tensor) -> Tensor:
        """In float64."""
        scores = table.double() @ self.weight.T + self.offset
        return scores.softmax(dim=1) if self.classes else scores[:, 0]


class TreeRows(nn.Module):
    """What the leaves say that each row reaches, in every tree at once.

    Every step moves all rows one node down in all trees; leaves lead to themselves.

    Args:
        trees: as arrays.
        columns: of the table, that the trees number; None for all.
    """

    left: Tensor
    right: Tensor
    feature: Tensor
    threshold: Tensor
    value: Tensor
    roots: Tensor

    def __init__(self, trees: Trees, columns: Array | None = None) -> None:
        super().__init__()
        leaf, own = trees.left < 0, np.arange(trees.left.size)
        feature = trees.feature if columns is None else columns[trees.feature]
        value = np.zeros((trees.left.size, trees.value.shape[1]), trees.value.dtype)
        value[leaf] = trees.value[trees.right[leaf]]
        arrays = {"left": np.where(leaf, own, trees.left), "right": np.where(leaf, own, trees.right)}
        arrays |= {"feature": feature, "roots": trees.roots}
        for name, one in arrays.items():
            self.register_buffer(name, torch.from_numpy(one.astype(np.int64)))
        self.register_buffer("threshold", torch.from_numpy(trees.threshold))
        self.register_buffer("value", torch.from_numpy(value))
        self.depth = depth_of(trees)

    def forward(self, table: Tensor) -> Tensor:
        """``[rows, trees, outputs]``."""
        at = self.roots.expand(table.shape[0], -1)
        for _ in range(self.depth):
            cells = table.gather(1, self.feature[at])
            at = torch.where(cells.double() <= self.threshold[at], self.left[at], self.right[at])
        return self.value[at]


class ForestRows(nn.Module):
    """The mean over trees."""

    def __init__(self, trees: Trees, *, classes: bool) -> None:
        super().__init__()
        self.trees, self.classes = TreeRows(trees), classes

    def forward(self, table: Tensor) -> Tensor:
        """Class shares, or values, float64."""
        mean = self.trees(table).double().mean(dim=1)
        return mean if self.classes else mean[:, 0]


class BoostedRows(nn.Module):
    """The start and the sum of the trees, tree i to output i mod outputs, through sigmoid or softmax.

    Args:
        trees: of all rounds.
        start: scores before the first tree, ``[outputs]``.
        kept: the columns that the trees look at.
        classes: how many classes training has; 0 in regression.
    """

    start: Tensor

    def __init__(self, trees: Trees, start: Array, kept: Array, *, classes: int) -> None:
        super().__init__()
        self.trees, self.classes = TreeRows(trees, kept), classes
        self.register_buffer("start", torch.from_numpy(start))

    def forward(self, table: Tensor) -> Tensor:
        """Probabilities or values, float64."""
        each = self.trees(table).double().squeeze(2)
        outputs = self.start.shape[0]
        scores = self.start + each.reshape(-1, each.shape[1] // outputs, outputs).sum(dim=1)
        if self.classes == 0:
            return scores[:, 0]
        if self.classes == 2:
            second = scores[:, 0].sigmoid()
            return torch.stack([1 - second, second], dim=1)
        return scores.softmax(dim=1)


class SameForAll(nn.Module):
    """The same output for every node.

    Args:
        output: ``[1, out_channels]``.
    """

    output: Tensor

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.register_buffer("output", output)

    def forward(self, x: Tensor, graph: Any) -> Tensor:
        """It."""
        return self.output.expand(x.shape[0], -1)


class BlendModule(nn.Module):
    """The mean of calibrated members.

    Args:
        members: from ``x`` and a graph to an output.
        confidences: how sure each may be; None where it was not calibrated.
        task: what is predicted.
        mean: from the outputs to one.
    """

    def __init__(
        self,
        members: Sequence[nn.Module],
        confidences: Sequence[Confidence | None],
        task: Task,
        mean: Callable[[Sequence[Tensor]], Tensor],
    ) -> None:
        super().__init__()
        self.members, self.confidences, self.task, self.mean = nn.ModuleList(members), confidences, task, mean

    def forward(self, x: Tensor, graph: Any) -> Tensor:
        """The output, float64."""
        outputs = [member(x, graph) for member in self.members]
        pairs = zip(outputs, self.confidences, strict=True)
        return self.mean([one if known is None else known.scaled(one, self.task) for one, known in pairs])


def depth_of(trees: Trees) -> int:
    """How many steps the longest walk takes."""
    depth, at = 0, trees.roots[trees.left[trees.roots] >= 0]
    while at.size:
        below = np.concatenate([trees.left[at], trees.right[at]])
        depth, at = depth + 1, below[trees.left[below] >= 0]
    return depth
