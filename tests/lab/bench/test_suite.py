"""The suite goes on after a failure, keeps what Ctrl-C leaves, and gives the threads back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bench_small import TINY
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.sizes import SIZES
from graphshift.lab.bench.suite import run_suite


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "quick", TINY)


def finding(bench: Bench) -> None:
    bench.measured("a", "what", 1.0, bar=2.0)


def failing(bench: Bench) -> None:
    bench.measured("b", "what", 1.0)
    raise RuntimeError("it does not fit\ninto memory")


def stopped(bench: Bench) -> None:
    bench.measured("c", "what", 1.0)
    raise KeyboardInterrupt


def interrupted(bench: Bench) -> None:
    raise KeyboardInterrupt


def patch(monkeypatch: pytest.MonkeyPatch, **runs: Any) -> None:
    for name, run in runs.items():
        monkeypatch.setattr(f"graphshift.lab.bench.bars.{name}.run", run)


def test_a_part_that_fails_is_kept_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch, floor=failing, exponent=finding)
    results = run_suite(["floor", "exponent"], "quick")
    parts = results["parts"]
    assert parts["floor"]["failures"] == [
        {"what": "the whole part", "reason": "RuntimeError: it does not fit into memory"}
    ]
    assert [one["id"] for one in parts["floor"]["measurements"]] == ["b"]
    assert [one["id"] for one in parts["exponent"]["measurements"]] == ["a"]
    assert results["stopped"] is None
    assert results["size"] == "quick"
    assert results["sizes"]["floor"] == (60,)
    json.dumps(results, allow_nan=False)


def test_ctrl_c_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[tuple[list[str], str | None]] = []

    def save(results: dict[str, Any]) -> None:
        saved.append((list(results["parts"]), results["stopped"]))

    patch(monkeypatch, floor=finding, exponent=stopped, million=finding)
    results = run_suite(["floor", "exponent", "million"], "quick", save=save)
    assert results["stopped"] == "exponent"
    assert saved == [(["floor"], None), (["floor", "exponent"], "exponent")]
    assert list(results["parts"]) == ["floor", "exponent"]


def test_what_is_written_says_that_it_was_stopped_before_the_next_number(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[Any] = []
    patch(monkeypatch, floor=finding, exponent=interrupted)
    run_suite(["floor", "exponent"], "quick", save=lambda results: saved.append(results["stopped"]))
    assert saved == [None, "exponent"]


def test_a_part_that_found_nothing_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch, floor=interrupted)
    saved: list[Any] = []
    results = run_suite(["floor"], "quick", save=saved.append)
    assert (results["parts"], results["stopped"], saved) == ({}, "floor", [])


def test_threads_are_set_told_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    seen: list[tuple[int, int]] = []
    patch(monkeypatch, floor=lambda bench: seen.append((torch.get_num_threads(), bench.threads)))
    results = run_suite(["floor"], "quick", threads=before + 1)
    assert seen == [(before + 1, before + 1)]
    assert results["about"]["threads"] == before + 1
    assert torch.get_num_threads() == before
    assert run_suite(["floor"], "quick")["about"]["threads"] == before


def test_files_of_a_part_are_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []

    def leaving(bench: Bench) -> None:
        (bench.folder / "file").write_text("")
        folders.append(bench.folder)

    patch(monkeypatch, floor=leaving)
    run_suite(["floor"], "quick")
    assert not folders[0].exists()
