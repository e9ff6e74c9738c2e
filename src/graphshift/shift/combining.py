"""One estimate out of many: a mean of few, with an error and an interval that were learned on other datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphshift.data.expected import share_right
from graphshift.data.metrics import Metric
from graphshift.estimators.estimating import Estimate
from graphshift.shift.matching import MOVES

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coefficients:
    """What is learned on many (model, graph) pairs with labels.

    Attributes:
        weights: of estimates by name; they add up to 1. They are even: learned ones did worse on datasets left out.
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


def combine(by: Mapping[str, float], held: float, found: Coefficients, metric: Metric, nodes: int) -> Combined:
    """The weighted estimates.

    Args:
        by: estimates by name.
        held: the score on held-out nodes.
        found: what was learned.
        metric: of all.
        nodes: of the graph that count.
    """
    known = {"held-out": held, **by}
    value, error = averaged(known, found.weights), float(np.dot(found.error, stated(known, held, found.weights)))
    return Combined(value, error, float(np.hypot(found.quantile * error, drawn(value, metric, nodes))))


def drawn(value: float, metric: Metric, nodes: int) -> float:
    """What chance alone adds to the interval of a share of right nodes: 1.645 standard errors of so many nodes."""
    if not share_right(metric):
        return 0.0
    value = min(max(value, 0.0), 1.0)
    return 1.645 * float(np.sqrt(value * (1 - value) / max(nodes, 1)))


def lost(untold: float, metric: Metric) -> bool:
    """Whether class shares seem to have moved so far, without being told, that no number is given.

    ROC-AUC is the same under any class shares.
    """
    return untold > _UNTOLD and metric.name != "roc_auc"


def stated(by: Mapping[str, float], held: float, weights: Mapping[str, float]) -> Array:
    """What the expected error follows from: 1, the spread of the weighted estimates, their distance to ``held``."""
    value = averaged(by, weights)
    square = sum(weight * (filled(by, name) - value) ** 2 for name, weight in weights.items())
    return np.array([1.0, np.sqrt(square / sum(weights.values())), abs(value - held)])


def averaged(by: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted mean of estimates, "held-out" among them."""
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
LEARNED = Coefficients({"doc-prior-both": 0.5, "explored": 0.5}, (0.0137, 0.4262, 0.1085), 2.66, 0.1)

_UNTOLD = 0.2  # total variation: as far as two estimates of class shares may be apart


def concluded(plain: Estimate, metric: Metric, learned: Coefficients = LEARNED, *, nodes: int) -> Estimate:
    """The answer, with its interval; or a refusal.

    Args:
        plain: with all estimates.
        metric: of them.
        learned: their weights.
        nodes: of the graph that count.
    """
    found = combine(plain.by, plain.held_out, learned, metric, nodes)
    low, high = metric.bounds or (-np.inf, np.inf)
    value = float(np.clip(found.value, low, high))
    ends = max(low, value - found.half), min(high, value + found.half)
    why = ""
    if found.error > learned.limit:
        why = (
            f"the estimates contradict each other, or the graph is too far from validation: an error of "
            f"{100 * found.error:.0f} points is expected (at most {100 * learned.limit:.0f} is accepted)"
        )
    elif lost(plain.untold, metric):
        why = (
            f"the class shares seem to have moved for {100 * plain.untold:.0f} % of the nodes, but cannot be told: by "
            "these alone the score may change"
        )
    return replace(plain, expected=None if why else value, low=ends[0], high=ends[1], refused=why)
