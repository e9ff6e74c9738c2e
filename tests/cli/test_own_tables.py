"""From two CSV files to a fitted model without editing; ``data info`` and ``data make`` on tables of one's own."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Shops of three chains, and of a fourth without labels; no edge leaves its chain."""
    rng = np.random.default_rng(0)
    chain = np.repeat(["alpha", "beta", "gamma", "delta"], [40, 30, 25, 20])
    nodes = pd.DataFrame({"shop": [f"s{i}" for i in range(115)], "chain": chain, "area": rng.normal(size=115).round(2)})
    nodes["outcome"] = np.where(chain == "delta", "", rng.choice(["good", "fair", "poor"], 115))
    ends = np.concatenate([rng.choice(np.flatnonzero(chain == c), (80, 2)) for c in np.unique(chain)])
    edges = pd.DataFrame(np.array([f"s{i}" for i in range(115)])[ends], columns=["source", "target"])
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    return tmp_path


def test_two_commands_without_editing(graphshift: Any, folder: Path) -> None:
    made = graphshift("init", folder / "nodes.csv", folder / "edges.csv", "--out", folder / "shops.toml")
    assert made.status == 0
    assert made.out == (
        f"written to {folder / 'shops.toml'}: check it, then run: graphshift recommend {folder / 'shops.toml'}\n"
    )
    table = tomllib.loads((folder / "shops.toml").read_text())["data"]
    roles = [table[role] for role in ("train", "val", "tests", "unlabelled")]
    assert roles == [["alpha"], ["beta"], ["gamma"], ["delta"]]
    given = ("--method", "erm", "--epochs", 2, "--hidden", 4, "--out", folder / "run")
    assert graphshift("fit", folder / "shops.toml", *given).status == 0


def test_init_takes_columns_and_explains_those_that_are_not_there(graphshift: Any, folder: Path) -> None:
    tables = (folder / "nodes.csv", folder / "edges.csv", "--out", folder / "t.toml")
    assert graphshift("init", *tables, "--label", "chain", "--environments", "outcome").status == 0
    table = tomllib.loads((folder / "t.toml").read_text())["data"]
    assert (table["label"], table["environments"]) == ("chain", "outcome")
    wrong = graphshift("init", *tables, "--label", "colour", "--force")
    assert (wrong.status, "there is no column 'colour' for --label" in wrong.err) == (2, True)
    wrong = graphshift("init", *tables, "--positive", "good", "--force")
    assert (wrong.status, "--positive is 'good'; expected one of two labels" in wrong.err) == (2, True)
    pd.read_csv(folder / "nodes.csv")[["shop", "area"]].to_csv(folder / "nodes.csv", index=False)
    lacking = graphshift("init", *tables, "--force")
    assert "no column looks like the label: name it by --label COLUMN" in lacking.out
    assert "no column looks like environments or a time" in lacking.out


def test_info_shows_classes_by_name_rows_as_in_the_files_and_targets(graphshift: Any, folder: Path) -> None:
    graphshift("init", folder / "nodes.csv", folder / "edges.csv", "--out", folder / "shops.toml")
    plain = graphshift("data", "info", folder / "shops.toml")
    assert plain.status == 0
    loops = int((pd.read_csv(folder / "edges.csv").eval("source == target")).sum())
    for text in ("shops: your tables, split by chain", "115 rows.", "320 rows → ", f"{loops} self-loops", "homophily"):
        assert text in plain.out
    for text in ("good", "fair", "poor", "target", "delta", "from training"):
        assert text in plain.out
    found = json.loads(graphshift("data", "info", folder / "shops.toml", "--json").out)
    assert (found["dataset"], found["class_names"]) == ("shops", ["fair", "good", "poor"])
    assert [row["role"] for row in found["environments"]] == ["train", "val", "tests", "target"]
    assert found["environments"][3]["class_shares"] is None
    nodes = pd.read_csv(folder / "nodes.csv")
    shares = nodes[nodes["chain"] == "beta"]["outcome"].value_counts(normalize=True).sort_index()
    assert found["environments"][1]["class_shares"] == pytest.approx(shares.tolist())
    other = graphshift("data", "info", folder / "shops.toml", "-o", "tests=[]", "-o", 'unlabelled=["gamma"]', "--json")
    assert [row["environment"] for row in json.loads(other.out)["environments"]] == ["alpha", "beta", "gamma"]


def test_info_draws_data_with_a_target(graphshift: Any, folder: Path) -> None:
    graphshift("init", folder / "nodes.csv", folder / "edges.csv", "--out", folder / "shops.toml")
    for kind in ("overview", "sizes", "rates"):
        picture = folder / f"{kind}.png"
        assert graphshift("data", "info", folder / "shops.toml", "--figure", picture, "--kind", kind).status == 0
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_make_writes_tables_that_are_read_back_the_same(graphshift: Any, folder: Path) -> None:
    graphshift("init", folder / "nodes.csv", folder / "edges.csv", "--out", folder / "shops.toml")
    made = graphshift("data", "make", folder / "shops.toml", "--out", folder / "new")
    assert made.out.startswith("shops: 4 environments with 115 nodes written to")
    first, second = (
        json.loads(graphshift("data", "info", path, "--json").out)
        for path in (folder / "shops.toml", folder / "new" / "dataset.toml")
    )
    assert (second["dataset"], second["class_names"]) == ("shops", first["class_names"])
    assert second["environments"] == first["environments"]


def test_class_codes_that_differ_are_noticed(graphshift: Any, folder: Path) -> None:
    nodes = pd.read_csv(folder / "nodes.csv")
    codes = {"alpha": "good", "beta": "good", "gamma": "poor"}
    nodes["outcome"] = nodes["chain"].map(codes).where(np.arange(115) % 5 > 0, "fair").mask(nodes["chain"] == "delta")
    nodes.loc[1, "outcome"] = "poor"
    nodes.to_csv(folder / "nodes.csv", index=False)
    graphshift("init", folder / "nodes.csv", folder / "edges.csv", "--out", folder / "shops.toml")
    found = graphshift("data", "info", folder / "shops.toml")
    assert (
        "environment 'gamma' has other class shares than training (distance 0.78 of 1): 'good' is 0 % there and 78 % "
        "in training. Do the labels mean the same?"
    ) in found.err
    assert "'beta' has other class shares" not in found.err
    assert "class shares than" not in found.out  # once is enough


@pytest.mark.parametrize("command", ["verify", "fetch"])
def test_only_the_catalogue_has_files(graphshift: Any, folder: Path, command: str) -> None:
    found = graphshift("data", command, folder / "my.toml")
    assert (found.status, "only datasets of the catalogue have files" in found.err) == (2, True)


def test_tables_of_labelled_graphs_from_init_to_predictions(graphshift: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    count = 160  # 32 of them validate: enough for all that a run learns after training
    graph = np.repeat(np.arange(count), 4)
    charge = rng.normal(size=4 * count) + graph % 2
    nodes = pd.DataFrame({"graph": graph, "id": np.tile(np.arange(4), count), "charge": charge})
    ends = {"source": np.tile([0, 1, 2, 3], count), "target": np.tile([1, 2, 3, 0], count)}
    edges = pd.DataFrame({"graph": graph, **ends, "bond": np.where(graph % 2, "double", "single")})
    graphs = pd.DataFrame({"graph": range(count), "year": np.arange(count) // 32 + 2018, "label": np.arange(count) % 2})
    files = [tmp_path / f"{name}.csv" for name in ("nodes", "edges", "graphs")]
    for table, file in zip((nodes, edges, graphs), files, strict=True):
        table.to_csv(file, index=False)
    assert graphshift("init", *files, "--out", tmp_path / "my.toml").status == 0
    found = tomllib.loads((tmp_path / "my.toml").read_text())["data"]
    assert {name: found[name] for name in ("graphs", "graph", "id", "label", "time", "train_until")} == {
        "graphs": "graphs.csv",
        "graph": "graph",
        "id": "id",
        "label": "label",
        "time": "year",
        "train_until": 2019,
    }
    (tmp_path / "my.toml").write_text((tmp_path / "my.toml").read_text() + '\nedge_features = ["bond"]\n')
    how = ["--method", "eerm", "--explorer", "random", "--edits-per-node", 1, "--backbone", "gine", "--epochs", 20]
    fitted = graphshift("fit", tmp_path / "my.toml", *how, "--out", tmp_path / "run")
    assert fitted.status == 0, fitted.err
    assert graphshift("predict", tmp_path / "run", *files, "--out", tmp_path / "p.csv").status == 0
    assert pd.read_csv(tmp_path / "p.csv")["id"].tolist() == list(range(count))
    scored = graphshift("score", tmp_path / "run", *files, "--json")
    assert json.loads(scored.out)["tables"]["nodes"] > 0.8
    refused = graphshift("predict", tmp_path / "run", *files, "--abstain", 0.05, "--out", tmp_path / "a.csv")
    assert (refused.status, "not available for graph-level tasks" in refused.err) == (2, True)
    unlabelled = graphshift("score", tmp_path / "run", *files[:2])
    assert unlabelled.status == 2
    assert "no graph has a label in column 'label'" in unlabelled.err


def test_a_first_toml_is_written_for_tables_and_not_overwritten(
    graphshift: Any, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "my.toml"
    answer = graphshift("init", *tables, "--out", path)
    assert (answer.status, answer.err) == (0, "")
    assert f"graphshift recommend {path}" in answer.out
    content = tomllib.loads(path.read_text())
    assert "data" in content
    before = path.read_bytes()
    answer = graphshift("init", *tables, "--out", path)
    assert answer.status == 2
    assert answer.err.startswith(f"graphshift: {path}: exists; nothing was changed.")
    assert path.read_bytes() == before
    answer = graphshift("init", tmp_path / "none.csv", tables[1], "--out", tmp_path / "other.toml")
    assert answer.status == 2
    assert answer.err.startswith("graphshift: ")
    assert "none.csv" in answer.err
    assert not (tmp_path / "other.toml").exists()
