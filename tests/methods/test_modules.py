"""Methods without a GNN and blends as plain modules: the same output, also after an exporter has followed them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.base import Estimator
from graphshift.estimators.export import export_model
from graphshift.graph.edge_list import EdgeList
from graphshift.methods.modules import depth_of
from graphshift.methods.trees import Trees

pytestmark = pytest.mark.filterwarnings("ignore:fit. class 1 of 3 has no node anywhere")

TREES: dict[str, Any] = {"min_samples_leaf": 3, "trees": 12}


def graph(task: Task, *, nodes: int = 60, seed: int = 0, weighted: bool = False) -> Environment:
    """Features of several scales, and some nodes without an edge; of three classes the middle one has no node."""
    random = np.random.default_rng(seed)
    x = torch.from_numpy((random.normal(size=(nodes, 4)) * [1, 0.1, 30, 1]).astype(np.float32))
    x[:, 3] = (x[:, 3] > 0).float()
    value = x[:, 0] + 5 * x[:, 1] + x[:, 3]
    y = value if task.kind == "regression" else (value > 0.5).long() * (task.num_classes - 1)
    ends = random.integers(0, nodes * 4 // 5, (2, 3 * nodes))
    ends = np.unique(ends[:, ends[0] != ends[1]], axis=1)
    weight = torch.from_numpy(random.random(ends.shape[1]).astype(np.float32) + 0.1) if weighted else None
    return Environment(f"{seed}", Data(x=x, edge_index=torch.from_numpy(ends), edge_weight=weight, y=y), task)


MULTI, BINARY, VALUES = Task("multiclass", 3), Task("binary", 2), Task("regression", 0)
MODELS: dict[str, Estimator] = {
    "majority": gs.Majority(),
    "logistic": gs.Logistic(),
    "logistic, neighbours": gs.Logistic(columns="neighbours"),
    "forest": gs.Forest(**TREES),
    "forest, neighbours": gs.Forest(columns="neighbours", **TREES),
    "boosting": gs.Boosting(rounds=6),
    "boosting, neighbours": gs.Boosting(rounds=6, columns="neighbours"),
    "blend": gs.Blend(members=[{"method": "forest", "trees": 5}, {"method": "erm", "epochs": 2}, "logistic"]),
}


@pytest.mark.parametrize("task", [MULTI, BINARY, VALUES], ids=lambda task: task.kind)
@pytest.mark.parametrize("name", list(MODELS))
def test_a_module_gives_the_models_output(name: str, task: Task) -> None:
    training, val, new = graph(task), graph(task, seed=1), graph(task, nodes=35, seed=2, weighted=True)
    model = MODELS[name].replace().fit(training, val)
    edges = EdgeList(new.graph.edge_index, new.num_nodes, new.graph.weight)
    with torch.no_grad():
        found = model.module()(new.x, edges)
    torch.testing.assert_close(found.double(), model._plain_output(new, ()).double(), rtol=1e-6, atol=1e-6)


def test_three_boosted_classes_each_have_their_trees() -> None:
    training = graph(MULTI, nodes=90)
    training = training.replace(y=torch.from_numpy(np.digitize(training.x[:, 0], [-0.5, 0.5])))
    model = gs.Boosting(rounds=5, selection="last").fit(training)
    edges = EdgeList(training.graph.edge_index, training.num_nodes)
    torch.testing.assert_close(model.module()(training.x, edges), model.predict_plain(training), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("format", ["onnx", "torch"])
def test_a_blend_is_exported(format: Any, tmp_path: Path) -> None:
    if format == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    training, val = graph(MULTI), graph(MULTI, seed=1)
    members = [
        {"method": "forest", "columns": "neighbours", "trees": 4},
        {"method": "boosting", "rounds": 3},
        {"method": "erm", "epochs": 2, "hidden_channels": 4},
        {"method": "majority"},
    ]
    model = gs.Blend(members=members, weights="val").fit(training, val)
    path = tmp_path / ("m.onnx" if format == "onnx" else "m.pt2")
    found = export_model(model, path, [val, training], format=format)  # compares itself, on another size too
    assert [one["nodes"] for one in found.note["checked"].values()] == [60, 60, 30]
    assert max(one["difference"] for one in found.note["checked"].values()) < 1e-6


def test_a_method_of_ones_own_may_have_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    model = gs.Logistic(selection="last").fit(graph(BINARY))
    monkeypatch.delattr(type(model.model_), "rows_module")
    with pytest.raises(GraphshiftError, match="export: Logistic regression has no form in operations that exporters"):
        model.module()


def test_the_depth_is_that_of_the_longest_walk() -> None:
    leaf = np.array([-1]), np.array([-1]), np.array([-1]), np.array([0.0]), np.zeros((1, 1))
    # 0 → (1, 2), 2 → (3, 4), 4 → (5, 6)
    left, right = np.array([1, -1, 3, -1, 5, -1, -1]), np.array([2, -1, 4, -1, 6, -1, -1])
    deep = Trees.single(left, right, np.zeros(7, int), np.zeros(7), np.zeros((7, 1)))
    assert [depth_of(Trees.single(*leaf)), depth_of(deep), depth_of(Trees.joined([deep, Trees.single(*leaf)]))] == [
        0,
        3,
        3,
    ]
