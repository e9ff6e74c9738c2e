"""Metrics: scores of predictions, over scikit-learn. A metric is declared once, with all that tables and plots need.

A metric of your own is a function with a decorator, here or in a plug-in (:mod:`graphshift.core.registry`)::

    @METRICS.register("recall", label="recall", kinds=("binary",), percent=True)
    def recall(y, p):
        return float(sklearn.metrics.recall_score(y, p.argmax(axis=1)))
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics as sk

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import Registry

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Metric:
    """A score of predictions, with everything that shows it.

    Attributes:
        name: what users call it, such as ``"roc_auc"``.
        compute: takes labels ``[n]`` and predictions, and returns the score. Predictions are class probabilities
            ``[n, classes]``; in regression they are values ``[n]``.
        label: its name in tables and plots, without a unit.
        kinds: the kinds of task that it fits: ``"binary"``, ``"multiclass"``, ``"regression"``.
        percent: whether it is a share, which is shown as a percentage. Default: False.
        higher_is_better: whether selection maximises it. Default: True.
        bounds: its lowest and highest value. Default: 0 and 1 of a share, else no bounds.

    >>> metric = METRICS["roc_auc"]
    >>> metric.title, metric.show(0.8125), metric.unit
    ('ROC-AUC (%)', '81.2', 'points')
    >>> METRICS["mse"].better(0.1, 0.2)
    True
    """

    name: str
    compute: Callable[[Array, Array], float]
    label: str
    kinds: tuple[str, ...]
    percent: bool = False
    higher_is_better: bool = True
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.bounds is None:
            object.__setattr__(self, "bounds", (0.0, 1.0) if self.percent else (-inf, inf))

    @property
    def title(self) -> str:
        """The label with its unit, for the head of a column and for an axis: ``"accuracy (%)"``."""
        return f"{self.label} (%)" if self.percent else self.label

    @property
    def scale(self) -> float:
        """What to multiply a score by before it is shown: 100 for a percentage, else 1."""
        return 100.0 if self.percent else 1.0

    @property
    def unit(self) -> str:
        """The unit of a difference: ``"points"`` for a percentage, else empty."""
        return "points" if self.percent else ""

    @property
    def digits(self) -> int:
        """How many decimals a difference or a deviation is shown with."""
        return 1 if self.percent else 4

    @property
    def sign(self) -> int:
        """1 if higher is better, else -1: ``sign * (a - b)`` is positive where a is the better score."""
        return 1 if self.higher_is_better else -1

    def better(self, a: float, b: float) -> bool:
        """Whether score a is better than score b."""
        return self.sign * a > self.sign * b

    def show(self, value: float | None) -> str:
        """A score as text, without its unit; a dash if there is none."""
        if value is None:
            return "–"
        return f"{self.scale * value:.1f}" if self.percent else f"{value:.4g}"


#: Every metric by name.
METRICS: Registry[Metric] = Registry("metric", "graphshift.data.metrics", make=Metric)


@METRICS.register("accuracy", label="accuracy", kinds=("binary", "multiclass"), percent=True)
def accuracy(y: Array, p: Array) -> float:
    """The share of nodes whose most probable class is theirs."""
    return float(sk.accuracy_score(y, p.argmax(axis=1)))


@METRICS.register("roc_auc", label="ROC-AUC", kinds=("binary",), percent=True)
def roc_auc(y: Array, p: Array) -> float:
    """The area under the ROC curve."""
    if np.unique(y).size < 2:
        raise GraphshiftError(
            "ROC-AUC needs nodes of both classes, and the counted nodes have one. Widen the mask, "
            "or use metric 'accuracy'."
        )
    return float(sk.roc_auc_score(y, p[:, 1]))


@METRICS.register("macro_f1", label="macro-F1", kinds=("binary", "multiclass"), percent=True)
def macro_f1(y: Array, p: Array) -> float:
    """The mean F1 score of the classes."""
    return float(sk.f1_score(y, p.argmax(axis=1), average="macro", zero_division=0))


@METRICS.register("f1", label="F1", kinds=("binary",), percent=True)
def f1(y: Array, p: Array) -> float:
    """The F1 score of class 1."""
    return float(sk.f1_score(y, p.argmax(axis=1), pos_label=1, zero_division=0))


@METRICS.register("mse", label="squared error", kinds=("regression",), higher_is_better=False, bounds=(0.0, inf))
def mse(y: Array, p: Array) -> float:
    """The mean squared error."""
    return float(sk.mean_squared_error(y, p))


@METRICS.register("r2", label="R²", kinds=("regression",), bounds=(-inf, 1.0))
def r2(y: Array, p: Array) -> float:
    """The coefficient of determination."""
    if y.size < 2:
        raise GraphshiftError("R² needs at least two counted nodes; widen the mask, or use metric 'mse'.")
    return float(sk.r2_score(y, p))
