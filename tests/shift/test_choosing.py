"""The rule ``target`` between models: what is believed, and when validation decides."""

from __future__ import annotations

from statistics import median

import pytest

from graphshift.estimators.estimating import Estimate
from graphshift.shift.choosing import Evidence, anticipated, choose


def estimate(expected: float | None, held_out: float = 0.9, **by: float) -> Estimate:
    refused = "" if expected is not None else "because"
    return Estimate("accuracy", expected, 0.0, 1.0, held_out, by or {"doc": expected or 0.0}, refused)


def test_a_refused_estimate_counts_with_its_median_and_none_is_above_validation() -> None:
    assert anticipated(estimate(0.7)) == 0.7
    assert anticipated(estimate(0.95)) == 0.9
    by = {"doc": 0.8, "weighted": 0.5, "atc-entropy": 0.6}
    assert anticipated(estimate(None, **by)) == median(by.values())


def test_the_best_expected_score_wins_and_validation_decides_between_near_ones() -> None:
    found = {
        "edges": Evidence(0.95, [estimate(0.6), estimate(0.5)]),
        "plain": Evidence(0.80, [estimate(0.75), estimate(0.75)]),
        "near": Evidence(0.85, [estimate(0.745), estimate(0.745)]),
    }
    assert found["edges"].expected == pytest.approx(0.55)
    assert choose(found, "accuracy") == "near"
    assert choose(found, "accuracy", near=0.0) == "plain"
    assert choose({"edges": found["edges"]}, "accuracy") == "edges"


def test_of_an_error_the_least_is_best() -> None:
    def error(expected: float) -> Estimate:
        return Estimate("ece", expected, 0.0, 1.0, 0.01, {"doc": expected})

    found = {"a": Evidence(0.01, [error(0.3)]), "b": Evidence(0.05, [error(0.1)])}
    assert choose(found, "ece", near=0.0) == "b"
