"""Metrics: scores of predictions, over scikit-learn. A metric is declared once, with all that tables and plots need.

A metric of your own is a function with a decorator, here or in a plug-in (:mod:`graphshift.core.registry`)::

    @METRICS.register("recall", label="recall", kinds=("binary",), percent=True)
    def recall(y, p):
        return float(sklearn.metrics.recall_score(y, p.argmax(axis=1)))

A metric may take a parameter, which its name carries. It is declared with ``parameter``, which reads it::

    @METRICS.register("precision@K", label="precision at K", kinds=("binary",), percent=True, parameter=count_or_share)
    def precision_at(y, p, k): ...

    METRICS["precision@100"].label  # "precision at 100"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics as sk

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import Registry

Array = NDArray[np.floating]

_BINS = 15  # of confidence, for the calibration error


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
        largest_class: whether the share of the largest class is the score of whoever always predicts that class, so
            that tables may show it beside. Default: False.
        several: whether ``compute`` also takes labels as ``[n, classes]``, bool, for nodes with several classes. Every
            other metric leaves such nodes out. Default: False.
        parameter: reads the parameter that follows the name, as ``"100"`` in ``"precision@100"``, and raises
            ``ValueError`` with what it expected. ``compute`` gets it as a third argument. The registered name and
            the label end in a capital letter for it, as ``"precision@K"``. Default: None, no parameter.

    >>> metric = METRICS["roc_auc"]
    >>> metric.title, metric.show(0.8125), metric.unit
    ('ROC-AUC (%)', '81.2', 'points')
    >>> METRICS["mse"].better(0.1, 0.2)
    True
    """

    name: str
    compute: Callable[..., float]
    label: str
    kinds: tuple[str, ...]
    percent: bool = False
    higher_is_better: bool = True
    bounds: tuple[float, float] | None = None
    largest_class: bool = False
    several: bool = False
    parameter: Callable[[str], Any] | None = None

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

    @property
    def stem(self) -> str:
        """The name without its parameter: ``"precision@"``; the whole name if there is none."""
        return self.name.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ") if self.parameter else self.name

    def given(self, text: str) -> Metric:
        """This metric with its parameter, as it follows the name."""
        assert self.parameter is not None
        try:
            value = self.parameter(text)
        except ValueError as error:
            raise GraphshiftError(f"metric is {self.stem + text!r}; expected {self.name} with {error}.") from None
        compute = partial(_with_parameter, self.compute, value)
        label = self.label.removesuffix(self.name.removeprefix(self.stem)) + text
        return replace(self, name=self.stem + text, label=label, compute=compute, parameter=None)


def _with_parameter(compute: Callable[..., float], value: Any, y: Array, p: Array) -> float:
    return compute(y, p, value)


class Metrics(Registry[Metric]):
    """The metrics by name; a name may carry a parameter, as ``"precision@100"``."""

    def find(self, name: Any, *, where: str = "") -> Metric:
        """As in every registry; a name that carries a parameter gives the metric with it."""
        return self._parametrised(name) or super().find(name, where=where)

    def __getitem__(self, name: str) -> Metric:
        return self._parametrised(name) or super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        return self._parametrised(name) is not None or super().__contains__(name)

    def _parametrised(self, name: Any) -> Metric | None:
        if not isinstance(name, str) or "@" not in name or name in iter(self):
            return None
        for metric in self.values():
            if metric.parameter is not None and name.startswith(metric.stem):
                return metric.given(name.removeprefix(metric.stem))
        return None


#: Every metric by name.
METRICS: Registry[Metric] = Metrics("metric", "graphshift.data.metrics", make=Metric)


def count_or_share(text: str) -> int | float:
    """A whole number of nodes, as ``100``, or a share of them, as ``5%`` (0.05)."""
    number = text.removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    share = number != text
    if not isfinite(value) or value <= 0 or (share and value > 100) or (not share and value % 1 != 0):
        raise ValueError("a whole number of nodes, as precision@100, or a share of them, as precision@5%")
    return value / 100 if share else int(value)


def rate(text: str) -> float:
    """A number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise ValueError("a rate from 0 to below 1, as recall@fpr=0.01")
    return value


def _need_both(y: Array, name: str) -> None:
    if np.unique(y).size < 2:
        raise GraphshiftError(
            f"{name} needs nodes of both classes, and the counted nodes have one. Widen the mask, "
            "or use metric 'accuracy'."
        )


@METRICS.register("accuracy", label="accuracy", kinds=("binary", "multiclass"), percent=True, largest_class=True)
def accuracy(y: Array, p: Array) -> float:
    """The share of nodes whose most probable class is theirs."""
    return float(sk.accuracy_score(y, p.argmax(axis=1)))


@METRICS.register("roc_auc", label="ROC-AUC", kinds=("binary",), percent=True)
def roc_auc(y: Array, p: Array) -> float:
    """The area under the ROC curve."""
    _need_both(y, "ROC-AUC")
    return float(sk.roc_auc_score(y, p[:, 1]))


@METRICS.register("average_precision", label="average precision", kinds=("binary",), percent=True)
def average_precision(y: Array, p: Array) -> float:
    """The area under the precision-recall curve of class 1, as steps; a random order scores the share of class 1."""
    _need_both(y, "average precision")
    return float(sk.average_precision_score(y, p[:, 1]))


@METRICS.register("precision@K", label="precision at K", kinds=("binary",), percent=True, parameter=count_or_share)
def precision_at(y: Array, p: Array, k: int | float) -> float:
    """The share of class 1 among the K nodes that are likeliest of class 1. K is a number, or a share such as 5%.

    Where nodes tie at the K-th place, it is the mean over all orders of them.
    """
    scores = p[:, 1]
    first = min(max(ceil(k * scores.size - 1e-9), 1) if isinstance(k, float) else k, scores.size)
    last = np.partition(scores, scores.size - first)[scores.size - first]
    above, tied = scores > last, scores == last
    return float((y[above].sum() + (first - above.sum()) * y[tied].mean()) / first)


@METRICS.register("recall@fpr=R", label="recall at FPR R", kinds=("binary",), percent=True, parameter=rate)
def recall_at_fpr(y: Array, p: Array, most: float) -> float:
    """The largest share of class 1 that is found while at most the share R of class 0 is taken for it."""
    _need_both(y, "recall at a false-positive rate")
    false_positives, recalls, _ = sk.roc_curve(y, p[:, 1], drop_intermediate=False)
    return float(recalls[false_positives <= most].max())


@METRICS.register("balanced_accuracy", label="balanced accuracy", kinds=("binary", "multiclass"), percent=True)
def balanced_accuracy(y: Array, p: Array) -> float:
    """The mean over the classes of the share of their nodes that are found; classes without a node are left out."""
    predicted = p.argmax(axis=1)
    return float(np.mean([(predicted[y == label] == label).mean() for label in np.unique(y)]))


@METRICS.register(
    "ece", label="calibration error", kinds=("binary", "multiclass"), percent=True, higher_is_better=False
)
def calibration_error(y: Array, p: Array) -> float:
    """How far confidence is from accuracy: the mean difference over 15 bins of confidence (Guo et al., 2017)."""
    counts, confidence, right = confidence_bins(y, p)
    return float((counts * np.abs(confidence - right)).sum() / y.size)


def confidence_bins(y: Array, p: Array) -> tuple[Array, Array, Array]:
    """Of those of 15 bins of confidence that have nodes: how many, their mean confidence, the share that is right."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    places = np.clip(np.ceil(confidence * _BINS).astype(int) - 1, 0, _BINS - 1)
    counts = np.bincount(places, minlength=_BINS).astype(float)
    there = counts > 0
    sure, hits = (np.bincount(places, weights=one, minlength=_BINS)[there] for one in (confidence, right))
    return counts[there], sure / counts[there], hits / counts[there]


@METRICS.register("macro_f1", label="macro-F1", kinds=("binary", "multiclass"), percent=True)
def macro_f1(y: Array, p: Array) -> float:
    """The mean F1 score of the classes."""
    return float(sk.f1_score(y, p.argmax(axis=1), average="macro", zero_division=0))


@METRICS.register("micro_f1", label="micro-F1", kinds=("multiclass",), percent=True, several=True)
def micro_f1(y: Array, p: Array) -> float:
    """The F1 score of all pairs of node and class; a node with k classes is predicted its k most probable ones.

    With one class a node it is the accuracy.
    """
    if y.ndim == 1:
        return accuracy(y, p)
    count = y.sum(axis=1)
    place = np.empty_like(p, dtype=np.int64)
    np.put_along_axis(place, np.argsort(-p, axis=1, kind="stable"), np.arange(p.shape[1])[None, :], axis=1)
    # As many are predicted as are true, so that precision, recall and F1 are one number.
    return float((y & (place < count[:, None])).sum() / count.sum())


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
