"""A fit from a dataset's name to its result: settings completed, everything in the folder, confidence and target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn import metrics as sk

import graphshift as gs
from graphshift.data.metrics import METRICS
from graphshift.estimators import base, make_estimator
from graphshift.estimators.asked import roles_of
from graphshift.fitting.fit import fit_in_folder, result_of
from tiny_fits import TINY, contents, request

KEYS = {
    "dataset",
    "method",
    "backbone",
    "seed",
    "metric",
    "selection",
    "best_epoch",
    "val",
    "tests",
    "majority",
    "seconds",
    "seconds_per_epoch",
    "peak_rss_mb",
    "version",
    "selection_score",
    "confidence",
}


@pytest.mark.parametrize("selection", ["val", "oracle"])
def test_tests_are_handed_over_to_oracle_alone(selection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(base, "roles_of", lambda *roles: seen.append(roles) or roles_of(*roles))
    data = gs.load("planted", nodes=60)
    gs.ERM(selection=selection, **TINY).fit(data)
    train, val, tests, *_ = seen[0]
    assert (train, val, tuple(tests)) == (data.train, data.val, data.tests if selection == "oracle" else ())


def test_a_folder_holds_everything(tmp_path: Path) -> None:
    result = fit_in_folder(request(seed=3), tmp_path / "deep" / "run")
    folder = tmp_path / "deep" / "run"
    assert set(contents(folder)) == {
        "config.json",
        "history.jsonl",
        "result.json",
        "model/explored.safetensors",
        "model/held_out.safetensors",
        "model/model.json",
        "model/source.safetensors",
        "model/weights.safetensors",
    }
    assert json.loads((folder / "result.json").read_text()) == result
    assert set(result) == KEYS | {"estimated_mb", "loading_mb", "low_memory", "warnings"}
    assert 50 < result["estimated_mb"] < 100_000
    assert result["low_memory"] is False
    assert (result["dataset"], result["method"], result["backbone"], result["seed"]) == ("planted", "erm", "gcn", 3)
    assert (result["metric"], result["selection"], result["version"]) == ("accuracy", "val", gs.__version__)
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert result["val"] == max(row["val"] for row in history) == history[result["best_epoch"] - 1]["val"]
    assert 0 < result["seconds_per_epoch"] == result["seconds"] / 2
    assert 50 < result["peak_rss_mb"] < 100_000
    data = gs.load("planted", nodes=60)
    model = gs.load_model(folder / "model")
    assert result["tests"] == model.score(data.tests)
    assert result["majority"] == {e.name: e.majority for e in data.tests}
    config = json.loads((folder / "config.json").read_text())
    assert config["dataset"] == "planted"
    assert config["options"] == {"nodes": 60}
    assert config["settings"] == make_estimator(request(seed=3).given, data.defaults).settings()


def test_regression_has_no_majority() -> None:
    graph = gs.load("planted", nodes=60).train[0].data
    graph.y = graph.x[:, 0]
    data = gs.ShiftDataset(
        "r", [gs.Environment("a", graph)], [gs.Environment("b", graph)], [gs.Environment("c", graph)]
    )
    result = result_of(gs.ERM(**TINY).fit(data), data)
    assert result["majority"] == {}
    assert result["metric"] == "mse"
    assert set(result) == KEYS - {"confidence"}  # values have no probabilities


def rare() -> gs.ShiftDataset:
    """A rare class 1 in three graphs, and one without labels."""
    made = []
    for seed, name in enumerate(("train", "val", "test", "target")):
        graph = gs.load("planted", nodes=200, seed=seed).train[0].data
        graph.y = (graph.y == 1).long()
        graph.mask = torch.arange(200) % 5 != 0
        made.append(gs.Environment(name, graph, gs.Task("binary", 2, "average_precision")))
    return gs.ShiftDataset("rare", *([one] for one in made[:3]), target=made[3:])


def test_a_result_says_how_sure_and_how_right_the_model_is() -> None:
    data = rare()
    model = gs.ERM(epochs=40, hidden_channels=16, lr=0.05, selection="last").fit(data)
    result = result_of(model, data)
    found = result["confidence"]
    assert found["temperature"] == model.confidences_[""].temperature
    for role, (e,) in (("val", data.val), ("tests", data.tests)):
        y = e.labels.numpy()
        raw, calibrated = (model.predict_proba(e, calibrated=c)[e.mask.numpy()] for c in (False, True))
        own = found[role][e.name]
        assert own["accuracy"] == pytest.approx((raw.argmax(axis=1) == y).mean())
        assert own["confidence"] == pytest.approx(raw.max(axis=1).mean())
        assert own["ece"] == METRICS["ece"].compute(y, raw)
        assert own["calibrated"] == pytest.approx(
            {"confidence": calibrated.max(axis=1).mean(), "ece": METRICS["ece"].compute(y, calibrated)}
        )
    assert found["val"]["val"]["calibrated"]["ece"] < found["val"]["val"]["ece"]
    chosen = result["threshold"]
    for (e,) in (data.val, data.tests):
        predicted = model.predict_proba(e, calibrated=True)[e.mask.numpy(), 1] > chosen["probability"]
        assert chosen["f1"][e.name] == pytest.approx(sk.f1_score(e.labels.numpy(), predicted))
    (e,) = data.target
    predicted = model.predict(e)[e.mask.numpy()]
    probabilities = model.predict_proba(e, calibrated=True)[e.mask.numpy()]
    assert result["target"]["target"] == {
        "nodes": 160,
        "shares": {"0": (predicted == 0).mean(), "1": (predicted == 1).mean()},
        "confidence": pytest.approx(probabilities.max(axis=1).mean()),
    }


def test_a_target_of_values_has_their_mean() -> None:
    graph = gs.load("planted", nodes=60).train[0].data
    graph.y = graph.x[:, 0]
    data = gs.ShiftDataset("r", [gs.Environment("a", graph)], target=[gs.Environment("b", graph)])
    model = gs.ERM(selection="last", **TINY).fit(data)
    values = model.predict(data.target[0])
    found = result_of(model, data)["target"]["b"]
    assert found == {"nodes": 60, "mean": pytest.approx(values.mean()), "deviation": pytest.approx(values.std())}
