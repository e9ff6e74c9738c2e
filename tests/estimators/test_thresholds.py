"""Thresholds of binary models: what a rule promises on validation holds, by enumeration; a model uses it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.estimators.confidence import Confidence, confidence_of, thresholds_of
from rare import rare_data, rare_model


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


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return rare_data()


@pytest.fixture(scope="module")
def model() -> gs.Estimator:
    return rare_model()


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
