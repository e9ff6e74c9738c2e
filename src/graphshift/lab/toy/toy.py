"""The paper's motivating example (Section 3.1): θ learned by ERM, by the variance and by EERM, beside closed forms.

P takes the mean over N_v, a node's neighbours and the node itself. The process of Section 3.1 is

    y = P x¹ + n¹,    x² = P y + n² + ε_e,    ŷ = P (θ₁ x¹ + θ₂ x²) = θ₁ a¹ + θ₂ a²,

with x¹, n¹, n² standard normal and one ε_e ~ N(0, σ²) for each environment. So a¹ = P x¹, and a² has two *readings*:

- ``proof``, what the proofs use: a² = a¹ + n¹ + n² + ε_e, without the averaging of y and of the noise;
- ``text``, the process as written: a² = P x² = P³ x¹ + P² n¹ + P n² + ε_e.

In both, R(e) = E‖ŷ − y‖² / |V| is a quadratic in θ that e does not change, plus θ₂² ε_e². So Var_e[R(e)] = θ₂⁴ Var(ε²).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.methods.eerm import eerm_objective, variance

Reading = Literal["proof", "text"]
Objective = Literal["erm", "variance", "eerm"]
Theta = tuple[float, float]

READINGS: tuple[Reading, ...] = get_args(Reading)
START: Theta = (0.5, 0.5)
VARIANCE_STARTS: tuple[Theta, ...] = ((-0.5, 0.5), (0.5, 0.5), (1.5, 0.5))


@dataclass(frozen=True)
class ExpectedRisk:
    """E_e[R(e)] = θᵀ M θ − 2 bᵀ θ + c, the expectation over x¹, n¹, n² and ε.

    Attributes:
        matrix: M, ``[2, 2]``: the second moments of a¹ and a².
        vector: b, ``[2]``: their moments with y.
        constant: c = E[y²].
        sigma: σ, the standard deviation of ε.
    """

    matrix: NDArray[np.float64]
    vector: NDArray[np.float64]
    constant: float
    sigma: float


@dataclass(frozen=True)
class EnvironmentRisks:
    """R(e) = zᵀ G_e z with z = [θ₁, θ₂, −1]: the risk of every sampled environment.

    Attributes:
        gram: G_e, ``[E, 3, 3]``: the second moments of a¹, a² and y in environment e.
    """

    gram: Tensor

    def __call__(self, theta: Tensor) -> Tensor:
        """The risks ``[..., E]`` of ``theta``, ``[..., 2]``."""
        z = torch.nn.functional.pad(theta, (0, 1), value=-1.0)
        outer = (z.unsqueeze(-1) * z.unsqueeze(-2)).flatten(-2)
        return outer @ self.gram.flatten(1).T


@dataclass(frozen=True)
class Learned:
    """What one objective learned: the mean over the repeats, beside the truth and the paper's claim.

    Attributes:
        objective: ``erm`` (mean of the risks), ``variance`` or ``eerm`` (variance + β mean, Eq. 4).
        beta: β of ``eerm``.
        start: where learning started.
        theta: the mean of the learned [θ₁, θ₂].
        error: its standard error, from the repeats.
        closed: the minimiser of the expected objective, without sampling; θ₁ is None where every θ₁ minimises.
        paper: the minimiser that Proposition 1 or 2 claims.
        risk: the mean over the repeats of the mean risk at the learned θ.
        variance: the mean over the repeats of the variance of the risks there.
    """

    objective: Objective
    beta: float | None
    start: Theta
    theta: Theta
    error: Theta
    closed: tuple[float | None, float]
    paper: Theta | None
    risk: float
    variance: float


@dataclass(frozen=True)
class ToyCase:
    """One reading and one σ: what was learned, the expected risk, and the first repeat's risks (for the figure)."""

    reading: Reading
    sigma: float
    learned: tuple[Learned, ...]
    expected: ExpectedRisk
    sample: EnvironmentRisks


@dataclass(frozen=True)
class ToyResult:
    """The whole example: one case for each reading and σ."""

    nodes: int
    degree: float
    environments: int
    repeats: int
    seed: int
    cases: tuple[ToyCase, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict for each learned θ, for a table or JSON; None where a column does not apply."""
        return [
            {
                "reading": case.reading,
                "sigma": case.sigma,
                "objective": learned.objective,
                "beta": learned.beta,
                "start_theta1": learned.start[0],
                "start_theta2": learned.start[1],
                "theta1": learned.theta[0],
                "theta2": learned.theta[1],
                "se_theta1": learned.error[0],
                "se_theta2": learned.error[1],
                "closed_theta1": learned.closed[0],
                "closed_theta2": learned.closed[1],
                "paper_theta1": learned.paper[0] if learned.paper else None,
                "paper_theta2": learned.paper[1] if learned.paper else None,
                "risk": learned.risk,
                "variance": learned.variance,
            }
            for case in self.cases
            for learned in case.learned
        ]


def mean_matrix(nodes: int, degree: float, rng: np.random.Generator) -> sparse.csr_array:
    """P of a random graph: row v takes the mean over N_v, the node v and its neighbours.

    Args:
        nodes: N.
        degree: about how many neighbours a node has; with 0, N_v = {v} and P = I.
        rng: draws nodes · degree / 2 pairs; a pair drawn twice, or of a node with itself, counts once or not at all.

    Returns:
        ``[N, N]``; its rows sum to 1.
    """
    source, target = rng.integers(nodes, size=(2, round(nodes * degree / 2)))
    pairs = sparse.coo_array((np.ones(source.size), (source, target)), shape=(nodes, nodes))
    linked = sparse.csr_array(pairs + pairs.T + sparse.eye_array(nodes))
    linked.data[:] = 1
    return sparse.diags_array(1 / linked.sum(axis=1)) @ linked


def expected_risk(P: sparse.csr_array, reading: Reading, sigma: float) -> ExpectedRisk:
    """The moments of a¹, a² and y in closed form, from traces of powers of P.

    In the proof's reading E[a¹a²] = E[a¹y] = s, E[a²²] = s + 2 + σ² and E[a²y] = s + 1 with s = E[a¹²] = tr(P Pᵀ) / N.
    In the text's, with Q = P³: E[a¹a²] = tr(P Qᵀ) / N, E[a²²] = (tr(Q Qᵀ) + tr(P² P²ᵀ) + tr(P Pᵀ)) / N + σ²,
    E[a²y] = (tr(Q Pᵀ) + tr(P²)) / N.
    """
    s = _trace(P, P)
    if reading == "proof":
        a1_a2, a2_a2, a2_y = s, s + 2 + sigma**2, s + 1
    else:
        P2 = P @ P
        P3 = P2 @ P
        a1_a2 = _trace(P, P3)
        a2_a2 = _trace(P3, P3) + _trace(P2, P2) + s + sigma**2
        a2_y = a1_a2 + float(P2.trace()) / P.shape[0]
    return ExpectedRisk(np.array([[s, a1_a2], [a1_a2, a2_a2]]), np.array([s, a2_y]), s + 1, sigma)


def sample_risks(
    P: sparse.csr_array, reading: Reading, sigma: float, environments: int, rng: np.random.Generator
) -> EnvironmentRisks:
    """Draw x¹, n¹, n² once and ε for each environment; return the risk of every environment as a quadratic in θ.

    The environments share x¹ and the noise, because the paper's R(e) is an expectation over them: what differs between
    two environments is ε alone.
    """
    nodes = P.shape[0]
    x1, n1, n2 = rng.standard_normal((3, nodes))
    a1 = P @ x1
    y = a1 + n1
    a2 = y + n2 if reading == "proof" else P @ (P @ y + n2)
    epsilon = sigma * rng.standard_normal(environments)

    # a² of environment e is a2 + ε_e in every node, since the rows of P sum to 1.
    columns = np.stack([a1, a2, y])
    gram = np.tile(columns @ columns.T / nodes, (environments, 1, 1))
    gram[:, 1, :] += np.outer(epsilon, columns.mean(axis=1))
    gram[:, :, 1] += np.outer(epsilon, columns.mean(axis=1))
    gram[:, 1, 1] += epsilon**2
    return EnvironmentRisks(torch.from_numpy(gram))


def proposition_1(sigma: float) -> Theta:
    """[(1 + σ²) / (2 + σ²), 1 / (2 + σ²)]: the paper's minimiser of E_e[R(e)]. Right for the proof's reading."""
    return (1 + sigma**2) / (2 + sigma**2), 1 / (2 + sigma**2)


def erm_optimum(expected: ExpectedRisk) -> Theta:
    """The minimiser of E_e[R(e)]: the solution of M θ = b."""
    theta1, theta2 = np.linalg.solve(expected.matrix, expected.vector)
    return float(theta1), float(theta2)


def eerm_optimum(expected: ExpectedRisk, beta: float) -> Theta:
    """The minimiser of Var_e[R(e)] + β E_e[R(e)] (Eq. 4) for Gaussian ε, where Var(ε²) = 2σ⁴.

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
    return float((b1 - m12 * theta2) / m11), theta2


def learn(objective: Callable[[Tensor], Tensor], risks: EnvironmentRisks, start: Theta = START) -> Theta:
    """Minimise ``objective`` of the risks ``[E]`` over θ by BFGS with autograd's gradient, in double precision.

    Args:
        objective: from the risks of all environments to a scalar, such as ``graphshift.methods.eerm.variance``.
        risks: the risks as functions of θ.
        start: [θ₁, θ₂] to start from.
    """

    def loss_and_gradient(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        theta = torch.tensor(point, requires_grad=True)
        loss = objective(risks(theta))
        (gradient,) = torch.autograd.grad(loss, theta)
        return loss.item(), gradient.numpy()

    theta1, theta2 = minimize(loss_and_gradient, start, jac=True, method="BFGS", options={"gtol": 1e-10}).x
    return float(theta1), float(theta2)


def run_toy(
    nodes: int = 2000,
    environments: int = 1000,
    sigmas: Sequence[float] = (0.5, 1.0, 2.0),
    betas: Sequence[float] = (1.0, 0.01),
    seed: int = 0,
    repeats: int = 20,
    degree: float = 5.0,
) -> ToyResult:
    """Learn θ by every objective, in both readings, for every σ, on one random graph.

    Args:
        nodes: nodes of the graph, at least 10.
        environments: draws of ε in each repeat, at least 2.
        sigmas: the standard deviations of ε, each from 0.1 to 10.
        betas: EERM's weights of the mean, each from 1e-4 to 1e4.
        seed: of the graph and of all draws.
        repeats: fresh draws of x¹, n¹, n² and ε, at least 2; the standard errors come from them.
        degree: about how many neighbours a node has; 0 gives N_v = {v}, where both readings are one.
    """
    _check_least("nodes", nodes, 10)
    _check_least("environments", environments, 2)
    _check_least("repeats", repeats, 2)
    _check_least("seed", seed, 0)
    _check_range("sigmas", sigmas, 0.1, 10)
    _check_range("betas", betas, 1e-4, 1e4)
    if not 0 <= degree < nodes:
        raise GraphshiftError(f"degree is {degree}; expected at least 0 and below nodes = {nodes}.")
    rng = np.random.default_rng(seed)
    P = mean_matrix(nodes, degree, rng)
    cases = []
    for reading in READINGS:
        for sigma in sigmas:
            samples = [sample_risks(P, reading, sigma, environments, rng) for _ in range(repeats)]
            expected = expected_risk(P, reading, sigma)
            learned = (
                _learned("erm", None, START, samples, erm_optimum(expected), proposition_1(sigma)),
                *(_learned("variance", None, start, samples, (None, 0.0), (1.0, 0.0)) for start in VARIANCE_STARTS),
                *(_learned("eerm", beta, START, samples, eerm_optimum(expected, beta), None) for beta in betas),
            )
            cases.append(ToyCase(reading, sigma, learned, expected, samples[0]))
    return ToyResult(nodes, degree, environments, repeats, seed, tuple(cases))


def _learned(
    objective: Objective,
    beta: float | None,
    start: Theta,
    samples: Sequence[EnvironmentRisks],
    closed: tuple[float | None, float],
    paper: Theta | None,
) -> Learned:
    def loss(risks: Tensor) -> Tensor:
        if objective == "erm":
            return risks.mean()
        return variance(risks) if beta is None else eerm_objective(risks, beta)

    thetas = torch.tensor([learn(loss, sample, start) for sample in samples], dtype=torch.float64)
    risks = torch.stack([sample(theta) for sample, theta in zip(samples, thetas, strict=True)])
    theta1, theta2 = thetas.mean(dim=0).tolist()
    error1, error2 = (thetas.std(dim=0) / math.sqrt(len(samples))).tolist()
    return Learned(
        objective,
        beta,
        start,
        (theta1, theta2),
        (error1, error2),
        closed,
        paper,
        float(risks.mean()),
        float(risks.var(dim=1).mean()),
    )


def _trace(A: sparse.csr_array, B: sparse.csr_array) -> float:
    """tr(A Bᵀ) / N."""
    return float(A.multiply(B).sum()) / A.shape[0]


def _check_least(field: str, value: int, least: int) -> None:
    if not isinstance(value, int) or value < least:
        raise GraphshiftError(f"{field} is {value!r}; expected a whole number, at least {least}.")


def _check_range(field: str, values: Sequence[float], least: float, most: float) -> None:
    wrong = [value for value in values if not least <= value <= most]
    if wrong or not values:
        found = f"holds {wrong[0]}" if wrong else "is empty"
        raise GraphshiftError(f"{field} {found}; expected one or more numbers from {least} to {most}.")
