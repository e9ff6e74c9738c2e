"""Which of several models to use on an unlabelled target: the rule ``target`` between settings, arms and committees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from graphshift.data.metrics import METRICS
from graphshift.estimators.estimating import Estimate
from graphshift.training.target_score import believed

#: Models whose expected scores are this near to each other are told apart by validation: estimates are not finer.
NEAR = 0.01

#: The rule in words.
RULE = (
    "The model with the best expected score on the unlabelled target is chosen; an expected score above the validation "
    "score is not believed. Between models within one point of the best, validation decides."
)


@dataclass(frozen=True)
class Evidence:
    """What is known of one model before any target label is.

    Attributes:
        val: its mean score on the validation environments.
        estimates: of its score on each target graph.
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


def anticipated(estimate: Estimate) -> float:
    """The score that is acted on: the expected one, else the median of all estimates; never above the held-out score.

    A refused estimate is not to be quoted, but models still have to be compared.
    """
    values = list(estimate.by.values()) if estimate.expected is None else [estimate.expected]
    return believed(estimate.held_out, values, METRICS[estimate.metric])


def choose(evidence: Mapping[str, Evidence], metric: str, *, near: float = NEAR) -> str:
    """The name of the model to use: see :data:`RULE`.

    Args:
        evidence: of each model by name, the simplest first.
        metric: by name.
        near: how near to the best expected score validation decides; of a metric that is no share, 0.
    """
    about = METRICS[metric]
    near = near if about.percent else 0.0
    best = max(about.sign * one.expected for one in evidence.values())
    close = [name for name, one in evidence.items() if best - about.sign * one.expected <= near]
    return max(close, key=lambda name: about.sign * evidence[name].val)
