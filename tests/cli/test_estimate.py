"""``graphshift estimate``: a table, JSON, without copies, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.cli import estimate

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


def test_one_environment_of_a_dataset(graphshift: Any, run: Path) -> None:
    every = json.loads(graphshift("estimate", run, *DATA, "--json", "--no-copies").out)
    name, *options = DATA
    one = graphshift("estimate", run, f"{name}:T1", *options, "--json", "--no-copies")
    assert json.loads(one.out) == {"T1": every["T1"]}
    wrong = graphshift("estimate", run, f"{name}:T99", *options)
    assert wrong.status == 2
    assert "has no environment 'T99'" in wrong.err


def test_tables_with_a_comma_between_are_those_one_after_the_other(
    graphshift: Any, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    nodes, edges = tables
    config = tmp_path / "mine.toml"
    assert graphshift("init", nodes, edges, "--out", config).status == 0
    fitted = tmp_path / "fitted"
    assert graphshift("fit", config, "--method", "erm", "--epochs", 2, "--out", fitted).status == 0
    for command, more in (("estimate", ("--no-copies",)), ("score", ())):
        first = graphshift(command, fitted, nodes, edges, "--json", *more)
        second = graphshift(command, fitted, f"{nodes},{edges}", "--json", *more)
        assert (first.status, second.status) == (0, 0)
        one, other = (json.loads(answer.out) for answer in (first, second))
        assert one | {"dataset": ""} == other | {"dataset": ""}
    answer = graphshift("score", fitted, f"{nodes},")
    assert answer.status == 2
    assert "expected two files with a comma between" in answer.err


def test_what_is_estimated_of_nodes_with_several_labels_is_said(
    graphshift: Any, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = gs.load("planted-structure", nodes=300)
    further = torch.full((300, 1), -1)
    further[0] = 1 - data.tests[0].y[0]  # type: ignore[index]
    two = gs.ShiftDataset("two", data.train, data.val, tests=[data.tests[0].replace(further_y=further)])
    monkeypatch.setattr(estimate, "load_dataset", lambda *given: two)
    answer = graphshift("estimate", run, "two", "--no-copies")
    assert "note: accuracy (%) of nodes with one label: how many labels" in answer.out
    monkeypatch.undo()
    assert "nodes with one label" not in graphshift("estimate", run, *DATA, "--no-copies").out
