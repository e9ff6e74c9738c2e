"""``reproduce batches``: every kind of batch is what it says, and differences are paired by seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from graphshift.lab.batches import running
from graphshift.lab.batches.running import KINDS, METHODS, Case, cases
from graphshift.lab.batches.tables import advantage_table, batches_tables, difference, scores_table


def record(method: str, kind: str, seed: int, mean: float) -> dict[str, Any]:
    own = {"case": f"{method} {kind} {seed}", "dataset": "made", "metric": "accuracy", "seconds": 0.5}
    return {**own, "method": method, "kind": kind, "seed": seed, "mean": mean}


RECORDS = [
    record(method, kind, seed, 0.5 + 0.1 * (method == "EERM") + 0.01 * seed * (1 + (kind == "parts")))
    for method in METHODS
    for kind in KINDS
    for seed in range(3)
]


def test_cases() -> None:
    wanted = cases(2)
    assert len({case.key for case in wanted}) == len(wanted) == 2 * 2 * len(METHODS) * len(KINDS)
    assert {case.kind: case.epochs for case in wanted} == {KINDS[0]: 150, KINDS[1]: 30, KINDS[2]: 30}
    assert {dict(case.options).get("seed") for case in wanted} == {0, 1, None}  # PubMed's split is fixed


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_on_each_kind(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []
    make = running.make_estimator

    def noted(own: dict[str, Any], *rest: Any) -> Any:
        given.append(own)
        return make(own, *rest)

    monkeypatch.setattr(running, "make_estimator", noted)
    epochs = 10 if kind == KINDS[0] else 2
    found = running.record_of(Case("planted-structure", {"nodes": 100, "tests": 2}, epochs, "EERM", kind), None)
    batched = {"sampled neighbours": {"batch_nodes": 20}, "parts": {"batch_parts": 4}}.get(kind, {})
    assert {name: value for name, value in given[0].items() if name.startswith("batch_")} == batched
    assert found is not None
    assert found["steps"] == 10  # of the weights: as many of each kind
    assert list(found["tests"]) == ["T1", "T2"]
    assert found["mean"] == pytest.approx((found["tests"]["T1"] + found["tests"]["T2"]) / 2)
    assert batches_tables([found])[0].rows[0][2] == kind


def test_differences_are_paired_by_seed() -> None:
    gains = [0.0, 0.01, 0.02]
    interval = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    shown = f"+1.0 [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"
    assert difference(gains) == shown
    assert difference([]) == "–"
    assert difference([0.03]) == "+3.0"
    rows = {tuple(row[1:3]): row[3:] for row in scores_table(RECORDS).rows}
    assert rows["ERM", "full batch"] == ["51.0 ± 1.0", "–", "0.50", "3"]
    assert rows["ERM", "parts"] == ["52.0 ± 2.0", shown, "0.50", "3"]
    assert [row[1:] for row in advantage_table(RECORDS).rows] == [
        ["full batch", "+10.0", "–"],
        ["sampled neighbours", "+10.0", "+0.0"],
        ["parts", "+10.0", "+0.0"],
    ]


def test_data_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    assert running.record_of(Case("pubmed-temporal"), tmp_path) is None
