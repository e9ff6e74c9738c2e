"""The comparison of two runs: what is worse, in which direction, and what is not compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench_small import results_with
from graphshift.core.errors import GraphshiftError
from graphshift.lab.bench.check import compare, read_results
from graphshift.lab.bench.outcome import Measurement


def one(value: float | None, *, id: str = "a", unit: str = "×", higher: bool = False, reason: str = "") -> Measurement:
    return Measurement(id, f"what {id}", value, unit, bar=2.0, higher_is_better=higher, reason=reason)


@pytest.mark.parametrize(
    ("committed", "new", "higher", "change", "passed"),
    [
        (2.0, 2.4, False, 0.2, True),
        (2.0, 2.5, False, 0.25, True),  # just at what is tolerated
        (2.0, 2.6, False, 0.3, False),
        (2.0, 1.0, False, -0.5, True),
        (100.0, 90.0, True, 100 / 90 - 1, True),
        (100.0, 79.0, True, 100 / 79 - 1, False),
        (100.0, 500.0, True, -0.8, True),
    ],
)
def test_a_quarter_worse_is_tolerated_and_more_is_not(
    committed: float, new: float, higher: bool, change: float, passed: bool
) -> None:
    found = compare(results_with(one(committed, higher=higher)), results_with(one(new, higher=higher)))
    assert found.pairs[0].change == pytest.approx(change)
    assert found.passed is passed
    assert found.not_compared == []
    verdict = found.rows()[0]
    assert verdict[0] == "what a"
    assert verdict[3].endswith("worse" if change > 0 else "better")
    assert verdict[4] == ("fine" if passed else "too much")
    assert found.as_json()["passed"] is passed


def test_the_tolerance_can_be_said() -> None:
    committed, new = results_with(one(2.0)), results_with(one(2.2))
    assert compare(committed, new, tolerance=0.15).passed
    assert not compare(committed, new, tolerance=0.05).passed


def test_what_is_missing_on_a_side_is_said() -> None:
    committed = results_with(
        one(1.0), one(1.0, id="b"), one(None, id="c", reason="no files"), one(0.02, id="d", unit=""), one(1.0, id="e")
    )
    new = results_with(
        one(1.0), one(1.0, id="c"), one(0.9, id="d", unit=""), one(None, id="e", reason="no data"), one(3.0, id="f")
    )
    found = compare(committed, new)
    assert [pair.what for pair in found.pairs] == ["what a"]
    assert found.passed
    assert found.not_compared == [
        ("what b", "not in the new run"),
        ("what c", "skipped in the committed results: no files"),
        ("what d", "a difference, not a ratio"),
        ("what e", "skipped in the new run: no data"),
        ("what f", "not in the committed results"),
    ]


def test_numbers_without_a_bar_are_left_alone() -> None:
    plain = [Measurement("a", "informs", value) for value in (1.0, 9.0)]
    found = compare(results_with(plain[0]), results_with(plain[1]))
    assert (found.pairs, found.not_compared) == ([], [])


def test_a_memory_is_compared_and_nothing_is_divided_by_zero() -> None:
    found = compare(results_with(one(1.0, unit="GB")), results_with(one(2.0, unit="GB")))
    assert not found.passed
    found = compare(results_with(one(0.0)), results_with(one(2.0)))
    assert found.not_compared == [("what a", "0.00× in the committed results")]


def test_results_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results_with(one(1.5))))
    assert compare(read_results(path), results_with(one(1.5))).passed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "field `format` is None; expected 1"),
        ('{"format": 7}', "field `format` is 7; expected 1"),
        ('{"format": 1}', "does not hold what `graphshift bench` writes .KeyError: 'parts'"),
        ('{"format": 1, "parts": {"floor": {"measurements": [{"id": "a"}]}}}', "does not hold what"),
        ('{"format": 1, "parts": {}}', "KeyError: 'about'"),
        ("{", "this is not JSON"),
        (None, "there is no such file"),
    ],
)
def test_what_is_no_results_file_is_named(content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(GraphshiftError, match=message) as told:
        read_results(path)
    assert str(told.value).startswith(f"{path}: ")
