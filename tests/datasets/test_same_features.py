"""Features of new tables are those that the same rows had in training, whatever the options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.structure import STRUCTURAL_NAMES, structural_columns
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.preparation import load_preparation
from graphshift.graph.sparse import Sparse
from own_tables import ROLES, again, dense, people, quietly

WAYS: list[dict[str, Any]] = [
    {},
    {"scale": "none"},
    {"scale": "standard"},
    {"scale": "log"},
    {"scale": "rank"},
    {"scale": {"age": "rank", "friends": "none"}},
    {"per_environment": True},
    {"per_environment": ["age", "born"]},
    {"structure": True},
    {"structure": True, "features": []},
    {"features": ["age"], "per_environment": True},
    {"text": ["about"], "multi_hot": {"tags": ";"}, "dates": ["born"], "categorical": ["member"]},
    {"text": {"about": "hash"}, "per_environment": ["age"], "structure": True},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("source", ["frame", "csv"])
def test_the_same_tables_give_the_same_features_again(tmp_path: Path, options: dict[str, Any], source: str) -> None:
    nodes, edges = people()
    data = quietly(from_tables, nodes, edges, **ROLES, **options)
    data.facts["preparation"].save(tmp_path)
    preparation = load_preparation(tmp_path)
    assert preparation is not None
    assert preparation == data.facts["preparation"]
    for environment in data.environments:
        part = nodes[nodes["country"] == environment.name].drop(columns="label")
        inside = edges[edges["source"].isin(part["id"])]
        tables: list[Any] = [part, inside]
        if source == "csv":
            part.to_csv(tmp_path / "nodes.csv", index=False)
            inside.to_csv(tmp_path / "edges.csv", index=False)
            tables = [tmp_path / "nodes.csv", tmp_path / "edges.csv"]
        new = again(preparation, *tables)
        assert type(new.x) is type(environment.x)
        torch.testing.assert_close(dense(new.x), dense(environment.x), rtol=1e-6, atol=1e-6)
        assert new.num_features == len(preparation.feature_names)


def test_numbers_are_ranked_inside_each_environment() -> None:
    nodes, edges = people()
    data = quietly(from_tables, nodes, edges, features=["age", "member", "job"], per_environment=True, **ROLES)
    names = data.facts["preparation"].feature_names
    assert names == ["age missing", "member", "job=cook", "job=nurse", "job=smith", "age rank"]
    for environment in data.environments:
        age = nodes.loc[nodes["country"] == environment.name, "age"]
        rank = (age.rank().to_numpy() - 0.5) / age.notna().sum()
        expected = np.where(age.isna(), 0, (rank - 0.5) * 12**0.5)
        np.testing.assert_allclose(environment.x[:, -1].numpy(), expected, rtol=1e-5, atol=1e-6)
        own = nodes.loc[nodes["country"] == environment.name, "member"]
        assert environment.x[:, 1].tolist() == own.tolist()


def test_a_period_ranks_all_nodes_that_its_graph_holds() -> None:
    nodes, edges = people()
    nodes["year"] = np.resize([2001, 2002, 2003], 90)
    cuts = {"time": "year", "train_until": 2001, "val_until": 2002, "test_until": 2003}
    data = quietly(from_tables, nodes, edges, features=["friends"], per_environment=["friends"], structure=True, **cuts)
    for environment, year in zip(data.environments, (2001, 2002, 2003), strict=True):
        seen = nodes.loc[nodes["year"] <= year, "friends"]
        expected = ((seen.rank().to_numpy() - 0.5) / len(seen) - 0.5) * 12**0.5
        np.testing.assert_allclose(environment.x[:, 0].numpy(), expected, rtol=1e-5, atol=1e-6)
        rank = structural_columns(environment.graph)[:, 4]
        torch.testing.assert_close(environment.x[:, 5], (rank - 0.5) * 12**0.5)


def test_a_table_of_ids_and_labels_alone_is_described_by_its_graph() -> None:
    nodes, edges = people()
    only = nodes[["id", "label", "country"]]
    with pytest.warns(GraphshiftWarning, match="the place of each node in the graph is used instead .log degree, core"):
        data = from_tables(only, edges, **ROLES)
    preparation = data.facts["preparation"]
    assert preparation.feature_names == list(STRUCTURAL_NAMES)
    train = structural_columns(data.train[0].graph).numpy()
    for environment in data.environments:
        raw = structural_columns(environment.graph).numpy()
        expected = (raw[:, :4] - train[:, :4].mean(axis=0)) / train[:, :4].std(axis=0)
        np.testing.assert_allclose(environment.x[:, :4].numpy(), expected, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(environment.x[:, 4:].numpy(), (raw[:, 4:] - 0.5) * 12**0.5, rtol=1e-4, atol=1e-5)
    with pytest.raises(GraphshiftError, match="no column is left to make features of"):
        from_tables(only, edges, structure=False, **ROLES)


def test_structure_stands_beside_sparse_words() -> None:
    nodes, edges = people()
    rng = np.random.default_rng(0)
    bag = pd.DataFrame((rng.random((90, 400)) < 0.05).astype(int), columns=[f"w{i}" for i in range(400)])
    wide = pd.concat([nodes[["id", "label", "country"]], bag], axis=1)
    plain, more = quietly(from_tables, wide, edges, **ROLES), quietly(from_tables, wide, edges, structure=True, **ROLES)
    for one, two in zip(plain.environments, more.environments, strict=True):
        assert isinstance(one.x, Sparse)
        assert isinstance(two.x, Sparse)
        assert torch.equal(two.x.to_dense()[:, :-8], one.x.to_dense())
        assert float(two.x.to_dense()[:, -8:].abs().sum()) > 0


def test_a_preparation_of_format_1_is_read(tmp_path: Path) -> None:
    """As version 0.1 wrote it."""
    (tmp_path / "preparation.json").write_text(
        """{"format": 1, "layout": {"id": "id", "source": "source", "target": "target", "weight": null,
        "undirected": true, "missing": [], "separator": ","}, "columns": [
        {"kind": "number", "name": "age", "mean": 40.0, "scale": 5.0, "flag": true},
        {"kind": "number", "name": "member", "mean": 1.0, "scale": 0.0, "flag": true},
        {"kind": "category", "name": "job", "levels": ["cook", "nurse"], "missing": false}],
        "label": {"name": "label", "kind": "binary", "metric": "accuracy", "classes": ["no", "yes"], "mean": 0.0,
        "scale": 1.0}}"""
    )
    preparation = load_preparation(tmp_path)
    assert preparation is not None
    assert preparation.feature_names == ["age", "age missing", "member missing", "job=cook", "job=nurse"]
    nodes, edges = people()
    x = dense(again(preparation, nodes, edges).x).numpy()
    missing = nodes["age"].isna()
    np.testing.assert_allclose(x[:, 0], np.where(missing, 0, (nodes["age"] - 40) / 5), rtol=1e-5)
    assert x[:, 1].tolist() == missing.astype(float).tolist()
    assert x[:, 3].tolist() == (nodes["job"] == "cook").astype(float).tolist()


def test_nothing_in_a_test_row_changes_the_training_features(tmp_path: Path) -> None:
    nodes, edges = people()
    rng = np.random.default_rng(0)
    bag = pd.DataFrame((rng.random((90, 600)) < 0.03).astype(int), columns=[f"w{i}" for i in range(600)])
    nodes = pd.concat([nodes, bag], axis=1)
    late = nodes["country"] == "ES"
    changed = nodes.astype(dict.fromkeys(["age", "member", "friends", "w0"], object))
    changed.loc[late, ["age", "member", "friends", "born", "w0"]] = "unknown"
    changed.loc[late, "tags"] = [f"t{i}" for i in range(30)]
    changed.loc[late, list(bag)[1:]] = 1  # nearly dense
    edges.to_csv(tmp_path / "edges.csv", index=False)
    made = []
    for frame in (nodes, changed):
        frame.to_csv(tmp_path / "nodes.csv", index=False)
        made.append(
            quietly(
                from_tables, tmp_path / "nodes.csv", tmp_path / "edges.csv", text=["about"], structure=True, **ROLES
            )
        )
    one, two = made
    assert one.facts["preparation"] == two.facts["preparation"]
    for before, after in zip([*one.train, *one.val], [*two.train, *two.val], strict=True):
        assert isinstance(before.x, Sparse)
        assert isinstance(after.x, Sparse)
        assert torch.equal(before.x.to_dense(), after.x.to_dense())
    told = [line for line in two.facts["report"] if "taken as missing" in line]
    assert [line.split("'")[1] for line in told] == ["age", "member", "friends", "w0", "born"]
