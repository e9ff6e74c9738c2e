"""The paper's motivating example (Section 3.1): θ learned by ERM, by the variance and by EERM, beside closed forms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.lab.toy.closed import eerm_optimum, erm_optimum, proposition_1, variance_optimum
from graphshift.lab.toy.process import (
    READINGS,
    EnvironmentRisks,
    ExpectedRisk,
    Reading,
    Theta,
    expected_risk,
    mean_matrix,
    sample_risks,
)
from graphshift.methods.risks import eerm_objective, variance

Objective = Literal["erm", "variance", "eerm"]

START: Theta = (0.5, 0.5)
VARIANCE_STARTS: tuple[Theta, ...] = ((-0.5, 0.5), (0.5, 0.5), (1.5, 0.5))


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
    """One reading, spread and σ: what was learned, the expected risk, and the first repeat's risks (for the figure)."""

    reading: Reading
    spread: float
    sigma: float
    learned: tuple[Learned, ...]
    expected: ExpectedRisk
    sample: EnvironmentRisks


@dataclass(frozen=True)
class ToyResult:
    """The whole example: one case for each spread, reading and σ."""

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
                "spread": case.spread,
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
    spreads: Sequence[float] = (0.0, 1.0),
) -> ToyResult:
    """Learn θ by every objective, in both readings, for every σ and spread, on one random graph.

    Args:
        nodes: nodes of the graph, at least 10.
        environments: draws of ε in each repeat, at least 2.
        sigmas: the standard deviations of ε, each from 0.1 to 10.
        betas: EERM's weights of the mean, each from 1e-4 to 1e4.
        seed: of the graph and of all draws.
        repeats: fresh draws of x¹, n¹, n² and ε, at least 2; the standard errors come from them.
        degree: about how many neighbours a node has; 0 gives N_v = {v}, where both readings are one.
        spreads: how far E[x¹²] lies from 1 in the environments at most, each from 0 (all alike, Section 3.1) to 1.
    """
    _check_least("nodes", nodes, 10)
    _check_least("environments", environments, 2)
    _check_least("repeats", repeats, 2)
    _check_least("seed", seed, 0)
    _check_range("sigmas", sigmas, 0.1, 10)
    _check_range("betas", betas, 1e-4, 1e4)
    _check_range("spreads", spreads, 0, 1)
    if not 0 <= degree < nodes:
        raise GraphshiftError(f"degree is {degree}; expected at least 0 and below nodes = {nodes}.")
    rng = np.random.default_rng(seed)
    P = mean_matrix(nodes, degree, rng)
    cases = []
    for spread, reading, sigma in itertools.product(spreads, READINGS, sigmas):
        samples = [sample_risks(P, reading, sigma, environments, rng, spread) for _ in range(repeats)]
        expected = expected_risk(P, reading, sigma, spread)
        flat = variance_optimum(expected)
        learned = (
            _learned("erm", None, START, samples, erm_optimum(expected), proposition_1(sigma)),
            *(_learned("variance", None, start, samples, flat, (1.0, 0.0)) for start in VARIANCE_STARTS),
            *(_learned("eerm", beta, START, samples, eerm_optimum(expected, beta), None) for beta in betas),
        )
        cases.append(ToyCase(reading, spread, sigma, learned, expected, samples[0]))
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


def _check_least(field: str, value: int, least: int) -> None:
    if not isinstance(value, int) or value < least:
        raise GraphshiftError(f"{field} is {value!r}; expected a whole number, at least {least}.")


def _check_range(field: str, values: Sequence[float], least: float, most: float) -> None:
    wrong = [value for value in values if not least <= value <= most]
    if wrong or not values:
        found = f"holds {wrong[0]}" if wrong else "is empty"
        raise GraphshiftError(f"{field} {found}; expected one or more numbers from {least} to {most}.")
