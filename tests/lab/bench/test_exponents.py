"""The fitted exponent against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from graphshift.lab.bench.exponents import exponent


@pytest.mark.parametrize("power", [-1.0, 0.0, 0.5, 1.0, 2.0])
def test_a_power_law_has_its_exponent(power: float) -> None:
    sizes = [10, 30, 100, 1000]
    assert exponent(sizes, [3.7 * n**power for n in sizes]) == pytest.approx(power, abs=1e-12)


def test_noise_is_fitted_by_least_squares_on_logarithms() -> None:
    sizes = np.array([10.0, 20.0, 70.0, 300.0])
    values = np.array([1.0, 2.5, 6.0, 40.0])
    slope = np.polyfit(np.log(sizes), np.log(values), 1)[0]
    assert exponent(list(sizes), list(values)) == pytest.approx(slope)


def test_two_different_points_are_needed() -> None:
    assert exponent([], []) is None
    assert exponent([10], [1.0]) is None
    assert exponent([10, 10], [1.0, 2.0]) is None
    assert exponent([10, 20], [1.0, 0.0]) is None  # a logarithm of nothing
    assert exponent([10, 20, 40], [1.0, 0.0, 4.0]) == pytest.approx(1.0)
