"""``graphshift watch``: status 3 on alarm, tables with a column of times, the log, the page, mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from graphshift.lab.shift.planting import made_pair

DATA = ("planted-structure", "-o", "nodes=300")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("watch")


@pytest.fixture
def run(graphshift: Any, folder: Path) -> Path:
    place = folder / "run"
    if not place.exists():
        assert graphshift("fit", *DATA, "--method", "erm", "--epochs", 15, "--out", place).status == 0
    return place


def test_an_alarm_ends_with_status_3_and_lines_are_appended(graphshift: Any, run: Path, tmp_path: Path) -> None:
    log, page = tmp_path / "log.jsonl", tmp_path / "page.html"
    first = graphshift("watch", run, "planted-structure:T1", *DATA[1:], "--log", log, "--drop", 90)
    assert first.status == 0
    assert len(log.read_text().splitlines()) == 1
    how = ("--log", log, "--drop", 0, "--out", page, "--check")
    answer = graphshift("watch", run, "planted-structure:T7", ":T8", *DATA[1:], *how, "--json")
    found = [json.loads(line) for line in answer.out.splitlines()]
    assert answer.status == 3
    assert [one["id"] for one in found] == ["T7", "T8"]
    assert found[1]["status"] == "alarm"
    assert 0 < found[1]["score"] < 1
    assert [json.loads(line)["id"] for line in log.read_text().splitlines()] == ["T1", "T7", "T8"]
    assert "<svg" in page.read_text()
    before = log.read_text()
    again = graphshift("watch", run, "planted-structure:T7", ":T8", *DATA[1:], *how, "--force")
    assert again.status == 3
    assert "true, afterwards" in again.out
    assert log.read_text() == before


def tables(folder: Path) -> tuple[Path, Path]:
    """One graph as CSV whose nodes come in four months; the last of them with other features."""
    environment, _ = made_pair("features", 0.0, 3, nodes=600)
    assert environment.y is not None
    month = np.arange(600) * 4 // 600 + 1
    x = environment.x.numpy().copy()  # type: ignore[union-attr]
    x[month == 4] += 3
    nodes = pd.DataFrame({"id": np.arange(600), **{f"c{i}": x[:, i] for i in range(6)}})
    nodes["month"], nodes["vote"] = month, np.array(["x", "y", "z", "w"])[environment.y.numpy()]
    row, col = environment.graph.edge_index.numpy()
    nodes.to_csv(folder / "nodes.csv", index=False)
    pd.DataFrame({"source": row, "target": col}).to_csv(folder / "edges.csv", index=False)
    config = 'method = "erm"\nepochs = 15\n[data]\nnodes = "nodes.csv"\nedges = "edges.csv"\nlabel = "vote"\n'
    config += 'time = "month"\ntrain_until = 1\nval_until = 2\ntest_until = [3, 4]\n'
    (folder / "my.toml").write_text(config)
    return folder / "nodes.csv", folder / "edges.csv"


def test_tables_with_a_column_of_times(graphshift: Any, tmp_path: Path) -> None:
    nodes, edges = tables(tmp_path)
    run = tmp_path / "run"
    assert graphshift("fit", tmp_path / "my.toml", "--out", run).status == 0
    answer = graphshift("watch", run, f"{nodes},{edges}", "--time", "month", "--since", 3, "--json")
    found = {one["id"]: one for one in map(json.loads, answer.out.splitlines())}
    assert list(found) == ["3", "4"]
    assert found["4"]["nodes"] == 150
    assert "features" in found["4"]["moved"]
    assert (run / "watch.jsonl").is_file()
    for more, message in (
        (["--time", "year"], "there is no column 'year'"),
        (["--time", "month", "--since", 9], "no time in column 'month' is as late; the last is 4"),
        (["--time", "month", "--since", "May"], "--since is 'May', and column 'month' has numbers"),
        (["--since", 3], "give --time too"),
        (["--time", "id"], "has 600 different times"),
    ):
        wrong = graphshift("watch", run, f"{nodes},{edges}", *more)
        assert (wrong.status, wrong.err.count("\n")) == (2, 1)
        assert message in wrong.err


def test_mistakes_are_one_line(graphshift: Any, run: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "log.jsonl"
    damaged.write_text("no JSON\n{}\n")
    for words, message in (
        ([tmp_path / "nothing", *DATA], "expected the folder of a model"),
        ([run, "planted-structure:T99", *DATA[1:]], "no environment 'T99'"),
        ([run, "a.csv,", *DATA[1:]], "expected two files with a comma between"),
        ([run, *DATA, "--level", 2], "level is 2.0; expected"),
        ([run, *DATA, "--log", damaged], "line 1 is damaged"),
        ([run, *DATA, "--time", "year"], "give one pair of tables"),
    ):
        answer = graphshift("watch", *words)
        assert (answer.status, answer.err.count("\n")) == (2, 1), answer.err
        assert message in answer.err
