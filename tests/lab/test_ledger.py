"""A ledger of an experiment: one JSON line for each case, continued where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.lab.ledger import records_of, run_cases


class Case(NamedTuple):
    key: str


class Measure:
    """Measures all but what is absent, and knows what it was asked for."""

    def __init__(self, *absent: str) -> None:
        self.absent, self.asked = absent, list[str]()

    def __call__(self, case: Case) -> dict[str, Any] | None:
        self.asked.append(case.key)
        return None if case.key in self.absent else {"case": case.key, "found": len(self.asked)}


CASES = [Case("één"), Case("two"), Case("three")]


def test_what_the_file_has_is_not_measured_again(tmp_path: Path) -> None:
    ledger, first, rest, none = tmp_path / "new" / "results.jsonl", Measure(), Measure(), Measure()
    begun = run_cases(ledger, "it", CASES[:1], first)
    whole = run_cases(ledger, "it", CASES, rest)
    assert whole[:1] == begun
    assert rest.asked == ["two", "three"]
    lines = ledger.read_text(encoding="utf-8")
    assert run_cases(ledger, "it", CASES, none) == whole == records_of(ledger, "it")
    assert none.asked == []
    assert ledger.read_text(encoding="utf-8") == lines
    assert [json.loads(line) for line in lines.splitlines()] == whole


def test_a_line_that_was_torn_by_a_stop_is_measured_again(tmp_path: Path) -> None:
    ledger, measure = tmp_path / "results.jsonl", Measure()
    run_cases(ledger, "it", CASES[:1], Measure())
    with ledger.open("a") as stream:
        stream.write('{"case": "tw')
    assert [record["case"] for record in records_of(ledger, "it")] == ["één"]
    run_cases(ledger, "it", CASES, measure)
    assert measure.asked == ["two", "three"]
    assert [record["case"] for record in records_of(ledger, "it")] == [case.key for case in CASES]


def test_cases_whose_data_are_not_here_are_left_out(tmp_path: Path) -> None:
    ledger, told = tmp_path / "results.jsonl", list[dict[str, Any]]()
    found = run_cases(ledger, "it", CASES, Measure("two"), report=told.append)
    assert [record["case"] for record in found] == ["één", "three"]
    assert told == [{"epoch": 0}, {"epoch": 1}, {"epoch": 2}]


def test_force_begins_anew(tmp_path: Path) -> None:
    ledger, again = tmp_path / "results.jsonl", Measure()
    run_cases(ledger, "it", CASES, Measure())
    run_cases(ledger, "it", CASES[1:], again, force=True)
    assert again.asked == ["two", "three"]
    assert len(records_of(ledger, "it")) == 2


def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    ledger = tmp_path / "results.jsonl"
    ledger.write_text("{\n")
    with pytest.raises(GraphshiftError, match=r"results.jsonl: cannot be read .*run `reproduce it` again"):
        run_cases(ledger, "it", CASES, Measure())
