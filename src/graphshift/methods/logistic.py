"""Logistic regression on the nodes' columns (scikit-learn); ridge regression where values are predicted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits
from torch import nn

from graphshift.core.errors import GraphshiftWarning
from graphshift.core.hparams import hparam
from graphshift.data.tasks import Task
from graphshift.estimators.base import METHODS
from graphshift.methods.columns import Table
from graphshift.methods.modules import LinearRows
from graphshift.methods.tabular import Array, TabularEstimator, TabularModel, checked_shape, is_sparse, softmax

_STEPS = 1_000


def linear_scores(table: Table, weight: Array, offset: Array) -> Array:
    """X Wᵀ + b, ``[rows, outputs]``, in float64."""
    if is_sparse(table):
        return np.asarray(table.astype(np.float64) @ weight.T) + offset
    return table.astype(np.float64) @ weight.T + offset


class LinearModel(TabularModel):
    """Weights of the columns as they are, ``[present, columns]``, and an offset for each output."""

    def __init__(self, columns: str, classes: Array | None, count: int, weight: Array, offset: Array) -> None:
        super().__init__(columns, classes, count)
        # One order in memory, fitted or loaded: the product's last bit depends on it.
        self.weight, self.offset = np.ascontiguousarray(weight), offset

    def rows(self, table: Table) -> Array:
        """softmax(X Wᵀ + b), or in regression X w + b."""
        scores = linear_scores(table, self.weight, self.offset)
        return scores[:, 0] if self.classes is None else softmax(scores)

    def rows_module(self) -> nn.Module:
        """The same."""
        return LinearRows(self.weight, self.offset, classes=self.classes is not None)

    def own_arrays(self) -> dict[str, Array]:
        """Weight and offset."""
        return {"weight": self.weight, "offset": self.offset}


@METHODS.register("logistic", label="Logistic regression")
@dataclass(eq=False, repr=False, kw_only=True)
class Logistic(TabularEstimator):
    """Logistic regression on the nodes' columns, without a GNN; ridge regression where values are predicted.

    Columns are brought to one scale before the fit: sparse ones by their largest absolute value, dense ones by mean and
    deviation, except those of zeros and ones. The weights are saved for the columns as they are.

    Args:
        c: C, how much the data count beside the penalty ½ ‖w‖² (in regression 1 / α of the ridge).
        columns … seed: as in :class:`~graphshift.methods.tabular.TabularEstimator`.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=100)
    >>> model = gs.Logistic(c=0.1).fit(data)
    >>> model.predict(data.tests[0]).shape
    (100,)
    """

    c: float = hparam(
        1.0, gt=0, le=1e9, search=(0.01, 0.1, 1.0, 10.0), help="C, how much the data count beside the penalty"
    )

    def learn_rows(self, table: Table, labels: Array, classes: Array | None, task: Task) -> TabularModel:
        """Scales, fits, and takes the scale into the weights."""
        width = table.shape[1]
        if classes is not None and classes.size == 1:  # nothing to tell apart
            return LinearModel(self.columns, classes, task.num_classes, np.zeros((1, width)), np.zeros(1))
        centre, scale = scale_of(table)
        scaled = table / scale if is_sparse(table) else (table - centre) / scale
        with threadpool_limits(torch.get_num_threads()):
            weight, offset = self._solved(scaled, labels, classes)
        if classes is not None and classes.size == 2:  # scikit-learn has one row for two classes
            weight, offset = (np.concatenate([np.zeros_like(one), one]) for one in (weight, offset))
        weight = weight / scale
        return LinearModel(self.columns, classes, task.num_classes, weight, offset - weight @ centre)

    def _solved(self, table: Table, labels: Array, classes: Array | None) -> tuple[Array, Array]:
        if classes is None:
            ridge = Ridge(alpha=1 / self.c, solver="sparse_cg" if is_sparse(table) else "auto", tol=1e-6)
            ridge.fit(table, labels.astype(np.float64))
            return ridge.coef_.reshape(1, -1).astype(np.float64), np.atleast_1d(np.float64(ridge.intercept_))
        model = LogisticRegression(C=self.c, max_iter=_STEPS)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit(table, labels)
        if any(issubclass(one.category, ConvergenceWarning) for one in told):
            warnings.warn(
                f"logistic: the weights were not final after {_STEPS:,} steps (c={self.c:g}) and are taken as they "
                "were then; a smaller c settles sooner.",
                GraphshiftWarning,
                stacklevel=2,
            )
        return model.coef_.astype(np.float64), model.intercept_.astype(np.float64)

    def model_of_rows(self, arrays: Mapping[str, Array], width: int, classes: Array | None, task: Task) -> TabularModel:
        """Reads weight and offset."""
        outputs = 1 if classes is None else classes.size
        weight, offset = checked_shape(arrays, "weight", (outputs, width)), checked_shape(arrays, "offset", (outputs,))
        return LinearModel(self.columns, classes, task.num_classes, weight, offset)


def scale_of(table: Table) -> tuple[Array, Array]:
    """What to take off each column and what to divide it by, ``[columns]`` each, float64.

    Sparse columns keep their zeros and are divided by their largest absolute value. Dense ones are standardised,
    except columns of zeros and ones alone. A column that is constant is left as it is.
    """
    if is_sparse(table):
        largest = np.asarray(abs(table).max(axis=0).todense(), dtype=np.float64).reshape(-1)
        return np.zeros_like(largest), np.where(largest > 0, largest, 1.0)
    mean, deviation = table.mean(axis=0, dtype=np.float64), table.std(axis=0, dtype=np.float64)
    as_it_is = ((table == 0) | (table == 1)).all(axis=0) | (deviation <= 1e-12 * np.abs(mean))
    return np.where(as_it_is, 0.0, mean), np.where(as_it_is | (deviation == 0), 1.0, deviation)
