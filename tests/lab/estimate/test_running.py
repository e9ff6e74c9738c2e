"""The ledger of estimates: continued, learned from, and never judged by its own labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.lab.estimate import running
from graphshift.lab.estimate.cases import cases
from graphshift.lab.estimate.figure import draw_estimate
from graphshift.lab.estimate.learning import CANDIDATES, learn, left_out
from graphshift.lab.estimate.tables import answers, estimate_tables


def test_a_ledger_is_continued_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = running.run_estimate(tmp_path, None, quick=True)
    assert [record["arm"] for record in first] == [arm for case in cases(quick=True) for arm in case.arms]
    monkeypatch.setattr(running, "estimate_score", None)  # nothing is estimated again
    ledger = tmp_path / "results.jsonl"
    lines = ledger.read_text()
    assert running.run_estimate(tmp_path, None, quick=True) == first
    assert ledger.read_text() == lines
    ledger.write_text("{\n")
    with pytest.raises(GraphshiftError, match="cannot be read"):
        running.shown_estimate(ledger)


def test_after_a_stop_only_the_missing_models_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = running.run_estimate(tmp_path, None, quick=True)
    ledger = tmp_path / "results.jsonl"
    first, second, _ = ledger.read_text().split("\n")
    ledger.write_text(first + "\n" + second[:40])  # the second line was torn
    asked = []
    ask = running.estimate_score

    def counted(model: Any, *args: Any, **how: Any) -> Any:
        asked.append(model)
        return ask(model, *args, **how)

    monkeypatch.setattr(running, "estimate_score", counted)
    assert running.run_estimate(tmp_path, None, quick=True) == whole
    assert len(asked) == 1
    assert running.shown_estimate(ledger) == whole


def made(seed: int = 0) -> list[dict[str, Any]]:
    """Three datasets on which one estimate is nearly right, and the other knows nothing."""
    random, records = np.random.default_rng(seed), []
    for dataset in ("a", "b", "c"):
        for arm in range(3):
            tests = []
            for i in range(8):
                truth = random.uniform(0.4, 0.9)
                by = {name: random.uniform(0.3, 1.0) for name in CANDIDATES if name != "held-out"}
                by["doc-prior-both"] = truth + random.normal() * 0.01
                about = {"test": f"T{i}", "nodes": 500, "truth": truth, "untold": 0.0}
                tests.append(about | {"by": by, "reach": 1.0})
            record = {"case": dataset, "dataset": dataset, "arm": str(arm), "metric": "accuracy", "held_out": 0.8}
            records.append({**record, "tests": tests})
    return records


def test_the_expected_error_grows_with_what_the_estimates_contradict_each_other() -> None:
    """They are apart by twice the error, for one of the two is right: the spread of the two is the error."""
    found = learn(running.pairs_of(made()))
    assert found.error[1] == pytest.approx(1, abs=0.15)
    assert found.quantile < 2


def test_pairs_whose_class_shares_cannot_be_told_are_refused_and_teach_nothing() -> None:
    records = made()
    before = learn(running.pairs_of(records))
    lost = {"test": "lost", "nodes": 500, "truth": 0.0, "untold": 0.5, "reach": 1.0}
    records[0]["tests"].append(lost | {"by": dict.fromkeys(CANDIDATES, 1.0)})
    assert learn(running.pairs_of(records)) == before
    assert [refused for pair, _, refused in answers(records) if pair["test"] == "lost"] == [True]


def test_nine_of_ten_lie_inside_the_interval() -> None:
    found = [abs(one.value - pair["truth"]) <= one.half for pair, one, _ in answers(made())]
    assert 0.75 <= np.mean(found) <= 1.0


def test_labels_of_a_dataset_do_not_change_what_is_said_of_it() -> None:
    records = made()
    before = left_out(running.pairs_of(records))
    for record in records:
        for test in record["tests"] if record["dataset"] == "b" else ():
            test["truth"] = 0.1
    after = left_out(running.pairs_of(records))
    assert after["b"] == before["b"]
    assert after["a"] != before["a"]


def test_tables_and_figure(tmp_path: Path) -> None:
    records = made()
    shown, single, weights = estimate_tables(records)
    assert [row[0] for row in shown.rows] == ["a", "b", "c", "median"]
    tests = {name: [t for r in records if r["dataset"] == name for t in r["tests"]] for name in "abc"}
    errors = [100 * np.mean([abs(t["by"]["doc-prior-both"] - t["truth"]) for t in own]) for own in tests.values()]
    row = next(row for row in single.rows if row[0] == "doc-prior-both")
    assert row[1:] == [f"{error:.1f}" for error in errors]
    assert weights.columns == ["", "a", "b", "c"]
    assert all(path.stat().st_size for path in draw_estimate(records, tmp_path))
