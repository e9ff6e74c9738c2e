"""Unlabelled environments, which are there to be predicted: the role ``target`` of tables, PyG and networkx graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.own import from_networkx, from_pyg, from_tables
from graphshift.datasets.tables.config import options_from_toml_table
from own_tables import quietly

COUNTRIES: dict[str, Any] = {"environments": "country", "train": "DE", "val": "FR", "unlabelled": ["ES", "AT"]}
YEARS: dict[str, Any] = {"time": "year", "train_until": 2010, "val_until": 2011, "target_until": [2013, 2015]}


def world(count: int = 80) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    nodes = pd.DataFrame({"id": np.arange(count) + 100, "label": rng.choice(["a", "b"], count).astype(object)})
    nodes["age"], nodes["country"] = rng.normal(size=count), np.resize(["DE", "FR", "ES", "AT"], count)
    nodes["year"] = np.resize(np.arange(2008, 2016), count)
    ends = np.array(nx.gnm_random_graph(count, 5 * count, seed=0).edges)
    return nodes, pd.DataFrame({"source": ends[:, 0] + 100, "target": ends[:, 1] + 100})


def graph() -> Data:
    nodes, edges = world()
    ends = torch.tensor(edges.to_numpy().T - 100)
    data = Data(x=torch.rand(80, 3), edge_index=torch.cat([ends, ends.flip(0)], dim=1), y=torch.arange(80) % 2)
    data.country, data.year = torch.arange(80) % 4, torch.tensor(nodes["year"].to_numpy())
    data.train_mask, data.target_mask = torch.arange(80) < 30, torch.arange(80) >= 60
    return data


@pytest.mark.parametrize("labels", ["none", "some", "other"])
def test_unlabelled_values_are_targets_whatever_their_labels(labels: str) -> None:
    nodes, edges = world()
    there = nodes["country"].isin(["ES", "AT"])
    nodes.loc[there, "label"] = {"none": None, "some": nodes["label"], "other": "never in training"}[labels]
    data = quietly(from_tables, nodes, edges, **COUNTRIES)
    assert [e.name for e in data.target] == ["ES", "AT"]
    assert data.tests == ()
    for e in data.target:
        assert e.y is None
        assert bool(e.mask.all())
        assert e.num_nodes == 20
        assert data.facts["ids"][e.name].tolist() == nodes.loc[nodes["country"] == e.name, "id"].tolist()
    remarks = [line for line in data.facts["report"] if "label" in line]
    found = ["the node table: 40 labels in 'label' belong to unlabelled environments; they are not read."]
    assert remarks == ([] if labels == "none" else found)


def test_nodes_without_a_label_elsewhere_are_counted_without_the_targets() -> None:
    nodes, edges = world()
    nodes.loc[[0, 4, 5], "label"] = None  # DE, DE, FR
    nodes.loc[nodes["country"] == "ES", "label"] = None
    data = quietly(from_tables, nodes, edges, **COUNTRIES | {"unlabelled": "ES", "tests": "AT"})
    assert "the node table: 3 nodes have no label; they stay in the graph and do not count." in data.facts["report"]
    assert [len(data.roles[role]) for role in ("train", "val", "tests", "target")] == [1, 1, 1, 1]


def test_periods_after_the_last_test_are_targets_with_the_whole_past() -> None:
    nodes, edges = world()
    nodes.loc[nodes["year"] > 2013, "label"] = None
    data = quietly(from_tables, nodes, edges, **YEARS)
    assert [e.name for e in data.target] == ["2012–2013", "2014–2015"]
    assert [e.num_nodes for e in data.target] == [60, 80]
    for e, first in zip(data.target, (2012, 2014), strict=True):
        assert e.y is None
        years = nodes.set_index("id")["year"][data.facts["ids"][e.name]]
        assert e.mask.tolist() == (years >= first).tolist()


def test_labels_of_targets_may_be_anything_in_regression() -> None:
    nodes, edges = world()
    nodes["label"] = np.linspace(0.5, 9.7, 80)
    nodes["label"] = nodes["label"].astype(object).mask(nodes["country"] == "AT", "?")
    data = quietly(from_tables, nodes, edges, **COUNTRIES)
    assert data.task.kind == "regression"


def test_an_environment_without_labels_is_told_its_role() -> None:
    nodes, edges = world()
    nodes.loc[nodes["country"] == "ES", "label"] = None
    with pytest.raises(GraphshiftError, match=r"environment 'ES' has no node with a label; .* under `unlabelled`"):
        quietly(from_tables, nodes, edges, **COUNTRIES | {"unlabelled": [], "tests": "ES"})
    nodes.loc[nodes["year"] > 2011, "label"] = None
    with pytest.raises(GraphshiftError, match="under `target_until`"):
        quietly(from_tables, nodes, edges, **YEARS | {"test_until": 2013, "target_until": 2015})
    with pytest.raises(GraphshiftError, match="'ES' is named twice among train, val, tests and unlabelled"):
        quietly(from_tables, nodes, edges, **COUNTRIES | {"tests": "ES"})
    with pytest.raises(GraphshiftError, match="unlabelled does not go with time"):
        quietly(from_tables, nodes, edges, **YEARS | {"unlabelled": "ES"})
    with pytest.raises(GraphshiftError, match="target_until has 2009, which is not after"):
        quietly(from_tables, nodes, edges, **YEARS | {"target_until": 2009})


def test_toml_has_the_same_options(tmp_path: Path) -> None:
    nodes, edges = world()
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    table = {"nodes": "nodes.csv", "edges": "edges.csv", "features": ["age"], **COUNTRIES}
    data = quietly(from_tables, **options_from_toml_table(table, tmp_path))
    assert [e.name for e in data.target] == ["ES", "AT"]


def test_domains_and_periods_of_pyg() -> None:
    data = graph()
    data.y[data.country == 3] = 7  # a class that nothing else has
    made = quietly(from_pyg, data, domain="country", train=[0, 1], val=2, unlabelled=3)
    assert (made.task.kind, made.task.num_classes) == ("binary", 2)
    assert [e.name for e in made.target] == ["3"]
    assert made.target[0].y is None
    assert bool(made.target[0].mask.all())
    assert made.facts["ids"]["3"].tolist() == list(range(3, 80, 4))
    data.y = torch.where(data.year > 2012, -1, torch.arange(80) % 2)
    made = quietly(from_pyg, data, time="year", train_until=2012, target_until=2015)
    assert [int(e.mask.sum()) for e in made.target] == [30]


def test_masks_of_pyg() -> None:
    data = graph()
    data.y[60:] = 5
    made = from_pyg(data)
    assert (made.val, made.tests, made.task.num_classes) == ((), (), 2)
    assert made.target[0].mask.tolist() == data.target_mask.tolist()
    assert made.target[0].y is None
    assert made.target[0].graph is made.train[0].graph
    data.test_mask = data.target_mask
    with pytest.raises(GraphshiftError, match="20 nodes are in `test_mask` and in `target_mask`"):
        from_pyg(data)
    del data.target_mask
    data.y[60:] = -1
    with pytest.raises(GraphshiftError, match=r"the test mask has no node with a label. If .* call it target_mask"):
        from_pyg(data)
    with pytest.raises(GraphshiftError, match="there is no `holdout` for the test mask"):
        from_pyg(data, test_mask="holdout")


def test_networkx_has_the_same_options() -> None:
    nodes, edges = world()
    drawn = nx.from_pandas_edgelist(edges)
    nx.set_node_attributes(drawn, nodes.drop(columns="year").set_index("id").to_dict("index"))
    for node in [n for n, country in drawn.nodes(data="country") if country == "ES"]:
        del drawn.nodes[node]["label"]
    data = quietly(from_networkx, drawn, **COUNTRIES)
    assert [e.name for e in data.target] == ["ES", "AT"]
