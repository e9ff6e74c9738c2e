"""Bars, numbers for people, and messages without folders."""

from __future__ import annotations

import pytest

from graphshift.lab.bench.outcome import Measurement, Outcome, Table, anonymous, show


@pytest.mark.parametrize(
    ("value", "bar", "higher", "met"),
    [
        (1.2, 1.25, False, True),
        (1.25, 1.25, False, True),
        (1.26, 1.25, False, False),
        (120.0, 100.0, True, True),
        (100.0, 100.0, True, True),
        (99.0, 100.0, True, False),
        (None, 1.25, False, None),
        (1.2, None, False, None),
    ],
)
def test_a_bar_is_met_or_not(value: float | None, bar: float | None, higher: bool, met: bool | None) -> None:
    one = Measurement("id", "what", value, bar=bar, higher_is_better=higher)
    assert one.met is met
    assert one.as_json()["met"] is met
    assert Measurement.from_json(one.as_json()) == one


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'id' is inf"):
        Measurement("id", "what", float("inf"))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.256, "×", "1.26×"),
        (0.0834, "×", "0.08×"),
        (12.34, "×", "12.3×"),
        (1234.5, "×", "1,234×"),
        (3.456, "GB", "3.46 GB"),
        (-0.04, "", "-0.04"),
        (None, "GB", "–"),
    ],
)
def test_numbers_for_people(value: float | None, unit: str, text: str) -> None:
    assert show(value, unit) == text


def test_messages_name_no_folder() -> None:
    told = anonymous(
        "OSError: /home/someone/.cache/graphshift/x.json: cannot be read,\n see '/tmp/bench-1/y' and 3/4 or 5 / 6"
    )
    assert told == "OSError: …/x.json: cannot be read, see '…/y' and 3/4 or 5 / 6"


def test_an_outcome_without_rows_is_empty() -> None:
    rows: list[list[str]] = []
    outcome = Outcome(tables=[Table("title", ["column"], rows)])
    assert outcome.is_empty
    assert outcome.as_json()["tables"] == []
    rows.append(["cell"])
    assert not outcome.is_empty
    assert outcome.as_json()["tables"][0]["rows"] == [["cell"]]
    assert not Outcome(failures=[{"what": "x", "reason": "y"}]).is_empty
