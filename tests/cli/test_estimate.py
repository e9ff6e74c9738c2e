"""``graphshift estimate``: a table, JSON, without copies, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DATA = ("planted-structure", "-o", "nodes=300")


@pytest.fixture
def run(graphshift: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    assert graphshift("fit", *DATA, "--method", "erm", "--epochs", 15, "--out", folder).status == 0
    return folder


def test_a_table_and_json(graphshift: Any, run: Path) -> None:
    answer = graphshift("estimate", run, *DATA)
    assert answer.status == 0
    assert "expected accuracy (%)" in answer.out
    assert "On held-out nodes" in answer.out
    for copies in (True, False):
        answer = graphshift("estimate", run, *DATA, "--json", *([] if copies else ["--no-copies"]))
        found = json.loads(answer.out)
        assert set(found) == {f"T{i}" for i in range(1, 9)}
        for one in found.values():
            assert (one["copies"] > 0) is copies
            assert (one["expected"] is None) is bool(one["refused"])


def test_mistakes_are_one_line(graphshift: Any, run: Path, tmp_path: Path) -> None:
    answer = graphshift("estimate", tmp_path / "nothing", *DATA)
    assert (answer.status, answer.err.count("\n")) == (2, 1)
    answer = graphshift("estimate", run, *DATA, "--adapt", "prior")
    assert answer.status == 2
    assert "adapt is 'prior'" in answer.err
