"""Eq. 4 on discrete models: against loops, against torch, and against what theory says of its limit."""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from graphshift.lab.theory import objectives as o
from graphshift.lab.theory.cases import CASES, INVARIANT, WHOLE
from graphshift.lab.theory.information import conditional
from graphshift.lab.theory.worlds import World, agreeing, described, encoded, environment, fitted, partitions


def random_world(seed: int, *, count: int = 3) -> World:
    rng = np.random.default_rng(seed)
    train = rng.dirichlet(np.ones(8), size=count).reshape(count, 4, 2)
    return World(train, rng.dirichlet(np.ones(count)), train, INVARIANT)


@pytest.mark.parametrize("seed", range(3))
def test_mean_and_variance_by_loops(seed: int) -> None:
    world = random_world(seed)
    q = np.random.default_rng(seed).dirichlet(np.ones(2), size=4)
    losses = [-sum(p[x, y] * log(q[x, y]) for x in range(4) for y in range(2)) for p in world.train]
    mean = sum(w * loss for w, loss in zip(world.weights, losses, strict=True))
    variance = sum(w * (loss - mean) ** 2 for w, loss in zip(world.weights, losses, strict=True))
    np.testing.assert_allclose(o.risks(world.train, q), losses)
    assert o.mean_and_variance(world, q) == pytest.approx((mean, variance))


def test_a_risk_is_infinite_only_where_it_must_be() -> None:
    sure = np.array([[1.0, 0.0], [0.0, 1.0]] * 2)
    assert o.risks(CASES["certain"].world.every, sure).tolist() == [inf, 0.0]


@pytest.mark.parametrize("encoder", [INVARIANT, (0, 1, 0, 1), (0, 1, 1, 2), WHOLE])
@pytest.mark.parametrize("seed", range(3))
def test_information_of_an_encoder_by_counting(encoder: tuple[int, ...], seed: int) -> None:
    """I(y; z) and I(y; e | z) from a dictionary of (e, z, y), without arrays."""
    world = random_world(seed)
    p: dict[tuple[int, int, int], float] = {}
    for (e, x, y), value in np.ndenumerate(world.weights[:, None, None] * world.train):
        p[e, encoder[x], y] = p.get((e, encoder[x], y), 0.0) + value

    def total(**fixed: int) -> float:
        return sum(v for (e, z, y), v in p.items() if all({"e": e, "z": z, "y": y}[k] == w for k, w in fixed.items()))

    information = gap = 0.0
    for (e, z, y), value in p.items():
        information += value * log(total(z=z, y=y) / (total(z=z) * total(y=y)))
        gap += value * log(value * total(z=z) / (total(e=e, z=z) * total(z=z, y=y)))
    assert o.sufficiency(world, encoder) == pytest.approx(information, abs=1e-12)
    assert o.invariance_gap(world.train, world.weights, encoder) == pytest.approx(gap, abs=1e-12)


def test_predictions_are_an_encoder() -> None:
    """A predictor that is certain tells what it predicts, so ŷ is then a deterministic z."""
    world = random_world(1)
    q = np.eye(2)[[0, 1, 1, 0]]
    assert o.predicted_gap(world, q) == pytest.approx(o.invariance_gap(world.train, world.weights, (0, 1, 1, 0)))
    assert o.predicted_information(world, q) == pytest.approx(o.sufficiency(world, (0, 1, 1, 0)))


@pytest.mark.parametrize("beta", [100.0, 1.0, 0.01])
@pytest.mark.parametrize("encoder", [None, (0, 1, 1, 2)])
def test_the_minimiser_against_torch(beta: float, encoder: tuple[int, ...] | None) -> None:
    """Autograd's gradient of Eq. 4 vanishes there, and no other start of another optimiser gets below it."""
    world = random_world(2)
    q = o.minimiser(world, beta, [np.full((4, 2), 0.5), conditional(world.mixture)], encoder)
    cells = list(encoder or WHOLE)
    train, weights = torch.from_numpy(world.train), torch.from_numpy(world.weights)

    def objective(point: torch.Tensor) -> torch.Tensor:
        log_q = torch.nn.functional.logsigmoid(torch.stack([-point, point], dim=1))[cells]
        risks = -(train * log_q).sum(dim=(1, 2))
        mean = (weights * risks).sum()
        return (weights * (risks - mean).square()).sum() + beta * mean

    first = [cells.index(z) for z in range(max(cells) + 1)]
    point = torch.from_numpy(np.log(q[first, 1] / q[first, 0])).requires_grad_()
    value = objective(point)
    (gradient,) = torch.autograd.grad(value, point)
    assert gradient.abs().max() < 1e-6 * max(beta, 1)
    rng = np.random.default_rng(0)
    for _ in range(5):
        start = rng.normal(size=len(first))
        found = minimize(lambda v: float(objective(torch.from_numpy(v))), start, method="Nelder-Mead")
        assert found.fun > value.item() - 1e-9


def test_large_beta_is_erm_and_small_beta_is_the_ideal() -> None:
    world = CASES["spurious"].world
    first, *_, last = o.path(world, (1e6, 1.0, 1e-2, 1e-4, 1e-5))
    np.testing.assert_allclose(first, conditional(world.mixture), atol=1e-5)
    np.testing.assert_allclose(last, world.ideal, atol=1e-4)


def test_the_distance_from_the_ideal_falls_with_beta() -> None:
    """In proportion: the risks differ in first order of the weight on r̄, so the variance is of second order."""
    world = CASES["spurious"].world
    distances = [abs(q - world.ideal).max() for q in o.path(world, (1e-1, 1e-2, 1e-3, 1e-4))]
    assert distances[2] / distances[3] == pytest.approx(10, rel=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_a_hull_with_a_decoupled_environment_leads_to_the_ideal(seed: int) -> None:
    """What the page says instead of Theorem 1.2, on random channels p(r̄ | y): three environments span them all."""
    rng = np.random.default_rng(seed)
    noise = rng.uniform(0.1, 0.4)
    channels = [[[b, b], [a, a]] for a, b in zip(rng.uniform(0.6, 1, 3), rng.uniform(0, 0.4, 3), strict=True)]
    train = np.stack([environment((noise, noise), channel) for channel in channels])
    world = World(train, np.full(3, 1 / 3), train, INVARIANT)
    assert abs(conditional(world.mixture) - world.ideal).max() > 0.05  # ERM is elsewhere
    spread = np.array([[1, channel[1][0], channel[0][0]] for channel in channels])
    assert abs(np.linalg.det(spread)) > 1e-3  # not on a line
    found = o.path(world, (1.0, 1e-2, 1e-4, 1e-6))[-1]
    np.testing.assert_allclose(found, world.ideal, atol=5e-3)


def test_equal_risks_are_equal_in_the_affine_hull() -> None:
    """The predictor of ``few`` uses r̄, and its risk is the same far outside the training environments."""
    world = CASES["few"].world
    q = o.path(world, (1.0, 1e-2, 1e-4, 1e-6))[-1]
    assert abs(q - world.ideal).max() > 0.1
    first, second = world.train
    outside = 3 * second - 2 * first  # p(r̄ = 1 | y) = 0, 0.6
    assert (outside > -1e-12).all()
    np.testing.assert_allclose(o.risks(np.stack([first, second, outside]), q), o.risks(world.train, q)[0], atol=1e-3)


def test_the_chosen_encoder_is_the_best_of_all() -> None:
    for name in ("spurious", "uneven", "enough"):
        world = CASES[name].world
        for beta in (10.0, 0.1, 0.001):
            values = {}
            for encoder in partitions(4):
                mean, variance = o.mean_and_variance(world, fitted(world.mixture, encoder))
                values[encoder] = variance + beta * mean
            assert values[o.chosen_encoder(world, beta)] == pytest.approx(min(values.values()), abs=1e-11)
    assert described(o.chosen_encoder(CASES["covariate"].world, inf)) == "r"  # as good as the whole, and coarser


def test_minimax_against_the_epigraph() -> None:
    """min t subject to L_e(q) ≤ t for all e, by another optimiser."""
    for name in ("spurious", "narrow", "uneven", "few"):
        every = CASES[name].world.every
        value, q = o.minimax(every)
        assert o.risks(every, q).max() == pytest.approx(value)

        def bounds(v: np.ndarray, every: np.ndarray = every) -> np.ndarray:
            p = np.clip(1 / (1 + np.exp(-v[1:])), 1e-9, 1 - 1e-9)
            return v[0] - o.risks(every, np.stack([1 - p, p], axis=1))

        start = np.array([1.0, -0.5, -0.5, 0.5, 0.5])
        found = minimize(lambda v: v[0], start, constraints={"type": "ineq", "fun": bounds}, method="SLSQP")
        assert found.success
        assert value == pytest.approx(found.fun, abs=1e-4)


def test_a_narrow_set_of_environments_has_a_better_predictor_than_the_ideal() -> None:
    world = CASES["narrow"].world
    candidate = conditional(environment((0.25, 0.25), agreeing(0.6)))
    assert o.risks(world.every, candidate).max() < o.risks(world.every, world.ideal).max() - 0.01


def test_the_ideal_is_the_same_in_every_environment_that_has_its_noise() -> None:
    for case in CASES.values():
        world = case.world
        rows = conditional(encoded(world.every, INVARIANT))
        np.testing.assert_allclose(rows, np.broadcast_to(rows[:1], rows.shape), atol=1e-12)
        risks = o.risks(world.every, world.ideal)
        assert (np.ptp(risks) < 1e-12) == (case.name != "uneven")
