"""Which of several models to use on an unlabelled target: validation's choice, unless another is expected to be ahead.

The estimates of two models' scores err alike. So what each estimate says of their difference counts, and of these the
median, which one estimate alone cannot decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from graphshift.data.metrics import METRICS, Metric
from graphshift.estimators.estimating import Estimate
from graphshift.shift.combining import LEARNED, averaged, filled
from graphshift.training.target_score import believed

#: Of a percentage: by how much another model has to be ahead.
AHEAD = 0.005

#: The estimates that are asked: of the copy that was moved to the target, with and without other class shares, and
#: what shifted copies teach.
ASKED = ("doc-both", "doc-prior-both", "explored")

#: The rule in words.
RULE = (
    "The model that validation prefers is used, unless another is expected to be ahead of it on the unlabelled target "
    "by more than half a point: by the median of what three estimates say of the difference. Of several the one that "
    "is furthest ahead is taken. An estimate above the validation score is not believed."
)


@dataclass(frozen=True)
class Evidence:
    """What is known of one model before any target label is.

    Attributes:
        val: its mean score on the validation environments.
        estimates: of its score on each target graph, and of several seeds.
    """

    val: float
    estimates: Sequence[Estimate]

    @property
    def expected(self) -> float:
        """The mean over target graphs of what it is expected to score there."""
        return fmean(anticipated(one) for one in self.estimates)

    @property
    def refused(self) -> tuple[str, ...]:
        """Why estimates were refused, each reason once."""
        return tuple(dict.fromkeys(one.refused for one in self.estimates if one.refused))


@dataclass(frozen=True)
class Gain:
    """By how much a model is expected to be ahead of another (below 0: behind), and how far estimates differ in it."""

    value: float
    error: float


def anticipated(estimate: Estimate) -> float:
    """The score that is shown: the expected one; never above the held-out score.

    A refused estimate is not to be quoted, but models still have to be put in order, by the same mean.
    """
    value = estimate.expected
    if value is None and estimate.by:
        value = averaged({"held-out": estimate.held_out, **estimate.by}, LEARNED.weights)
    return believed(estimate.held_out, [] if value is None else [value], METRICS[estimate.metric])


def gain_over(one: Evidence, other: Evidence, metric: Metric) -> Gain:
    """How far ``one`` is expected to be ahead of ``other`` on the target.

    The median of what each estimate says, and their standard deviation. What all estimates get wrong for both models
    alike is in neither.

    Args:
        one, other: estimates of both are of the same graphs.
        metric: of the estimates.
    """
    said = [metric.sign * (_mean(one, name, metric) - _mean(other, name, metric)) for name in ASKED]
    return Gain(median(said), float(np.std(said)))


def choose(evidence: Mapping[str, Evidence], metric: str, preferred: str | None = None) -> str:
    """The name of the model to use: see :data:`RULE`.

    Args:
        evidence: of each model by name, the simplest first.
        metric: by name.
        preferred: what validation prefers; None for the best validation score.
    """
    about = METRICS[metric]
    first = preferred or max(evidence, key=lambda name: about.sign * evidence[name].val)
    gain = {name: gain_over(one, evidence[first], about).value for name, one in evidence.items()}
    best = max(gain, key=lambda name: gain[name])
    return best if gain[best] > (AHEAD if about.percent else 0.0) else first


def _mean(one: Evidence, name: str, metric: Metric) -> float:
    """What one kind of estimate says, over all graphs; never above the held-out score."""
    said = ((e.held_out, filled({"held-out": e.held_out, **e.by}, name)) for e in one.estimates)
    return fmean(believed(held_out, [value], metric) for held_out, value in said)
