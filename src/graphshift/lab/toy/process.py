"""The process of Section 3.1: P, the risk of every environment, and its expectation in closed form.

P takes the mean over N_v, a node's neighbours and the node itself. The process is

    y = P x¹ + n¹,    x² = P y + n² + ε_e,    ŷ = P (θ₁ x¹ + θ₂ x²) = θ₁ a¹ + θ₂ a²,

with x¹, n¹, n² standard normal and one ε_e ~ N(0, σ²) for each environment. So a¹ = P x¹, and a² has two *readings*:

- ``proof``, what the proofs use: a² = a¹ + n¹ + n² + ε_e, without the averaging of y and of the noise;
- ``text``, the process as written: a² = P x² = P³ x¹ + P² n¹ + P n² + ε_e.

In both, R(e) = E‖ŷ − y‖² / |V| is a quadratic in θ that e does not change, plus θ₂² ε_e².

With a *spread* w above 0 the size of x¹ differs between environments as well: x¹ is multiplied by √τ_e with τ_e uniform
from 1 − w to 1 + w, so that E[a¹²] varies. Then R(e) = τ_e A(θ) + B(θ) + θ₂² ε_e², where A is what x¹ contributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

Reading = Literal["proof", "text"]
Theta = tuple[float, float]

READINGS: tuple[Reading, ...] = get_args(Reading)


@dataclass(frozen=True)
class ExpectedRisk:
    """E_e[R(e)] = θᵀ M θ − 2 bᵀ θ + c, the expectation over x¹, n¹, n², ε and τ.

    Attributes:
        matrix: M, ``[2, 2]``: the second moments of a¹ and a².
        vector: b, ``[2]``: their moments with y.
        constant: c = E[y²].
        sigma: σ, the standard deviation of ε.
        signal: S, ``[3, 3]``: the second moments of what x¹ gives to a¹, a² and y; the part that τ multiplies.
        spread: w; τ is uniform from 1 − w to 1 + w.
    """

    matrix: NDArray[np.float64]
    vector: NDArray[np.float64]
    constant: float
    sigma: float
    signal: NDArray[np.float64]
    spread: float = 0.0


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


def expected_risk(P: sparse.csr_array, reading: Reading, sigma: float, spread: float = 0.0) -> ExpectedRisk:
    """The moments of a¹, a² and y in closed form, from traces of powers of P.

    In the proof's reading E[a¹a²] = E[a¹y] = s, E[a²²] = s + 2 + σ² and E[a²y] = s + 1 with s = E[a¹²] = tr(P Pᵀ) / N.
    In the text's, with Q = P³: E[a¹a²] = tr(P Qᵀ) / N, E[a²²] = (tr(Q Qᵀ) + tr(P² P²ᵀ) + tr(P Pᵀ)) / N + σ²,
    E[a²y] = (tr(Q Pᵀ) + tr(P²)) / N. The mean of τ is 1, so τ changes none of them.
    """
    s = _trace(P, P)
    if reading == "proof":
        a1_a2, from_x1, noise, a2_y = s, s, 2.0, s + 1
    else:
        P2 = P @ P
        P3 = P2 @ P
        a1_a2, from_x1 = _trace(P, P3), _trace(P3, P3)
        noise = _trace(P2, P2) + s
        a2_y = a1_a2 + float(P2.trace()) / P.shape[0]
    matrix = np.array([[s, a1_a2], [a1_a2, from_x1 + noise + sigma**2]])
    signal = np.array([[s, a1_a2, s], [a1_a2, from_x1, a1_a2], [s, a1_a2, s]])
    return ExpectedRisk(matrix, np.array([s, a2_y]), s + 1, sigma, signal, spread)


def sample_risks(
    P: sparse.csr_array,
    reading: Reading,
    sigma: float,
    environments: int,
    rng: np.random.Generator,
    spread: float = 0.0,
) -> EnvironmentRisks:
    """Draw x¹, n¹, n² once and ε (and τ) for each environment; return every environment's risk as a quadratic in θ.

    The environments share x¹ and the noise, because the paper's R(e) is an expectation over them: what differs between
    two environments is ε and, with ``spread`` above 0, the size √τ of x¹.
    """
    nodes = P.shape[0]
    x1, n1, n2 = rng.standard_normal((3, nodes))
    a1 = P @ x1
    if reading == "proof":
        signal, noise = np.stack([a1, a1, a1]), np.stack([np.zeros(nodes), n1 + n2, n1])
    else:
        signal, noise = np.stack([a1, P @ (P @ a1), a1]), np.stack([np.zeros(nodes), P @ (P @ n1 + n2), n1])
    epsilon = sigma * rng.standard_normal(environments)
    tau = rng.uniform(1 - spread, 1 + spread, environments) if spread else np.ones(environments)

    scale = np.sqrt(tau)[:, None, None]
    mixed = signal @ noise.T
    gram = (scale**2 * (signal @ signal.T) + scale * (mixed + mixed.T) + noise @ noise.T) / nodes
    # a² of environment e has ε_e in every node, since the rows of P sum to 1.
    means = scale[:, :, 0] * signal.mean(axis=1) + noise.mean(axis=1)
    gram[:, 1, :] += epsilon[:, None] * means
    gram[:, :, 1] += epsilon[:, None] * means
    gram[:, 1, 1] += epsilon**2
    return EnvironmentRisks(torch.from_numpy(gram))


def _trace(A: sparse.csr_array, B: sparse.csr_array) -> float:
    """tr(A Bᵀ) / N."""
    return float(A.multiply(B).sum()) / A.shape[0]
