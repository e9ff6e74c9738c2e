"""Gradient-boosted trees on the nodes' columns (scikit-learn's histogram version, after LightGBM, Ke et al., 2017)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits
from torch import nn

from graphshift.core.errors import GraphshiftWarning
from graphshift.core.hparams import hparam
from graphshift.data.dataset import ShiftDataset
from graphshift.data.tasks import Task
from graphshift.estimators.base import METHODS
from graphshift.methods.columns import Table, width_of
from graphshift.methods.modules import BoostedRows
from graphshift.methods.tabular import Array, TabularEstimator, TabularModel, checked_shape, is_sparse, softmax
from graphshift.methods.trees import Trees

#: A sparse table is made dense as far as this goes: 9 bytes for each cell, in float64 and in bins.
MOST_BYTES = 1_000_000_000
_CELL = 9


def boosted_scores(trees: Trees, table: Table, start: Array) -> Array:
    """The start and the sum of the trees, ``[rows, outputs]``: tree i adds to output i mod outputs."""
    outputs = start.size

    def add(sums: Array, number: int, values: Array) -> None:
        sums[:, number % outputs] += values[:, 0]

    return start + trees.total(table, add, outputs)


class BoostedModel(TabularModel):
    """Trees that add up to scores.

    Args:
        trees: one for each round and output, an output for each class; for two classes there is one.
        start: scores before the first tree, ``[outputs]``.
        kept: the columns that the trees look at.
    """

    def __init__(
        self, columns: str, classes: Array | None, count: int, trees: Trees, start: Array, kept: Array
    ) -> None:
        super().__init__(columns, classes, count)
        self.trees, self.start, self.kept = trees, start, kept

    def rows(self, table: Table) -> Array:
        """Values, or the scores' sigmoid or softmax."""
        few = table if self.kept.size == table.shape[1] else table[:, self.kept]
        scores = boosted_scores(self.trees, few, self.start)
        if self.classes is None:
            return scores[:, 0]
        if self.classes.size == 2:
            second = expit(scores[:, 0])
            return np.stack([1 - second, second], axis=1)
        return softmax(scores)

    def rows_module(self) -> nn.Module:
        """All trees at once."""
        return BoostedRows(self.trees, self.start, self.kept, classes=0 if self.classes is None else self.classes.size)

    def own_arrays(self) -> dict[str, Array]:
        """The trees, the start and the columns."""
        return {**self.trees.arrays(), "start": self.start, "kept": self.kept}


@METHODS.register("boosting", label="Boosted trees")
@dataclass(eq=False, repr=False, kw_only=True)
class Boosting(TabularEstimator):
    """Gradient-boosted trees on the nodes' columns, without a GNN.

    Trees need a dense table. Of sparse features the columns that most training nodes have are kept: at most
    ``most_columns``, and fewer if the table would exceed a gigabyte; a warning says how many were left out.

    Args:
        rounds: trees for each class; one for two classes or values.
        learning_rate: how much of each tree is taken.
        max_leaf_nodes: leaves of a tree at most.
        most_columns: that are kept of sparse features.
        columns … seed: as in :class:`~graphshift.methods.tabular.TabularEstimator`.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=100)
    >>> model = gs.Boosting(rounds=10).fit(data)
    >>> model.predict(data.tests[0]).shape
    (100,)
    """

    rounds: int = hparam(100, ge=1, le=100_000, help="trees for each class")
    learning_rate: float = hparam(0.1, gt=0, le=1, search=(0.03, 0.1, 0.3), help="how much of each tree is taken")
    max_leaf_nodes: int = hparam(31, ge=2, le=65_536, search=(7, 31), help="leaves of a tree at most")
    most_columns: int = hparam(2_000, ge=1, le=1_000_000, help="columns that are kept of sparse features")

    def learn_rows(self, table: Table, labels: Array, classes: Array | None, task: Task) -> TabularModel:
        """Fits, and keeps the trees as arrays."""
        kept = self._kept(table)
        if classes is not None and classes.size == 1:  # nothing to tell apart
            no_node = np.full(1, -1)
            none = Trees.single(no_node, no_node, no_node, no_node, np.zeros((1, 1)))
            return BoostedModel(self.columns, classes, task.num_classes, none, np.zeros(1), kept)
        dense = table[:, kept].toarray() if is_sparse(table) else table
        kind = HistGradientBoostingRegressor if classes is None else HistGradientBoostingClassifier
        model = kind(
            max_iter=self.rounds,
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.max_leaf_nodes,
            early_stopping=False,
            random_state=self.seed % 2**32,
        )
        with threadpool_limits(torch.get_num_threads()):
            model.fit(dense, labels)
        start = np.asarray(model._baseline_prediction, dtype=np.float64).reshape(-1)
        trees = Trees.joined([_tree(one) for round_ in model._predictors for one in round_])
        return BoostedModel(self.columns, classes, task.num_classes, trees, start, kept)

    def _kept(self, table: Table) -> Array:
        rows, width = table.shape
        if not is_sparse(table):
            return np.arange(width)
        most = max(1, min(self.most_columns, MOST_BYTES // (_CELL * max(rows, 1))))
        if width <= most:
            return np.arange(width)
        often = np.bincount(table.indices, minlength=width)
        warnings.warn(
            f"boosting: {most:,} of {width:,} sparse columns were kept, those that most training nodes have; raise "
            f"most_columns for more (a dense table of at most {MOST_BYTES / 1e9:g} GB is made).",
            GraphshiftWarning,
            stacklevel=2,
        )
        return np.sort(np.argsort(-often, kind="stable")[:most])

    def model_of_rows(self, arrays: Mapping[str, Array], width: int, classes: Array | None, task: Task) -> TabularModel:
        """Reads the trees, the start and the columns."""
        outputs = 1 if classes is None or classes.size < 3 else classes.size
        start, kept = checked_shape(arrays, "start", (outputs,)), arrays["kept"]
        whole = kept.ndim == 1 and kept.dtype.kind == "i" and kept.size > 0 and bool((np.diff(kept) > 0).all())
        if not whole or kept[0] < 0 or kept[-1] >= width:
            raise ValueError(f"kept is not a rising list of columns from 0 to {width - 1}")
        trees = Trees.of_arrays(arrays, kept.size, 1)
        return BoostedModel(self.columns, classes, task.num_classes, trees, start, kept)

    def fitting_bytes(self, data: ShiftDataset) -> dict[str, float]:
        """The dense table in float64 and in bins, and gradients."""
        rows = sum(e.counted.numel() for e in data.train)
        width = width_of(data.train[0].num_features, self.columns, data.train[0].num_edge_features)
        outputs = max(data.task.num_classes, 1)
        dense = min(_CELL * rows * width, MOST_BYTES) + 16 * rows * outputs
        return super().fitting_bytes(data) | {"model": float(dense)}


def _tree(predictor: Any) -> Trees:
    nodes = predictor.nodes
    left = np.where(nodes["is_leaf"] == 1, -1, nodes["left"].astype(np.int64))
    right, value = nodes["right"].astype(np.int64), nodes["value"].reshape(-1, 1)
    return Trees.single(left, right, nodes["feature_idx"], nodes["num_threshold"], value)
