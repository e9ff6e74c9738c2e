"""The error of the answer, learned on pairs of models and tests; and judged on datasets that were left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from graphshift.data.metrics import METRICS
from graphshift.shift.combining import Coefficients, combine, lost, stated

Array = NDArray[np.float64]
Pairs = Sequence[Mapping[str, Any]]

#: The estimates whose mean is the answer: DoC from the copy that was moved in edges and features, corrected for class
#: shares, and what shifted copies teach. Both are defined for every metric, ATC for a share of right nodes alone.
CANDIDATES = ("doc-prior-both", "explored")

_ROUNDS, _CLOSE = 20, 0.01  # of reweighting, and the error below which all count alike
_LEAST = 0.005  # error that is always expected
_COVERED = 0.9
_LIMIT = 0.1  # the expected error above which no number is given
_EVEN = Coefficients(dict.fromkeys(CANDIDATES, 1 / len(CANDIDATES)), (1.0, 0.0, 0.0), 1.0, _LIMIT)


def learn(pairs: Pairs) -> Coefficients:
    """The error that is to be expected, all datasets alike, and its 90 % quantile; from pairs with an answer."""
    pairs = [one for one in pairs if not lost(one["untold"], METRICS[one["metric"]])]
    found = [combine(one["by"], one["held_out"], _EVEN, METRICS[one["metric"]], one["nodes"]) for one in pairs]
    errors = np.array([abs(one.value - pair["truth"]) for one, pair in zip(found, pairs, strict=True)])
    facts = np.array([stated({"held-out": p["held_out"], **p["by"]}, p["held_out"], _EVEN.weights) for p in pairs])
    share = _shares(pairs)
    slopes = _least(facts, errors, share)
    slopes[0] = max(slopes[0], _LEAST)
    ratio = errors / (facts @ slopes)
    order = np.argsort(ratio)
    mass = np.cumsum(share[order]) / share.sum()
    quantile = float(ratio[order][min(int(np.searchsorted(mass, _COVERED)), len(order) - 1)])
    first, second, third = (round(float(one), 4) for one in slopes)
    return Coefficients(_EVEN.weights, (first, second, third), round(quantile, 2), _LIMIT)


def left_out(pairs: Pairs) -> dict[str, Coefficients]:
    """For each dataset what the others teach."""
    return {name: learn([one for one in pairs if one["dataset"] != name]) for name in _datasets(pairs)}


def _least(table: Array, wanted: Array, share: Array) -> Array:
    """Coefficients, not negative, of least absolute error, by reweighted least squares.

    Least squares would let the dataset decide on which all estimates are far off.
    """
    weight, found = share, np.zeros(table.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(weight)
        found, _ = nnls(table * root[:, None], wanted * root)
        weight = share / np.maximum(np.abs(table @ found - wanted), _CLOSE)
    return found


def _datasets(pairs: Pairs) -> list[str]:
    return list(dict.fromkeys(one["dataset"] for one in pairs))


def _shares(pairs: Pairs) -> Array:
    names = [one["dataset"] for one in pairs]
    return np.array([1 / names.count(name) for name in names])
