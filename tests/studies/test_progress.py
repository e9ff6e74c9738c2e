"""How far a study is: counts, time left, a bar on a terminal and lines elsewhere."""

from __future__ import annotations

import pytest

from graphshift.studies import Record, progress, run_study
from graphshift.studies.progress import StudyProgress, seconds_left
from tiny_studies import ERM, plan
from tiny_studies import record as any_record


def record(kind: str, arm: str, seconds: float | None) -> Record:
    return any_record(kind=kind, arm=arm, seconds=seconds)


def test_fits_that_are_left_take_as_long_as_those_like_them() -> None:
    records = [
        record("trial", "a", 10.0),
        record("trial", "a", 20.0),
        record("run", "b", 2.0),
        record("run", "b", None),
    ]
    assert seconds_left(records, [("trial", "a")] * 2, 1) == pytest.approx(30.0)
    assert seconds_left(records, [("run", "a")] * 2, 1) == pytest.approx(30.0)  # a run is like a trial of its arm
    assert seconds_left(records, [("run", "b")] * 4, 2) == pytest.approx(4.0)  # two at a time
    assert seconds_left(records, [("run", "c")], 1) == pytest.approx(32 / 3)  # an arm that nothing is known of
    assert seconds_left(records, [("limit", "a")], 1) == pytest.approx(32 / 3)  # five fits, and not like a trial
    assert seconds_left([record("run", "b", None)], [("run", "b")], 1) is None
    assert seconds_left(records, [], 1) == 0


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        (StudyProgress(0, 0, 12, None), "0 of 12 fits done"),
        (StudyProgress(3, 1, 12, 42.4), "3 of 12 fits done, 1 failed, about 42 s left"),
        (StudyProgress(3, 0, 12, 600), "3 of 12 fits done, about 10 min left"),
        (StudyProgress(3, 0, 12, 9000), "3 of 12 fits done, about 2.5 h left"),
        (StudyProgress(12, 0, 12, 0.0), "12 of 12 fits done"),
    ],
)
def test_progress_in_words(now: StudyProgress, sentence: str) -> None:
    assert now.sentence() == sentence


def test_off_a_terminal_there_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(plan(arms=[ERM]), workers=0, threads=1, progress=True)
    assert capsys.readouterr().err == "planted: 0 of 5 fits done\n"  # the rest came within 30 s
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    run_study(plan(arms=[ERM]), workers=0, threads=1, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert lines[3].startswith("planted: 3 of 5 fits done, about 0 s left")
    assert lines[-1] == "planted: 5 of 5 fits done"


def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "200")
    run_study(plan(arms=[ERM]), workers=0, threads=1, progress=True)
    assert "5 of 5 fits done" in capsys.readouterr().err


def test_nothing_is_shown_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    run_study(plan(arms=[ERM]), workers=0, threads=1)
    assert capsys.readouterr().err == ""
