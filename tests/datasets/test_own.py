"""PyG and networkx graphs as shift datasets."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import subgraph as pyg_subgraph

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.datasets.own import from_networkx, from_pyg
from own_tables import quietly

DOMAINS: dict[str, Any] = {"domain": "domain", "train": [0, 1], "val": 2, "tests": [3]}
PERIODS: dict[str, Any] = {"time": "year", "train_until": 2003, "val_until": 2005, "test_until": [2007]}


def graph_data(nodes: int = 48, **changes: Any) -> Data:
    generator = torch.Generator().manual_seed(0)
    graph = nx.gnm_random_graph(nodes, 4 * nodes, seed=0)
    one_way = torch.tensor(list(graph.edges)).t()
    mask = torch.arange(nodes)
    fields: dict[str, Any] = {
        "x": torch.randn(nodes, 5, generator=generator),
        "edge_index": torch.cat([one_way, one_way.flip(0)], dim=1),
        "y": torch.arange(nodes) % 3,
        "train_mask": mask < 20,
        "val_mask": (mask >= 20) & (mask < 30),
        "test_mask": mask >= 30,
        "domain": torch.arange(nodes) % 4,
        "year": 2000 + torch.arange(nodes) % 8,
    }
    fields |= changes
    return Data(**{key: value for key, value in fields.items() if value is not None})


def test_periods_keep_the_times_of_nodes_that_stay() -> None:
    data = graph_data()
    data.year[::5] = 2011  # after the last cut
    made = quietly(from_pyg, data, **PERIODS)
    for environment, last in zip(made.environments, (2003, 2005, 2007), strict=True):
        assert environment.time is not None
        assert environment.time.tolist() == data.year[data.year <= last].tolist()


def test_masks_share_one_graph() -> None:
    data = graph_data()
    data.y[3] = -1
    dataset = from_pyg(data, metric="macro_f1")
    train, val, test = dataset.environments
    assert [e.name for e in dataset.environments] == ["train", "val", "test"]
    assert train.graph is val.graph is test.graph
    assert train.mask.tolist() == (data.train_mask & (data.y >= 0)).tolist()
    assert torch.equal(test.labels, data.y[data.test_mask])
    assert (dataset.task.kind, dataset.task.num_classes, dataset.task.metric) == ("multiclass", 3, "macro_f1")
    model = gs.ERM(epochs=3, hidden_channels=4).fit(dataset.train, val=dataset.val)
    assert set(model.score(dataset.tests)) == {"test"}


def test_without_a_validation_mask_there_is_no_validation() -> None:
    assert from_pyg(graph_data(val_mask=None)).val == ()


def test_domains_are_induced_as_pyg_induces_them() -> None:
    data = graph_data(edge_weight=None)
    with pytest.warns(GraphshiftWarning, match=r"from_pyg: left out \d+ edges between different environments"):
        dataset = from_pyg(data, **DOMAINS)
    for environment in dataset.environments:
        inside = data.domain == int(environment.name)
        expected, _ = pyg_subgraph(inside, data.edge_index, relabel_nodes=True, num_nodes=48)
        key = environment.num_nodes * expected[1] + expected[0]
        assert torch.equal(environment.graph.keys, key.sort().values)
        assert torch.equal(environment.x, data.x[inside])
        assert dataset.facts["ids"][environment.name].tolist() == inside.nonzero().squeeze(1).tolist()


def test_domains_without_a_role_are_left_out() -> None:
    with pytest.warns(GraphshiftWarning, match=r"left out 12 nodes whose domain is in no role \(3\)"):
        dataset = from_pyg(graph_data(), **DOMAINS | {"tests": []})
    assert sum(e.num_nodes for e in dataset.environments) == 36


def test_periods_are_inductive() -> None:
    data = graph_data()
    dataset = from_pyg(data, **PERIODS)
    assert [e.name for e in dataset.environments] == ["≤2003", "2004–2005", "2006–2007"]
    assert [e.num_nodes for e in dataset.environments] == [24, 36, 48]
    assert [int(e.mask.sum()) for e in dataset.environments] == [24, 12, 12]
    with pytest.warns(GraphshiftWarning, match="left out 12 nodes whose year is after the last cut"):
        shorter = from_pyg(data, **PERIODS | {"test_until": []})
    assert [e.num_nodes for e in shorter.environments] == [24, 36]
    assert torch.equal(shorter.val[0].graph.keys, dataset.val[0].graph.keys)


def test_floating_labels_are_regression_and_nan_is_no_label() -> None:
    y = torch.randn(48)
    y[:4] = torch.nan
    dataset = from_pyg(graph_data(y=y))
    assert dataset.task.kind == "regression"
    assert int(dataset.train[0].mask.sum()) == 16


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"train_mask": None}, {}, "there is no `train_mask` for the train mask"),
        ({"train_mask": torch.ones(48, 10, dtype=torch.bool)}, {}, r"is torch.bool \[48, 10\]; .*\[:, 0\]"),
        ({"train_mask": torch.ones(48)}, {}, "`train_mask` is torch.float32; expected bool"),
        ({"train_mask": torch.ones(48, dtype=torch.bool)}, {}, "10 nodes are in `train_mask` and in `val_mask`"),
        ({"val_mask": torch.zeros(48, dtype=torch.bool)}, {}, "the val mask has no node with a label"),
        ({"y": None}, {}, "there is no `y`"),
        ({"y": torch.zeros(48, 7)}, {}, r"`y` is \[48, 7\]; expected \[48\]"),
        ({"x": torch.full((48, 2), torch.inf)}, {}, "NaN or infinite"),
        ({"edge_index": torch.tensor([[0], [99]])}, DOMAINS, "nodes outside 0…47"),
        ({"edge_index": None}, DOMAINS, "`edge_index` is NoneType"),
        ({"domain": None}, DOMAINS, "there is no `domain` for the domain"),
        ({"domain": torch.zeros(5)}, DOMAINS, r"`domain` is torch.float32 \[5\]"),
        ({}, DOMAINS | {"tests": [7]}, "no node has '7' in column 'domain'"),
        ({}, DOMAINS | {"tests": [2]}, "environment '2' is named twice"),
        ({}, DOMAINS | {"time": "year"}, "both are given"),
        ({}, PERIODS | {"val_until": 1999}, "val_until has 1999, which is not after"),
        ({}, PERIODS | {"domain": None, "time": "month"}, "there is no `month` for the time"),
        ({}, {"task": "binary"}, "a binary task has 2 classes, not 3"),
    ],
)
def test_graphs_that_do_not_fit_are_explained(changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        from_pyg(graph_data(**changes), **options)


def test_other_objects_are_explained() -> None:
    with pytest.raises(GraphshiftError, match="found HeteroData"):
        from_pyg(HeteroData())  # type: ignore[arg-type]
    with pytest.raises(GraphshiftError, match="expected a networkx graph, found dict"):
        from_networkx({}, environments="country", train="DE")


def social(directed: bool = False) -> Any:
    graph = nx.gnm_random_graph(40, 160, seed=1, directed=directed)
    rng = np.random.default_rng(0)
    for node in graph:
        graph.nodes[node].update(label="ab"[node % 2], age=rng.normal(), country=["DE", "FR", "ES"][node % 3])
        graph.nodes[node]["job"] = str(rng.choice(["cook", "nurse"]))
    for edge in graph.edges:
        graph.edges[edge]["strength"] = float(rng.random() + 0.1)
    return nx.relabel_nodes(graph, {node: ("person", node) for node in graph})


@pytest.mark.parametrize("directed", [False, True])
def test_networkx_graphs_are_induced_as_networkx_induces_them(directed: bool) -> None:
    graph = social(directed)
    dataset = quietly(
        from_networkx,
        graph,
        features=["age", "job"],
        environments="country",
        train="DE",
        val="FR",
        tests="ES",
        weight="strength",
    )
    for environment in dataset.environments:
        ids = dataset.facts["ids"][environment.name].tolist()
        assert ids == [n for n, country in graph.nodes(data="country") if country == environment.name]
        dense = torch.zeros(len(ids), len(ids))
        source, target = environment.graph.edge_index
        assert environment.graph.weight is not None
        dense[source, target] = environment.graph.weight
        expected = nx.to_numpy_array(graph, nodelist=ids, weight="strength")
        np.testing.assert_allclose(dense.numpy(), expected, rtol=1e-6)


def test_networkx_options_that_the_graph_decides() -> None:
    with pytest.raises(GraphshiftError, match="has no option 'undirected': the graph itself says it"):
        from_networkx(social(), environments="country", train="DE", undirected=True)
    with pytest.raises(GraphshiftError, match="nodes have an attribute 'age'"):
        from_networkx(social(), environments="country", train="DE", id="age")
    with pytest.raises(GraphshiftError, match="there is no row below the header"):
        from_networkx(nx.Graph(), environments="country", train="DE")
    graph = social()
    del graph.edges[next(iter(graph.edges))]["strength"]
    with pytest.raises(GraphshiftError, match="row 1, column 'strength': nan is not a weight"):
        from_networkx(graph, environments="country", train="DE", weight="strength")
