"""The ledger keeps what is done through a kill, and says what is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphshift.core.errors import GraphshiftError
from graphshift.studies.ledger import Ledger


def record(name: str, status: str = "ok", **more: Any) -> dict[str, Any]:
    return {"id": name, "kind": "run", "status": status, "selections": {}, **more}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ledger = Ledger(tmp_path / "results.jsonl")
    for name in ("one", "zwölf", "three"):
        ledger.add(record(name))
    return tmp_path / "results.jsonl"


def test_what_is_added_is_read_back_in_order(path: Path) -> None:
    ledger = Ledger(path)
    assert list(ledger.records) == ["one", "zwölf", "three"]
    assert ledger.records["one"] == record("one")
    assert path.read_text(encoding="utf-8").count("\n") == 3


@pytest.mark.parametrize("cut", [1, 5, 40, 52])
def test_a_torn_last_line_is_dropped_and_written_anew(path: Path, cut: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    ledger = Ledger(path)
    assert list(ledger.records) == ["one", "zwölf"]
    ledger.add(record("three"))
    assert path.read_bytes() == whole


def test_a_last_line_of_zeros_is_dropped_too(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 20 + b"\n")
    assert list(Ledger(path).records) == ["one", "zwölf", "three"]
    assert path.read_bytes() == whole


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"id": "x"}', b""])
def test_damage_in_the_middle_is_told_and_left(path: Path, line: bytes) -> None:
    first, _, last, _ = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, line, last, b""]))
    before = path.read_bytes()
    with pytest.raises(
        GraphshiftError, match=r"results\.jsonl: line 2 is not a record of a study; the file is damaged"
    ):
        Ledger(path)
    assert path.read_bytes() == before


def test_the_last_line_of_an_id_counts_and_failed_ones_can_be_run_again(path: Path) -> None:
    ledger = Ledger(path)
    ledger.add(record("one", "failed", reason="memory"))
    assert Ledger(path).records["one"]["status"] == "failed"
    ledger.forget_failed()
    assert list(ledger.records) == ["zwölf", "three"]
    ledger.add(record("one", more=1))
    assert Ledger(path).records["one"]["more"] == 1
    assert path.read_text(encoding="utf-8").count("\n") == 5  # nothing is taken away


def test_without_a_path_all_is_in_memory() -> None:
    ledger = Ledger()
    ledger.add(record("one"))
    assert list(ledger.records) == ["one"]


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(GraphshiftError, match=r"results\.jsonl: cannot be written"):
        Ledger(tmp_path / "gone" / "results.jsonl").add(record("one"))
