"""Estimators behave as scikit-learn's do: parameters, clones, fits, predictions and scores."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.explorers import Explorer, Random
from small import OwnModule, identical

SMALL: dict[str, Any] = {"epochs": 3, "hidden_channels": 4}


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", nodes=60)


@pytest.fixture(scope="module")
def fitted(data: gs.ShiftDataset) -> gs.Estimator:
    return gs.EERM(views=2, dropout=0.2, **SMALL).fit(data.train, data.val)


def test_parameters_are_got_and_set() -> None:
    model = gs.EERM("sage", beta=3.0, backbone_options={"a": 1})
    params = model.get_params()
    assert (params["backbone"], params["beta"], params["views"]) == ("sage", 3.0, 3)
    assert params["backbone_options"] == {"a": 1}
    assert model.set_params(beta=4.0, lr=0.5) is model
    assert (model.beta, model.lr) == (4.0, 0.5)
    with pytest.raises(ValueError, match="Invalid parameter 'gamma'"):
        model.set_params(gamma=1)


def test_a_clone_has_the_parameters_and_is_not_fitted(fitted: gs.Estimator, data: gs.ShiftDataset) -> None:
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        twin.predict(data.train[0])
    twin.fit(data.train, data.val)
    assert identical(twin.backbone_.state_dict(), fitted.backbone_.state_dict())


def test_a_clone_of_an_own_module_trains_a_copy_of_it(data: gs.ShiftDataset) -> None:
    module = OwnModule(24, 4)
    before = pickle.dumps(module.state_dict())
    model = gs.EERM(module, views=2, **SMALL)
    fits = [m.fit(data.train, data.val) for m in (model, clone(model))]
    assert identical(*(fit.backbone_.state_dict() for fit in fits))
    assert pickle.dumps(module.state_dict()) == before
    assert not identical(fits[0].backbone_.module.state_dict(), module.state_dict())


def test_impossible_parameters_are_told_at_fit(data: gs.ShiftDataset) -> None:
    for model, match in (
        (gs.EERM(views=1), "views is 1.* 2"),
        (gs.ERM(epochs=-1), "epochs is -1"),
        (gs.ERM("transformer"), "backbone is 'transformer'; expected one of .*gcn"),
        (gs.EERM(explorer="clever"), "explorer is 'clever'; expected one of .*random"),
        (gs.ERM(backbone_options={"heads": 2}), "backbone 'gcn': backbone_options .* do not fit"),
        (gs.ERM("gat", backbone_options={"heads": "two"}), "backbone 'gat': heads is 'two'; expected a whole number"),
        (gs.ERM("gat", backbone_options={"heads": 0}), "backbone 'gat': backbone_options .* do not fit"),
    ):
        with pytest.raises(GraphshiftError, match=match):
            model.fit(data.train, data.val)
        assert not hasattr(model, "backbone_")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_a_device_that_is_not_there_is_told(data: gs.ShiftDataset) -> None:
    with pytest.raises(GraphshiftError, match="device is 'cuda' and this machine's PyTorch has none; use 'cpu'"):
        gs.ERM(device="cuda").fit(data.train, data.val)


def test_own_explorers_are_made_with_different_seeds(data: gs.ShiftDataset) -> None:
    seeds: list[int] = []

    def make(seed: int) -> Explorer:
        seeds.append(seed)
        return Random(1, seed=seed)

    model = gs.EERM(explorer=make, views=3, **SMALL).fit(data.train, data.val)
    assert len(set(seeds)) == len(seeds) == 3
    control = gs.EERM(explorer="random", edits_per_node=1, views=3, **SMALL).fit(data.train, data.val)
    assert identical(model.backbone_.state_dict(), control.backbone_.state_dict())


def test_settings_of_explorers_reach_them(data: gs.ShiftDataset) -> None:
    model = gs.EERM(
        edits_per_node=4,
        directed_edits=True,
        explorer_lr=0.7,
        explorer_optimizer="sgd",
        explorer_weight_decay=0.2,
        explorer_baseline=0.5,
    )
    explorer: Any = model.make_explorer(0, 0)
    found = (explorer.edits_per_node, explorer.directed, explorer.lr, explorer.optimizer, explorer.weight_decay)
    assert found == (4, True, 0.7, "sgd", 0.2)
    assert explorer.baseline == 0.5


def test_one_graph_gives_an_array_and_several_give_a_dict(fitted: gs.Estimator, data: gs.ShiftDataset) -> None:
    environment = data.tests[0]
    classes = fitted.predict(environment)
    assert classes.shape == (60,)
    assert classes.dtype == np.int64
    probabilities = fitted.predict_proba(environment)
    assert probabilities.shape == (60, 4)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert np.array_equal(probabilities.argmax(axis=1), classes)
    share = float((classes == environment.y.numpy()).mean())
    assert fitted.score(environment) == pytest.approx(share)
    several = fitted.predict(data.tests)
    assert list(several) == [e.name for e in data.tests]
    assert np.array_equal(several[environment.name], classes)
    assert fitted.score(data.tests)[environment.name] == pytest.approx(share)
    assert list(fitted.score([environment])) == [environment.name]
    assert np.array_equal(fitted.predict_proba(data.tests)["T1"], probabilities)


def test_pyg_data_are_taken_everywhere(data: gs.ShiftDataset, fitted: gs.Estimator) -> None:
    train, val, test = (e.data for e in (data.train[0], data.val[0], data.tests[0]))
    model = clone(fitted).fit(train, val)
    assert identical(model.backbone_.state_dict(), fitted.backbone_.state_dict())
    assert np.array_equal(model.predict(test), fitted.predict(data.tests[0]))
    assert model.score(test) == fitted.score(data.tests[0])
    assert list(model.score([test, test])) == ["graph0", "graph1"]
    without_labels = Data(x=test.x, edge_index=test.edge_index)
    assert np.array_equal(model.predict(without_labels), model.predict(test))
    with pytest.raises(GraphshiftError, match="no labels"):
        model.score(without_labels)


def test_the_score_is_over_counted_nodes_alone(fitted: gs.Estimator, data: gs.ShiftDataset) -> None:
    e = data.tests[0]
    right = torch.from_numpy(fitted.predict(e)) == e.y
    assert fitted.score(e.replace(mask=right)) == 1.0
    assert fitted.score(e.replace(mask=~right)) == 0.0


@pytest.mark.parametrize("what", ["predict", "predict_proba", "score"])
def test_what_cannot_be_predicted_is_told(what: str, fitted: gs.Estimator, data: gs.ShiftDataset) -> None:
    with pytest.raises(NotFittedError):
        getattr(gs.ERM(), what)(data.train[0])
    narrow = Data(x=torch.ones(4, 3), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1, 2, 3]))
    with pytest.raises(GraphshiftError, match="'graph' has 3 features and the model was trained with 24"):
        getattr(fitted, what)(narrow)
    with pytest.raises(GraphshiftError, match="two environments are called 'T1'; names must differ"):
        getattr(fitted, what)([data.tests[0], data.tests[0]])
    with pytest.raises(GraphshiftError, match="found ndarray"):
        getattr(fitted, what)([np.ones(3)])


def test_another_task_is_not_scored(fitted: gs.Estimator) -> None:
    for classes, kind in ((2, "binary"), (3, "multiclass")):
        other = gs.load("planted", nodes=60, classes=classes).tests[0]
        with pytest.raises(GraphshiftError, match=f"{kind} task with {classes} classes, and .* multiclass with 4"):
            fitted.score(other)
        assert fitted.predict(other).shape == (60,)


def test_a_model_of_broken_weights_has_no_score(data: gs.ShiftDataset) -> None:
    model = gs.ERM(**SMALL).fit(data.train, data.val)
    next(model.backbone_.parameters()).data.fill_(float("nan"))
    with pytest.raises(GraphshiftError, match="environment 'T1': the model predicts NaN"):
        model.score(data.tests)


def test_no_training_graph_is_a_clear_error() -> None:
    with pytest.raises(GraphshiftError, match="at least one is needed"):
        gs.ERM().fit([])


@pytest.mark.parametrize("estimator", [gs.ERM, gs.EERM])
@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_other_tasks_are_learned(estimator: type[gs.Estimator], kind: str, data: gs.ShiftDataset) -> None:
    graph = data.train[0].data
    signal = graph.x[:, :2].sum(dim=1)
    graph.y = signal if kind == "regression" else (signal > 0).long()
    environment = gs.Environment("only", graph)
    assert environment.task.kind == kind
    options = {"views": 2, "edits_per_node": 1} if estimator is gs.EERM else {}
    model = estimator(epochs=60, lr=0.05, backbone="sage", selection="last", **options).fit(environment)
    if kind == "regression":
        assert model.predict(graph).shape == (60,)
        assert model.score(graph) < 0.3 * float(graph.y.var())  # the squared error of predicting the mean
        with pytest.raises(GraphshiftError, match="a regression model has no probabilities"):
            model.predict_proba(graph)
    else:
        assert model.predict_proba(graph).shape == (60, 2)
        assert model.score(graph) > environment.majority + 0.2
    assert model.history_[-1]["loss"] < 0.5 * model.history_[0]["loss"]


def test_pygs_masks_are_not_mistaken_for_one_environment() -> None:
    data = gs.load("planted", nodes=60).train[0].data
    model = gs.ERM(**SMALL).fit(data, data)
    del data.mask
    data.train_mask = torch.arange(60) < 20
    with pytest.raises(GraphshiftError, match=r"from_pyg"):
        gs.ERM(**SMALL).fit(data)
    with pytest.raises(GraphshiftError, match=r"from_pyg"):
        model.score(data)
    assert model.predict(data).shape == (60,)  # a prediction needs no mask


def test_a_run_of_other_data_is_not_resumed(tmp_path: Path) -> None:
    first, second = (gs.load("planted", nodes=60, seed=seed) for seed in (0, 9))
    gs.ERM(**SMALL).fit(first.train, first.val, run=gs.Run(str(tmp_path / "run"), every=0))
    with pytest.raises(GraphshiftError, match="other data"):
        gs.ERM(**SMALL).fit(second.train, second.val, run=gs.Run(tmp_path / "run", every=0))


def test_another_default_dtype_is_refused() -> None:
    data = gs.load("planted", nodes=60)
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(GraphshiftError, match="float64"):
            gs.ERM(**SMALL).fit(data.train, data.val)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_whole_dataset_is_not_a_graph() -> None:
    data = gs.load("planted", nodes=60)
    with pytest.raises(GraphshiftError, match="ShiftDataset"):
        gs.ERM(**SMALL).fit(data.train, val=data)
    with pytest.raises(GraphshiftError, match="val and tests"):
        gs.ERM(**SMALL).fit(data, val=data.val)
