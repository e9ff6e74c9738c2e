"""The rule ``target`` between models: what is believed, when it is clear, and when validation decides."""

from __future__ import annotations

import numpy as np
import pytest

from graphshift.data.metrics import METRICS
from graphshift.estimators.estimating import Estimate
from graphshift.shift.choosing import ASKED, Evidence, anticipated, choose, gain_over

ACCURACY = METRICS["accuracy"]


def estimate(expected: float | None, held_out: float = 0.9, metric: str = "accuracy", **by: float) -> Estimate:
    said = by or dict.fromkeys(ASKED, expected or 0.0)
    return Estimate(metric, expected, 0.0, 1.0, held_out, said, "" if expected is not None else "because")


def test_a_refused_estimate_counts_with_its_mean_and_none_is_above_validation() -> None:
    assert anticipated(estimate(0.7)) == 0.7
    assert anticipated(estimate(0.95)) == 0.9
    refused = estimate(None, doc=0.8, explored=0.5)
    assert anticipated(refused) == pytest.approx(0.65)  # without class shares and a copy, `doc` stands for it
    assert anticipated(Estimate("accuracy", None, 0.0, 1.0, 0.9)) == 0.9  # nothing is known but validation


def test_a_gain_is_the_median_of_what_estimates_say_of_the_difference() -> None:
    """Both are 0.2 off by `explored`: that is no error of their difference."""
    alike = [Evidence(0.9, [estimate(None, doc=a, explored=a - 0.2)]) for a in (0.8, 0.7)]
    found = gain_over(*alike, ACCURACY)
    assert (found.value, found.error) == (pytest.approx(0.1), pytest.approx(0.0))
    first, second = (
        Evidence(0.9, [estimate(None, **{"doc-both": a, "doc-prior-both": b, "explored": c})])
        for a, b, c in ((0.8, 0.7, 0.6), (0.7, 0.68, 0.2))
    )
    found = gain_over(first, second, ACCURACY)
    assert found.value == pytest.approx(0.1)  # of 0.1, 0.02 and 0.4
    assert found.error == pytest.approx(float(np.std([0.1, 0.02, 0.4])))
    several = [Evidence(0.9, [estimate(None, doc=a, explored=a), estimate(0.7, doc=0.7)]) for a in (0.8, 0.6)]
    assert gain_over(*several, ACCURACY).value == pytest.approx(0.1)  # by kind, the mean over graphs


def test_validation_decides_unless_another_is_ahead() -> None:
    found = {
        "edges": Evidence(0.95, [estimate(0.6), estimate(0.5)]),
        "plain": Evidence(0.80, [estimate(0.75), estimate(0.75)]),
        "near": Evidence(0.85, [estimate(0.746), estimate(0.746)]),
    }
    assert found["edges"].expected == pytest.approx(0.55)
    assert choose(found, "accuracy") == "plain"
    assert choose(found, "accuracy", "near") == "near"  # nothing is half a point ahead of it
    assert choose({"edges": found["edges"]}, "accuracy") == "edges"
    alone = {"doc-both": 0.4, "doc-prior-both": 0.4, "explored": 0.9}  # two of three say that it is behind
    torn = {"edges": Evidence(0.95, [estimate(0.55)]), "torn": Evidence(0.9, [estimate(0.57, **alone)])}
    assert choose(torn, "accuracy") == "edges"


def test_of_an_error_the_least_is_best() -> None:
    found = {"a": Evidence(0.01, [estimate(0.3, 0.01, "ece")]), "b": Evidence(0.05, [estimate(0.1, 0.01, "ece")])}
    assert choose(found, "ece") == "b"
