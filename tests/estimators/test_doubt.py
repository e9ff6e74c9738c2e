"""Signs of doubt against loops, temperatures against optimisers of another library."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar

from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.doubt import (
    SIGNS,
    constant_temperature,
    distances,
    fitted_temperatures,
    signs_of,
    weighted_temperature,
)
from graphshift.estimators.explored import Explored
from graphshift.estimators.held_out import Signals
from reference import random_data


def test_signs_are_those_of_loops() -> None:
    data = random_data(25, density=0.12, classes=3, seed=3)
    environment = Environment("e", data, Task("multiclass", 3))
    random = torch.Generator().manual_seed(0)
    hidden, output = torch.randn(25, 4, generator=random), 2 * torch.randn(25, 3, generator=random)
    signals = Signals.of(environment, hidden, output, environment.task, None)
    rows, reference = torch.tensor([3, 0, 17, 8]), torch.randn(9, 4, generator=random)
    found = signs_of(environment, signals, reference, rows)
    assert found.shape == (4, len(SIGNS))
    p, predicted = signals.p, signals.p.argmax(dim=1)
    for v, row in zip(rows.tolist(), found.tolist(), strict=True):
        near = data.edge_index[0][data.edge_index[1] == v].tolist() or [v]
        own = int(predicted[v])
        top = float(p[v, own])
        others = sorted(p[v].tolist())[-2]
        expected = [
            np.log(top / (1 - top)),
            np.log(top / others),
            -sum(q * np.log(q) for q in p[v].tolist()),
            np.mean([float(p[u, own]) for u in near]),
            np.mean([int(predicted[u]) == own for u in near]),
            np.mean([float(p[u].max()) for u in near]),
            float(signals.energy[v]),
            np.log1p(int((data.edge_index[1] == v).sum())),
        ]
        assert row[:-1] == pytest.approx(expected, rel=1e-5, abs=1e-6)
    scaled = (reference.numpy(), hidden.numpy()[rows])
    mean, spread = scaled[0].mean(axis=0), scaled[0].std(axis=0)
    apart = np.linalg.norm((scaled[1][:, None] - scaled[0][None]) / spread, axis=2)
    assert mean.shape == (4,)
    nearest = np.sort(apart, axis=1)[:, :5].mean(axis=1)
    np.testing.assert_allclose(found[:, -1].numpy(), np.log1p(nearest), rtol=1e-5)
    np.testing.assert_allclose(distances(hidden[rows], reference), nearest, rtol=1e-5)
    assert bool(torch.isfinite(distances(1e30 * hidden, reference)).all())


def drawn(n: int = 3000) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Nodes whose labels follow softmax(log p / T) with log T = 0.3 + 0.8 · (the seventh sign)."""
    random = torch.Generator().manual_seed(1)
    signs = torch.randn(n, len(SIGNS), generator=random, dtype=torch.float64)
    log_p = (3 * torch.randn(n, 4, generator=random, dtype=torch.float64)).log_softmax(dim=1)
    true = (log_p / (0.3 + 0.8 * signs[:, 6:7]).exp()).softmax(dim=1)
    return signs, log_p, torch.multinomial(true, 1, generator=random).squeeze(1)


def test_temperatures_are_found_again_and_are_the_likeliest() -> None:
    signs, log_p, labels = drawn()
    found = fitted_temperatures(signs, log_p, labels, signs)
    expected = [0.3, *[0.0] * 6, 0.8, 0.0, 0.0]
    np.testing.assert_allclose(found.weights, expected, atol=0.12)
    z, y, s = log_p.numpy(), labels.numpy(), found.standardised(signs).numpy()

    def loss(w: np.ndarray) -> float:
        scaled = z / np.exp(w[0] + s @ w[1:])[:, None]
        chosen = scaled[np.arange(len(y)), y] - np.log(np.exp(scaled).sum(axis=1))
        return float(-chosen.mean() + 0.01 * (w[1:] ** 2).sum())

    best = minimize(loss, np.zeros(10), method="BFGS")
    assert loss(found.weights.numpy()) == pytest.approx(best.fun, abs=1e-5)
    scaled = found.scaled(log_p, signs)
    assert torch.equal(scaled.argmax(dim=1), log_p.argmax(dim=1))  # no prediction changes
    torch.testing.assert_close(scaled * found.temperatures(signs).unsqueeze(1), log_p)


def nodes(signs: torch.Tensor, log_p: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
    """As copies keep them."""
    n = len(labels)
    made = {
        "signs": signs,
        "log_p": log_p,
        "p": log_p.exp(),
        "labels": labels,
        "plain": torch.ones(n, dtype=torch.bool),
    }
    return {**made, "scores": torch.zeros(3, 3, n, dtype=torch.float64), "moved": torch.zeros_like(labels)}


def test_nodes_have_their_own_temperatures_where_these_fit_the_moved_copies_better() -> None:
    signs, log_p, labels = drawn()
    start = constant_temperature(signs, log_p, labels)
    usual, reference = torch.zeros(2, dtype=torch.float64), torch.zeros(2, 2)
    copies = Explored(**nodes(signs, log_p, labels), usual=usual, reference=reference, temperature=start)
    again = [one[:1500] for one in drawn()]
    for turned in (False, True):  # the seventh sign says the opposite on the copies that were moved
        here = again[0] * (torch.tensor([1.0] * 6 + [-1.0] + [1.0] * 2) if turned else 1.0)
        made = copies.with_moved({"nothing": [nodes(signs, log_p, labels)], "both": [nodes(here, *again[1:])]})
        assert made.temperature.graph_aware is not turned
        if turned:
            one = made.temperature.temperatures(made.signs)
            tried = torch.linspace(-1.5, 2.5, 81, dtype=torch.float64).exp()
            loss = [float(-(made.log_p / t).log_softmax(1).gather(1, made.labels.view(-1, 1)).mean()) for t in tried]
            assert one.unique().tolist() == pytest.approx([float(tried[int(np.argmin(loss))])])


def test_the_weighted_temperature_is_the_likeliest_of_repeated_nodes() -> None:
    _, log_p, labels = drawn(400)
    weights = np.random.default_rng(0).integers(0, 4, 400).astype(float)
    z, y = np.repeat(log_p.numpy(), weights.astype(int), axis=0), np.repeat(labels.numpy(), weights.astype(int))

    def loss(t: float) -> float:
        scaled = z / np.exp(t)
        return float((np.log(np.exp(scaled).sum(axis=1)) - scaled[np.arange(len(y)), y]).mean())

    best = minimize_scalar(loss, bounds=(-1.5, 2.5), method="bounded").x
    assert np.log(weighted_temperature(log_p, labels, weights)) == pytest.approx(best, abs=0.03)
