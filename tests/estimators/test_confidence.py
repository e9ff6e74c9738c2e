"""Temperatures, thresholds and tables of predictions: what validation graphs teach a fitted model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from sklearn import metrics as sk
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.metrics import METRICS
from graphshift.estimators.confidence import Confidence, confidence_of, fitted_temperature, thresholds_of


def drawn(n: int = 3000, classes: int = 4, sharp: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are ``sharp`` times too large, and labels drawn from the honest ones."""
    generator = torch.Generator().manual_seed(0)
    honest = torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(honest.softmax(dim=1), 1, generator=generator).squeeze(1)
    return (sharp * honest).log_softmax(dim=1), labels


# --- the temperature


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


# --- thresholds


def binary(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = (random.random(n) < 0.15).astype(int)
    return np.round(random.normal(size=n) + 1.5 * y, 1), y  # with ties


def taken(rule: str) -> tuple[np.ndarray, np.ndarray]:
    logits, y = binary()
    threshold = thresholds_of(torch.tensor(logits), torch.tensor(y)).choose(rule)
    return logits > threshold, y


def test_auto_has_the_largest_f1_of_all_thresholds() -> None:
    logits, y = binary()
    precision, recall, _ = sk.precision_recall_curve(y, logits)
    best = np.nanmax(2 * precision * recall / np.maximum(precision + recall, 1e-300))
    found, y = taken("auto")
    assert sk.f1_score(y, found) == pytest.approx(best)


@pytest.mark.parametrize("wanted", [0.3, 0.9, 1.0])
def test_a_recall_is_reached_with_as_few_predictions_as_can_be(wanted: float) -> None:
    logits, y = binary()
    found, _ = taken(f"recall={wanted}")
    assert found[y == 1].mean() >= wanted
    fewer = [logits > t for t in np.unique(logits) if (logits > t).sum() < found.sum()]
    assert all(other[y == 1].mean() < wanted for other in fewer)


@pytest.mark.parametrize("wanted", [0.0, 0.02, 0.3])
def test_a_false_positive_rate_is_kept_and_the_most_found(wanted: float) -> None:
    logits, y = binary()
    found, _ = taken(f"fpr={wanted}")
    assert found[y == 0].mean() <= wanted
    able = [logits > t for t in [*np.unique(logits), -99] if (logits > t)[y == 0].mean() <= wanted]
    assert found[y == 1].sum() == max(other[y == 1].sum() for other in able)


def test_a_precision_is_reached_or_refused() -> None:
    logits, y = binary()
    found, _ = taken("precision=0.7")
    assert found.any()
    assert y[found].mean() >= 0.7
    able = [above for t in np.unique(logits) if (above := logits > t).any() and y[above].mean() >= 0.7]
    assert found[y == 1].sum() == max(other[y == 1].sum() for other in able)
    hopeless = thresholds_of(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([0, 0, 1]))
    with pytest.raises(GraphshiftError, match=r"no threshold reaches it on validation \(the best is 0\.333\)"):
        hopeless.choose("precision=0.9")
    with pytest.raises(GraphshiftError, match="no threshold reaches it"):
        hopeless.choose("fpr=0.1")


def test_of_many_thresholds_some_are_kept_and_what_they_promise_holds() -> None:
    random = np.random.default_rng(1)
    y = (random.random(20_000) < 0.05).astype(int)
    logits = random.normal(size=20_000) + 2 * y
    kept = thresholds_of(torch.tensor(logits), torch.tensor(y))
    assert len(kept.logits) <= 201
    for threshold, found, false in list(zip(kept.logits, kept.found, kept.false, strict=True))[::20]:
        above = logits > threshold
        assert (found, false) == (above[y == 1].sum(), above[y == 0].sum())
    assert (kept.positives, kept.negatives) == (y.sum(), (1 - y).sum())
    precision, recall, _ = sk.precision_recall_curve(y, logits)
    best = np.nanmax(2 * precision * recall / np.maximum(precision + recall, 1e-300))
    assert sk.f1_score(y, logits > kept.choose("auto")) == pytest.approx(best)


@pytest.mark.parametrize(
    ("rule", "words"),
    [("f2", "expected one of auto, recall"), ("recal=0.9", "Did you mean 'recall'"), ("recall", "recall=0.9")]
    + [(f"recall={wrong}", "a share above 0 and up to 1") for wrong in ("0", "2", "x", "nan", "")],
)
def test_what_is_no_rule_is_told(rule: str, words: str) -> None:
    with pytest.raises(GraphshiftError, match="threshold is ") as caught:
        taken(rule)
    assert words in str(caught.value)


def test_what_was_learned_comes_back_from_json() -> None:
    logits, y = binary()
    scores = torch.stack([torch.zeros(400), torch.tensor(logits)], dim=1).double().log_softmax(dim=1)
    found = confidence_of([scores[:100], scores[100:]], [torch.tensor(y[:100]), torch.tensor(y[100:])], binary=True)
    assert found.thresholds is not None
    assert Confidence.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert confidence_of([scores], [torch.tensor(y)], binary=False).thresholds is None
    assert confidence_of([scores], [torch.zeros(400, dtype=torch.int64)], binary=True).thresholds is None


# --- a model


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    """A rare class 1 in three graphs."""
    made = []
    for seed, name in enumerate(("train", "val", "test")):
        graph = gs.load("planted", nodes=300, seed=seed).train[0].data
        graph.y = ((graph.y == 1) & (torch.arange(300) % 2 == 0)).long()
        made.append(gs.Environment(name, graph))
    return gs.ShiftDataset("rare", *([one] for one in made))


@pytest.fixture(scope="module")
def model(data: gs.ShiftDataset) -> gs.Estimator:
    return gs.ERM(epochs=60, hidden_channels=16, lr=0.05, selection="last").fit(data)


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


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("threshold", [0.2, "auto", "recall=0.8"])
def test_class_1_is_predicted_above_the_threshold(
    threshold: float | str, calibrated: bool, model: gs.Estimator, data: gs.ShiftDataset
) -> None:
    (test,) = data.tests
    p = model.predict_proba(test, calibrated=calibrated)[:, 1]
    found = model.predict(test, threshold=threshold, calibrated=calibrated)
    assert 0 < found.sum() < 300
    assert p[found == 1].min() > p[found == 0].max()
    if not isinstance(threshold, str):
        assert np.array_equal(found, p > threshold)
    else:  # chosen on the validation graph, whichever probabilities are shown
        assert np.array_equal(found, model.predict(test, threshold=threshold))
    table = model.predict_frame(test, threshold=threshold, calibrated=calibrated)
    assert np.array_equal(table["prediction"], found)
    np.testing.assert_array_equal(table["p(1)"], p)
    scored = test.replace(task=gs.Task("binary", 2, "f1"))
    assert model.score(scored, threshold=threshold, calibrated=calibrated) == pytest.approx(sk.f1_score(test.y, found))
    ranked = test.replace(task=gs.Task("binary", 2, "average_precision"))
    assert model.score(ranked, threshold=threshold) == pytest.approx(model.score(ranked))


def test_the_threshold_of_one_half_changes_nothing(model: gs.Estimator, data: gs.ShiftDataset) -> None:
    assert np.array_equal(model.predict(data.tests[0], threshold=0.5), model.predict(data.tests[0]))


def test_auto_is_best_on_validation(model: gs.Estimator, data: gs.ShiftDataset) -> None:
    val = data.val[0].replace(task=gs.Task("binary", 2, "f1"))
    best = model.score(val, threshold="auto")
    assert best >= max(model.score(val, threshold=t) for t in (0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9))


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


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"threshold": 1.5}, "threshold is 1.5; expected a probability between 0 and 1"),
        ({"threshold": 0.0}, "threshold is 0.0"),
        ({"threshold": "auto", "adapt": "prior"}, "chosen without the new prior"),
        ({"threshold": "best"}, "expected one of auto"),
    ],
)
@pytest.mark.filterwarnings("ignore::graphshift.core.errors.GraphshiftWarning")
def test_what_cannot_be_a_threshold_is_told(
    how: dict[str, object], words: str, model: gs.Estimator, data: gs.ShiftDataset
) -> None:
    with pytest.raises(GraphshiftError) as caught:
        model.predict(data.tests[0], **how)
    assert words in str(caught.value)


def test_only_binary_tasks_have_a_threshold() -> None:
    data = gs.load("planted", nodes=60)
    model = gs.ERM(epochs=2, hidden_channels=4).fit(data)
    assert model.confidences_[""].thresholds is None
    with pytest.raises(GraphshiftError, match="the task is multiclass; only binary has one"):
        model.predict(data.tests[0], threshold=0.3)


# --- tables


def test_a_frame_has_ids_environments_classes_and_probabilities(model: gs.Estimator, data: gs.ShiftDataset) -> None:
    (test,) = data.tests
    named = test.replace(ids=np.array([f"n{i}" for i in range(300)]))
    for graphs in (named, [named]):
        table = model.predict_frame(graphs)
        assert list(table.columns) == ["id", "environment", "prediction", "p(0)", "p(1)"]
        assert table["id"].tolist() == named.ids.tolist()
        assert set(table["environment"]) == {"test"}
        assert np.array_equal(table["prediction"], model.predict(test))
        np.testing.assert_array_equal(table[["p(0)", "p(1)"]], model.predict_proba(test, calibrated=True))
    raw = model.predict_frame([test, data.val[0]], calibrated=False)
    assert raw["id"].tolist() == [*range(300)] * 2
    np.testing.assert_array_equal(raw["p(1)"][:300], model.predict_proba(test)[:, 1])


def test_a_model_of_graphs_reads_no_tables(model: gs.Estimator) -> None:
    with pytest.raises(GraphshiftError, match=r"not trained on tables, so it cannot read nodes\.csv"):
        model.prepare("nodes.csv", "edges.csv")
    with pytest.raises(GraphshiftError, match="it cannot read these tables"):
        model.prepare(pd.DataFrame(), pd.DataFrame())


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    random = np.random.default_rng(0)
    nodes = pd.DataFrame({"id": [f"p{i}" for i in range(120)], "age": random.normal(size=120)})
    nodes["vote"] = np.where(nodes["age"] + 0.3 * random.normal(size=120) > 0, "north", "south")
    nodes["land"] = np.repeat(["DE", "FR", "ES"], 40)
    edges = pd.DataFrame([(f"p{i}", f"p{i + 1}") for i in range(119) if i % 40 != 39], columns=["source", "target"])
    return nodes, edges


def test_a_model_of_tables_prepares_new_ones_by_its_own_preparation(tmp_path: Path) -> None:
    nodes, edges = tables()
    data = gs.from_tables(
        nodes, edges, label="vote", environments="land", train="DE", val="FR", tests="ES", metric="f1"
    )
    model = gs.ERM(epochs=5, hidden_channels=4).fit(data)
    model.save(tmp_path / "model")
    model = gs.load_model(tmp_path / "model")
    assert model.classes_ == ("north", "south")
    fresh = nodes[nodes["land"] == "ES"]
    fresh_edges = edges[edges["source"].isin(fresh["id"])]
    graph = model.prepare(fresh, fresh_edges, name="new")
    assert graph.ids.tolist() == fresh["id"].tolist()
    assert model.score(graph) == model.score(data.tests[0])
    table, known = model.predict_frame(graph), model.predict_frame(data.tests)
    pd.testing.assert_frame_equal(table.drop(columns="environment"), known.drop(columns="environment"))
    assert set(table["prediction"]) <= {"north", "south"}
    assert list(table.columns) == ["id", "environment", "prediction", "p(north)", "p(south)"]

    other = fresh.rename(columns={"id": "who"}).assign(age=["?", *fresh["age"][1:].astype(str)])
    other.to_csv(tmp_path / "new.csv", sep=";", index=False)
    pd.concat([fresh_edges, pd.DataFrame({"source": ["p80"], "target": ["p999"]})]).to_csv(
        tmp_path / "edges.csv", sep=";", index=False
    )
    files = (tmp_path / "new.csv", tmp_path / "edges.csv")
    how = {"id": "who", "separator": ";", "missing": "?"}
    with pytest.raises(GraphshiftError, match="'p999' is not among the ids"):
        model.prepare(*files, **how)
    with pytest.warns(gs.GraphshiftWarning, match="left out 1 with an end that is not"):
        graph = model.prepare(*files, **how, unknown_ids="drop")
    assert graph.ids.tolist() == fresh["id"].tolist()
    for wrong, words in (
        ({"unknown_id": "drop"}, "unknown_id is not an option of new tables"),
        ({"unknown_id": "drop"}, "Did you mean 'unknown_ids'?"),
        ({"unknown_ids": "skip"}, "unknown_ids is 'skip'; expected 'error' or 'drop'"),
        ({"separator": ";;"}, "separator is ';;'"),
    ):
        with pytest.raises(GraphshiftError) as caught:
            model.prepare(*files, **wrong)
        assert words in str(caught.value)


def test_the_feature_file_of_new_tables_is_named(tmp_path: Path) -> None:
    nodes, edges = tables()
    x = np.random.default_rng(0).random((120, 3))
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csr_array(x))
    scipy.sparse.save_npz(tmp_path / "new.npz", scipy.sparse.csr_array(2 * x[80:]))
    roles = {"environments": "land", "train": "DE", "val": "FR", "tests": "ES"}
    data = gs.from_tables(nodes, edges, label="vote", feature_file=tmp_path / "x.npz", **roles)
    model = gs.ERM(epochs=2, hidden_channels=4).fit(data)
    fresh = nodes[nodes["land"] == "ES"]
    fresh_edges = edges[edges["source"].isin(fresh["id"])]
    graph = model.prepare(fresh, fresh_edges, feature_file=tmp_path / "new.npz")
    expected, _ = data.facts["preparation"].environment(fresh, fresh_edges, feature_file=tmp_path / "new.npz")
    assert graph.fingerprint() == expected.fingerprint()
    assert graph.fingerprint() != data.tests[0].replace(name="graph").fingerprint()
    with pytest.raises(GraphshiftError, match="feature_file is missing"):
        model.prepare(fresh, fresh_edges)


@pytest.mark.filterwarnings("ignore::graphshift.core.errors.GraphshiftWarning")
def test_reasons_against_a_new_prior_name_the_class() -> None:
    nodes, edges = tables()
    nodes.loc[(nodes["land"] == "FR") & (nodes["vote"] == "south"), "vote"] = None
    nodes.loc[40, "vote"] = "south"
    data = gs.from_tables(nodes, edges, label="vote", environments="land", train="DE", val="FR", tests="ES")
    model = gs.ERM(epochs=2, hidden_channels=4).fit(data)
    with pytest.warns(gs.GraphshiftWarning, match="class south has 1 labelled nodes to calibrate on"):
        model.predict(data.tests[0], adapt="prior")
