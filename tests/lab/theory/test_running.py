"""``graphshift reproduce theory``: verdicts, committed results, resuming, showing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.lab.theory import running
from graphshift.lab.theory.cases import BETAS, CASES, QUICK_BETAS
from graphshift.lab.theory.running import run_theory, shown_theory, statements
from graphshift.lab.theory.tables import statements_markdown, theory_tables
from graphshift.report.study_tables import markdown_table

RESULTS = Path(__file__).resolve().parents[3] / "results/theory"

VERDICTS = [
    ("Eq. 6", "holds"),
    ("Section 2.1", "needs more"),
    ("Lemma 1", "holds"),
    ("Lemma 1", "needs more"),
    ("Theorem 1.1", "holds"),
    ("Theorem 1, proof", "fails"),
    ("Theorem 1.2, proof", "fails"),
    ("Theorem 1.2", "needs more"),
    ("Theorem 2", "needs more"),
    ("Theorem 2 (ours)", "holds"),
    ("Theorem 2", "needs more"),
    ("Eq. 4", "needs more"),
    ("Lemma 2", "holds"),
    ("Lemma 3", "needs more"),
    ("Lemma 4", "holds"),
    ("Theorem 3", "fails"),
    ("Theorem 3", "needs more"),
    ("Theorem 3", "needs more"),
]


def test_verdicts_follow_from_numbers() -> None:
    found = statements()
    assert sorted((s.place, s.verdict) for s in found) == sorted(VERDICTS)
    for statement in found:
        assert bool(statement.needs) == (not statement.holds)
        assert "{" not in "".join(statement.shown)
    committed = shown_theory(RESULTS / "results.json")["statements"]
    assert [(row["place"], row["says"], row["verdict"]) for row in committed] == [
        (s.place, s.says, s.verdict) for s in found
    ]
    for row, statement in zip(committed, found, strict=True):
        assert row["numbers"] == pytest.approx(statement.numbers, abs=1e-6)
        assert (row["found"], row["needs"]) == statement.shown


def same(left: Any, right: Any) -> bool:
    """Equal up to the last digits, which a machine's optimiser may set otherwise."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == pytest.approx(right, abs=1e-6) if isinstance(left, float) else left == right


def test_committed_results_are_those_of_the_code(tmp_path: Path) -> None:
    committed = shown_theory(RESULTS / "results.json")
    made = run_theory(tmp_path / "results.json", BETAS)
    assert same(made["cases"], committed["cases"])
    assert made == shown_theory(tmp_path / "results.json")
    tables = "\n\n".join(map(markdown_table, theory_tables(committed)))
    assert (RESULTS / "table.md").read_text(encoding="utf-8") == tables + "\n"
    assert (RESULTS / "statements.md").read_text(encoding="utf-8") == statements_markdown(committed)


def test_what_is_done_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, run = tmp_path / "theory" / "results.json", []
    measured = running.measured

    def counted(case: Any, betas: Any) -> Any:
        run.append(case.name)
        if len(run) == 4:
            raise KeyboardInterrupt
        return measured(case, betas)

    monkeypatch.setattr(running, "measured", counted)
    monkeypatch.setattr(running, "statements", lambda: [])
    with pytest.raises(KeyboardInterrupt):
        run_theory(file, (1.0,))
    assert [record["case"] for record in shown_theory(file)["cases"]] == list(CASES)[:3]
    whole = run_theory(file, (1.0,))
    assert run == [*list(CASES)[:4], *list(CASES)[3:]]
    assert run_theory(file, (1.0,)) == whole
    assert len(run) == len(CASES) + 1
    run_theory(file, (2.0,))  # another definition
    assert len(run) == 2 * len(CASES) + 1
    run_theory(file, (2.0,), force=True)
    assert len(run) == 3 * len(CASES) + 1


def test_the_command_runs_and_shows(graphshift: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = graphshift("reproduce", "theory", "--quick", "--out", tmp_path)
    assert (answer.status, "Traceback" in answer.err) == (0, False)
    place = tmp_path / "quick" / "theory"
    names = {"results.json", "statements.md", "table.md", "table.txt", "theory-section4.png", "theory-section4.svg"}
    assert names == {path.name for path in place.iterdir()}
    assert [row["beta"] for row in shown_theory(place / "results.json")["cases"][0]["path"]] == list(QUICK_BETAS)
    assert "needs more" in answer.out
    monkeypatch.setattr(running, "measured", None)  # nothing is computed
    monkeypatch.setattr(running, "statements", None)
    again = graphshift("reproduce", "theory", "--quick", "--show", "--out", tmp_path)
    assert (again.status, again.out) == (0, answer.out)
    missing = graphshift("reproduce", "theory", "--show", "--out", tmp_path)
    assert missing.status == 2
    assert "note: theory: not in" in missing.err


def test_another_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"cases": {}}), encoding="utf-8")
    with pytest.raises(GraphshiftError, match="is not a result of `graphshift reproduce theory`"):
        run_theory(file)
