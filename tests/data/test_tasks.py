from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from graphshift.core.errors import GraphshiftError
from graphshift.data.metrics import METRICS
from graphshift.data.tasks import Task

BINARY, MULTI, REGRESSION = Task("binary", 2), Task("multiclass", 4), Task("regression", 0)


# --- what a task says


@pytest.mark.parametrize(
    ("task", "channels", "classification", "metric"),
    [(BINARY, 1, True, "accuracy"), (MULTI, 4, True, "accuracy"), (REGRESSION, 1, False, "mse")],
    ids=["binary", "multiclass", "regression"],
)
def test_shapes_and_default_metrics(task: Task, channels: int, classification: bool, metric: str) -> None:
    assert task.out_channels == channels
    assert task.is_classification == classification
    assert task.metric == metric


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ranking", 2), ["'ranking'", "binary, multiclass, regression"]),
        (("binary", 3), ["binary", "2 classes", "3"]),
        (("multiclass", 1), ["multiclass", "at least 2", "1"]),
        (("regression", 2), ["regression", "num_classes=0", "2"]),
        (("multiclass", 3, "roc_auc"), ["'roc_auc'", "multiclass", "accuracy, balanced_accuracy, ece, macro_f1"]),
        (("multiclass", 3, "f1"), ["'f1'", "accuracy, balanced_accuracy, ece, macro_f1"]),
        (("regression", 0, "accuracy"), ["'accuracy'", "mse, r2"]),
        (("binary", 2, "mse"), ["'mse'", "ece, f1, macro_f1, precision@K, recall@fpr=R, roc_auc"]),
        (("binary", 2, "auc"), ["'auc'", "roc_auc"]),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[object, ...], words: list[str]) -> None:
    with pytest.raises(GraphshiftError) as caught:
        Task(*arguments)
    for word in words:
        assert word in str(caught.value)


def test_tasks_compare_by_value() -> None:
    assert Task("binary", 2) == Task("binary", 2, "accuracy")
    assert Task("binary", 2) != Task("binary", 2, "roc_auc")


# --- the loss


def test_binary_loss_is_the_cross_entropy() -> None:
    z, y = torch.tensor([[2.0], [-1.0], [0.5], [-40.0]]), torch.tensor([1, 1, 0, 0])
    p = 1 / (1 + np.exp(-z.double().numpy().ravel()))
    expected = -np.mean([np.log(p[0]), np.log(p[1]), np.log(1 - p[2]), np.log(1 - p[3])])
    assert BINARY.loss(z, y).item() == pytest.approx(expected, rel=1e-6)


def test_multiclass_loss_is_the_cross_entropy() -> None:
    z, y = torch.randn(6, 4), torch.tensor([0, 3, 1, 2, 2, 0])
    e = np.exp(z.double().numpy())
    p = e / e.sum(axis=1, keepdims=True)
    assert MULTI.loss(z, y).item() == pytest.approx(sk.log_loss(y, p, labels=range(4)), rel=1e-6)


def test_regression_loss_is_the_squared_error() -> None:
    value, y = torch.tensor([[1.0], [2.0], [-3.0]]), torch.tensor([0.0, 4.0, -3.0])
    assert REGRESSION.loss(value, y).item() == pytest.approx((1 + 4 + 0) / 3)


@pytest.mark.parametrize("task", [BINARY, MULTI, REGRESSION], ids=["binary", "multiclass", "regression"])
def test_the_gradient_of_the_loss_passes_finite_differences(task: Task) -> None:
    output = torch.randn(5, task.out_channels, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 1, 1, 0, 1]) if task.is_classification else torch.randn(5, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda o: task.loss(o, y), output)


# --- probabilities and predictions


def test_binary_probabilities_and_predictions() -> None:
    z = torch.tensor([[1.0], [3.0], [0.25]]).double().log()
    expected = torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.8, 0.2]], dtype=torch.float64)
    torch.testing.assert_close(BINARY.probabilities(z), expected)
    assert BINARY.predictions(torch.tensor([[3.0], [-0.1], [0.1]])).tolist() == [1, 0, 1]
    assert BINARY.predictions(z).dtype == torch.int64


def test_multiclass_probabilities_and_predictions() -> None:
    z = torch.tensor([[1.0, 2.0, 3.0, 4.0]]).double().log()
    torch.testing.assert_close(MULTI.probabilities(z), torch.tensor([[0.1, 0.2, 0.3, 0.4]], dtype=torch.float64))
    near = torch.tensor([[0.0, 1.0, 0.0, 1.0 + 6e-8]])  # a tie in float32 probabilities: the largest output decides
    assert near[0, 3] > near[0, 1]
    assert MULTI.predictions(near).tolist() == [3]
    assert int(MULTI.probabilities(near).argmax()) == 3
    assert MULTI.predictions(torch.tensor([[0.0, 5.0, 1.0, 2.0], [9.0, 5.0, 1.0, 2.0]])).tolist() == [1, 0]


def test_regression_predictions_are_the_values() -> None:
    value = torch.tensor([[1.5], [-2.0]])
    assert REGRESSION.probabilities(value).tolist() == [1.5, -2.0]
    assert REGRESSION.predictions(value).tolist() == [1.5, -2.0]


# --- scores


def confusion(y: np.ndarray, p: np.ndarray, c: int) -> tuple[int, int, int]:
    return int(((p == c) & (y == c)).sum()), int(((p == c) & (y != c)).sum()), int(((p != c) & (y == c)).sum())


def f1_of(y: np.ndarray, p: np.ndarray, c: int) -> float:
    true, false, missed = confusion(y, p, c)
    return 2 * true / (2 * true + false + missed) if true + false + missed else 0.0


def test_binary_scores() -> None:
    z, y = torch.randn(40, 1), torch.randint(2, (40,))
    logit, labels = z.numpy().ravel(), y.numpy()
    predicted = (logit > 0).astype(int)
    pairs = [(a > b) + 0.5 * (a == b) for a in logit[labels == 1] for b in logit[labels == 0]]
    expected = {
        "accuracy": np.mean(predicted == labels),
        "roc_auc": np.mean(pairs),
        "f1": f1_of(labels, predicted, 1),
        "macro_f1": (f1_of(labels, predicted, 0) + f1_of(labels, predicted, 1)) / 2,
    }
    for metric, value in expected.items():
        assert Task("binary", 2, metric).score(z, y) == pytest.approx(value), metric


def test_multiclass_scores() -> None:
    z, y = torch.randn(50, 4), torch.randint(4, (50,))
    predicted, labels = z.argmax(dim=1).numpy(), y.numpy()
    assert MULTI.score(z, y) == pytest.approx(np.mean(predicted == labels))
    macro = np.mean([f1_of(labels, predicted, c) for c in range(4)])
    assert Task("multiclass", 4, "macro_f1").score(z, y) == pytest.approx(macro)


def test_regression_scores() -> None:
    value, y = torch.randn(20, 1), torch.randn(20)
    error = ((value.squeeze(1) - y).double() ** 2).mean().item()
    assert REGRESSION.score(value, y) == pytest.approx(error, rel=1e-5)
    spread = y.double().var(correction=0).item()
    assert Task("regression", 0, "r2").score(value, y) == pytest.approx(1 - error / spread, rel=1e-5)


def test_confident_logits_keep_their_order_in_roc_auc() -> None:
    """In float32 the sigmoid of 20 and of 30 are both 1; the ranks must not be lost."""
    z, y = torch.tensor([[20.0], [22.0], [30.0], [28.0]]), torch.tensor([0, 0, 1, 1])
    assert Task("binary", 2, "roc_auc").score(z, y) == 1.0
    assert Task("binary", 2, "roc_auc").score(-z, y) == 0.0


def test_outputs_with_a_gradient_can_be_scored() -> None:
    output = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    assert BINARY.score(output, torch.tensor([1, 0])) == 1.0


def test_roc_auc_of_one_class_says_what_to_do() -> None:
    with pytest.raises(GraphshiftError, match=r"both classes.*mask.*accuracy"):
        Task("binary", 2, "roc_auc").score(torch.randn(3, 1), torch.ones(3, dtype=torch.int64))


def test_f1_without_a_predicted_positive_is_zero() -> None:
    assert Task("binary", 2, "f1").score(-torch.ones(4, 1), torch.tensor([1, 0, 1, 0])) == 0.0


# --- what a metric says of itself


def test_every_metric_says_how_it_is_shown_and_which_way_it_goes() -> None:
    assert {name: (m.title, m.scale, m.unit, m.digits, m.sign, m.bounds) for name, m in METRICS.items()} == {
        "accuracy": ("accuracy (%)", 100, "points", 1, 1, (0, 1)),
        "average_precision": ("average precision (%)", 100, "points", 1, 1, (0, 1)),
        "balanced_accuracy": ("balanced accuracy (%)", 100, "points", 1, 1, (0, 1)),
        "ece": ("calibration error (%)", 100, "points", 1, -1, (0, 1)),
        "precision@K": ("precision at K (%)", 100, "points", 1, 1, (0, 1)),
        "recall@fpr=R": ("recall at FPR R (%)", 100, "points", 1, 1, (0, 1)),
        "f1": ("F1 (%)", 100, "points", 1, 1, (0, 1)),
        "macro_f1": ("macro-F1 (%)", 100, "points", 1, 1, (0, 1)),
        "micro_f1": ("micro-F1 (%)", 100, "points", 1, 1, (0, 1)),
        "mse": ("squared error", 1, "", 4, -1, (0, math.inf)),
        "r2": ("R²", 1, "", 4, 1, (-math.inf, 1)),
        "roc_auc": ("ROC-AUC (%)", 100, "points", 1, 1, (0, 1)),
    }
    assert [name for name, m in METRICS.items() if m.largest_class] == ["accuracy"]
    shown = [METRICS[name].show(value) for name in ("accuracy", "mse") for value in (0.4567, None)]
    assert shown == ["45.7", "–", "0.4567", "–"]
    assert METRICS["accuracy"].better(0.6, 0.5)
    assert METRICS["mse"].better(0.5, 0.6)
    assert not METRICS["r2"].better(0.5, 0.5)


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(GraphshiftError, match=r"'acuracy'.*accuracy, average_precision.*Did you mean 'accuracy'"):
        METRICS.find("acuracy")


def test_two_logits_have_the_mean_of_two_binary_cross_entropies() -> None:
    task = Task("binary", 2, "roc_auc", two_logits=True)
    assert task.out_channels == 2
    output, y = torch.tensor([[0.5, -1.0], [2.0, 0.3], [-0.2, 0.1]]), torch.tensor([1, 0, 1])
    p = 1 / (1 + np.exp(-output.double().numpy()))
    there = np.eye(2)[y.numpy()]
    expected = -(there * np.log(p) + (1 - there) * np.log(1 - p)).mean()
    assert float(task.loss(output, y)) == pytest.approx(expected, rel=1e-6)
    probabilities = task.probabilities(output)
    exponents = np.exp(output.double().numpy())
    assert probabilities.numpy() == pytest.approx(exponents / exponents.sum(axis=1, keepdims=True))
    torch.testing.assert_close(task.class_scores(output).exp(), probabilities)
    torch.testing.assert_close(task.probabilities(task.output_of(probabilities)), probabilities)
    # GCNII's log-softmax goes into the same loss in the authors' code: it changes the loss and no probability.
    logs = output.log_softmax(dim=1)
    torch.testing.assert_close(task.probabilities(logs), probabilities)
    assert float(task.loss(logs, y)) != pytest.approx(expected, rel=1e-3)
    with pytest.raises(GraphshiftError, match="two_logits is for binary tasks"):
        Task("multiclass", 3, two_logits=True)
