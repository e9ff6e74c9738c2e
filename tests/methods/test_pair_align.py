"""Pair-Align: ratios against a general solver and against worlds where they are known; the weighted risk; resume."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import graphshift as gs
from graphshift.methods.pair_align import PairAlignMethod, edge_ratios, pair_shares, ratios, weighted

RANDOM = np.random.default_rng(0)


def channel(classes: int) -> np.ndarray:
    """P(predicted r | true c), mostly right."""
    mixed = RANDOM.dirichlet(np.ones(classes), classes).T
    return 0.7 * np.eye(classes) + 0.3 * mixed


def test_ratios_find_the_targets_shares_where_errors_stay_alike() -> None:
    errors, source, target = channel(4), RANDOM.dirichlet(np.ones(4) * 3), RANDOM.dirichlet(np.ones(4) * 3)
    np.testing.assert_allclose(ratios(errors * source, errors @ target, 0.0), target / source, rtol=1e-6)


def test_ratios_solve_the_constrained_least_squares() -> None:
    errors, source = channel(4), np.array([0.4, 0.3, 0.2, 0.1])
    joint, strength = errors * source, 0.02
    target = np.array([0.7, 0.3, 0.0, 0.0])  # no mixture: some ratios are 0

    def loss(w: np.ndarray) -> float:
        return float(np.square(joint @ w - target).sum() + strength * np.square(w - 1).sum())

    both = {"bounds": [(0, None)] * 4, "constraints": {"type": "eq", "fun": lambda w: w @ source - 1}}
    best = minimize(loss, np.ones(4), method="SLSQP", options={"ftol": 1e-14, "maxiter": 500}, **both)
    found = ratios(joint, target, strength)
    assert found @ source == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(found, best.x, atol=1e-4)
    np.testing.assert_allclose(ratios(joint, target, 1e6), 1, atol=1e-4)


def test_edge_ratios_are_conditional() -> None:
    k, errors = 3, channel(3)
    both = np.kron(errors, errors)  # P(predicted pair | true pair)
    source, target = RANDOM.dirichlet(np.ones(9) * 3), RANDOM.dirichlet(np.ones(9) * 3)
    found = edge_ratios(both * source, both @ target, 0.0)
    s, t = source.reshape(k, k), target.reshape(k, k)
    np.testing.assert_allclose(found, (t / t.sum(1, keepdims=True)) / (s / s.sum(1, keepdims=True)), rtol=1e-5)


def test_pair_shares_sum_over_edges() -> None:
    p = RANDOM.dirichlet(np.ones(3), 5)
    ends = np.array([0, 1, 4, 4]), np.array([2, 2, 0, 1])
    expected = sum(np.outer(p[v], p[u]).reshape(-1) for v, u in zip(*ends, strict=True))
    np.testing.assert_allclose(pair_shares(p, ends), expected)


def test_a_step_has_the_weighted_risk_on_the_weighted_graph() -> None:
    data = gs.load("planted", nodes=60, environments=4)
    train = data.train[0].replace(mask=torch.arange(60) < 50)
    settings = gs.PairAlign(target="tests", hidden_channels=4, num_layers=1).resolved()
    method = PairAlignMethod(settings.new_backbone(24, data.task), settings)
    method.target = [e.unlabelled() for e in data.tests]
    method.meet([train])
    method._estimate()
    edges, nodes = method.found[train]
    counted = float(nodes @ torch.bincount(train.labels, minlength=4).float() / 50)
    assert counted == pytest.approx(1, rel=1e-5)
    a = torch.zeros(60, 60)
    for u, v in train.graph.edge_index.t().tolist():  # v receives from u
        known = u < 50 and v < 50
        a[v, u] = float(edges[train.y[v], train.y[u]].clamp(min=1e-3)) if known else 1.0
    torch.testing.assert_close(weighted(train, edges).adjacency.to_dense(), a)
    root = (a.sum(1) + 1).rsqrt()
    linear = next(p for p in method.backbone.parameters() if p.dim() == 2)
    output = (root[:, None] * (a + torch.eye(60)) * root) @ train.x @ linear.t()
    each = torch.nn.functional.cross_entropy(output[:50], train.labels, reduction="none")
    method.round = settings.rounds
    assert method.step([train], 0.5)["loss"] == pytest.approx(float((nodes[train.labels] * each).mean()), rel=1e-4)


def test_where_nothing_has_shifted_weights_stay_near_one() -> None:
    data = gs.load("planted", nodes=300, environments=3)
    model = gs.PairAlign(epochs=20, hidden_channels=8).fit(data.train, data.val, target=data.train[0].replace(name="t"))
    assert model.history_[-1]["edge_ratio"] < 0.05
