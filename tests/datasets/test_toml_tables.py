"""Tables that a TOML file names: the same data as in Python, its mistakes, and the file that is proposed for tables."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.config import options_from_toml_table
from graphshift.datasets.tables.describe import describe_tables
from own_tables import COUNTRIES, countries_and_years, quietly


def written(folder: Path, **changes: Any) -> dict[str, Any]:
    nodes, edges = countries_and_years()
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    table = {"nodes": "nodes.csv", "edges": "edges.csv", **COUNTRIES, **changes}
    return {key: value for key, value in table.items() if value is not None}


def test_a_toml_table_gives_what_python_gives(tmp_path: Path) -> None:
    with pytest.warns(GraphshiftWarning, match="between different environments"):
        data = from_tables(**options_from_toml_table(written(tmp_path), tmp_path))
    again = quietly(from_tables, *countries_and_years(), **COUNTRIES)
    assert all(torch.equal(a.x, b.x) for a, b in zip(data.environments, again.environments, strict=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": None}, r"my.toml \[data\]: nodes is missing; expected a path"),
        ({"edges": 3}, r"my.toml \[data\]: edges is 3; expected a path"),
        ({"nodes": "other.csv"}, r"other.csv: there is no such file"),
        ({"lable": "y"}, r"my.toml \[data\]: lable is not an option of tables; .* nodes, edges.*Did you mean 'label'"),
        ({"train": {"a": 1}}, r"my.toml \[data\]: train is \{'a': 1\}; it should be a valid tuple"),
        ({"undirected": "yes"}, r"my.toml \[data\]: undirected is 'yes'; it should be a valid boolean"),
        ({"features": [1, 2]}, r"my.toml \[data\]: features is \[1, 2\]; it should be a valid string"),
        ({"id": 5}, r"my.toml \[data\]: id is 5; it should be a valid string: column of the nodes' ids"),
    ],
)
def test_a_toml_table_is_checked(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        from_tables(**options_from_toml_table(written(tmp_path, **changes), tmp_path, where="my.toml [data]: "))


def test_the_proposed_toml_can_be_used_as_it_is(tmp_path: Path) -> None:
    written(tmp_path)
    text = describe_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", base=tmp_path)
    table = tomllib.loads(text)["data"]
    assert (table["nodes"], table["id"], table["label"], table["weight"]) == ("nodes.csv", "id", "label", "weight")
    assert (table["environments"], len(table["tests"])) == ("country", 1)
    assert "#  age: numbers, 60 distinct, such as" in text
    with pytest.warns(GraphshiftWarning, match="between different"):
        assert len(from_tables(**options_from_toml_table(table, tmp_path)).environments) == 4


def test_the_proposed_toml_finds_times_and_other_names(tmp_path: Path) -> None:
    nodes, edges = countries_and_years()
    nodes = nodes.drop(columns="country").rename(columns={"id": "person", "label": "class", "year": "birth year"})
    nodes[["job", "birth year", "class", "person"]].to_csv(tmp_path / "n.csv", index=False)
    edges.rename(columns={"source": "From", "target": "To"}).to_csv(tmp_path / "e.csv", index=False)
    table = tomllib.loads(describe_tables(tmp_path / "n.csv", tmp_path / "e.csv", base=tmp_path))["data"]
    assert (table["id"], table["source"], table["label"], table["time"]) == ("person", "From", "class", "birth year")
    assert table["train_until"] < table["val_until"] < table["test_until"][0] < table["test_until"][1] == 2015
    assert len(quietly(from_tables, **options_from_toml_table(table, tmp_path)).environments) == 4


def test_the_proposed_toml_finds_dates(tmp_path: Path) -> None:
    nodes, edges = countries_and_years()
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(nodes)), unit="D")
    nodes.drop(columns=["country", "year"]).assign(date=days).to_csv(tmp_path / "n.csv", index=False)
    edges.to_csv(tmp_path / "e.csv", index=False)
    table = tomllib.loads(describe_tables(tmp_path / "n.csv", tmp_path / "e.csv", base=tmp_path))["data"]
    assert (table["time"], table["train_until"], table["test_until"][1]) == ("date", "2024-01-30", "2024-02-29")
    assert [
        int(e.mask.sum()) for e in quietly(from_tables, **options_from_toml_table(table, tmp_path)).environments
    ] == [30, 9, 9, 12]


def test_hostile_names_cannot_break_out_of_the_proposed_toml(tmp_path: Path) -> None:
    evil = 'x"\n[evil]\nrun = "\x7f😀\\'
    nodes, edges = countries_and_years(12)
    nodes = nodes.rename(columns={"country": f"country {evil}"}).assign(**{evil: 1.5})
    nodes[f"country {evil}"] = np.resize([f"DE{evil}", "FR"], 12)
    nodes.to_csv(tmp_path / "n.csv", index=False)
    edges.to_csv(tmp_path / "e.csv", index=False)
    parsed = tomllib.loads(describe_tables(tmp_path / "n.csv", tmp_path / "e.csv", base=tmp_path))
    assert set(parsed) == {"method", "seed", "data"}
    assert len(quietly(from_tables, **options_from_toml_table(parsed["data"], tmp_path)).environments) == 2


def test_further_columns_of_edges_are_proposed_as_their_features(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,x\n1,2\n2,3\n3,5\n")
    (tmp_path / "e.csv").write_text(
        "row,a,b,weight,kind,amount,same\n0,1,2,1,x,0.5,7\n1,2,3,2,y,0.25,7\n2,1,3,1,x,0.75,7\n"
    )
    (line,) = [
        one for one in describe_tables(tmp_path / "n.csv", tmp_path / "e.csv").splitlines() if "edge_features" in one
    ]
    assert line.startswith('# edge_features = ["kind", "amount"]    # for backbones gine and gat')
    (tmp_path / "e.csv").write_text("a,b\n1,2\n")
    assert "edge_features" not in describe_tables(tmp_path / "n.csv", tmp_path / "e.csv")


def test_the_proposed_toml_says_what_it_could_not_find(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,x\n1,2\n2,3\n")
    (tmp_path / "e.csv").write_text("a,b\n1,2\n")
    text = describe_tables(tmp_path / "n.csv", tmp_path / "e.csv")
    assert "What to predict: no column looks like it" in text
    assert "How the nodes are split: no column looks like it" in text
    with pytest.raises(GraphshiftError, match="neither is given"):
        from_tables(**options_from_toml_table(tomllib.loads(text)["data"], tmp_path))
    (tmp_path / "n.csv").write_text("x\n2\n2\n")
    with pytest.raises(GraphshiftError, match="no column has a value of its own in every row"):
        describe_tables(tmp_path / "n.csv", tmp_path / "e.csv")
    with pytest.raises(GraphshiftError, match="fewer than two columns"):
        describe_tables(tmp_path / "e.csv", tmp_path / "n.csv")
