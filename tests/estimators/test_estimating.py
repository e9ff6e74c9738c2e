"""Estimates of a score without labels: closed forms, what must hold without a shift, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.expected import expected_score, thresholded
from graphshift.data.metrics import METRICS
from graphshift.estimators.estimating import combined, disagreement, estimates_of
from graphshift.estimators.held_out import HeldOut, Signals

ACCURACY = METRICS.find("accuracy")


def drawn(
    n: int, seed: int, sharp: float = 2.0, shares: tuple[float, ...] = (0.5, 0.3, 0.2)
) -> tuple[Signals, np.ndarray]:
    """Calibrated probabilities: labels are drawn first, and the probabilities are Bayes' of a Gaussian score."""
    random = np.random.default_rng(seed)
    y = random.choice(3, n, p=shares)
    z = random.standard_normal((n, 3)) + sharp * np.eye(3)[y]
    likelihood = sharp * z
    base = np.log(np.array((0.5, 0.3, 0.2)))  # the model knows the old shares
    log_p = torch.log_softmax(torch.tensor(likelihood + base), dim=1)
    p = log_p.exp()
    return Signals(log_p, p, p, torch.tensor(z).float(), torch.zeros(n, dtype=torch.float64)), y


def held(n: int = 4000, seed: int = 0, sharp: float = 2.0) -> HeldOut:
    signals, y = drawn(n, seed, sharp)
    return HeldOut(signals, torch.tensor(y), {})


PRIOR = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def test_without_a_shift_every_estimate_is_the_score() -> None:
    signals, y = drawn(4000, 1)
    truth = float((signals.p.argmax(dim=1).numpy() == y).mean())
    found = estimates_of(held(), signals, PRIOR, ACCURACY)
    assert set(found.by) == {
        "doc", "atc-confidence", "atc-entropy", "doc-prior", "atc-confidence-prior", "atc-entropy-prior", "weighted"
    }  # fmt: skip
    assert found.reach > 0.9
    for name, value in found.by.items():
        assert value == pytest.approx(truth, abs=0.03), name


def test_class_shares_that_moved_are_corrected_for() -> None:
    signals, y = drawn(4000, 2, sharp=1.5, shares=(0.05, 0.15, 0.8))
    truth = float((signals.p.argmax(dim=1).numpy() == y).mean())
    by = estimates_of(held(sharp=1.5), signals, PRIOR, ACCURACY).by
    assert abs(by["doc"] - truth) > 0.05  # the shift matters
    assert by["doc-prior"] == pytest.approx(truth, abs=0.03)


def test_doc_is_its_definition() -> None:
    known, (signals, _) = held(), drawn(500, 3, sharp=1.0)
    right = (known.signals.p.argmax(dim=1) == known.labels).double().mean()
    expected = right - (known.signals.p.max(dim=1).values.mean() - signals.p.max(dim=1).values.mean())
    assert estimates_of(known, signals, PRIOR, ACCURACY).by["doc"] == pytest.approx(float(expected), abs=1e-12)


def test_the_threshold_reproduces_the_held_out_score() -> None:
    scores = np.random.default_rng(0).permutation(np.arange(100.0))
    assert thresholded(scores, scores, 0.73) == pytest.approx(0.73)
    assert thresholded(scores, scores - 20, 0.73) == pytest.approx(0.53)
    assert thresholded(scores, scores, 0.0) == 0.0
    assert thresholded(scores, scores, 1.0) == 1.0
    weights = np.where(scores >= 50, 3.0, 1.0)  # 150 of 200 above 50
    assert thresholded(scores, np.array([49.0, 50.0, 51.0]), 0.75, weights) == pytest.approx(2 / 3)


def test_the_expected_score_of_other_metrics_is_that_of_drawn_labels() -> None:
    random = np.random.default_rng(0)
    one = random.random(20_000)
    p = np.stack([1 - one, one], axis=1)
    y = (random.random(20_000) < one).astype(int)
    metric = METRICS.find("roc_auc")
    assert expected_score(p, p, metric) == pytest.approx(metric.compute(y, p), abs=0.01)


def test_contradictions_and_few_nodes_are_refused() -> None:
    assert "doc says 50.0, weighted says 80.0" in disagreement({"doc": 0.5, "weighted": 0.8}, ACCURACY)
    assert disagreement({"doc": 0.5, "weighted": 0.6}, ACCURACY) == ""
    signals, _ = drawn(100, 1)
    found = combined(held(40), signals, PRIOR, ACCURACY)
    assert found.expected is None
    assert "40 held-out nodes are too few" in found.refused


def test_a_fitted_model_estimates_and_never_looks_at_labels() -> None:
    data = gs.load("planted-structure", nodes=300)
    model = gs.ERM(epochs=20).fit(data)
    test = data.tests[0]
    found = model.estimate_score(test)
    assert found == model.estimate_score(test.replace(y=None))
    assert found.low <= found.expected <= found.high
    assert set(model.estimate_score(data.tests)) == {e.name for e in data.tests}


def test_regression_is_refused() -> None:
    data = gs.load("planted", nodes=100)
    for e in data.environments:
        assert e.y is not None
    made = gs.ShiftDataset(
        "values",
        *(
            [gs.Environment(e.name, _valued(e), gs.Task("regression", 0)) for e in role]
            for role in (data.train, data.val, data.tests)
        ),
    )
    model = gs.ERM(epochs=2).fit(made)
    with pytest.raises(GraphshiftError, match="only for classes"):
        model.estimate_score(made.tests[0])


def _valued(environment: gs.Environment) -> object:
    one = environment.data
    one.y = one.y.float()
    if "known_y" in one:
        one.known_y = one.known_y.float().masked_fill(one.known_y < 0, torch.nan)
    return one
