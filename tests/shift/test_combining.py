"""One estimate out of many."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphshift.data.metrics import METRICS
from graphshift.estimators.estimating import Estimate
from graphshift.shift.combining import LEARNED, Coefficients, combine, concluded, filled

BY = {"doc": 0.7, "doc-prior": 0.6, "doc-both": 0.5, "doc-prior-both": 0.4, "atc-confidence": 0.65}
ACCURACY = METRICS["accuracy"]
HALF = Coefficients({"doc": 0.5, "doc-both": 0.5}, (0.02, 0.5, 0.1), 2.0, 0.1)


def test_weights_error_and_interval_are_their_definition() -> None:
    found = combine(BY, 0.8, HALF, ACCURACY, 50)
    assert found.value == pytest.approx(0.6)
    assert found.error == pytest.approx(0.02 + 0.5 * 0.1 + 0.1 * 0.2)
    assert found.half**2 == pytest.approx((2 * found.error) ** 2 + 1.645**2 * 0.6 * 0.4 / 50)
    assert combine(BY, 0.8, HALF, METRICS["roc_auc"], 50).half == pytest.approx(2 * found.error)


def test_what_could_not_be_computed_is_replaced_by_the_nearest() -> None:
    by = {"held-out": 0.8, **BY}
    assert filled(by, "doc-both") == 0.5
    assert filled(by, "atc-confidence-both") == 0.5  # as ATC is not defined for every metric
    assert filled(by, "atc-confidence-prior") == 0.65
    assert filled({"held-out": 0.8, "doc": 0.7}, "doc-prior-both") == 0.7
    assert filled({"held-out": 0.8}, "atc-confidence-prior-both") == 0.8


def test_an_answer_has_its_interval_and_a_large_error_is_refused() -> None:
    plain = Estimate("accuracy", None, 0.0, 1.0, 0.8, BY)
    found = concluded(plain, ACCURACY, HALF, nodes=10**9)
    assert found.expected == pytest.approx(0.6)
    assert found.low == pytest.approx(0.6 - 0.18)
    far = concluded(plain, ACCURACY, Coefficients(HALF.weights, HALF.error, 2.0, 0.05), nodes=100)
    assert far.expected is None
    assert "an error of 9 points is expected" in far.refused
    near = Estimate("accuracy", None, 0.0, 1.0, 0.8, {"doc": 0.75, "doc-both": 0.7, "explored": 0.72})
    learned = concluded(near, ACCURACY, nodes=100)
    assert learned.expected is not None
    assert 0.7 <= learned.expected <= 0.75
    assert sum(LEARNED.weights.values()) == pytest.approx(1, abs=0.01)


def test_class_shares_that_moved_and_cannot_be_told_are_a_reason_to_refuse() -> None:
    plain = Estimate("accuracy", None, 0.0, 1.0, 0.8, {"doc": 0.75, "explored": 0.72}, untold=0.35)
    found = concluded(plain, ACCURACY, nodes=100)
    assert found.expected is None
    assert "class shares seem to have moved for 35 % of the nodes" in found.refused
    assert concluded(replace(plain, untold=0.19), ACCURACY, nodes=100).expected is not None
    assert concluded(plain, METRICS["roc_auc"], nodes=100).expected is not None  # the same under any class shares
