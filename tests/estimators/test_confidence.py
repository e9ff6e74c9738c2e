"""Temperatures and calibrated probabilities: what validation graphs teach a fitted model, and that it is saved."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from sklearn import metrics as sk
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.metrics import METRICS
from graphshift.estimators.confidence import confidence_of, fitted_temperature
from rare import rare_data, rare_model


def drawn(n: int = 3000, classes: int = 4, sharp: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are ``sharp`` times too large, and labels drawn from the honest ones."""
    generator = torch.Generator().manual_seed(0)
    honest = torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(honest.softmax(dim=1), 1, generator=generator).squeeze(1)
    return (sharp * honest).log_softmax(dim=1), labels


@pytest.mark.parametrize(("classes", "sharp"), [(2, 3.0), (4, 3.0), (4, 0.5)])
def test_the_temperature_is_that_of_largest_likelihood(classes: int, sharp: float) -> None:
    scores, labels = drawn(classes=classes, sharp=sharp)

    def loss(temperature: float) -> float:
        smoothing = classes / (classes - 1) / (labels.numel() + 2)  # of which torch leaves the label its share
        return float(F.cross_entropy(scores / temperature, labels, label_smoothing=smoothing))

    expected = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-10}).x
    found = fitted_temperature(scores, labels)
    assert found == pytest.approx(expected, rel=1e-5)
    assert found == pytest.approx(sharp, rel=0.15)  # what was done to the honest logits


def test_a_few_nodes_that_are_all_right_do_not_make_a_model_certain() -> None:
    for nodes in (3, 30, 300):
        labels = torch.arange(nodes) % 3
        scores = F.one_hot(labels, 3).double().mul(5).log_softmax(dim=1)
        confidence = (scores / fitted_temperature(scores, labels)).softmax(dim=1).max(dim=1).values
        assert float(confidence.mean()) == pytest.approx(1 - 1 / (nodes + 2), rel=1e-6)
    assert fitted_temperature(scores, (labels + 1) % 3) == pytest.approx(100, rel=1e-6)  # the most that is tried


def test_a_model_that_says_0_gets_a_floor_and_keeps_its_order() -> None:
    random = np.random.default_rng(0)
    honest = random.random(4000) ** 2
    y = torch.tensor((random.random(4000) < honest).astype(int))
    said = np.where(honest < 0.05, 0.0, honest)  # as a forest's trees, of what they never saw
    task = gs.Task("binary", 2)
    output = task.output_of(torch.tensor(np.stack([1 - said, said], axis=1)))
    found = confidence_of([task.class_scores(output)], [y], binary=True)
    assert 1e-3 <= found.floor <= 1e-1
    p = task.probabilities(found.scaled(output, task))[:, 1].numpy()
    expected = np.stack([1 - said, said], axis=1) + found.floor
    expected = (expected / expected.sum(axis=1, keepdims=True)) ** (1 / found.temperature)
    np.testing.assert_allclose(p, (expected / expected.sum(axis=1, keepdims=True))[:, 1], rtol=1e-9)
    assert np.abs(p - honest).mean() < 0.03  # without a floor no temperature would do
    order = np.argsort(said, kind="stable")
    assert (np.diff(p[order]) >= 0).all()
    for logit in (-3.0, 0.0, 2.0):
        one = found.scaled(torch.tensor([[logit]], dtype=torch.float64), task)
        assert found.scaled_logit(logit) == pytest.approx(float(one))
    assert confidence_of([drawn(300)[0]], [drawn(300)[1]], binary=False).floor == 0


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return rare_data()


@pytest.fixture(scope="module")
def model() -> gs.Estimator:
    return rare_model()


def test_calibration_keeps_the_classes_and_lowers_the_loss_on_validation(
    model: gs.Estimator, data: gs.ShiftDataset
) -> None:
    (val,) = data.val
    raw, calibrated = model.predict_proba(val), model.predict_proba(val, calibrated=True)
    assert np.array_equal(raw.argmax(axis=1), calibrated.argmax(axis=1))
    assert model.confidences_[""].temperature != 1
    logits = torch.tensor(raw).log()
    expected = (logits / model.confidences_[""].temperature).softmax(dim=1)
    np.testing.assert_allclose(calibrated, expected, atol=1e-9)
    assert sk.log_loss(val.y, calibrated) < sk.log_loss(val.y, raw)
    assert METRICS["ece"].compute(val.y.numpy(), calibrated) < METRICS["ece"].compute(val.y.numpy(), raw)


@pytest.mark.parametrize("adapt", ["prior", "norm+prior"])
def test_with_a_new_prior_probabilities_have_a_temperature_of_their_own(adapt: str) -> None:
    """Of all temperatures of the adapted probabilities the one with the least loss on validation, by a grid."""
    made, random = [], torch.Generator().manual_seed(0)
    for name, share in (("train", 0.5), ("val", 0.3), ("test", 0.25)):
        y = (torch.rand(400, generator=random) < share).long()
        x = torch.randn(400, 4, generator=random) + 0.9 * y.view(-1, 1)
        order = y.argsort()
        edges = torch.stack([order[:-1], order[1:]])  # nearly all inside a class
        data = Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1), y=y)
        made.append(gs.Environment(name, data))
    train, val, test = made
    model = gs.ERM(epochs=30, selection="last").fit(train, val)
    raw = torch.tensor(model.predict_proba(val, adapt=adapt))
    assert not np.array_equal(raw, model.predict_proba(val, adapt=adapt.replace("prior", "").strip("+") or None))
    grid = torch.logspace(-1.5, 1.5, 601, dtype=torch.float64)
    truth = F.one_hot(val.labels, 2).double() * (1 - 2 / 402) + 1 / 402  # of each label 1 / (n + 2) is doubted
    tried = [float(-(truth * (raw.log() / t).log_softmax(dim=1)).sum()) for t in grid]
    assert model.confidences_[adapt].temperature == pytest.approx(float(grid[int(np.argmin(tried))]), rel=0.01)
    calibrated = model.predict_proba(test, adapt=adapt, calibrated=True)
    found = torch.tensor(model.predict_proba(test, adapt=adapt)).log() / model.confidences_[adapt].temperature
    np.testing.assert_allclose(calibrated, found.softmax(dim=1), atol=1e-9)


def test_all_of_it_is_saved_and_of_a_run_too(model: gs.Estimator, data: gs.ShiftDataset, tmp_path: Path) -> None:
    model.save(tmp_path / "run" / "model")
    note = json.loads((tmp_path / "run" / "model" / "model.json").read_text())
    found = note["confidences"][""]
    p = model.predict_proba(data.tests[0])[:, 1]
    assert np.array_equal(p > found["threshold"], model.predict(data.tests[0], threshold="auto") == 1)
    for folder in (tmp_path / "run", tmp_path / "run" / "model", str(tmp_path / "run")):
        back = gs.load_model(folder)
        assert back.confidences_ == model.confidences_
        pd.testing.assert_frame_equal(
            back.predict_frame(data.tests, threshold="auto"), model.predict_frame(data.tests, threshold="auto")
        )
    found["thresholds"]["found"] = found["thresholds"]["found"][:-1]
    (tmp_path / "run" / "model" / "model.json").write_text(json.dumps(note))
    with pytest.raises(GraphshiftError, match=r"field `confidences` is wrong .*: damaged"):
        gs.load_model(tmp_path / "run")


def test_a_model_of_an_earlier_version_is_read_without(
    model: gs.Estimator, data: gs.ShiftDataset, tmp_path: Path
) -> None:
    model.save(tmp_path)
    note = json.loads((tmp_path / "model.json").read_text())
    del note["confidences"]
    (tmp_path / "model.json").write_text(json.dumps(note))
    back = gs.load_model(tmp_path)
    assert back.confidences_ == {}
    np.testing.assert_array_equal(back.predict_frame(data.tests)["p(1)"], model.predict_proba(data.tests[0])[:, 1])
    with pytest.raises(GraphshiftError, match="calibrated is True and the model is not calibrated"):
        back.predict_proba(data.tests[0], calibrated=True)
    with pytest.raises(GraphshiftError, match="nothing to choose it on"):
        back.predict(data.tests[0], threshold="auto")
    assert back.predict(data.tests[0], threshold=0.2).sum() > 0


def test_an_ensemble_has_its_own(model: gs.Estimator, data: gs.ShiftDataset, tmp_path: Path) -> None:
    other = gs.ERM(epochs=20, hidden_channels=8, seed=1, selection="last").fit(data)
    both = gs.Ensemble([model, other])
    assert both.confidences_ == {}
    both.calibrate(data.val)
    both.save(tmp_path)
    back = gs.load_model(tmp_path)
    assert back.confidences_ == both.confidences_
    assert set(back.confidences_) == {"", "norm"}
    mean = (model.predict_proba(data.val[0]) + other.predict_proba(data.val[0])) / 2
    expected = fitted_temperature(torch.tensor(mean).log(), data.val[0].y)
    assert back.confidences_[""].temperature == pytest.approx(expected, rel=1e-6)
    assert np.array_equal(
        back.predict(data.tests[0], threshold="recall=0.8"), both.predict(data.tests[0], threshold="recall=0.8")
    )
