"""Models of graphs with labels: PyG's numbers, predictions, tables, saving, and what is not available."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, global_add_pool, global_max_pool, global_mean_pool

import graphshift as gs
from graphs import dataset, environment, graphs
from graphshift.backbones import GraphLevel, graph_backbone
from graphshift.core.errors import GraphshiftError
from graphshift.data.tasks import Task
from graphshift.estimators import Ensemble
from graphshift.studies import Plan, crossed_arms, run_study
from graphshift.training.loop import Interrupted
from graphshift.training.run import Run
from reference import random_data

POOLS = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool}


class PyG(nn.Module):
    """A graph classifier as PyG's users write it."""

    def __init__(self, features: int, width: int, classes: int, readout: str) -> None:
        super().__init__()
        self.first, self.second = GCNConv(features, width), GCNConv(width, width)
        self.norm, self.leave, self.pool = nn.BatchNorm1d(width), nn.Linear(width, classes), POOLS[readout]

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = self.norm(self.first(x, edge_index)).relu()
        return self.leave(self.pool(self.second(h, edge_index).relu(), batch))


@pytest.mark.parametrize("readout", list(POOLS))
def test_outputs_are_those_of_pygs_layers(readout: str) -> None:
    e = environment(classes=3)
    ours = graph_backbone("gcn", 5, 3, readout=readout, hidden_channels=8, num_layers=2, dropout=0.0)
    theirs = PyG(5, 8, 3, readout)
    assert isinstance(ours, GraphLevel)
    names = {"first.lin.weight": "nodes.layers.0.linear.weight", "first.bias": "nodes.layers.0.bias"}
    names |= {"second.lin.weight": "nodes.layers.1.linear.weight", "second.bias": "nodes.layers.1.bias"}
    names |= {"leave.weight": "leave.weight", "leave.bias": "leave.bias"}
    names |= {"norm.weight": "nodes.norms.0.weight", "norm.bias": "nodes.norms.0.bias"}
    own = ours.state_dict()
    theirs.load_state_dict({name: own[other] for name, other in names.items()}, strict=False)
    expected = theirs(e.x, e.graph.edge_index, e.graph.blocks.batch)  # type: ignore[union-attr]
    torch.testing.assert_close(ours(e.x, e.graph), expected)


@pytest.mark.parametrize("backbone", ["own", "sage", "gine", "gat"])
def test_predictions_scores_and_tables_have_a_row_for_each_graph(backbone: str, tmp_path: Path) -> None:
    data = dataset(classes=3)
    own = PyG(5, 8, 3, "max") if backbone == "own" else backbone
    model = gs.EERM(own, explorer="random", readout="max", epochs=15, lr=0.02, hidden_channels=8).fit(data)
    test = data.tests[0]
    predicted, p = model.predict(test), model.predict_proba(test)
    assert predicted.shape == (20,)
    assert p.shape == (20, 3)
    y = test.y.numpy()  # type: ignore[union-attr]
    assert model.score(test) == pytest.approx(float((predicted == y)[test.mask.numpy()].mean()))
    table = model.predict_frame(test.replace(ids=np.array([f"g{i}" for i in range(20)])))
    assert list(table.columns) == ["id", "environment", "prediction", "p(0)", "p(1)", "p(2)"]
    assert table["id"].tolist()[:2] == ["g0", "g1"]
    assert table["prediction"].tolist() == predicted.tolist()
    model.save(tmp_path / "model")
    again = gs.load_model(tmp_path / "model", backbone=PyG(5, 8, 3, "max") if backbone == "own" else None)
    assert np.array_equal(again.predict_proba(test), p)
    assert again.task_.is_graph_level


def test_what_a_user_of_pyg_has_is_predicted(tmp_path: Path) -> None:
    data = dataset()
    model = gs.ERM(epochs=5).fit(data)
    several = graphs()
    batch = Batch.from_data_list(several)
    together = model.predict_proba(batch)
    assert together.shape == (5, 2)
    one = model.predict_proba(several[2])  # without `batch` it is one graph
    assert one.shape == (1, 2)
    assert one[0] == pytest.approx(together[2], abs=1e-6)
    assert model.score(batch) == pytest.approx(float((together.argmax(1) == batch.y.numpy()).mean()))
    with pytest.raises(GraphshiftError, match="not divided"):
        model.backbone_(several[0].x, gs.Environment("plain", random_data()).graph)


def test_adaptation_sets_estimates_and_other_rules_work() -> None:
    data = dataset()
    model = gs.ERM(epochs=15, lr=0.02, selection="explored").fit(data)
    test = data.tests[0]
    for adapt in ("norm", "prior", "norm+prior"):
        assert model.predict(test, adapt=adapt).shape == (20,)
    sets = model.predict_set(test, coverage=0.8, weights="none")
    assert sets.members.shape == (20, 2)
    assert 0 <= (model.estimate_score(test).expected or 0) <= 1
    assert gs.ERM(epochs=3, selection="id_val").fit(data).predict(test).shape == (20,)
    assert Ensemble([model, gs.ERM(epochs=3, seed=1).fit(data)]).predict(test).shape == (20,)


def test_regression_of_graphs() -> None:
    made = [environment(name, seed=i) for i, name in enumerate(("train", "val", "T1"))]
    task = Task("regression", 0, level="graph")
    made = [e.replace(task=task, y=e.graph.blocks.pooled(e.x, "mean")[:, 0]) for e in made]  # type: ignore[union-attr]
    model = gs.ERM("mlp", epochs=120, lr=0.02).fit(made[0], val=made[1])
    assert model.score(made[2]) < 0.5 * float(made[2].labels.var())
    low, high = model.predict_set(made[2], weights="none").intervals.T
    assert bool((low <= high).all())


def test_training_goes_on_where_it_stopped(tmp_path: Path) -> None:
    data = dataset()
    how = {"explorer": "reinforce", "edits_per_node": 1, "epochs": 6}
    whole = gs.EERM(**how).fit(data)

    class Stop:
        def on_settings(self, settings: object) -> None: ...
        def on_start(self, epochs: int) -> None: ...
        def on_end(self, result: object) -> None: ...
        def on_epoch(self, row: dict[str, float]) -> None:
            if row["epoch"] == 3:
                raise Interrupted

    run = Run(tmp_path, every=0)
    with pytest.raises(Interrupted):
        gs.EERM(**how).fit(data, run=run, callbacks=[Stop()])
    resumed = gs.EERM(**how).fit(data, run=Run(tmp_path))
    assert [row["loss"] for row in resumed.history_] == [row["loss"] for row in whole.history_]
    for name, tensor in whole.backbone_.state_dict().items():
        assert torch.equal(tensor, resumed.backbone_.state_dict()[name])


def test_a_study_compares_methods_on_graphs(tmp_path: Path) -> None:
    arms = crossed_arms(["erm", "eerm", "forest"], ["gcn"], ["random"], common={"epochs": 3, "edits_per_node": 1})
    study = run_study(Plan("small graphs", arms, range(2), data=dataset(), trials=0), tmp_path / "study")
    assert {arm.arm for arm in study.summary.arms} == {arm.name for arm in arms}
    assert not study.summary.failed


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"batch": torch.tensor([0, 0, 2, 2])}, "every graph has a node"),
        ({"batch": torch.tensor([0, 1, 0, 1])}, "the nodes of a graph stand together"),
        ({"batch": torch.zeros(4)}, "`batch` is torch.float32"),
        ({"batch": torch.tensor([0, 0, 0, 1])}, r"2 edges join nodes of two graphs"),
        ({"batch": None, "y": torch.tensor([1])}, "one label for 4 nodes.*Batch.from_data_list"),
        ({"y": torch.tensor([0, 1, 1])}, r"`y` is \[3\]; expected \[2\], one label per graph"),
        ({"y": torch.tensor([0, 5])}, "first graph 1: 5; correct the labels, take these graphs out"),
        ({"mask": torch.ones(4).bool()}, r"`mask` is torch.bool \[4\]; expected bool \[2\]"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Tensor | None], complaint: str) -> None:
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    data = Data(x=torch.rand(4, 2), edge_index=edges, y=torch.tensor([0, 1]), batch=torch.tensor([0, 0, 1, 1]))
    for name, value in change.items():
        data[name] = value
    task = Task("binary", 2, level="graph") if "first graph" in complaint else None
    with pytest.raises(GraphshiftError, match=complaint):
        gs.Environment("e", data, task)


def test_batches_of_nodes_with_labels_stay_node_level() -> None:
    batch = Batch.from_data_list([random_data(5), random_data(6)])
    assert gs.Environment("nodes", batch).graph.blocks is None


def test_node_level_and_graph_level_do_not_mix() -> None:
    data = dataset()
    nodes = gs.Environment("nodes", random_data())
    with pytest.raises(GraphshiftError, match="level='graph'"):
        gs.ShiftDataset("both", data.train, [nodes])


@pytest.mark.parametrize("what", ["shift", "estimate", "partition", "onnx", "service"])
def test_what_is_not_available_says_so(what: str, tmp_path: Path) -> None:
    from graphshift.datasets.partitions import partition
    from graphshift.estimators.export import export_model
    from graphshift.serving.service import Service

    data = dataset()
    model = gs.ERM(epochs=2).fit(data)
    does = {
        "shift": lambda: gs.compare_graphs(data.train[0], data.tests[0]),
        "estimate": lambda: gs.estimate_score(model, data.tests, data.val),
        "partition": lambda: partition(data, tmp_path / "parts", parts=2),
        "onnx": lambda: export_model(model, tmp_path / "model.onnx", data.tests),
        "service": lambda: Service(model),
    }
    with pytest.raises(GraphshiftError, match="is not available for graph-level tasks"):
        does[what]()
