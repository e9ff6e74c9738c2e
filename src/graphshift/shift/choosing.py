"""Which of several models to use on an unlabelled target: validation's choice, unless another is expected to be ahead.

The estimates of two models' scores err alike. What counts is the error of their difference, which shows in how far the
estimates contradict each other about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from graphshift.data.metrics import METRICS, Metric
from graphshift.estimators.estimating import Estimate
from graphshift.shift.combining import LEARNED, Coefficients, combine, filled
from graphshift.training.target_score import believed

#: Of a percentage: models whose expected scores are this near to each other are told apart by validation.
NEAR = 0.01

#: The rule in words.
RULE = (
    "The model that validation prefers is used, unless another is expected to be ahead of it on the unlabelled target "
    "by more than the estimates contradict each other about that (their standard deviation), and by a point. Of "
    "several the one with the best expected score is taken; within one point validation decides. An expected score "
    "above the validation score is not believed."
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
    """By how much a model is expected to be ahead of another (below 0: behind), and the error of that."""

    value: float
    error: float

    def is_clear(self, metric: Metric) -> bool:
        """Whether it is above its error, and of a percentage above one point."""
        return self.value > max(self.error, NEAR if metric.percent else 0.0)


def anticipated(estimate: Estimate, learned: Coefficients = LEARNED) -> float:
    """The score that is acted on: the expected one; never above the held-out score.

    A refused estimate is not to be quoted, but models still have to be compared, by the same weighted mean.
    """
    value = estimate.expected
    if value is None and estimate.by:
        value = combine(estimate.by, estimate.held_out, learned).value
    return believed(estimate.held_out, [] if value is None else [value], METRICS[estimate.metric])


def gain_over(one: Evidence, other: Evidence, metric: Metric, learned: Coefficients = LEARNED) -> Gain:
    """How far ``one`` is expected to be ahead of ``other`` on the target, with the error of that.

    Every estimate says by how much; the weighted standard deviation of what they say is the error. What all estimates
    get wrong for both models alike is not in it.

    Args:
        one, other: estimates of both are of the same graphs.
        metric: of the estimates.
        learned: the weights of the estimates.
    """
    weights = np.array(list(learned.weights.values()))
    said = np.array([metric.sign * (_mean(one, name, metric) - _mean(other, name, metric)) for name in learned.weights])
    middle = np.average(said, weights=weights)
    error = float(np.sqrt(np.average((said - middle) ** 2, weights=weights)))
    return Gain(metric.sign * (one.expected - other.expected), error)


def choose(evidence: Mapping[str, Evidence], metric: str, preferred: str | None = None) -> str:
    """The name of the model to use: see :data:`RULE`.

    Args:
        evidence: of each model by name, the simplest first.
        metric: by name.
        preferred: what validation prefers; None for the best validation score.
    """
    about = METRICS[metric]
    near = NEAR if about.percent else 0.0
    first = preferred or max(evidence, key=lambda name: about.sign * evidence[name].val)
    usual = evidence[first]
    ahead = {name: one for name, one in evidence.items() if gain_over(one, usual, about).is_clear(about)}
    best = max((about.sign * one.expected for one in ahead.values()), default=0.0)
    close = [name for name, one in ahead.items() if best - about.sign * one.expected <= near]
    return max(close, key=lambda name: about.sign * evidence[name].val, default=first)


def _mean(one: Evidence, name: str, metric: Metric) -> float:
    """What one kind of estimate says, over all graphs; never above the held-out score."""
    said = ((e.held_out, filled({"held-out": e.held_out, **e.by}, name)) for e in one.estimates)
    return fmean(believed(held_out, [value], metric) for held_out, value in said)
