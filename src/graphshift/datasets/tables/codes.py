"""Whole numbers that are codes, such as those of dormitories: a number says nothing about the ones beside it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

_FEWEST_ROWS = 3  # that a value must have on average: with fewer there is nothing to learn about each
_MOST_KNOTS = 4
_SURE = 0.01  # the level of the tests of all columns of a table together
_CURVE = 0.8  # a curve explains at least this share of what the values of a quantity explain
_GAIN = 0.01  # of the labels' variance, that the values must explain beyond the curve


class Fit(NamedTuple):
    """How well a column of whole numbers explains the labels.

    Attributes:
        by_values: the share of their variance that the mean of each value explains, adjusted for the number of values.
        by_curve: the same of a curve through these means.
        p: of the F test for lack of fit, that the means lie on the curve.
    """

    by_values: float
    by_curve: float
    p: float


def are_codes(values: NDArray[np.float64], labels: NDArray[Any], *, classes: bool, columns: int = 1) -> bool:
    """Whether whole numbers go with the labels as names do, not as quantities do.

    A quantity has a curve: people of 41 are like those of 40 and 42. Codes have none, or one by chance: the small ones
    may be the old shops. So numbers are codes if the mean labels of the values deviate significantly from a curve, and
    a good part of what they explain is beside it. As names they also do less harm in another environment: a code that
    training never had says nothing there, a number anything.

    Args:
        values: of the training nodes, NaN where missing.
        labels: of the same nodes: classes from 0 on, -1 where unknown; or quantities, NaN where unknown.
        classes: which of the two.
        columns: how many columns are looked at: a table with many has some that look like codes by chance (Bonferroni).
    """
    fit = lack_of_fit(values, labels, classes=classes)
    if fit is None or fit.p >= _SURE / columns:
        return False
    return fit.by_values - fit.by_curve > _GAIN and fit.by_curve < _CURVE * fit.by_values


def lack_of_fit(values: NDArray[np.float64], labels: NDArray[Any], *, classes: bool) -> Fit | None:
    """Compares the mean label of each value with a curve through them, straight between a few knots.

    Of classes the sums of squares of all indicators are added. The more frequent one of the least and the largest value
    is left out: codes often have a 0 or a 9999 for "none", which a curve follows well. None for numbers that are not
    whole, and where values have too few rows or labels are all the same.
    """
    known = ~np.isnan(values) & ((labels >= 0) if classes else ~np.isnan(labels))
    if not known.any() or (values[known] % 1 != 0).any():
        return None
    low, high = values[known].min(), values[known].max()
    known &= values != (low if (values == low).sum() > (values == high).sum() else high)
    values, labels = values[known], labels[known]
    levels, place, rows = np.unique(values, return_inverse=True, return_counts=True)
    if len(levels) < 3 or len(levels) * _FEWEST_ROWS > len(values):
        return None
    means = _means(place, rows, labels, classes=classes)
    total = (rows @ means) / len(values)
    # The variance of a 0/1 indicator follows from its mean.
    variance = total * (1 - total) if classes else labels.var(dtype=np.float64, keepdims=True)
    whole = float(variance.sum()) * len(values)
    within = whole - float((rows @ (means - total) ** 2).sum())
    curve, knots = _curve(levels, rows, means)
    beside = float((rows @ (means - curve) ** 2).sum())
    if whole <= 0 or len(levels) <= knots:
        return None
    per_row = max(within, 1e-12 * whole) / (len(values) - len(levels))
    f = beside / (len(levels) - knots) / per_row
    by_curve = 1 - (within + beside) / (len(values) - knots) * (len(values) - 1) / whole
    p = float(stats.f.sf(f, len(levels) - knots, len(values) - len(levels)))
    return Fit(1 - per_row * (len(values) - 1) / whole, max(by_curve, 0.0), p)


def _means(
    place: NDArray[np.intp], rows: NDArray[np.intp], labels: NDArray[Any], *, classes: bool
) -> NDArray[np.float64]:
    """The mean of each value's labels, ``[values, classes]``, or ``[values, 1]`` for quantities."""
    if not classes:
        return np.asarray(np.bincount(place, weights=labels.astype(np.float64)) / rows)[:, None]
    count = int(labels.max()) + 1
    cells = np.bincount(place * count + labels.astype(np.intp), minlength=len(rows) * count)
    return np.asarray(cells.reshape(len(rows), count) / rows[:, None])


def _curve(
    levels: NDArray[np.float64], rows: NDArray[np.intp], means: NDArray[np.float64]
) -> tuple[NDArray[np.float64], int]:
    """The least-squares curve through the means, straight between knots at quantiles; and its number of parameters."""
    count = min(_MOST_KNOTS, (len(levels) - 1) // 3)
    order = np.cumsum(rows) / rows.sum()
    inner = levels[np.searchsorted(order, np.arange(1, count + 1) / (count + 1))]
    knots = np.unique(inner[(inner > levels[0]) & (inner < levels[-1])])
    scaled = (levels - levels[0]) / (levels[-1] - levels[0])
    bends = np.maximum(scaled[:, None] - (knots - levels[0]) / (levels[-1] - levels[0]), 0.0)
    basis = np.column_stack([np.ones_like(scaled), scaled, bends])
    weight = np.sqrt(rows)[:, None]
    found = np.linalg.lstsq(basis * weight, means * weight, rcond=None)[0]
    return basis @ found, basis.shape[1]
