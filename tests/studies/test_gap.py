"""The share of the gap that an arm closes, and when there is no gap to close."""

from __future__ import annotations

from statistics import stdev

import pytest

from graphshift.studies.gap import NO_GAP, GapClosed, closed, limits_of
from tiny_studies import record


def test_the_share_is_the_arms_part_of_the_way_to_the_limit() -> None:
    found = closed(0.65, [0.5, 0.5], 0.8, 0.0, higher_is_better=True)
    assert found == GapClosed(pytest.approx(0.5), pytest.approx(0.3), 0.0, "50 %")
    assert closed(0.4, [0.5, 0.5], 0.7, 0.0, higher_is_better=True).share == pytest.approx(-0.5)
    assert closed(0.9, [0.5, 0.5], 0.7, 0.0, higher_is_better=True).text == "200 %"


def test_where_less_is_better_the_limit_is_below() -> None:
    found = closed(2.0, [3.0, 3.0], 1.0, 0.0, higher_is_better=False)
    assert (found.share, found.gap) == (pytest.approx(0.5), pytest.approx(2.0))
    assert closed(2.0, [1.0, 1.0], 3.0, 0.0, higher_is_better=False).text == NO_GAP


@pytest.mark.parametrize("limit", [0.5, 0.4], ids=["equal", "below"])
def test_a_limit_that_is_not_above_leaves_no_gap(limit: float) -> None:
    found = closed(0.9, [0.5], limit, 0.0, higher_is_better=True)
    assert (found.share, found.text) == (None, "no gap")


def test_a_gap_within_twice_its_standard_error_is_none() -> None:
    baseline = [0.4, 0.5, 0.6]
    error = stdev(baseline) / 3**0.5
    assert closed(0.6, baseline, 0.5 + 1.9 * error, 0.0, higher_is_better=True).text == NO_GAP
    assert closed(0.6, baseline, 0.5 + 2.1 * error, 0.0, higher_is_better=True).share is not None
    assert closed(0.6, baseline, 0.5 + 2.1 * error, 0.05, higher_is_better=True).text == NO_GAP  # the limit's own
    assert closed(0.6, baseline, 0.7, 0.05, higher_is_better=True).error == pytest.approx((error**2 + 0.0025) ** 0.5)


def test_a_limit_is_the_mean_over_environments_and_data_seeds() -> None:
    records = [
        record(kind="limit", environment="T1", folds=[0.2, 0.4]),
        record(kind="limit", environment="T1", folds=[0.6, 0.8]),
        record(kind="limit", environment="T2", folds=[0.9, 0.9]),
        record(kind="limit", environment="T2", folds=[0.7, 0.9]),
        record(kind="limit", environment="T1", folds=[0.1, 0.1], backbone="gat"),
        record(kind="limit", environment="T2", folds=[0.0], status="failed"),
        record(environment="T1", folds=[9.0]),
    ]
    limits = limits_of(records)
    assert limits["gcn"].environments["T1"].mean == pytest.approx(0.5)
    assert limits["gcn"].environments["T2"].mean == pytest.approx(0.85)
    assert limits["gcn"].mean == pytest.approx(0.675)
    spread = stdev([0.2, 0.4]) / 2**0.5  # the same for [0.6, 0.8] and [0.7, 0.9]
    assert limits["gcn"].error == pytest.approx((3 * spread**2) ** 0.5 / 4)
    assert limits["gat"].mean == pytest.approx(0.1)
