"""Metrics for rare classes, each against scikit-learn, an enumeration or a loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from graphshift.core.errors import GraphshiftError
from graphshift.data.metrics import METRICS
from graphshift.data.tasks import Task


@pytest.fixture
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Labels of a rare class 1 and probabilities with ties."""
    random = np.random.default_rng(0)
    y = (random.random(400) < 0.06).astype(int)
    positive = np.round(np.clip(0.3 * y + 0.7 * random.random(400), 0, 1), 2)
    return y, np.stack([1 - positive, positive], axis=1)


def test_average_precision_is_scikit_learns(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    y, p = drawn
    assert METRICS["average_precision"].compute(y, p) == sk.average_precision_score(y, p[:, 1])
    logits = torch.tensor([[2.0], [1.0], [-1.0], [0.5]])
    # By hand: the positives are at places 1 and 3, with precisions 1 and 2/3.
    assert Task("binary", 2, "average_precision").score(logits, torch.tensor([1, 0, 0, 1])) == pytest.approx(5 / 6)


def test_balanced_accuracy_is_scikit_learns() -> None:
    random = np.random.default_rng(1)
    y, p = random.integers(0, 4, 300), random.random((300, 4))
    expected = sk.balanced_accuracy_score(y, p.argmax(axis=1))
    assert METRICS["balanced_accuracy"].compute(y, p) == pytest.approx(expected, abs=1e-12)


def test_precision_at_k_without_ties_is_the_share_among_the_first() -> None:
    random = np.random.default_rng(2)
    y, scores = (random.random(200) < 0.1).astype(int), random.permutation(200) / 200
    p = np.stack([1 - scores, scores], axis=1)
    order = np.argsort(-scores)
    for k in (1, 7, 20, 200):
        assert METRICS[f"precision@{k}"].compute(y, p) == pytest.approx(y[order[:k]].mean())
    assert METRICS["precision@1000"].compute(y, p) == pytest.approx(y.mean())  # there are no more than all
    assert METRICS["precision@7%"].compute(y, p) == pytest.approx(y[order[:14]].mean())
    assert METRICS["precision@0.1%"].compute(y, p) == y[order[0]]  # at least one


def test_precision_at_k_is_the_mean_over_the_orders_of_ties() -> None:
    y, scores = np.array([1, 0, 1, 0, 0, 1]), np.array([0.9, 0.5, 0.5, 0.5, 0.5, 0.1])
    p = np.stack([1 - scores, scores], axis=1)
    for k in range(1, 7):
        found = []
        for order in itertools.permutations(range(6)):
            if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order)):
                found.append(y[list(order[:k])].mean())
        assert METRICS[f"precision@{k}"].compute(y, p) == pytest.approx(np.mean(found))


@pytest.mark.parametrize("most", [0.0, 0.01, 0.1, 0.5])
def test_recall_at_a_false_positive_rate_is_the_best_of_all_thresholds(
    most: float, drawn: tuple[np.ndarray, np.ndarray]
) -> None:
    y, p = drawn
    recalls = []
    for threshold in [*np.unique(p[:, 1]), 2.0]:
        taken = p[:, 1] >= threshold
        if taken[y == 0].mean() <= most:
            recalls.append(taken[y == 1].mean())
    assert METRICS[f"recall@fpr={most}"].compute(y, p) == pytest.approx(max(recalls))


def test_the_calibration_error_is_the_mean_gap_over_bins() -> None:
    random = np.random.default_rng(3)
    p = random.dirichlet(np.full(3, 0.4), 500)
    y = random.integers(0, 3, 500)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    expected = 0.0
    for low, high in itertools.pairwise(np.linspace(0, 1, 16)):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            expected += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert METRICS["ece"].compute(y, p) == pytest.approx(expected, abs=1e-12)
    sure = np.eye(3)[y]
    assert METRICS["ece"].compute(y, sure) == 0
    assert METRICS["ece"].compute((y + 1) % 3, sure) == 1


def test_a_name_carries_a_parameter_and_everything_that_shows_it_follows() -> None:
    metric = METRICS.find("precision@100")
    assert (metric.name, metric.label, metric.title) == ("precision@100", "precision at 100", "precision at 100 (%)")
    assert (metric.unit, metric.scale, metric.higher_is_better, metric.kinds) == ("points", 100.0, True, ("binary",))
    assert METRICS["recall@fpr=0.01"].title == "recall at FPR 0.01 (%)"
    assert "precision@5%" in METRICS
    assert "precision@100" not in list(METRICS)  # the table of the docs has precision@K
    assert Task("binary", 2, "precision@10").scorer.name == "precision@10"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("precision@K", "a whole number of nodes, as precision@100"),
        ("precision@0", "a whole number"),
        ("precision@2.5", "a whole number"),
        ("precision@200%", "a share of them"),
        ("precision@nan", "a whole number"),
        ("recall@fpr=2", "a rate from 0 to below 1"),
        ("recall@fpr=R", "a rate"),
        ("recall@tpr=0.1", "expected one of"),
        ("average_precison", "Did you mean 'average_precision'?"),
    ],
)
def test_what_is_no_metric_is_told(name: str, words: str) -> None:
    with pytest.raises(GraphshiftError, match=r"metric is ") as caught:
        Task("binary", 2, name)
    assert words in str(caught.value)


def test_a_metric_of_another_task_is_refused_with_its_parameter_too() -> None:
    with pytest.raises(GraphshiftError, match="for a multiclass task expected one of accuracy"):
        Task("multiclass", 3, "precision@10")


@pytest.mark.parametrize("name", ["average_precision", "recall@fpr=0.1", "roc_auc"])
def test_one_class_alone_has_no_score(name: str) -> None:
    p = np.array([[0.5, 0.5], [0.2, 0.8]])
    with pytest.raises(GraphshiftError, match="needs nodes of both classes"):
        METRICS[name].compute(np.array([0, 0]), p)
