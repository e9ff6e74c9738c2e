"""What each estimate is worth, learned on pairs of models and tests; and judged on datasets that were left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from graphshift.shift.combining import Coefficients, combine, filled, stated

Array = NDArray[np.float64]
Pairs = Sequence[Mapping[str, Any]]

_FORMS = ("doc", "atc-confidence", "doc-prior", "atc-confidence-prior")

#: Estimates that may get a weight: with all that the target shows, or with none of it. What was moved alone (edges,
#: features) is shown and gets none: which of them matters differs from dataset to dataset. `agreement` gets none
#: either, for it needs further models.
CANDIDATES = ("held-out", *_FORMS, *(f"{name}-both" for name in _FORMS), "score-both", "explored")

_RIDGES = (0.02, 0.1, 0.3, 1.0)  # that keep weights even, as a share of the mean square: chosen on datasets left out
_SMALL = 0.02  # weights below are left out
_LEAST = 0.005  # error that is always expected
_COVERED = 0.9
_LIMIT = 0.1  # the expected error above which no number is given


def learn(pairs: Pairs) -> Coefficients:
    """Weights of least squared error, all datasets alike; the expected error, and its 90 % quantile.

    Errors are those that weights make which were learned without the dataset.
    """
    tried = {ridge: _unseen(pairs, ridge) for ridge in _RIDGES}
    share = _shares(pairs)
    ridge = min(tried, key=lambda one: float((share * tried[one][0]).sum()))
    errors, facts = tried[ridge]
    root = np.sqrt(share)
    slopes, _ = nnls(facts * root[:, None], errors * root)
    slopes[0] = max(slopes[0], _LEAST)
    ratio = errors / (facts @ slopes)
    order = np.argsort(ratio)
    mass = np.cumsum(share[order]) / share.sum()
    quantile = float(ratio[order][min(int(np.searchsorted(mass, _COVERED)), len(order) - 1)])
    first, second, third = (round(float(one), 4) for one in slopes)
    return Coefficients(_weights(pairs, ridge), (first, second, third), round(quantile, 2), _LIMIT)


def _unseen(pairs: Pairs, ridge: float) -> tuple[Array, Array]:
    """The error of each pair by weights that were learned without its dataset, and what it is expected from."""
    errors, facts = np.empty(len(pairs)), np.empty((len(pairs), 3))
    for name in _datasets(pairs):
        others = [one for one in pairs if one["dataset"] != name]
        plain = Coefficients(_weights(others or pairs, ridge), (1.0, 0.0, 0.0), 1.0, np.inf)
        for i, pair in enumerate(pairs):
            if pair["dataset"] == name:
                errors[i] = abs(combine(pair["by"], pair["held_out"], plain).value - pair["truth"])
                facts[i] = stated(_by(pair), pair["held_out"], plain.weights)
    return errors, facts


def left_out(pairs: Pairs) -> dict[str, Coefficients]:
    """For each dataset what the others teach."""
    return {name: learn([one for one in pairs if one["dataset"] != name]) for name in _datasets(pairs)}


def _weights(pairs: Pairs, ridge: float) -> dict[str, float]:
    table = np.array([[filled(_by(one), name) for name in CANDIDATES] for one in pairs])
    truth, root = np.array([one["truth"] for one in pairs]), np.sqrt(_shares(pairs))
    weights = _simplex((table - truth[:, None]) * root[:, None], ridge)
    kept = {name: float(w) for name, w in zip(CANDIDATES, weights, strict=True) if w >= _SMALL}
    return {name: round(w / sum(kept.values()), 3) for name, w in kept.items()}


def _simplex(errors: Array, ridge: float) -> Array:
    """Weights of columns of least square, not negative, that add up to 1."""
    rows, columns = errors.shape
    scale = np.sqrt((errors**2).mean())
    even = np.sqrt(ridge * rows) * scale * np.eye(columns)
    most = 1e3 * scale * np.sqrt(rows)  # on the sum
    left = np.concatenate([errors, even, most * np.ones((1, columns))])
    found, _ = nnls(left, np.append(np.zeros(rows + columns), most))
    return np.asarray(found / found.sum())


def _datasets(pairs: Pairs) -> list[str]:
    return list(dict.fromkeys(one["dataset"] for one in pairs))


def _by(one: Mapping[str, Any]) -> dict[str, float]:
    return {"held-out": one["held_out"], **one["by"]}


def _shares(pairs: Pairs) -> Array:
    names = [one["dataset"] for one in pairs]
    return np.array([1 / names.count(name) for name in names])
