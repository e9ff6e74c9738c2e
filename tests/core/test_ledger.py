"""The ledger keeps what is done through a kill, and says what is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.core.ledger import Ledger
from graphshift.studies import Record, Summary
from tiny_studies import record

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ledger = Ledger(Record, tmp_path / "results.jsonl")
    for name in ("one", "zwölf", "three"):
        ledger.add(record(id=name))
    return tmp_path / "results.jsonl"


def test_what_is_added_is_read_back_in_order(path: Path) -> None:
    ledger = Ledger(Record, path)
    assert list(ledger.records) == ["one", "zwölf", "three"]
    assert ledger.records["one"] == record(id="one")
    assert path.read_text(encoding="utf-8").count("\n") == 3


@pytest.mark.parametrize("cut", [1, 5, 40, 52])
def test_a_torn_last_line_is_dropped_and_written_anew(path: Path, cut: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    ledger = Ledger(Record, path)
    assert list(ledger.records) == ["one", "zwölf"]
    ledger.add(record(id="three"))
    assert path.read_bytes() == whole


def test_a_last_line_of_zeros_is_dropped_too(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 20 + b"\n")
    assert list(Ledger(Record, path).records) == ["one", "zwölf", "three"]
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("line", "field"), [(b"{", "JSON"), (b"[]", ""), (b'{"id": "x"}', "`kind` is missing"), (b"", "JSON")]
)
def test_damage_in_the_middle_is_told_and_left(path: Path, line: bytes, field: str) -> None:
    first, _, last, _ = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, line, last, b""]))
    before = path.read_bytes()
    with pytest.raises(GraphshiftError, match=rf"results\.jsonl: line 2 .*{field}"):
        Ledger(Record, path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"seed": 0', '"seed": "0"', "seed"),
        ('"epoch": 1', '"epoch": null', "selections.val.epoch"),
        ('"tests": {"T1": 0.5}', '"tests": {"T1": "high"}', "selections.val.tests.T1"),
        ('"status": "ok"', '"status": "perhaps"', "status"),
        ('"metric": "accuracy"', '"metric": "agcuracy"', "metric"),
    ],
)
def test_a_field_of_another_type_is_named_and_no_whole_line_is_dropped(
    path: Path, old: str, new: str, field: str
) -> None:
    first, second, third = path.read_text(encoding="utf-8").splitlines()
    assert old in third
    path.write_text("\n".join([first, second, third.replace(old, new), ""]), encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(GraphshiftError, match=rf"line 3 .*`{field}"):
        Ledger(Record, path)
    assert path.read_bytes() == before


def test_the_last_line_of_an_id_counts_and_failed_ones_can_be_run_again(path: Path) -> None:
    ledger = Ledger(Record, path)
    ledger.add(record(id="one", status="failed", reason="memory"))
    assert Ledger(Record, path).records["one"].status == "failed"
    ledger.forget_failed()
    assert list(ledger.records) == ["zwölf", "three"]
    ledger.add(record(id="one", seconds=1.0))
    assert Ledger(Record, path).records["one"].seconds == 1.0
    assert path.read_text(encoding="utf-8").count("\n") == 5  # nothing is taken away


def test_without_a_path_all_is_in_memory() -> None:
    ledger = Ledger(Record)
    ledger.add(record(id="one"))
    assert list(ledger.records) == ["one"]


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(GraphshiftError, match=r"results\.jsonl: cannot be written"):
        Ledger(Record, tmp_path / "gone" / "results.jsonl").add(record(id="one"))


def test_every_committed_ledger_and_summary_is_read() -> None:
    summaries = sorted(RESULTS.rglob("summary.json"))
    assert len(summaries) > 70
    for path in summaries:
        for line in map(json.loads, (path.parent / "results.jsonl").read_text(encoding="utf-8").splitlines()):
            assert _without_nothing(Record.from_json(line).to_json()) == _without_nothing(line)
        content = json.loads(path.read_text(encoding="utf-8"))
        written = Summary.from_json(content).to_json()
        assert {name: value for name, value in written.items() if name in content and name != "arms"} == {
            name: value for name, value in content.items() if name != "arms"
        }
        for old, new in zip(content["arms"], written["arms"], strict=True):
            kept = {name: new[name] for name in old if name != "difference"}
            assert kept == {name: value for name, value in old.items() if name != "difference"}
            assert _without_nothing(new["difference"]) == _without_nothing(old["difference"])


def _without_nothing(content: Any) -> Any:
    """Fields that hold nothing may be left out."""
    if not isinstance(content, dict):
        return content
    return {name: _without_nothing(value) for name, value in content.items() if value is not None and value != {}}
