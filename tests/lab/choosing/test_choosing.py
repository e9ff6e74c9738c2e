"""``reproduce choosing``: the ledger is continued, and the losses are what they say."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from graphshift.lab.choosing import running
from graphshift.lab.choosing.running import Case
from graphshift.lab.choosing.tables import best_of, choosing_tables, chosen_by, losses
from graphshift.shift.choosing import ASKED


def seen(validation: float, expected: float, test: float) -> dict[str, Any]:
    by = dict.fromkeys(ASKED, expected)
    one = {"held_out": validation, "by": by}
    return {"validation": validation, "estimates": {"T1": one}, "tests": {"T1": test, "T2": test + 0.02}}


RECORD: dict[str, Any] = {
    "case": "made, 0",
    "experiment": "made",
    "draw": 0,
    "metric": "accuracy",
    "arms": {
        "edges": {"val": seen(0.9, 0.6, 0.5), "target": seen(0.88, 0.6, 0.55)},
        "plain": {"val": seen(0.8, 0.73, 0.7), "target": seen(0.78, 0.75, 0.69)},
        "near": {"val": seen(0.82, 0.609, 0.3), "target": seen(0.82, 0.609, 0.3)},
        "committee": {"val": seen(0.85, 0.77, 0.8)},
    },
}


def test_each_rule_chooses_by_what_it_may_see() -> None:
    assert chosen_by(RECORD, "val") == ("edges", pytest.approx(0.51))
    assert chosen_by(RECORD, "target") == ("plain", pytest.approx(0.71))
    assert chosen_by(RECORD, "target, epochs too") == ("plain", pytest.approx(0.70))
    assert chosen_by(RECORD, "target, with the committee") == ("committee", pytest.approx(0.81))
    assert best_of(RECORD) == ("plain", pytest.approx(0.71))
    assert list(losses(RECORD).values()) == pytest.approx([0.2, 0.0, 0.01, -0.1])
    loss, chosen = choosing_tables([RECORD])
    assert loss.rows == [
        ["made", "1", "20.0", "0.0", "1.0", "-10.0"],
        ["mean", "1", *loss.rows[0][2:]],
        ["÷ val", "", "1.00", "0.00", "0.05", "-0.50"],
    ]
    assert chosen.rows[0][1] == "edges (51.0)"


def test_data_that_are_not_here_are_left_out(tmp_path: Path) -> None:
    assert running.record_of(Case("cora", "cora"), tmp_path) is None


def test_a_case_keeps_what_the_rules_see() -> None:
    case = Case("planted", "planted", {"nodes": 100, "environments": 4}, 0, 2)
    found = running.record_of(case, None)
    assert found is not None
    assert set(found["arms"]) == {*running.ARMS, running.COMMITTEE}
    for name, one in found["arms"].items():
        assert set(one["val"]["estimates"]) == {"T1", "T2"}
        assert 0 <= fmean(one["val"]["tests"].values()) <= 1
        assert ("target" in one) == (name != running.COMMITTEE)
    assert choosing_tables([found])
