"""Choosing with the unlabelled target: what each candidate is expected to score there, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.estimators.estimating import Estimate
from graphshift.shift.choosing import ASKED, Evidence
from graphshift.studies import Arm, Plan, recommending, run_study
from graphshift.studies.budget import Cost, Size, Sizing
from graphshift.studies.choosing import Candidate
from graphshift.studies.expecting import (
    chosen_on_target,
    doubts,
    evidence_of,
    expected_of,
    reason_on_target,
    with_expected,
    with_target,
)
from graphshift.studies.plan import COMMITTEE
from graphshift.studies.resolved import resolve

pytestmark = pytest.mark.filterwarnings("ignore::graphshift.GraphshiftWarning")
SMALL = {"nodes": 80, "environments": 4}


def estimate(value: float, *, refused: str = "") -> Estimate:
    by = dict.fromkeys(ASKED, value)
    return Estimate("accuracy", None if refused else value, value - 0.1, value + 0.1, 0.9, by, refused)


def candidate(name: str, score: float, best: float, rank: int, adapt: str | None = None) -> Candidate:
    return Candidate(name, name.split(",")[0], adapt, {"validation": score}, score, 0.01, best - score, 0.01, rank)


FOUND = [
    candidate("edges", 0.9, 0.9, 2),
    candidate("edges, + prior", 0.88, 0.9, 2, "prior"),
    candidate("plain", 0.8, 0.9, 1),
]


def test_the_target_decides_where_it_is_clear_and_validation_elsewhere() -> None:
    ahead = {"edges": Evidence(0.9, [estimate(0.5)]), "plain": Evidence(0.8, [estimate(0.7), estimate(0.8)])}
    best, first = chosen_on_target(FOUND, ahead, "accuracy")
    assert (best.name, first.name) == ("plain", "edges")
    said = reason_on_target(best, first, ahead, "accuracy")
    assert "expected to score 75.0 on the target † (65.0 to 85.0)" in said
    assert "25.0 ± 0.0 points ahead of edges, which validation prefers" in said
    near = ahead | {"edges": Evidence(0.9, [estimate(0.75)])}
    assert chosen_on_target(FOUND, near, "accuracy")[0].name == "edges"
    assert "no other candidate is clearly" in reason_on_target(FOUND[0], FOUND[0], near, "accuracy")
    # A correction of class shares is the same model to the estimates: it is not chosen by them.
    same = near | {"edges, + prior": Evidence(0.88, [estimate(0.85)])}
    assert chosen_on_target(FOUND, same, "accuracy")[0].name == "edges"
    assert chosen_on_target(FOUND, {"plain": ahead["plain"]}, "accuracy")[0].name == "edges"  # of it nothing is known
    assert "validation alone decided" in reason_on_target(FOUND[0], FOUND[0], {}, "accuracy")


def test_what_is_not_promised_is_said() -> None:
    torn = Evidence(0.9, [estimate(0.6, refused="torn"), estimate(0.8)])
    one = expected_of(torn)
    assert (one.score, one.low, one.high) == (pytest.approx(0.7), pytest.approx(0.7), pytest.approx(0.9))
    assert (one.count, one.refused, one.reason) == (2, 1, "torn")
    none = expected_of(Evidence(0.9, [estimate(0.6, refused="torn")]))
    assert none.low is None
    ranked = with_expected(FOUND, {"plain": Evidence(0.8, [estimate(0.8)]), "edges": torn}, "accuracy")
    assert [one.name for one in ranked] == ["plain", "edges", "edges, + prior"]
    said = doubts(ranked[1], "accuracy")
    assert said[0] == "Do not count on its score (1 of 2 estimates): torn."
    assert said[1].startswith("It is expected to lose 20 points against validation")
    assert len(doubts(ranked[0], "accuracy")) == 1
    assert doubts(ranked[2], "accuracy")[0].startswith("Nothing is known")


def test_targets_are_those_asked_for() -> None:
    data = gs.load("planted", **SMALL)
    assert with_target(data, None) == (data, False)
    assert with_target(data, "tests") == (data, True)
    more, looks = with_target(data, data.tests[0].replace(name="new"))
    assert looks
    assert [e.y for e in more.target] == [None]
    with pytest.raises(GraphshiftError, match="target of their own"):
        with_target(more, "tests")
    with pytest.raises(GraphshiftError, match=r"expected 'tests', or, for a dataset of your own tables, NODES\.csv"):
        with_target(data, "somewhere")
    with pytest.raises(GraphshiftError, match="no test environments"):
        with_target(gs.ShiftDataset("mine", data.train, data.val), "tests")


def test_final_runs_are_estimated_on_the_target_and_never_see_its_labels(tmp_path: Path) -> None:
    arms = [
        Arm("ERM", {"method": "erm", "backbone": "gcn", "epochs": 2}, {"lr": [0.01, 0.001]}),
        Arm("Logistic", {"method": "logistic"}),
        Arm("Largest", {"method": "majority"}),
        COMMITTEE,
    ]
    plan: dict[str, Any] = {"arms": arms, "seeds": [0], "trials": 2, "adapt": ("norm", "prior"), "expect": True}
    data = gs.load("planted", **SMALL)
    study = run_study(Plan(data, **plan), tmp_path / "s", workers=0, threads=1)
    wrong = gs.ShiftDataset(
        "planted", data.train, data.val, [e.replace(y=(e.y + 1) % 4) for e in data.tests if e.y is not None]
    )
    other = run_study(Plan(wrong, **plan), workers=0, threads=1)
    for one, two in zip(study.records, other.records, strict=True):
        for rule, chosen in one.selections.items():
            assert chosen.expected == two.selections[rule].expected
            if one.kind == "run":
                assert set(chosen.expected) == {"T1", "T2"}
            if one.arm == "ERM" and one.kind == "run":
                assert set(chosen.adapted["norm"].expected) == {"T1", "T2"}
                assert chosen.adapted["norm"].expected != chosen.expected
                assert not chosen.adapted["prior"].expected
    assert all(not r.selections["val"].expected for r in study.records if r.kind == "trial")
    members = next(arm for arm in study.summary.arms if arm.arm == "Committee").chosen
    lr = next(arm for arm in study.summary.arms if arm.arm == "ERM").chosen
    assert members == {"members": [{**arms[0].settings, **(lr or {})}, arms[1].settings]}
    again = run_study(Plan(data, **plan), tmp_path / "s", workers=0, threads=1)  # read back from the ledger
    assert again.records == study.records
    names = [row.arm for row in study.rows()]
    found = [candidate(name, 0.9, 0.9, 0, name.partition(", + ")[2] or None) for name in names]
    evidence = evidence_of([study], found)
    assert evidence["ERM, + prior"].estimates == evidence["ERM"].estimates
    assert evidence["ERM, + norm"].estimates != evidence["ERM"].estimates


def test_what_cannot_be_estimated_is_skipped_with_a_reason() -> None:
    arms = [Arm("Logistic", {"method": "logistic"}), Arm("Largest", {"method": "majority"}), COMMITTEE]
    data = gs.load("planted", **SMALL)
    with pytest.raises(GraphshiftError, match="has fewer than two"):
        Plan(data, arms, [0])
    plan = Plan(gs.ShiftDataset("mine", data.train, data.val), arms[:2], [0], expect=True)
    found = resolve(plan, plan.data or data)
    assert not found.expect
    assert "no unlabelled target" in found.skipped["expected score"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["Largest class", "Logistic regression", "ERM, gcn"]
    sizing = Sizing(Size(1, 0, 2), names, {}, 1.0)
    monkeypatch.setattr(recommending, "timed", lambda plan, *_, **__: ({arm.name: Cost(0.1) for arm in plan.arms}, {}))
    monkeypatch.setattr(recommending, "fitted_to", lambda *_, **__: sizing)


def test_with_a_target_there_is_one_answer_with_its_evidence(small: None, tmp_path: Path) -> None:
    found = gs.recommend("planted", 60.0, options=SMALL, target="tests", committee=True, threads=1, out=tmp_path / "r")
    assert list(found.answers) == ["target"]
    names = [one.name for one in found.answer.candidates]
    assert "Committee" in names
    assert found.name in names
    known = [one.expected.score for one in found.answer.candidates if one.expected]
    assert known == sorted(known, reverse=True)
    assert [one.target for one in found.moved] == ["T1", "T2"]
    text = str(found)
    assert "on the target †" in text
    assert f"From {found.moved[0].source} to T1: " in text
    assert "by what is expected on the unlabelled target; test labels were not used" in text
    assert "If labels mean something else there" in text
    assert found.frame["expected_score"].notna().any()
    content = json.loads((tmp_path / "r" / "recommendation.json").read_text())
    assert content["answers"]["target"]["candidates"][0]["expected"]["count"] == 2
    assert content["moved"][0]["target"] == "T1"
    page = (tmp_path / "r" / "report.html").read_text()
    assert "expected †" in page
    assert "What has moved" in page


def test_without_validation_the_target_cannot_help_and_it_is_said(small: None) -> None:
    data = gs.load("planted", **SMALL)
    alone = gs.ShiftDataset("mine", [*data.train, *data.val], target=data.tests)
    found = gs.recommend(alone, 60.0, threads=1)
    assert list(found.answers) == ["val"]
    assert "The target did not help to choose: there are no validation environments" in str(found)
    assert found.moved
