"""Methods that are fitted in one go: rules only score them, they are kept as plain arrays, and fit into the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.hparams import hparams_of
from graphshift.data.tasks import Task
from graphshift.estimators import GNNEstimator, make_estimator
from graphshift.estimators.direct import DirectEstimator
from graphshift.methods import METHODS
from graphshift.training.callbacks import Callback
from graphshift.training.run import Run
from graphshift.training.selection import SELECTIONS
from reference import random_data

SMALL: dict[str, dict[str, Any]] = {
    "forest": {"trees": 8},
    "boosting": {"rounds": 4},
    "smooth-ridge": {"target": "tests"},
}
DIRECT = [name for name, one in METHODS.items() if issubclass(one, DirectEstimator)]
TABULAR = ["boosting", "forest", "logistic"]


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    """Three graphs with known labels in the last two, three classes."""
    made = []
    for i, name in enumerate(("train", "val", "test")):
        one = random_data(70 + 10 * i, classes=3, density=0.1, seed=i)
        one.x[:, 0] += 2 * one.y  # something to learn
        if i:
            one.known_y = one.y.masked_fill(torch.arange(one.num_nodes) % 3 > 0, -1)
            one.mask = torch.arange(one.num_nodes) % 3 > 0
        made.append(gs.Environment(name, one, Task("multiclass", 3)))
    made[0] = made[0].replace(known_y=made[0].y)
    return gs.ShiftDataset("small", made[:1], made[1:2], made[2:])


def model_of(method: str, **settings: Any) -> Any:
    return METHODS[method](**SMALL.get(method, {}), **settings)


def test_there_are_seven() -> None:
    expected = ["boosting", "correct-smooth", "forest", "label-propagation", "logistic", "majority", "smooth-ridge"]
    assert expected == DIRECT
    assert [METHODS[name].label for name in DIRECT] == [
        "Boosted trees",
        "Correct & Smooth",
        "Random forest",
        "Label propagation",
        "Logistic regression",
        "Largest class",
        "Smooth ridge",
    ]


@pytest.mark.parametrize("method", DIRECT)
def test_what_belongs_to_a_gnn_is_not_there(method: str) -> None:
    settings = METHODS[method]().settings()
    assert not set(settings) & set(hparams_of(GNNEstimator)) - {"seed", "selection"}
    with pytest.raises(GraphshiftError, match="lr needs a method that trains a GNN; the method is"):
        make_estimator({"method": method, "lr": 0.1})
    defaults = {"backbone": "sage", "epochs": 3, "lr": 1.0, "by_backbone": {"sage": {"seed": 5}}}
    assert make_estimator({"method": method}, defaults).settings() == settings


@pytest.mark.parametrize("method", DIRECT)
def test_a_saved_model_predicts_the_same_bits(method: str, data: gs.ShiftDataset, tmp_path: Path) -> None:
    model = model_of(method).fit(data)
    assert (model.best_epoch_, len(model.history_)) == (0, 1)
    assert model.best_score_ == model.score(data.val[0])
    model.save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "held_out.safetensors",
        "model.json",
        "weights.safetensors",
    ]
    loaded = gs.load_model(tmp_path / "model")
    assert loaded.settings_ == model.settings_
    for environment in data.environments:
        np.testing.assert_array_equal(loaded.predict_proba(environment), model.predict_proba(environment))
    again = model_of(method).fit(data)
    np.testing.assert_array_equal(again.predict_proba(data.tests[0]), model.predict_proba(data.tests[0]))


@pytest.mark.parametrize("columns", ["structure", "neighbours", "all"])
@pytest.mark.parametrize("method", TABULAR)
def test_columns_of_edges_are_kept(columns: str, method: str, data: gs.ShiftDataset, tmp_path: Path) -> None:
    model = model_of(method, columns=columns).fit(data)
    model.save(tmp_path / "model")
    (test,) = data.tests
    np.testing.assert_array_equal(gs.load_model(tmp_path / "model").predict_proba(test), model.predict_proba(test))
    assert model.uses_edges
    assert model.score_edited(data.val[0]) is None
    plain = model_of(method).fit(data)
    assert not plain.uses_edges
    assert plain.score_edited(data.val[0]) == plain.score(data.val[0])


@pytest.mark.parametrize("kind", ["binary", "regression"])
@pytest.mark.parametrize("method", [name for name in DIRECT if name not in ("correct-smooth", "smooth-ridge")])
def test_other_tasks_are_learned(method: str, kind: str, data: gs.ShiftDataset, tmp_path: Path) -> None:
    def changed(environment: gs.Environment) -> gs.Environment:
        one = environment.data
        assert isinstance(one.y, torch.Tensor)
        one.y = (one.y > 0).long() if kind == "binary" else one.y.float()
        one.known_y = (
            one.known_y.clamp(max=1)
            if kind == "binary"
            else one.known_y.float().masked_fill(one.known_y < 0, torch.nan)
        )
        return gs.Environment(environment.name, one, Task(kind, 2 if kind == "binary" else 0))

    made = gs.ShiftDataset(kind, *([changed(e) for e in role] for role in (data.train, data.val, data.tests)))
    model, plain = model_of(method).fit(made), gs.Majority().fit(made)
    if method in TABULAR:
        sign = made.task.scorer.sign
        assert sign * model.score(made.tests[0]) > sign * plain.score(made.tests[0])
    model.save(tmp_path / "model")
    loaded = gs.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(made.tests[0]), model.predict(made.tests[0]))


@pytest.mark.filterwarnings("ignore:fit. ")  # a class with one node, or none
@pytest.mark.parametrize("method", [*TABULAR, "majority"])
def test_a_class_that_training_does_not_have(method: str, data: gs.ShiftDataset) -> None:
    (train,) = data.train
    fewer = [train.replace(mask=train.y == 2), train.replace(mask=train.y != 1)]
    for environment in fewer:
        with pytest.warns(GraphshiftWarning, match="has no node anywhere"):
            model = model_of(method, selection="last").fit(environment)
        absent = [k for k in range(3) if k not in environment.labels.tolist()]
        assert np.asarray(model.predict_proba(train))[:, absent].max() < 1e-300
        assert np.asarray(model.predict_proba(train)).sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("method", DIRECT)
def test_every_rule_scores_the_one_model(method: str, data: gs.ShiftDataset) -> None:
    uses_edges = method in ("label-propagation", "correct-smooth", "smooth-ridge")
    shared = [name for name, rule in SELECTIONS.items() if rule.shares_training and name != "val"]
    if uses_edges:
        with pytest.warns(GraphshiftWarning, match="it has no score by this rule"):
            model = model_of(method).fit(data, also=[name for name in shared if name != "target"])
    else:
        model = model_of(method).fit(data, also=shared, target="tests")
    found = {name: choice.score for name, choice in model.also_.items()}
    assert uses_edges or found["target"] <= model.score(data.val[0])  # an estimate is capped there
    assert found["oracle"] == model.score(data.tests[0])
    assert found["explored"] == (None if uses_edges else model.score(data.val[0]))
    assert model_of(method, selection="last").fit(data).best_score_ is None


@pytest.mark.parametrize("method", TABULAR)
def test_held_out_nodes_are_not_learned_from(method: str, data: gs.ShiftDataset) -> None:
    (train,) = data.train
    noise = train.replace(y=torch.randint(3, (train.num_nodes,), generator=torch.Generator().manual_seed(3)))
    model = model_of(method, selection="id_val").fit(noise)
    assert model.prior_.sum() == pytest.approx(1)
    assert model.calibrations_[""].nodes.sum() == round(0.2 * train.num_nodes)
    assert model.best_score_ is not None
    if method == "forest":
        assert model.score(noise) > model.best_score_ + 0.2  # known by heart, and the held-out ones not


def test_the_prior_is_adapted_and_the_norm_is_not(data: gs.ShiftDataset) -> None:
    model = gs.Logistic().fit(data)
    (test,) = data.tests
    rare = test.replace(mask=test.mask & ((test.y != 0) | (torch.arange(test.num_nodes) % 8 == 1)))
    assert np.asarray(model.predict_proba(rare, adapt="prior")).sum(axis=1) == pytest.approx(1)
    with pytest.raises(GraphshiftError, match="adapt is 'norm' and method logistic has no batch normalisation"):
        model.predict(test, adapt="norm")


def test_an_ensemble_of_forests(data: gs.ShiftDataset, tmp_path: Path) -> None:
    members = [model_of("forest", seed=seed).fit(data) for seed in range(2)]
    (test,) = data.tests
    assert not np.array_equal(members[0].predict_proba(test), members[1].predict_proba(test))
    both = gs.Ensemble(members)
    mean = np.mean([member.predict_proba(test) for member in members], axis=0)
    np.testing.assert_allclose(both.predict_proba(test), mean, atol=1e-12)
    both.save(tmp_path / "both")
    np.testing.assert_array_equal(gs.load_model(tmp_path / "both").predict_proba(test), both.predict_proba(test))


def test_callbacks_and_the_folder_of_a_run(data: gs.ShiftDataset, tmp_path: Path) -> None:
    rows: list[Mapping[str, Any]] = []
    ends: list[Any] = []

    class Listener(Callback):
        def on_epoch(self, row: Mapping[str, Any]) -> None:
            rows.append(row)

        def on_end(self, result: Any) -> None:
            ends.append(result)

    model = model_of("forest").fit(data, run=Run(tmp_path / "run"), callbacks=[Listener()])
    (row,) = [json.loads(line) for line in (tmp_path / "run/history.jsonl").read_text().splitlines()]
    assert row == model.history_[0] == dict(rows[0])
    assert row["val"] == model.best_score_
    assert ends[0].best.score == model.best_score_
    gs.ERM(epochs=1).fit(data, run=Run(tmp_path / "gnn", every=0))
    with pytest.raises(GraphshiftError, match=r"checkpoint\.safetensors: belongs to a run of another method"):
        model_of("forest").fit(data, run=Run(tmp_path / "gnn"))
    with pytest.raises(GraphshiftError, match="method forest learns from all nodes at once"):
        model_of("forest").fit(data, batches=lambda environments, epoch: [environments])


def test_a_rule_of_ones_own_that_looks_at_the_backbone_is_refused(data: gs.ShiftDataset) -> None:
    from graphshift.estimators.direct import AsMethod

    model = gs.Majority().fit(data)
    with pytest.raises(GraphshiftError, match="selection 'mine' looks at the backbone, and method majority has none"):
        _ = AsMethod("majority", model.predict_plain, "mine").backbone


@pytest.mark.parametrize("method", DIRECT)
def test_damaged_arrays_are_named(method: str, data: gs.ShiftDataset, tmp_path: Path) -> None:
    model_of(method).fit(data).save(tmp_path / "model")
    path = tmp_path / "model/weights.safetensors"
    whole = load_file(path)
    for name, tensor in whole.items():
        others = [{k: v for k, v in whole.items() if k != name}, whole | {name: torch.zeros(1, 2, 3)}]
        others += [whole | {name: torch.full_like(tensor, torch.nan)}] if tensor.is_floating_point() else []
        for other in others:
            save_file({k: v.contiguous() for k, v in other.items()}, path)
            with pytest.raises(GraphshiftError, match=r"weights\.safetensors: does not fit model\.json"):
                gs.load_model(tmp_path / "model")


def test_a_graph_without_an_edge(data: gs.ShiftDataset) -> None:
    lonely = Data(x=torch.rand(6, data.train[0].num_features), edge_index=torch.empty(2, 0, dtype=torch.int64))
    for method in TABULAR:
        assert model_of(method, columns="all").fit(data).predict(lonely).shape == (6,)


def test_sparse_features_are_learned_from(data: gs.ShiftDataset) -> None:
    def thin(environment: gs.Environment) -> gs.Environment:
        one = environment.data
        one.x = (one.x * (one.x > 0.5)).to_sparse()
        return gs.Environment(environment.name, one, environment.task)

    made = gs.ShiftDataset("thin", *([thin(e) for e in role] for role in (data.train, data.val, data.tests)))
    for method in TABULAR:
        model = model_of(method, columns="all").fit(made)
        assert model.score(made.tests[0]) > gs.Majority().fit(made).score(made.tests[0])
