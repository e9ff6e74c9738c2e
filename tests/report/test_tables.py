"""Scores and tables as people read them."""

from __future__ import annotations

import pytest

from graphshift.report.tables import print_table, show_score


def test_scores_are_shown_as_people_write_them() -> None:
    assert show_score(0.4567, "accuracy") == "45.7"
    assert show_score(0.4567, "mse") == "0.4567"
    assert show_score(None, "accuracy") == "–"


def test_a_table_shows_every_cell_and_its_note(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("a title", ["name", "value"], [["one", "1.5"], ["two", "−22.5"]], note="a note " * 20)
    out = capsys.readouterr().out
    for word in ("a title", "name", "value", "one", "1.5", "two", "−22.5"):
        assert word in out
    lines = out.splitlines()
    one, two = (next(line for line in lines if word in line) for word in ("one", "two"))
    assert one.index("1.5") + 3 == two.index("−22.5") + 5  # numbers stand to the right
    assert one.index("one") == two.index("two")
