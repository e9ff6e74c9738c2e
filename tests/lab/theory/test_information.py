"""Information and the encoders: every formula against loops over the joint distribution, or scipy."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as scipy_entropy

from graphshift.lab.theory.information import conditional, conditional_information, entropy, jsd, kl, mutual_information
from graphshift.lab.theory.worlds import agreeing, described, encoded, environment, fitted, partitions


def joint(shape: tuple[int, ...], seed: int, *, holes: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(int(np.prod(shape)))).reshape(shape)
    if holes:
        p = p * (rng.random(shape) < 0.6)
        p = p / p.sum()
    return p


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_mutual_information_by_the_sum_over_the_joint(seed: int, holes: bool) -> None:
    p = joint((3, 4), seed, holes=holes)
    expected = sum(
        p[a, b] * log(p[a, b] / (p[a].sum() * p[:, b].sum())) for a in range(3) for b in range(4) if p[a, b] > 0
    )
    assert mutual_information(p) == pytest.approx(expected, abs=1e-12)
    assert expected > 0.01


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_conditional_information_is_the_mean_over_the_condition(seed: int, holes: bool) -> None:
    p = joint((2, 3, 4), seed, holes=holes)
    expected = 0.0
    for c in range(4):
        given = p[:, :, c].sum()
        for a in range(2):
            for b in range(3):
                if p[a, b, c] > 0:
                    left, right = p[a, :, c].sum() / given, p[:, b, c].sum() / given
                    expected += p[a, b, c] * log(p[a, b, c] / given / (left * right))
    assert conditional_information(p) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_divergences_against_scipy(seed: int) -> None:
    p, q = joint((4,), seed), joint((4,), seed + 100)
    assert kl(p, q) == pytest.approx(scipy_entropy(p, q))
    assert jsd(p, q) == pytest.approx(jensenshannon(p, q) ** 2)
    assert entropy(p) == pytest.approx(scipy_entropy(p))


def test_divergences_at_zeros() -> None:
    assert kl([0.0, 1.0], [0.5, 0.5]) == pytest.approx(log(2))
    assert kl([0.5, 0.5], [0.0, 1.0]) == float("inf")
    assert jsd([1.0, 0.0], [0.0, 1.0]) == pytest.approx(log(2))
    np.testing.assert_allclose(conditional([[0.2, 0.6], [0.0, 0.0]]), [[0.25, 0.75], [0.5, 0.5]])


def test_every_encoder_is_there_once() -> None:
    assert [len(list(partitions(n))) for n in range(1, 7)] == [1, 2, 5, 15, 52, 203]  # Bell's numbers
    for encoder in partitions(4):
        assert encoder[0] == 0
        assert sorted(set(encoder)) == list(range(max(encoder) + 1))
    assert len(set(partitions(4))) == 15
    assert len({described(encoder) for encoder in partitions(4)}) == 15
    assert described((0, 1, 1, 2)) == "00 | 01 10 | 11"


def test_encoded_sums_over_the_inputs_of_a_representation() -> None:
    p = joint((5, 4, 2), 0)
    found = encoded(p, (0, 1, 0, 2))
    assert found.shape == (5, 3, 2)
    np.testing.assert_allclose(found[:, 0], p[:, 0] + p[:, 2])
    np.testing.assert_allclose(found[:, 1:], p[:, [1, 3]])
    q = fitted(p[0], (0, 1, 0, 2))
    np.testing.assert_allclose(q[0], (p[0, 0] + p[0, 2]) / (p[0, 0] + p[0, 2]).sum())
    np.testing.assert_allclose(q[2], q[0])


def test_an_environment_is_what_it_was_asked_to_be() -> None:
    p = environment((0.1, 0.3), [[0.2, 0.4], [0.6, 0.9]], (0.25, 0.75)).reshape(2, 2, 2)  # r, r̄, y
    assert p.sum() == pytest.approx(1)
    assert p.sum(axis=(1, 2)) == pytest.approx([0.25, 0.75])
    for r, noise in enumerate((0.1, 0.3)):
        assert p[r, :, 1 - r].sum() / p[r].sum() == pytest.approx(noise)
        for y in range(2):
            assert p[r, 1, y] / p[r, :, y].sum() == pytest.approx([[0.2, 0.4], [0.6, 0.9]][y][r])
    agree = environment((0.1, 0.3), agreeing(0.8)).reshape(2, 2, 2)
    assert agree[:, 0, 0].sum() + agree[:, 1, 1].sum() == pytest.approx(0.8)
