"""One estimate out of many: weights, an interval and a limit that were learned on other datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphshift.data.metrics import Metric
from graphshift.estimators.estimating import Estimate
from graphshift.shift.matching import MOVES

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


def combine(by: Mapping[str, float], held: float, found: Coefficients) -> Combined:
    """The weighted estimates.

    Args:
        by: estimates by name.
        held: the score on held-out nodes.
        found: what was learned.
    """
    spread, value = (
        stated({"held-out": held, **by}, held, found.weights),
        _mean({"held-out": held, **by}, found.weights),
    )
    error = float(np.dot(found.error, spread))
    return Combined(value, error, found.quantile * error)


def stated(by: Mapping[str, float], held: float, weights: Mapping[str, float]) -> Array:
    """What the expected error follows from: 1, the spread of the weighted estimates, their distance to ``held``."""
    value = _mean(by, weights)
    square = sum(weight * (filled(by, name) - value) ** 2 for name, weight in weights.items())
    return np.array([1.0, np.sqrt(square / sum(weights.values())), abs(value - held)])


def _mean(by: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return sum(weight * filled(by, name) for name, weight in weights.items()) / sum(weights.values())


def filled(by: Mapping[str, float], name: str) -> float:
    """An estimate, or the nearest to it that could be computed.

    Without the correction for class shares, where these cannot be told; by DoC, where ATC is not defined; without
    what was moved, where no copy could be made; at last the held-out score.
    """
    move = next((move for move in MOVES if name.endswith(f"-{move}")), "")
    base = name.removesuffix(f"-{move}")
    doc = base.replace("atc-confidence", "doc")
    for one in (base, base.replace("-prior", ""), doc, doc.replace("-prior", "")):
        if (wanted := f"{one}-{move}" if move else one) in by:
            return by[wanted]
    return filled(by, base) if move else by["held-out"]


#: Learned by `graphshift reproduce estimate`, on all its datasets; its tables leave out whole datasets.
LEARNED = Coefficients(
    {"doc-both": 0.33, "doc-prior-both": 0.333, "explored": 0.337}, (0.0159, 0.5405, 0.1004), 2.93, 0.1
)


def concluded(plain: Estimate, metric: Metric, learned: Coefficients = LEARNED) -> Estimate:
    """The answer, with its interval; or a refusal.

    Args:
        plain: with all estimates.
        metric: of them.
        learned: their weights.
    """
    found = combine(plain.by, plain.held_out, learned)
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
