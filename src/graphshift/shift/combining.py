"""One estimate out of many: weights, an interval and a limit that were learned on other datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphshift.data.metrics import Metric
from graphshift.estimators.estimating import Estimate

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coefficients:
    """What is learned on many (model, graph) pairs with labels.

    Attributes:
        weights: of estimates by name; they add up to 1.
        error: the expected error: a constant, and what each point of spread between the weighted estimates, and of
            their distance to the held-out score, adds.
        quantile: of the error, as a multiple of the expected one, that 90 of 100 pairs stay below.
        limit: the expected error above which no number is given.
    """

    weights: dict[str, float]
    error: tuple[float, float, float]
    quantile: float
    limit: float

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Combined:
    """An estimate, the error that is expected of it, and the half of its interval."""

    value: float
    error: float
    half: float


def combine(by: Mapping[str, float], held: float, found: Coefficients) -> Combined | None:
    """The weighted estimates; None if none that has a weight is there.

    Args:
        by: estimates by name.
        held: the score on held-out nodes.
        found: what was learned.
    """
    names = [name for name in found.weights if name in by]
    if not names:
        return None
    weight = np.array([found.weights[name] for name in names])
    values = np.array([by[name] for name in names])
    value = float(np.average(values, weights=weight))
    error = float(np.dot(found.error, _stated(values, weight, value, held)))
    return Combined(value, error, found.quantile * error)


def _stated(values: Array, weight: Array, value: float, held: float) -> Array:
    spread = float(np.sqrt(np.average((values - value) ** 2, weights=weight)))
    return np.array([1.0, spread, abs(value - held)])


#: Learned by `graphshift reproduce estimate`, on all its datasets; its tables leave out whole datasets.
LEARNED = Coefficients({"doc-prior-both": 0.5, "doc-both": 0.5}, (0.03, 0.5, 0.2), 2.0, 0.2)


def concluded(plain: Estimate, metric: Metric, learned: Coefficients = LEARNED) -> Estimate:
    """The answer, with its interval; or a refusal.

    Args:
        plain: with all estimates.
        metric: of them.
        learned: what they are worth.
    """
    found = combine(plain.by, plain.held_out, learned)
    if found is None:
        return plain
    low, high = metric.bounds or (-np.inf, np.inf)
    value = float(np.clip(found.value, low, high))
    ends = max(low, value - found.half), min(high, value + found.half)
    why = ""
    if found.error > learned.limit:
        why = (
            f"the estimates contradict each other, or the graph is too far from validation: an error of "
            f"{100 * found.error:.0f} points is expected (at most {100 * learned.limit:.0f} is accepted)"
        )
    return replace(plain, expected=None if why else value, low=ends[0], high=ends[1], refused=why)
