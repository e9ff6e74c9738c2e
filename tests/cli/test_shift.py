"""``graphshift shift``: what moved, from datasets, tables and runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from graphshift.lab.shift.planting import made_pair

DATA = ("-o", "nodes=300")


def test_environments_of_a_dataset(graphshift: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    answer = graphshift("shift", "planted-structure:train", "planted-structure:T8", *DATA, "--out", page)
    assert (answer.status, answer.err) == (0, "")
    assert "What edges say about labels moved" in answer.out
    html = page.read_text()
    assert "What edges say about labels moved" in html
    assert html.count("<svg") >= 3
    again = graphshift("shift", "planted-structure:train", "planted-structure:T8", *DATA, "--out", page)
    assert again.status == 2
    assert "exists; nothing was changed" in again.err


def test_json(graphshift: Any) -> None:
    answer = graphshift("shift", "planted-structure:train", ":T8", *DATA, "--json", "--no-labels")
    found = json.loads(answer.out)
    assert [block["name"] for block in found["blocks"]] == ["features", "structure", "surroundings", "labels", "edges"]
    assert found["blocks"][4]["details"]["predicted"]
    assert found["level"] == 0.05


def tables(folder: Path) -> tuple[str, str]:
    """Two graphs as CSV; the features of the second moved, and each has a column of its own."""
    names = []
    for name, environment in zip(("old", "new"), made_pair("features", 0.8, 3, nodes=300), strict=True):
        assert environment.y is not None
        x = environment.x.numpy()  # type: ignore[union-attr]
        nodes = pd.DataFrame({"id": np.arange(300), "age": x[:, 0], "town": np.where(x[:, 1] > 0, "a", "b")})
        nodes[["c2", "c3", "c4", "c5"]] = x[:, 2:6]
        nodes[f"only_{name}"], nodes["vote"] = 1.5, np.array(["x", "y", "z", "w"])[environment.y.numpy()]
        row, col = environment.graph.edge_index.numpy()
        nodes.to_csv(folder / f"{name}_nodes.csv", index=False)
        pd.DataFrame({"source": row, "target": col}).to_csv(folder / f"{name}_edges.csv", index=False)
        names.append(f"{folder / f'{name}_nodes.csv'},{folder / f'{name}_edges.csv'}")
    return names[0], names[1]


def test_two_pairs_of_tables(graphshift: Any, tmp_path: Path) -> None:
    answer = graphshift("shift", *tables(tmp_path), "-o", "label=vote", "--json")
    found = json.loads(answer.out)
    assert answer.status == 0
    assert {"age", "c2"} & {row["column"] for row in found["blocks"][0]["details"]["columns"]}
    assert found["blocks"][3]["details"]["classes"] == ["w", "x", "y", "z"]
    assert any("only_old" in text for text in found["remarks"])
    assert (found["source"], found["target"]) == ("old_nodes", "new_nodes")
    nodes = tmp_path / "new_nodes.csv"
    frame = pd.read_csv(nodes)
    frame["vote"] = frame["vote"].where(frame.index % 10 > 0, "never seen")
    frame.to_csv(nodes, index=False)
    pairs = [f"{tmp_path / f'{name}_nodes.csv'},{tmp_path / f'{name}_edges.csv'}" for name in ("old", "new")]
    new = json.loads(graphshift("shift", *pairs, "-o", "label=vote", "--json").out)
    assert any("have classes that the source has not (never seen): left out" in text for text in new["remarks"])
    assert new["blocks"][3]["details"]["classes"] == ["w", "x", "y", "z"]
    without = json.loads(graphshift("shift", *tables(tmp_path), "-o", 'features=["age"]', "--json").out)
    assert without["blocks"][3]["p"] is None


def test_a_run_and_an_environment(graphshift: Any, fitted: Path) -> None:
    answer = graphshift("shift", fitted, "planted:T8", "-o", "nodes=60", "--json")
    assert (answer.status, answer.err) == (0, "")
    assert json.loads(answer.out)["source"] == "train"


def test_a_run_with_several_training_graphs_is_compared_with_all(graphshift: Any, tmp_path: Path) -> None:
    nodes = pd.read_csv(tables(tmp_path)[0].split(",")[0])
    nodes.assign(town=["a", "b", "c"] * 100).to_csv(tmp_path / "nodes.csv", index=False)
    config = tmp_path / "mine.toml"
    config.write_text(
        'method = "erm"\n[data]\nnodes = "nodes.csv"\nedges = "old_edges.csv"\nlabel = "vote"\nenvironments = "town"\n'
        'train = ["a", "b"]\nval = "c"\n'
    )
    run = tmp_path / "run"
    assert graphshift("fit", config, "--epochs", 1, "--out", run).status == 0
    new = f"{tmp_path / 'nodes.csv'},{tmp_path / 'old_edges.csv'}"
    answer = graphshift("shift", run, new, "--json")
    found = json.loads(answer.out)
    assert (answer.status, found["source"]) == (0, "a, b")
    assert found["blocks"][1]["details"]["source"]["nodes"] == 200
    unlabelled = json.loads(graphshift("shift", run, new, "--json", "--no-labels").out)
    watched = graphshift("watch", run, new, "--json")
    assert json.loads(watched.out)["effect"] == {block["name"]: block["effect"] for block in unlabelled["blocks"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nosuch", "planted:T1"), "'nosuch' is no graph"),
        (("planted:train", "planted:T99"), "has no environment 'T99'"),
        (("a.csv,b.csv,c.csv", "a.csv,b.csv"), "expected two files with a comma"),
        (("planted:train", "a.csv,b.csv"), "tables are compared with tables"),
        (("a.csv,b.csv", "a.csv,b.csv"), "a.csv"),
    ],
)
def test_mistakes(graphshift: Any, arguments: tuple[str, str], message: str) -> None:
    answer = graphshift("shift", *arguments)
    assert answer.status == 2
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_tables_that_do_not_fit(graphshift: Any, tmp_path: Path) -> None:
    old, new = tables(tmp_path)
    nodes = Path(new.split(",")[0])
    frame = pd.read_csv(nodes)
    frame[["id"]].assign(other=1.0).to_csv(nodes, index=False)
    answer = graphshift("shift", old, new)
    assert answer.status == 2
    assert "have no column in common beside 'id'" in answer.err
    frame.iloc[:0].to_csv(nodes, index=False)
    answer = graphshift("shift", old, new)
    assert answer.status == 2
    assert "no row" in answer.err
