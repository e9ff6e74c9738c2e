"""A random forest on the nodes' columns (Breiman, 2001; scikit-learn fits it)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from torch import nn

from graphshift.core.hparams import hparam
from graphshift.data.dataset import ShiftDataset
from graphshift.data.tasks import Task
from graphshift.estimators.base import METHODS
from graphshift.methods.columns import Table
from graphshift.methods.modules import ForestRows
from graphshift.methods.tabular import Array, TabularEstimator, TabularModel
from graphshift.methods.trees import Trees

_TRIED: dict[str, Any] = {"sqrt": "sqrt", "third": 1 / 3, "all": None}


def forest_mean(trees: Trees, table: Table, outputs: int) -> Array:
    """The mean over the trees of what the leaves say, ``[rows, outputs]``, float64."""
    sums = np.zeros((table.shape[0], outputs))
    for reached in trees.reached(table):
        sums += trees.value[reached]
    return sums / max(trees.roots.size, 1)


class ForestModel(TabularModel):
    """Trees whose leaves hold class shares, or a value."""

    def __init__(self, columns: str, classes: Array | None, count: int, trees: Trees) -> None:
        super().__init__(columns, classes, count)
        self.trees = trees

    def rows(self, table: Table) -> Array:
        """The mean over trees."""
        found = forest_mean(self.trees, table, 1 if self.classes is None else self.classes.size)
        return found[:, 0] if self.classes is None else found

    def rows_module(self) -> nn.Module:
        """All trees at once."""
        return ForestRows(self.trees, classes=self.classes is not None)

    def own_arrays(self) -> dict[str, Array]:
        """The trees."""
        return self.trees.arrays()


@METHODS.register("forest", label="Random forest")
@dataclass(eq=False, repr=False, kw_only=True)
class Forest(TabularEstimator):
    """A random forest on the nodes' columns, without a GNN.

    Args:
        trees: how many.
        rows_per_tree: training nodes that each tree is grown from, drawn with replacement; 0 for as many as there are.
        min_samples_leaf: rows that a leaf has at least.
        max_features: how many columns each split may choose from: ``"sqrt"`` of their number, a ``"third"``, ``"all"``.
        columns … seed: as in :class:`~graphshift.methods.tabular.TabularEstimator`.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=100)
    >>> model = gs.Forest(trees=10).fit(data)
    >>> model.predict(data.tests[0]).shape
    (100,)
    """

    trees: int = hparam(200, ge=1, le=100_000, help="how many trees")
    rows_per_tree: int = hparam(0, ge=0, help="training nodes that each tree is grown from; 0: as many as there are")
    min_samples_leaf: int = hparam(1, ge=1, search=(1, 3, 10), help="rows that a leaf has at least")
    max_features: Literal["sqrt", "third", "all"] = hparam(
        "sqrt", search=("sqrt", "third"), help="how many columns each split may choose from"
    )

    def learn_rows(self, table: Table, labels: Array, classes: Array | None, task: Task) -> TabularModel:
        """Fits, and keeps the trees as arrays."""
        kind = RandomForestRegressor if classes is None else RandomForestClassifier
        forest = kind(
            self.trees,
            max_samples=self.rows_per_tree if 0 < self.rows_per_tree < table.shape[0] else None,
            min_samples_leaf=self.min_samples_leaf,
            max_features=_TRIED[self.max_features],
            random_state=self.seed % 2**32,
            n_jobs=torch.get_num_threads(),
        ).fit(table, labels)
        return ForestModel(self.columns, classes, task.num_classes, trees_of(forest))

    def model_of_rows(self, arrays: Mapping[str, Array], width: int, classes: Array | None, task: Task) -> TabularModel:
        """Reads the trees."""
        outputs = 1 if classes is None else classes.size
        return ForestModel(self.columns, classes, task.num_classes, Trees.of_arrays(arrays, width, outputs))

    def fitting_bytes(self, data: ShiftDataset) -> dict[str, float]:
        """The trees as well: scikit-learn's, and as arrays."""
        rows = sum(e.counted.numel() for e in data.train)
        leaves = self.trees * min(rows, self.rows_per_tree or rows) / self.min_samples_leaf / 2
        outputs = data.task.num_classes or 1
        return super().fitting_bytes(data) | {"model": leaves * (2 * (64 + 8 * outputs) + 40 + 4 * outputs)}


def trees_of(forest: Any) -> Trees:
    """The trees of scikit-learn's forest; class counts become shares, in float32."""
    made = []
    for one in forest.estimators_:
        tree = one.tree_
        value = tree.value[:, 0, :]
        if hasattr(forest, "classes_"):
            value = value / value.sum(axis=1, keepdims=True)
        made.append(
            Trees.single(
                tree.children_left, tree.children_right, tree.feature, tree.threshold, value.astype(np.float32)
            )
        )
    return Trees.joined(made)
