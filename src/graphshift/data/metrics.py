"""Scores of predictions, over scikit-learn. A task names its metric; nothing else in the package chooses one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics as sk

from graphshift.core.errors import GraphshiftError

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Metric:
    """A score of predictions against labels.

    Attributes:
        compute: takes labels ``[n]`` and predictions ``[n, classes]`` (probabilities; for regression ``[n]`` values).
        higher_is_better: whether selection maximises it.
        kinds: the kinds of task it fits.
    """

    compute: Callable[[Array, Array], float]
    higher_is_better: bool
    kinds: tuple[str, ...]


def _accuracy(y: Array, p: Array) -> float:
    return float(sk.accuracy_score(y, p.argmax(axis=1)))


def _roc_auc(y: Array, p: Array) -> float:
    if np.unique(y).size < 2:
        raise GraphshiftError(
            "ROC-AUC needs nodes of both classes, and the counted nodes have one. Widen the mask, "
            "or use metric 'accuracy'."
        )
    return float(sk.roc_auc_score(y, p[:, 1]))


def _macro_f1(y: Array, p: Array) -> float:
    return float(sk.f1_score(y, p.argmax(axis=1), average="macro", zero_division=0))


def _f1(y: Array, p: Array) -> float:
    return float(sk.f1_score(y, p.argmax(axis=1), pos_label=1, zero_division=0))


def _mse(y: Array, p: Array) -> float:
    return float(sk.mean_squared_error(y, p))


def _r2(y: Array, p: Array) -> float:
    if y.size < 2:
        raise GraphshiftError("R² needs at least two counted nodes; widen the mask, or use metric 'mse'.")
    return float(sk.r2_score(y, p))


#: Every metric by name. ``f1`` is that of class 1.
METRICS: dict[str, Metric] = {
    "accuracy": Metric(_accuracy, True, ("binary", "multiclass")),
    "roc_auc": Metric(_roc_auc, True, ("binary",)),
    "macro_f1": Metric(_macro_f1, True, ("binary", "multiclass")),
    "f1": Metric(_f1, True, ("binary",)),
    "mse": Metric(_mse, False, ("regression",)),
    "r2": Metric(_r2, True, ("regression",)),
}
