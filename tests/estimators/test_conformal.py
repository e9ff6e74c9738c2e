"""Conformal scores, quantiles and weights against enumeration, loops and closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from graphshift.estimators.conformal import (
    SCORES,
    alike_mean,
    aps_scores,
    density_ratio,
    effective_number,
    neighbour_mean,
    quantile,
    raps_scores,
    uniforms,
)
from graphshift.graph.graph import Graph
from reference import random_data


@pytest.mark.parametrize("coverage", [0.5, 0.75, 0.8, 0.9])
def test_coverage_is_exact_over_all_orders_of_exchangeable_nodes(coverage: float) -> None:
    for n in range(1, 6):
        covered = [
            order[-1] <= quantile(np.array(order[:-1]), coverage) for order in itertools.permutations(range(n + 1))
        ]
        assert np.mean(covered) == pytest.approx(min(math.ceil((n + 1) * coverage - 1e-9), n + 1) / (n + 1))
        assert np.mean(covered) >= coverage


def test_a_weighted_quantile_is_that_of_its_definition() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        scores, weights, own = random.random(7), random.random(7) * 3, random.random(4) * 3
        for one, found in zip(own, quantile(scores, 0.8, weights, own), strict=True):
            mass = [weights[scores <= t].sum() / (weights.sum() + one) for t in sorted(scores)]
            able = [t for t, m in zip(sorted(scores), mass, strict=True) if m >= 0.8]
            assert found == (able[0] if able else math.inf)


def test_equal_weights_are_no_weights() -> None:
    scores = np.random.default_rng(1).random(99)
    assert quantile(scores, 0.9, np.full(99, 5.0), 5.0) == quantile(scores, 0.9) == np.sort(scores)[89]


def test_weights_give_back_the_coverage_under_a_known_shift() -> None:
    """Scores of P are uniform, those of Q have density 2s: dQ/dP = 2s. Unweighted sets cover 81 %."""
    random, plain, weighted = np.random.default_rng(2), [], []
    for _ in range(3000):
        held, new = random.random(60), math.sqrt(random.random())
        plain.append(new <= quantile(held, 0.9))
        weighted.append(new <= quantile(held, 0.9, 2 * held, 2 * new))
    assert np.mean(plain) == pytest.approx(0.81, abs=0.03)
    assert 0.885 <= np.mean(weighted) <= 0.93


def test_scores_are_those_of_loops() -> None:
    generator = torch.Generator().manual_seed(3)
    p, u = torch.rand(20, 5, generator=generator, dtype=torch.float64).softmax(dim=1), uniforms(20, 0)
    aps, raps = aps_scores(p, u), raps_scores(p, u)
    for v, y in itertools.product(range(20), range(5)):
        before = sum(float(p[v, j]) for j in range(5) if p[v, j] > p[v, y])
        assert float(aps[v, y]) == pytest.approx(before + float(u[v] * p[v, y]))
        rank = 1 + int((p[v] > p[v, y]).sum())
        assert float(raps[v, y] - aps[v, y]) == pytest.approx(0.05 * max(rank - 2, 0))
    assert torch.equal(SCORES["threshold"](p, u), 1 - p)


def test_aps_with_the_true_probabilities_has_uniform_scores() -> None:
    """P(s(x, Y) ≤ t) = t (Romano et al., Proposition 1): summed over all classes, on a grid of u."""
    p = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64).expand(20_000, 3)
    u = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    scores = aps_scores(p, u)
    for t in (0.1, 0.5, 0.6, 0.9):
        assert float(((scores <= t).double() * p).sum(dim=1).mean()) == pytest.approx(t, abs=1e-3)


def test_neighbours_means_are_those_of_the_dense_matrix() -> None:
    data = random_data(30, density=0.08, seed=4)
    graph = Graph.from_edge_index(data.edge_index, 30)
    values = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    dense = torch.zeros(30, 30, dtype=torch.float64)
    dense[data.edge_index[1], data.edge_index[0]] = 1
    for v in range(30):
        expected = values[dense[v] > 0].mean(dim=0) if dense[v].any() else values[v]
        torch.testing.assert_close(neighbour_mean(graph, values)[v], expected, rtol=1e-5, atol=1e-6)


def test_alike_nodes_are_the_nearest_by_cosine() -> None:
    random = np.random.default_rng(5)
    hidden, pool, values = random.standard_normal((6, 3)), random.standard_normal((9, 3)), random.random((9, 2))
    found = alike_mean(*(torch.tensor(part) for part in (hidden, np.zeros((6, 2)), pool, values)), 3)
    for h, one in zip(hidden, found, strict=True):
        cosine = pool @ h / np.linalg.norm(pool, axis=1)
        np.testing.assert_allclose(one, values[np.argsort(-cosine)[:3]].mean(axis=0))


def test_the_density_ratio_is_that_of_two_gaussians() -> None:
    """N(0, 1) and N(1, 1) in the first of three columns: dQ/dP = exp(x − 1/2)."""
    random = np.random.default_rng(6)
    source, target = random.standard_normal((4000, 3)), random.standard_normal((6000, 3))
    target[:, 0] += 1
    old, new = density_ratio(source, target, source[:10])
    middle = np.abs(source[:, 0]) < 1.5
    np.testing.assert_allclose(np.log(old[middle]), source[middle, 0] - 0.5, atol=0.25)
    assert np.array_equal(old[:10], new)


def test_the_effective_number_of_equal_weights_is_their_number() -> None:
    assert effective_number(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_number(np.array([1.0, 0, 0])) == pytest.approx(1)
    assert effective_number(np.array([1.0, 2.0])) == pytest.approx(9 / 5)
