"""The rule ``target`` between models: what is believed, when it is clear, and when validation decides."""

from __future__ import annotations

import numpy as np
import pytest

from graphshift.data.metrics import METRICS
from graphshift.estimators.estimating import Estimate
from graphshift.shift.choosing import Evidence, anticipated, choose, gain_over
from graphshift.shift.combining import LEARNED, Coefficients

ACCURACY = METRICS["accuracy"]
EVEN = Coefficients({"doc": 0.5, "explored": 0.5}, (0.0, 0.0, 0.0), 1.0, 0.1)


def estimate(expected: float | None, held_out: float = 0.9, metric: str = "accuracy", **by: float) -> Estimate:
    said = by or dict.fromkeys(LEARNED.weights, expected or 0.0)
    return Estimate(metric, expected, 0.0, 1.0, held_out, said, "" if expected is not None else "because")


def test_a_refused_estimate_counts_with_its_weighted_mean_and_none_is_above_validation() -> None:
    assert anticipated(estimate(0.7)) == 0.7
    assert anticipated(estimate(0.95)) == 0.9
    refused = estimate(None, doc=0.8, explored=0.5)
    assert anticipated(refused, EVEN) == pytest.approx(0.65)
    assert anticipated(Estimate("accuracy", None, 0.0, 1.0, 0.9)) == 0.9  # nothing is known but validation


def test_the_error_of_a_gain_is_how_far_estimates_contradict_each_other_about_it() -> None:
    """Both are 0.2 off by `explored`: that is no error of their difference."""
    alike = [Evidence(0.9, [estimate(None, doc=a, explored=a - 0.2)]) for a in (0.8, 0.7)]
    found = gain_over(*alike, ACCURACY, EVEN)
    assert found.error == pytest.approx(0.0)
    assert found.is_clear(ACCURACY)
    apart = [Evidence(0.9, [estimate(None, doc=0.8, explored=a)]) for a in (0.7, 0.5)]
    assert gain_over(*apart, ACCURACY, EVEN).error == pytest.approx(float(np.std([0.0, 0.2])))
    several = [Evidence(0.9, [estimate(None, doc=a, explored=a), estimate(0.7, doc=0.7)]) for a in (0.8, 0.6)]
    assert gain_over(*several, ACCURACY, EVEN).error == pytest.approx(0.0)  # by kind, the mean over graphs


def test_validation_decides_unless_another_is_clearly_ahead() -> None:
    found = {
        "edges": Evidence(0.95, [estimate(0.6), estimate(0.5)]),
        "plain": Evidence(0.80, [estimate(0.75), estimate(0.75)]),
        "near": Evidence(0.85, [estimate(0.745), estimate(0.745)]),
    }
    assert found["edges"].expected == pytest.approx(0.55)
    assert choose(found, "accuracy") == "near"
    assert choose(found, "accuracy", "plain") == "plain"  # nothing is a point ahead of it
    assert choose({"edges": found["edges"]}, "accuracy") == "edges"
    names = list(LEARNED.weights)
    torn = {name: 0.9 if i % 2 else 0.45 for i, name in enumerate(names)}
    unsure = Evidence(0.9, [estimate(0.57, **torn)])
    assert 0.01 < gain_over(unsure, Evidence(0.95, [estimate(0.55)]), ACCURACY).value < 0.1
    assert choose({"edges": Evidence(0.95, [estimate(0.55)]), "unsure": unsure}, "accuracy") == "edges"


def test_of_an_error_the_least_is_best() -> None:
    found = {"a": Evidence(0.01, [estimate(0.3, 0.01, "ece")]), "b": Evidence(0.05, [estimate(0.1, 0.01, "ece")])}
    assert choose(found, "ece") == "b"
