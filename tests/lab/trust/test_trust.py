"""The ledger of what was promised: it is continued, and its tables count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs
from graphshift.estimators.answering import aurc
from graphshift.lab.trust import running
from graphshift.lab.trust.figures import draw_trust
from graphshift.lab.trust.tables import (
    abstaining_table,
    audit_table,
    calibration_table,
    coverage_table,
    inside_table,
    trust_tables,
)


def test_a_case_is_measured_and_shown(tmp_path: Path) -> None:
    wanted = running.cases(None, draws=1, nodes=100)
    assert [case.key for case in wanted] == ["planted-structure, 0", "planted, 0"]
    record = running.record_of(wanted[0], epochs=3, flipped=1)
    assert record is not None
    assert json.loads(json.dumps(record)) == record
    assert [len(table.rows) for table in trust_tables([record])] == [8, 1, 2, 1, 1, 1]
    names = sorted(path.name for path in draw_trust([record], tmp_path))
    assert names == [f"trust-{what}.{suffix}" for what in ("reliability", "risk") for suffix in ("png", "svg")]


def test_data_that_are_not_here_are_left_out(tmp_path: Path) -> None:
    absent = [case for case in running.cases(tmp_path, draws=0) if case.dataset == "pubmed-temporal"]
    assert [running.record_of(case) for case in absent] == [None]


def test_a_test_is_measured_as_the_model_says() -> None:
    data = gs.load("planted-structure", nodes=200)
    model = gs.ERM("sage", epochs=10).fit(data)
    model.explore(data.val)
    test = data.tests[0]
    found, y = running.on_test(model, test, data.val), test.y.numpy()
    p = model.predict_proba(test, calibrated="target")
    right = p.argmax(axis=1) == y
    assert found["target"]["accuracy"] == pytest.approx(right.mean())
    assert found["target"]["aurc"] == pytest.approx(aurc(p.max(axis=1), right))
    assert sum(count for count, *_ in found["target"]["bins"]) == found["nodes"] == 200
    aimed = gs.calibrate_to(model, test, data.val)
    moved = aimed.predict_set(test, 0.9)
    assert found["sets"]["moved"]["coverage"] == pytest.approx(moved.covers(y).mean())
    assert found["abstain_moved"]["share"] == pytest.approx(aimed.predict_or_abstain(test, 0.05).answered.mean())
    assert found["moved"]["ece"] == gs.reliability(model, test, data.val).graphs[test.name]["moved"].ece
    sets = model.predict_set(test, 0.9, weights="copies")
    assert found["sets"]["copies"]["coverage"] == pytest.approx(sets.covers(y).mean())
    answers = model.predict_or_abstain(test, 0.05)
    assert found["abstain"]["share"] == pytest.approx(answers.answered.mean())


def made(dataset: str, share: float, error: float | None, draw: int = 0, **more: Any) -> dict[str, Any]:
    kinds = {"raw": (0.2, 0.3), "validation": (0.1, 0.3), "target": (0.05, 0.2), "moved": (0.04, 0.1)}
    test: dict[str, Any] = {name: {"ece": e, "aurc": a, "accuracy": 0.5} for name, (e, a) in kinds.items()}
    test["abstain"] = {"share": share, "error": error, "refused": "" if share else "why"}
    test |= {"abstain_moved": test["abstain"], "graph_aware": dataset == "cora"}
    test["sets"] = {name: {"coverage": 0.91, "size": 1.5} for name in running.WEIGHTS}
    return {"case": f"{dataset}, {draw}", "dataset": dataset, "draw": draw, "tests": {"T": test}, **more}


def test_tables_count() -> None:
    flips = {"sizes": [[1, 4], [2, None], [None, None], [3, 6]]}
    lost = {"train": {"rewired": 0.5, "dropped": 0.4}, "val": {"rewired": 0.2, "dropped": 0.1}}
    audit = {"lost": lost, "crutch": True, "spurious_auroc": 0.975}
    records = [made("twitch", 0.5, 0.04, audit=audit, flips=flips), made("twitch", 0.3, 0.1, draw=1)]
    records += [made("cora", 0.1, 0.5), made("cora", 1.0, 0.01, draw=1), made("photo", 0.0, None)]
    assert coverage_table(records).rows == [["twitch, T", "50.0", *["91.0 (1.50)"] * 5]]
    assert inside_table(records).rows[0] == ["twitch", "2", *["2 (1.0)"] * 5]
    assert [row[-1] for row in calibration_table(records).rows] == ["0 of 2", "2 of 2", "0 of 1", ""]
    mean = ["mean", "20.0", "10.0", "5.0", "4.0", "30.000", "30.000", "20.000", "10.000", ""]
    assert calibration_table(records).rows[-1] == mean
    assert abstaining_table(records).rows == [
        ["twitch", "2", "0", "40", "2", "4.0 to 10.0", "1", "1"],
        ["cora", "2", "0", "55", "1", "1.0 to 1.0", "1", "1"],
        ["photo", "1", "1", "0", "0", "–", "0", "0"],
    ]
    row = audit_table(records).rows[0]
    assert row == ["twitch, 0", "50 → 20", "40 → 10", "yes", "0.975", "2.0", "5.0", "3/2"]
