"""Exported models: every backbone in both formats says what the model says, on graphs of other sizes too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import graphshift as gs
from graphshift.backbones import BACKBONES
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.tables.preparation import read_preparation
from graphshift.estimators import export
from graphshift.estimators.export import export_model
from graphshift.graph.edge_list import EdgeList
from graphshift.graph.graph import Graph
from reference import KINDS, random_data
from small import OwnModule, environments

ort = pytest.importorskip("onnxruntime", reason="pip install 'graphshift[onnx]'")
pytest.importorskip("onnxscript")

Run = Callable[[Path, Environment], np.ndarray]


def run_onnx(path: Path, environment: Environment) -> np.ndarray:
    session = ort.InferenceSession(path)
    given = {"x": environment.x.numpy(), "edge_index": environment.graph.edge_index.numpy()}
    if environment.graph.weight is not None:
        given["edge_weight"] = environment.graph.weight.numpy()
    return session.run(None, given)[0]


def run_torch(path: Path, environment: Environment) -> np.ndarray:
    module = torch.export.load(path).module()
    weight = {} if environment.graph.weight is None else {"edge_weight": environment.graph.weight}
    with torch.no_grad():
        return module(x=environment.x, edge_index=environment.graph.edge_index, **weight).numpy()


RUN: dict[str, Run] = {"onnx": run_onnx, "torch": run_torch}
NAME = {"onnx": "model.onnx", "torch": "model.pt2"}


def graph(kind: str = "undirected", nodes: int = 24, seed: int = 0) -> Environment:
    data = random_data(nodes, classes=3, density=0.15, seed=seed, **KINDS[kind])
    return Environment(f"{kind} {nodes}", data, Task("multiclass", 3))


@pytest.mark.parametrize("backbone", list(BACKBONES))
@pytest.mark.parametrize("kind", list(KINDS), ids=str)
def test_a_list_of_edges_is_the_graph(backbone: str, kind: str, float64: None) -> None:
    torch.manual_seed(1)
    data = random_data(30, **KINDS[kind])
    own = Graph.from_edge_index(data.edge_index, 30, data.edge_weight)
    x = data.x.double()
    network = BACKBONES[backbone](x.shape[1], 3, hidden_channels=8, num_layers=3).eval()
    order = torch.randperm(own.num_edges)
    weight = None if own.weight is None else own.weight[order]
    edges = EdgeList(own.edge_index[:, order], 30, weight)
    torch.testing.assert_close(network(x, edges), network(x, own), rtol=1e-6, atol=1e-6)
    loops = torch.arange(30).expand(2, -1)
    weight = None if weight is None else torch.cat([weight, torch.full((30,), 7.0)])
    looped = EdgeList(torch.cat([own.edge_index[:, order], loops], dim=1), 30, weight)
    torch.testing.assert_close(network(x, looped), network(x, own), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("format", list(RUN))
@pytest.mark.parametrize("backbone", list(BACKBONES))
def test_every_backbone_is_exported(backbone: str, format: Any, tmp_path: Path) -> None:
    training, val = environments(2)
    model = gs.ERM(backbone, epochs=3, hidden_channels=6, num_layers=2).fit(training, val)
    path = tmp_path / NAME[format]
    found = export_model(model, path, [training, val], format=format)
    assert found.files == (path, Path(f"{path}.json"))
    assert found.note == json.loads(Path(f"{path}.json").read_text())
    assert found.note["calibrated"]
    assert len(found.note["checked"]) == 3
    for nodes in (40, 3, 1):  # sizes that the exporter never saw
        new = graph(nodes=nodes, seed=nodes)
        ours = model.predict_proba(new, calibrated=True)
        np.testing.assert_allclose(RUN[format](path, new), ours, atol=1e-5)


@pytest.mark.parametrize("format", list(RUN))
def test_weights_and_direction_are_kept(format: Any, tmp_path: Path) -> None:
    kind = next(name for name, how in KINDS.items() if how.get("weighted") and how.get("directed"))
    first, second = graph(kind), graph(kind, nodes=31, seed=3)
    model = gs.ERM("gat", epochs=2, hidden_channels=4, selection="last").fit(first)
    found = export_model(model, tmp_path / NAME[format], [first, second], format=format)
    assert found.note["inputs"]["edge_weight"] == ["float32", "edges"]
    assert not found.note["calibrated"]
    np.testing.assert_allclose(RUN[format](tmp_path / NAME[format], second), model.predict_proba(second), atol=1e-5)
    with pytest.raises(GraphshiftError, match="give a weighted graph first"):
        export_model(model, tmp_path / f"other-{NAME[format]}", [graph(), first], format=format)
    assert not (tmp_path / f"other-{NAME[format]}").exists()


def test_an_ensemble_of_a_binary_task(tmp_path: Path) -> None:
    training, val = environments(2, classes=2)
    members = [gs.ERM(epochs=3, hidden_channels=4, seed=seed).fit(training, val) for seed in (0, 1)]
    ensemble = gs.Ensemble(members)
    ensemble.calibrate(val)
    export_model(ensemble, tmp_path / "m", [training])
    theirs = run_onnx(tmp_path / "m", val)
    assert theirs.shape == (val.num_nodes, 2)
    np.testing.assert_allclose(theirs, ensemble.predict_proba(val, calibrated=True), atol=1e-5)


def tables(nodes: int = 60, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    random = np.random.default_rng(seed)
    income = random.normal(50, 10, nodes)
    table = pd.DataFrame({"id": [f"n{i}" for i in range(nodes)], "income": income, "price": 1000 + 20 * income})
    table["town"] = random.choice(["a", "b"], nodes)
    ends = random.integers(0, nodes, (2, 3 * nodes))
    ends = ends[:, ends[0] != ends[1]]
    return table, pd.DataFrame({"source": table["id"][ends[0]].values, "target": table["id"][ends[1]].values})


@pytest.mark.filterwarnings("ignore::graphshift.core.errors.GraphshiftWarning")  # about the tables
def test_raw_tables_are_prepared_beside_it_and_values_have_their_unit(tmp_path: Path) -> None:
    nodes, edges = tables()
    data = gs.from_tables(nodes, edges, label="price", environments="town", train="a", tests="b")
    model = gs.ERM(epochs=5, hidden_channels=4, selection="last").fit(data)
    found = export_model(model, tmp_path / "m.onnx", data.train)
    assert found.files[2].name == found.note["preparation"] == "m.onnx.preparation.json"
    new_nodes, new_edges = tables(40, seed=5)
    environment, _ = read_preparation(found.files[2]).environment(new_nodes, new_edges)
    theirs = run_onnx(tmp_path / "m.onnx", environment)
    ours = model.predict_frame(environment)["prediction"]
    np.testing.assert_allclose(theirs, ours, rtol=1e-5)
    assert 500 < ours.mean() < 4000  # in the unit of the table


def test_a_module_of_ones_own(tmp_path: Path) -> None:
    training, val = environments(2)
    model = gs.ERM(OwnModule(training.num_features), epochs=2).fit(training, val)
    export_model(model, tmp_path / "m", [training])
    np.testing.assert_allclose(run_onnx(tmp_path / "m", val), model.predict_proba(val, calibrated=True), atol=1e-5)


class Stubborn(nn.Module):
    """Looks at its numbers, which no exporter can follow."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.linear(x) if float(x.sum()) > 0 else self.linear(-x)


@pytest.mark.filterwarnings("ignore:label-propagation. environment")
def test_what_cannot_be_exported_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training, val = environments(2)
    model = gs.ERM(epochs=2, hidden_channels=4).fit(training, val)
    with pytest.raises(GraphshiftError, match="Stubborn cannot be exported to onnx: "):
        export_model(gs.ERM(Stubborn(), epochs=1, selection="last").fit(training), tmp_path / "m", [training])
    with pytest.raises(GraphshiftError, match="Label propagation spreads the labels that a graph's nodes have"):
        export_model(gs.LabelPropagation(selection="last").fit(training), tmp_path / "m", [training])
    with pytest.raises(GraphshiftError, match=r"format is 'onx'.*Did you mean 'onnx'"):
        export_model(model, tmp_path / "m", [training], format="onx")  # type: ignore[arg-type]
    with pytest.raises(GraphshiftError, match=r"wants a name that ends in \.pt2, as m\.pt2"):
        export_model(model, tmp_path / "m.torch", [training], format="torch")
    with pytest.raises(GraphshiftError, match="no graph to compare on"):
        export_model(model, tmp_path / "m", [])
    ours = export._ours
    monkeypatch.setattr(export, "_ours", lambda *given: ours(*given) + 2e-5)
    with pytest.raises(GraphshiftError, match=r"is 2e-05 off ours, and 1e-05 is allowed; nothing was written"):
        export_model(model, tmp_path / "m.pt2", [training], format="torch")
    monkeypatch.setattr(export, "_ours", lambda *given: ours(*given) * np.nan)
    with pytest.raises(GraphshiftError, match="is nan off ours"):
        export_model(model, tmp_path / "m.pt2", [training], format="torch")
    assert list(tmp_path.iterdir()) == []


def test_the_command(graphshift: Any, tmp_path: Path, files_of: Callable[[Path], dict[str, bytes]]) -> None:
    fit = ("fit", "planted", "--method", "erm", "-o", "nodes=60", "-o", "environments=4", "--epochs", 2, "--hidden", 4)
    assert graphshift(*fit, "--out", "run").status == 0
    answer = graphshift("export", "run", "--out", "model.onnx")
    assert (answer.status, answer.err) == (0, "")
    data = gs.load("planted", nodes=60, environments=4)
    assert f"takes x: float32 [nodes, {data.train[0].num_features}]" in answer.out
    assert f"gives probabilities: float32 [nodes, {data.task.num_classes}]" in answer.out
    assert "compared with the model on 5 graphs: the largest difference is " in answer.out
    ours = gs.load_model("run").predict_proba(data.tests[0], calibrated=True)
    np.testing.assert_allclose(run_onnx(Path("model.onnx"), data.tests[0]), ours, atol=1e-5)
    before = files_of(Path())
    answer = graphshift("export", "run", "--out", "model.onnx")
    assert (answer.status, "exists; nothing was changed" in answer.err) == (2, True)
    answer = graphshift("export", "run/model", "--out", "b.onnx")
    assert (answer.status, "there is no config.json" in answer.err) == (2, True)
    answer = graphshift("export", "run", "nodes.csv", "--out", "b.onnx")
    assert (answer.status, "a table of edges is missing" in answer.err) == (2, True)
    assert files_of(Path()) == before
    answer = graphshift("export", "run/model", "planted", "-o", "nodes=70", "--out", "model.onnx", "--force", "--json")
    assert json.loads(answer.out)["checked"]["T1"]["nodes"] == 70
