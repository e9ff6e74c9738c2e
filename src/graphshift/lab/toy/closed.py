"""What minimises the mean, the variance and EERM's objective in the motivating example, without sampling."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from graphshift.lab.toy.process import ExpectedRisk, Theta


def proposition_1(sigma: float) -> Theta:
    """[(1 + σ²) / (2 + σ²), 1 / (2 + σ²)]: the paper's minimiser of E_e[R(e)]. Right for the proof's reading."""
    return (1 + sigma**2) / (2 + sigma**2), 1 / (2 + sigma**2)


def erm_optimum(expected: ExpectedRisk) -> Theta:
    """The minimiser of E_e[R(e)]: the solution of M θ = b."""
    theta1, theta2 = np.linalg.solve(expected.matrix, expected.vector)
    return float(theta1), float(theta2)


def variance_optimum(expected: ExpectedRisk) -> tuple[float | None, float]:
    """What minimises Var_e[R(e)]: every [θ₁, 0], or [1, 0] alone if there is a spread. None stands for every θ₁.

    With a spread the variance is A(θ)² Var(τ) + θ₂⁴ Var(ε²). It is 0 only if θ₂ = 0 and A = (θ₁ − 1)² E[a¹²] = 0.
    """
    return (1.0, 0.0) if expected.spread else (None, 0.0)


def expected_variance(expected: ExpectedRisk, theta: Theta) -> float:
    """Var_e[R(e)] = A(θ)² Var(τ) + θ₂⁴ Var(ε²) for independent τ and ε, with Var(τ) = w² / 3 and Var(ε²) = 2σ⁴.

    A(θ) = zᵀ S z with z = [θ₁, θ₂, −1]; in the proof's reading (θ₁ + θ₂ − 1)² E[a¹²].
    """
    z = np.array([*theta, -1.0])
    return float((z @ expected.signal @ z) ** 2 * expected.spread**2 / 3 + 2 * expected.sigma**4 * theta[1] ** 4)


def eerm_optimum(expected: ExpectedRisk, beta: float) -> Theta:
    """The minimiser of Var_e[R(e)] + β E_e[R(e)] (Eq. 4) for Gaussian ε, where Var(ε²) = 2σ⁴.

    Without a spread, and with one in the proof's reading, where A(θ) and the mean ask for θ₁ + θ₂ = 1 both, it is a
    closed form. With a spread in the text's reading a convex function of two variables is minimised from there.

    The objective is strictly convex. Its θ₁ is (b₁ − M₁₂ θ₂) / M₁₁ and its θ₂ the one real root of
    4 Var(ε²) θ₂³ + 2 β (S θ₂ − d) = 0 with S = M₂₂ − M₁₂² / M₁₁ and d = b₂ − M₁₂ b₁ / M₁₁
    (in the proof's reading S = 2 + σ² and d = 1). β → ∞ gives ERM's minimiser, β → 0 gives [1, 0].
    """
    (m11, m12), (_, m22) = expected.matrix
    b1, b2 = expected.vector
    p = beta * (m22 - m12**2 / m11) / (4 * expected.sigma**4)
    q = beta * (b2 - m12 * b1 / m11) / (4 * expected.sigma**4)
    # The real root of t³ + p t − q, p > 0.
    theta2 = 2 * math.sqrt(p / 3) * math.sinh(math.asinh(1.5 * q / p * math.sqrt(3 / p)) / 3)
    closed = float((b1 - m12 * theta2) / m11), theta2
    if not expected.spread:
        return closed

    def objective(point: NDArray[np.float64]) -> float:
        mean = point @ expected.matrix @ point - 2 * expected.vector @ point + expected.constant
        return float(mean + expected_variance(expected, (point[0], point[1])) / beta)

    found = minimize(objective, closed, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-15, "maxiter": 4000})
    return float(found.x[0]), float(found.x[1])
