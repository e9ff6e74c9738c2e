"""Edge features from a PyG ``Data`` or tables to predictions, and back from a folder."""

from __future__ import annotations

import json
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment
from graphshift.datasets.export import export_tables
from graphshift.datasets.tables.config import options_from_toml_table
from graphshift.estimators import make_estimator
from graphshift.explorers import Random


def marked(nodes: int = 40, seed: int = 0) -> Data:
    """The label of a node is the mark of the edges that it receives; nothing else tells it."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (nodes,), generator=generator)
    source = torch.randint(nodes, (4 * nodes,), generator=generator)
    target = torch.arange(nodes).repeat(4)
    kept = source != target
    ends = torch.stack([source, target])[:, kept].unique(dim=1)
    noise = torch.rand(ends.shape[1], generator=generator)
    attr = torch.stack([y[ends[1]].float(), noise], dim=1)
    return Data(x=torch.ones(nodes, 1), edge_index=ends, edge_attr=attr, y=y)


@pytest.mark.parametrize("explorer", ["random", "gradient", "reinforce", "drop-edge", "add-edge"])
def test_eerm_learns_from_marks_and_comes_back_from_a_folder(tmp_path: Path, explorer: str) -> None:
    train, test = marked(), marked(seed=1)
    model = gs.EERM("gine", explorer=explorer, views=2, edits_per_node=1, epochs=40, selection="last", seed=1)
    model.fit(train)
    assert model.n_edge_features_ == 2
    score = model.score(test)
    assert score > 0.8
    test.edge_attr = torch.zeros_like(test.edge_attr)
    assert model.score(test) < score
    model.save(tmp_path / "m")
    assert json.loads((tmp_path / "m" / "model.json").read_text())["edge_features"] == 2
    again = gs.load_model(tmp_path / "m")
    assert (again.predict_proba(test) == model.predict_proba(test)).all()


def test_gat_takes_them_and_other_backbones_say_that_they_do_not() -> None:
    train = marked()
    with pytest.warns(GraphshiftWarning, match=r"2 features, which backbone 'gcn' does not use.*'gat', 'gine'"):
        assert gs.ERM("gcn", epochs=1, selection="last").fit(train).n_edge_features_ == 0
    with pytest.warns(GraphshiftWarning, match="which method majority does not use"):
        gs.Majority(selection="last").fit(train)
    with pytest.warns(GraphshiftWarning, match="method forest does not use.*so do its columns 'neighbours'"):
        gs.Forest(selection="last", trees=5).fit(train)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = gs.ERM("gat", epochs=60, selection="last").fit(train)
    assert model.n_edge_features_ == 2
    assert "layers.0.edges.weight" in model.arrays()


@pytest.mark.parametrize("method", ["logistic", "forest", "boosting", "blend"])
def test_models_without_a_gnn_take_their_means(tmp_path: Path, method: str) -> None:
    train, test = marked(100), marked(seed=1)
    settings: dict[str, Any] = {"method": method, "columns": "neighbours", "selection": "last"}
    if method == "blend":
        members = [{"method": "logistic", "columns": "neighbours"}, {"method": "majority"}]
        settings = {"method": "blend", "members": members, "selection": "last"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make_estimator(settings).fit(train)
    assert model.n_edge_features_ == 2
    assert model.score(test) > 0.9
    model.save(tmp_path / "m")
    again = gs.load_model(tmp_path / "m")
    assert (again.predict_proba(test) == model.predict_proba(test)).all()
    test.edge_attr = test.edge_attr[:, :1]
    with pytest.raises(GraphshiftError, match=r"have 1 features .* trained with 2"):
        again.predict(test)


def test_a_model_of_neighbours_that_was_saved_before_goes_on_without_them(tmp_path: Path) -> None:
    train = marked()
    bare = train.clone()
    del bare.edge_attr
    model = gs.Logistic(columns="neighbours", selection="last").fit(bare)
    model.save(tmp_path / "m")
    again = gs.load_model(tmp_path / "m")
    assert (again.predict_proba(train) == model.predict_proba(bare)).all()


class Own(nn.Module):
    """A module of a user's own that is given edge features."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.linear(x.new_zeros(x.shape[0], 2).index_add(0, edge_index[1], edge_attr))


def test_a_module_of_ones_own_is_given_them() -> None:
    model = gs.EERM(Own(), explorer="random", views=2, edits_per_node=1, epochs=80, lr=0.1, selection="last")
    assert model.fit(marked()).score(marked(seed=2)) > 0.8


def test_graphs_with_other_edge_features_are_refused() -> None:
    train, other = marked(), marked(seed=1)
    other.edge_attr = other.edge_attr[:, :1]
    with pytest.raises(GraphshiftError, match=r"'val' have 1 features \(`edge_attr`\) and .* have 2"):
        gs.ERM("gine", epochs=1).fit(train, other)
    model = gs.ERM("gine", epochs=1, selection="last").fit(train)
    other.edge_attr = None
    with pytest.raises(GraphshiftError, match=r"have 0 features .* trained with 2"):
        model.predict(other)


@pytest.mark.parametrize(
    ("attr", "message"),
    [
        (torch.ones(3, 2), r"`edge_attr` is \[3, 2\]; expected \[2, features\]"),
        (torch.ones(2, 1, dtype=torch.int64), "torch.int64; expected floats"),
        (torch.tensor([1.0, torch.nan]), "1 NaN or infinite values, first at edge 1, column 0"),
        ("words", "`edge_attr` is str"),
    ],
)
def test_damaged_edge_features(attr: object, message: str) -> None:
    data = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 0]))
    data.edge_attr = attr
    with pytest.raises(GraphshiftError, match=message):
        Environment("e", data)


def test_duplicates_keep_the_first_and_self_loops_go() -> None:
    ends = torch.tensor([[0, 0, 1, 2], [1, 1, 1, 0]])
    data = Data(x=torch.ones(3, 1), edge_index=ends, y=torch.tensor([0, 1, 0]), edge_attr=torch.arange(4.0))
    with pytest.warns(GraphshiftWarning) as found:
        environment = Environment("e", data)
    assert "keeping the first features of each" in " ".join(str(one.message) for one in found)
    assert environment.data.edge_attr.squeeze(1).tolist() == [3.0, 0.0]
    assert environment.data.edge_index.tolist() == [[2, 0], [0, 1]]


def test_a_transform_keeps_them() -> None:
    data = marked()
    edited = Random(1, seed=0)(data)
    before = {tuple(pair): row for pair, row in zip(data.edge_index.t().tolist(), data.edge_attr.tolist(), strict=True)}
    after = zip(edited.edge_index.t().tolist(), edited.edge_attr.tolist(), strict=True)
    kept = [(before[tuple(pair)], row) for pair, row in after if tuple(pair) in before]
    assert kept
    assert all(one == other for one, other in kept)


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    nodes = pd.DataFrame({"id": range(8), "land": list("aaaabbbb"), "age": range(8), "label": [0, 1] * 4})
    edges = pd.DataFrame(
        {
            "source": [0, 1, 2, 1, 4, 5, 4],
            "target": [1, 2, 3, 0, 5, 6, 4],
            "kind": ["x", "y", "x", "y", "y", "z", "x"],
            "amount": [1.0, 2.0, 3.0, 9.0, 5.0, 7.0, 8.0],
        }
    )
    return nodes, edges


def test_tables_learn_from_the_training_edges_and_the_first_row_counts(tmp_path: Path) -> None:
    nodes, edges = frames()
    how = {"environments": "land", "train": "a", "tests": "b", "edge_features": ["kind", "amount"], "scale": "standard"}
    with pytest.warns(GraphshiftWarning):
        data = gs.from_tables(nodes, edges, **how)
    train, test = data.train[0], data.tests[0]
    assert train.num_edge_features == 3
    names = data.facts["preparation"].model_dump()["edge_columns"]
    assert len(names) == 2
    attr = dict(zip(map(tuple, train.graph.edge_index.t().tolist()), train.graph.edge_attr.tolist(), strict=True))
    # kind x and y, then amounts 1, 2, 3 with mean 2 and deviation √(2/3); the second row of 0 – 1 is not read.
    deviation = (2 / 3) ** 0.5
    expected = {(0, 1): [1, 0, -1 / deviation], (1, 2): [0, 1, 0], (2, 3): [1, 0, 1 / deviation]}
    for (u, v), row in expected.items():
        assert attr[u, v] == pytest.approx(row, abs=1e-5)
        assert attr[v, u] == attr[u, v]
    there = dict(zip(map(tuple, test.graph.edge_index.t().tolist()), test.graph.edge_attr.tolist(), strict=True))
    assert there[0, 1] == pytest.approx([0, 1, 3 / deviation], abs=1e-5)
    assert there[1, 2] == pytest.approx([0, 0, 5 / deviation], abs=1e-5)  # a word that training never had
    model = gs.ERM("gine", epochs=2, selection="last").fit(data)
    model.save(tmp_path / "m")
    with pytest.warns(GraphshiftWarning):
        again = gs.load_model(tmp_path / "m").prepare(nodes[4:], edges[4:], name="b")
    assert torch.equal(again.graph.edge_attr, test.graph.edge_attr)
    export_tables(data, tmp_path / "t")
    assert (tmp_path / "t" / "edges.csv").read_text().startswith("source,target,e0,e1,e2\n")
    table = tomllib.loads((tmp_path / "t" / "dataset.toml").read_text())["data"]
    back = gs.from_tables(**options_from_toml_table(table, tmp_path / "t"))
    torch.testing.assert_close(back.train[0].graph.edge_attr, train.graph.edge_attr)
    torch.testing.assert_close(back.tests[0].graph.edge_attr, test.graph.edge_attr)


def test_columns_that_are_no_features_of_edges() -> None:
    nodes, edges = frames()
    how = {"environments": "land", "train": "a", "tests": "b"}
    with pytest.raises(GraphshiftError, match="edge_features names 'amount', which is the weight"):
        gs.from_tables(nodes, edges, **how, weight="amount", edge_features="amount")
    with pytest.raises(GraphshiftError, match="'kid'"):
        gs.from_tables(nodes, edges, **how, edge_features="kid")
    with pytest.raises(GraphshiftError, match="need edges among the training nodes"):
        gs.from_tables(nodes, edges[4:], **how, edge_features="amount")
