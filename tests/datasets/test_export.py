from __future__ import annotations

import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from graphs import graphs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.export import estimated_bytes, export_tables, number_of_rows
from graphshift.datasets.own import from_pyg, from_tables
from graphshift.datasets.planted import planted
from graphshift.datasets.tables.config import options_from_toml_table
from graphshift.graph.sparse import Sparse
from reference import dense_adjacency, random_data


def read_back(folder: Path) -> ShiftDataset:
    table = tomllib.loads((folder / "dataset.toml").read_text(encoding="utf-8"))["data"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)  # counts the nodes without a label
        return from_tables(**options_from_toml_table(table, folder))


def dense(environment: Environment) -> torch.Tensor:
    return environment.x.to_dense() if isinstance(environment.x, Sparse) else environment.x


def adjacency(environment: Environment) -> torch.Tensor:
    graph = environment.graph
    return dense_adjacency(graph.edge_index, graph.num_nodes, graph.weight)


def assert_same(data: ShiftDataset, back: ShiftDataset) -> None:
    """The same to the last bit of the features."""
    assert repr(back) == repr(data)
    for mine, theirs in zip(data.environments, back.environments, strict=True):
        assert torch.equal(mine.mask, theirs.mask)
        assert torch.equal(mine.labels, theirs.labels)
        torch.testing.assert_close(adjacency(mine), adjacency(theirs), rtol=1e-6, atol=0)
        assert mine.graph.undirected == theirs.graph.undirected
        assert torch.equal(dense(mine), dense(theirs))


def made(sparse: bool = False, names: tuple[str, ...] = ("DE", "EN GB", "F,R"), **options: bool) -> ShiftDataset:
    environments = []
    for i, name in enumerate(names):
        data = random_data(20 + i, classes=3, seed=i, **options)
        data.mask = torch.arange(20 + i) % 5 != 0
        if sparse:
            data.x = (data.x * (data.x > 0.3)).to_sparse_csr()
        environments.append(Environment(name, data, Task("multiclass", 3)))
    return ShiftDataset("own", environments[:1], environments[1:2], environments[2:])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_round_trip(tmp_path: Path, sparse: bool, directed: bool, weighted: bool) -> None:
    data = made(sparse, directed=directed, weighted=weighted)
    told: list[int] = []
    files = export_tables(data, tmp_path / "new" / "folder", told.append)
    assert [file.name for file in files] == ["nodes.csv", "edges.csv", "dataset.toml"]
    assert sum(told) == number_of_rows(data)
    assert sorted(p.name for p in files[0].parent.iterdir()) == ["dataset.toml", "edges.csv", "nodes.csv"]
    assert_same(data, read_back(files[0].parent))


def test_planted_and_its_columns(tmp_path: Path) -> None:
    data = planted(80, seed=1)
    export_tables(data, tmp_path)
    nodes, edges = pd.read_csv(tmp_path / "nodes.csv"), pd.read_csv(tmp_path / "edges.csv")
    assert list(nodes.columns[:7]) == ["id", "environment", "role", "node", "label", "counted", "x0"]
    assert list(edges.columns) == ["source", "target"]
    assert len(nodes) == 800
    assert nodes["role"].value_counts().to_dict() == {"train": 80, "val": 80, "tests": 640}
    assert np.array_equal(nodes.iloc[80:160, 6:].to_numpy(np.float32), data.val[0].x.numpy())  # not a bit is lost
    assert_same(data, read_back(tmp_path))


def test_one_directed_environment_makes_all_rows_directed(tmp_path: Path) -> None:
    two = [random_data(10, classes=3, seed=0), random_data(10, classes=3, directed=True, seed=1)]
    data = ShiftDataset("own", *([Environment(name, d)] for name, d in zip("ab", two, strict=True)))
    export_tables(data, tmp_path)
    assert "undirected = false" in (tmp_path / "dataset.toml").read_text()
    back = read_back(tmp_path)
    for mine, theirs in zip(data.environments, back.environments, strict=True):
        assert torch.equal(adjacency(mine), adjacency(theirs))


def test_labels_that_do_not_count_are_empty(tmp_path: Path) -> None:
    export_tables(made(), tmp_path)
    nodes = pd.read_csv(tmp_path / "nodes.csv")
    assert (nodes["label"].isna() == (nodes["counted"] == 0)).all()
    assert (nodes["counted"] == 0).sum() == 4 + 5 + 5


def test_regression(tmp_path: Path) -> None:
    data = random_data(12)
    data.y = torch.linspace(-1, 2, 12)
    export_tables(ShiftDataset("own", [Environment("a", data)]), tmp_path)
    assert np.array_equal(pd.read_csv(tmp_path / "nodes.csv")["label"].to_numpy(np.float32), data.y.numpy())
    assert read_back(tmp_path).task.kind == "regression"


@pytest.mark.parametrize("wide", [False, True])
def test_the_estimate_is_near(tmp_path: Path, wide: bool) -> None:
    data = planted(200)
    if wide:
        x = (torch.rand(200, 500, generator=torch.Generator().manual_seed(0)) < 0.01).float().to_sparse_csr()
        edge_index, y = data.train[0].graph.edge_index, data.train[0].y
        data = ShiftDataset("own", [Environment("a", Data(x=x, edge_index=edge_index, y=y))])
    written = sum(file.stat().st_size for file in export_tables(data, tmp_path))
    assert 0.5 < estimated_bytes(data) / written < 2


def test_a_folder_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").mkdir()
    with pytest.raises(GraphshiftError, match=r"edges\.csv: cannot be written"):
        export_tables(made(), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_round_trip_of_graphs_with_labels(tmp_path: Path) -> None:
    lists = {name: graphs(seed=10 * i, classes=3, weighted=True) for i, name in enumerate(("a", "b", "c", "new"))}
    lists["b"][1].y = torch.tensor([-1])
    data = from_pyg(lists, train="a", val="b", tests="c", unlabelled="new")
    files = export_tables(data, tmp_path)
    assert [file.name for file in files] == ["nodes.csv", "edges.csv", "graphs.csv", "dataset.toml"]
    back = read_back(tmp_path)
    assert_same(data, back)
    for mine, theirs in zip((*data.environments, *data.target), (*back.environments, *back.target), strict=True):
        assert mine.graph.blocks == theirs.graph.blocks
    assert back.target[0].ids.tolist() == [f"new:{i}" for i in range(5)]
