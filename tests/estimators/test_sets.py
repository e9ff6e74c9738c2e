"""Prediction sets of fitted models: coverage, weights, files and mistakes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_tensors, write_tensors
from graphshift.estimators.held_out import HeldOut, Signals
from graphshift.estimators.sets import WEIGHTS, HowSets, PredictionSets, class_weights, sets_of, weighting


@pytest.fixture(scope="module")
def data() -> Any:
    return gs.load("planted-structure", nodes=500)


@pytest.fixture(scope="module")
def model(data: Any) -> Any:
    return gs.ERM("sage", epochs=15).fit(data)


def shown(p: torch.Tensor) -> Signals:
    return Signals(p.log(), p, p, p.float(), torch.zeros(p.shape[0]))


def drawn(n: int, shares: list[float], seed: int) -> tuple[Signals, torch.Tensor]:
    """Nodes of two Gaussian classes, N(0, 1) and N(2, 2²), with their posteriors under equal shares."""
    random = np.random.default_rng(seed)
    y = random.choice(2, size=n, p=shares)
    x = torch.tensor(random.standard_normal(n) * (1 + y) + 2.0 * y)
    logit = 0.5 * x**2 - 0.125 * (x - 2) ** 2 - np.log(2)
    return shown(torch.stack([torch.sigmoid(-logit), torch.sigmoid(logit)], dim=1)), torch.tensor(y)


def graph_of(y: torch.Tensor) -> gs.Environment:
    edges = torch.zeros(2, 0, dtype=torch.int64)
    return gs.Environment("new", Data(x=torch.zeros(len(y), 1), edge_index=edges, y=y), gs.Task("binary", 2))


def test_sets_cover_when_class_shares_move_if_weights_say_so() -> None:
    prior = torch.tensor([0.5, 0.5], dtype=torch.float64)
    old, labels = drawn(4000, [0.9, 0.1], 0)
    held = HeldOut.of([graph_of(labels)], [old], gs.Task("binary", 2))
    new, y = drawn(6000, [0.1, 0.9], 1)
    covered = {}
    for weights in ("none", "each-class", "classes"):
        found = sets_of(graph_of(y), new, held, prior, HowSets(0.9, "threshold", weights=weights), (0, 1))
        assert found.weights == weights
        covered[weights] = found.covers(y)
    assert covered["none"].mean() < 0.8  # class 1, which is harder, was rare
    assert covered["classes"].mean() == pytest.approx(0.9, abs=0.025)
    assert [covered["each-class"][y == k].mean() for k in (0, 1)] == pytest.approx([0.9, 0.9], abs=0.035)


def test_class_weights_are_the_ratio_of_shares() -> None:
    """Classes N(−1, 1) and N(1, 1), whose posterior under equal shares is the sigmoid of 2x."""
    random = np.random.default_rng(2)
    y = torch.tensor(random.choice(2, size=8000, p=[0.7, 0.3]))
    x = torch.tensor(random.standard_normal(8000)) + 2 * y - 1
    old, labels = shown(torch.stack([torch.sigmoid(-2 * x), torch.sigmoid(2 * x)], dim=1)), y
    held = HeldOut.of([graph_of(labels)], [old], gs.Task("binary", 2))
    y = torch.tensor(random.choice(2, size=8000, p=[0.2, 0.8]))
    x = torch.tensor(random.standard_normal(8000)) + 2 * y - 1
    new = shown(torch.stack([torch.sigmoid(-2 * x), torch.sigmoid(2 * x)], dim=1))
    found, unsafe = class_weights(new.log_p, held, torch.tensor([0.5, 0.5], dtype=torch.float64))
    assert unsafe is None
    assert found.tolist() == pytest.approx([0.2 / 0.7, 0.8 / 0.3], rel=0.15)


def test_what_is_refused_is_said() -> None:
    old, labels = drawn(60, [0.9, 0.1], 4)
    held = HeldOut.of([graph_of(labels)], [old], gs.Task("binary", 2))
    prior = torch.tensor([0.5, 0.5], dtype=torch.float64)
    far = shown(torch.tensor([[0.999, 0.001]], dtype=torch.float64).expand(100, 2))
    found = weighting(far, far, held, prior, "auto", ("north", "south"))
    assert "class south has" in found.remark
    assert found.name != "each-class"
    assert weighting(far, far, held, prior, "none", ("north", "south")).remark == ""


@pytest.mark.parametrize("weights", [name for name in WEIGHTS if name not in ("copies", "moved")])  # of other nodes
def test_sets_of_validation_nodes_cover(data: Any, model: Any, weights: str) -> None:
    val = data.val[0]
    found = model.predict_set(val, 0.9, weights=weights)
    covered = found.covers(val.y.numpy())[val.counted.numpy()].mean()
    assert covered == pytest.approx(0.9, abs=0.02)  # the nodes that the quantile is of
    larger = model.predict_set(val, 0.97, weights=weights)
    assert bool((larger.members >= found.members).all())
    assert larger.sizes.mean() > found.sizes.mean()


def test_smoothed_scores_are_used_on_both_sides(data: Any, model: Any) -> None:
    val = data.val[0]
    for how in ({"smooth": 0.4}, {"smooth": 0.3, "alike": 0.3}, {"score": "raps"}, {"score": "threshold"}):
        found = model.predict_set(val, 0.8, weights="none", **how)
        assert found.covers(val.y.numpy())[val.counted.numpy()].mean() == pytest.approx(0.8, abs=0.02), how


def test_the_same_sets_after_saving_and_for_several_graphs(data: Any, model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    again = gs.load_model(tmp_path / "m")
    found = again.predict_set(data.tests, 0.9)
    for e in data.tests:
        assert np.array_equal(found[e.name].members, model.predict_set(e, 0.9).members)
    ensemble = gs.Ensemble([model, model])
    with pytest.raises(GraphshiftError, match="no held-out nodes"):
        ensemble.predict_set(data.tests[0])
    ensemble.calibrate(data.val)
    ensemble.save(tmp_path / "e")
    loaded = gs.load_model(tmp_path / "e").predict_set(data.tests[0])
    assert np.array_equal(loaded.members, ensemble.predict_set(data.tests[0]).members)


def test_an_old_model_says_what_to_do_and_a_damaged_one_what_is_wrong(data: Any, model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    path = tmp_path / "m" / "held_out.safetensors"
    arrays, _ = read_tensors(path)
    for name, wrong in (("plain/labels", torch.full_like(arrays["plain/labels"], 99)), ("plain/p", torch.ones(2, 2))):
        write_tensors(path, arrays | {name: wrong})
        with pytest.raises(GraphshiftError, match=r"held_out\.safetensors: .*damaged"):
            gs.load_model(tmp_path / "m")
    path.unlink()
    old = gs.load_model(tmp_path / "m")
    with pytest.raises(GraphshiftError, match=r"model\.calibrate\(graphs\) with labelled graphs"):
        old.predict_set(data.tests[0])
    old.calibrate(data.val)
    assert np.array_equal(old.predict_set(data.tests[0]).members, model.predict_set(data.tests[0]).members)


def test_intervals_cover(data: Any) -> None:
    random = torch.Generator().manual_seed(0)

    def graph(n: int) -> Data:
        x = torch.randn(n, 3, generator=random)
        edges = torch.randint(n, (2, 3 * n), generator=random)
        edges = edges[:, edges[0] != edges[1]].unique(dim=1)
        return Data(x=x, edge_index=edges, y=x[:, 0] + 0.5 * torch.randn(n, generator=random))

    model = gs.ERM("mlp", epochs=60).fit(graph(300), graph(800))
    new = graph(2000)
    for weights in ("auto", "none"):
        found = model.predict_set(new, 0.9, weights=weights)
        assert found.members is None
        assert found.covers(new.y.numpy()).mean() == pytest.approx(0.9, abs=0.03)
    assert np.allclose(found.sizes, found.sizes[0])  # without weights all are as wide
    with pytest.raises(GraphshiftError, match="'classes' and the model predicts values"):
        model.predict_set(new, weights="classes")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"coverage": 1.0}, "coverage is 1.0; expected a share between 0 and 1"),
        ({"coverage": True}, "coverage is True"),
        ({"score": "app"}, "score is 'app'.*aps"),
        ({"weights": "class"}, "weights is 'class'"),
        ({"smooth": -0.1}, "smooth is -0.1"),
        ({"smooth": 0.6, "alike": 0.6}, "together they are at most 1"),
        ({"adapt": "prior"}, "adapt is 'prior'; expected None or 'norm'"),
    ],
)
def test_mistakes(data: Any, model: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        model.predict_set(data.tests[0], **how)


@pytest.mark.parametrize("name", ["hidden", "labels", "energy", "score/aps", "p"])
@pytest.mark.parametrize("change", ["type", "length", "gone", "not finite"])
def test_held_out_nodes_that_do_not_fit_are_refused(name: str, change: str) -> None:
    """What a file may say; the checksum may well be right."""
    task = gs.Task("binary", 2)
    signals, labels = drawn(50, [0.5, 0.5], 0)
    arrays = HeldOut.of([graph_of(labels)], [signals], task).arrays()
    assert HeldOut.from_arrays(arrays, task).labels.equal(labels)
    if change == "gone":
        del arrays[name]
    elif change == "not finite":
        arrays[name] = torch.full_like(arrays[name], 99 if name == "labels" else float("nan"))
    else:
        arrays[name] = arrays[name].int() if change == "type" else arrays[name][:-1]
    with pytest.raises(ValueError, match=r"missing|other types|differ in length|outside the classes"):
        HeldOut.from_arrays(arrays, task)


def test_sets_show_themselves() -> None:
    members = np.array([[True, False], [True, True], [False, True]])
    found = PredictionSets(0.9, members, None, "moved", 10.0, "largest with copies in which <edges> moved")
    assert repr(found) == "PredictionSets(3 nodes, coverage 0.9, 1.33 classes on average, weights 'moved')"
    text = found._repr_html_()
    assert "Sets with a coverage of 90 %" in text
    assert "&lt;edges&gt;" in text
    assert [*re.findall(r">(\d+)</td>", text)] == ["1", "2", "2", "1"]  # two sets of one class, one of two
    wide = PredictionSets(0.8, None, np.array([[0.0, 1.0], [0.0, 3.0]]), "none", 10.0)
    assert repr(wide) == "PredictionSets(2 nodes, coverage 0.8, 2 wide on average, weights 'none')"
    assert ">2</td>" in wide._repr_html_()
