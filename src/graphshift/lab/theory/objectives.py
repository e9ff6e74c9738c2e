"""The risks of a predictor, Eq. 4 (the variance plus β times the mean), and what minimises it.

A predictor is a table q(y | x), ``[X, Y]``. Its risk in environment e is the log loss −Σ p_e(x, y) log q(y | x). That
is linear in p_e, so a predictor with equal risks in some environments has that risk in their whole affine hull.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.optimize import minimize

from graphshift.lab.theory.information import Array, conditional, conditional_information, mutual_information
from graphshift.lab.theory.worlds import Encoder, World, encoded, fitted, partitions


def risks(environments: Array, q: Array) -> Array:
    """The log loss in every environment, ``[E]``, of ``environments`` ``[E, X, Y]``; infinite where q = 0 < p_e."""
    with np.errstate(divide="ignore"):
        losses = np.broadcast_to(-np.log(q), environments.shape)
    return np.where(environments > 0, environments * np.where(environments > 0, losses, 0.0), 0.0).sum(axis=(1, 2))


def mean_and_variance(world: World, q: Array) -> tuple[float, float]:
    """E_e[L] and V_e[L] over the training environments."""
    found = risks(world.train, q)
    mean = float(world.weights @ found)
    return mean, float(world.weights @ (found - mean) ** 2)


def sufficiency(world: World, encoder: Encoder) -> float:
    """I(y; z) in the mixture of the training environments."""
    return mutual_information(encoded(world.mixture, encoder))


def invariance_gap(environments: Array, weights: Array, encoder: Encoder) -> float:
    """I(y; e | z): zero if and only if p(y | z, e) = p(y | z)."""
    p = weights[:, None, None] * encoded(environments, encoder)  # [e, z, y]
    return conditional_information(p.transpose(2, 0, 1))


def predicted_gap(world: World, q: Array) -> float:
    """I(y; e | ŷ) with ŷ drawn from q(· | x): the gap of the encoder q(z | x) that a predictor itself is."""
    p = np.einsum("e,exy,xz->yez", world.weights, world.train, q)
    return conditional_information(p)


def predicted_information(world: World, q: Array) -> float:
    """I(y; ŷ) with ŷ drawn from q(· | x), in the mixture."""
    return mutual_information(np.einsum("xy,xz->yz", world.mixture, q))


def chosen_encoder(world: World, beta: float) -> Encoder:
    """The encoder that minimises Eq. 4 with its best classifier, p(y | z); the coarsest of equals.

    β = 0 gives the least variance, and among equals the least mean; β = ∞ the least mean.
    """
    best: tuple[tuple[float, ...], Encoder] | None = None
    for encoder in partitions(world.train.shape[1]):
        mean, variance = mean_and_variance(world, fitted(world.mixture, encoder))
        keys = [mean] if np.isinf(beta) else [variance, mean] if beta == 0 else [variance + beta * mean]
        key = (*(round(value, 12) for value in keys), max(encoder))
        if best is None or key < best[0]:
            best = key, encoder
    if best is None:
        raise ValueError("no inputs")
    return best[1]


def minimiser(world: World, beta: float, starts: Iterable[Array], encoder: Encoder | None = None) -> Array:
    """The predictor q(y | x) that minimises Eq. 4 among all that see ``encoder`` (the whole input if not given).

    The variance is not convex, so it is the best of several runs of BFGS.

    Args:
        world: of which the training environments count.
        beta: β above 0.
        starts: predictors ``[X, Y]`` without zeros to start from.
        encoder: what the predictor sees.
    """
    cells = encoder or tuple(range(world.train.shape[1]))
    p = encoded(world.train, cells)
    inputs = p.sum(axis=2, keepdims=True)

    def value_and_gradient(point: Array) -> tuple[float, Array]:
        logits = point.reshape(p.shape[1:])
        log_q = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        found = -(p * log_q).sum(axis=(1, 2))
        mean = world.weights @ found
        slopes = inputs * np.exp(log_q) - p
        share = world.weights * (1 + 2 * (found - mean) / beta)
        value = mean + world.weights @ (found - mean) ** 2 / beta
        return float(value), np.tensordot(share, slopes, axes=1).ravel()

    best: tuple[float, Array] | None = None
    first = [cells.index(z) for z in range(max(cells) + 1)]
    for start in starts:
        found = minimize(
            value_and_gradient, np.log(start[first]).ravel(), jac=True, method="BFGS", options={"gtol": 1e-11}
        )
        if best is None or found.fun < best[0]:
            best = float(found.fun), found.x
    if best is None:
        raise ValueError("no starts")
    logits = best[1].reshape(p.shape[1:])
    return np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))[list(cells)]


def path(world: World, betas: Sequence[float]) -> list[Array]:
    """The minimisers of Eq. 4 for falling β, each started from the last, from ERM's, from f* and from ignorance."""
    erm = conditional(world.mixture)
    found: list[Array] = []
    flat = np.full_like(erm, 1 / erm.shape[1])
    for beta in betas:
        starts = [found[-1] if found else erm, erm, world.ideal, flat]
        found.append(minimiser(world, beta, [0.999 * start + 0.001 * flat for start in starts]))
    return found


def minimax(environments: Array, steps: int = 20_000, tolerance: float = 1e-7) -> tuple[float, Array]:
    """The least worst risk over all mixtures of the environments, and its predictor: Eq. 2 without a model class.

    min_q max_e L_e(q) is the largest H_w(y | x) over mixtures w, because H is concave in w; found by multiplicative
    weights, which stop when the worst risk is within the tolerance of the entropy.
    """
    weights = np.full(len(environments), 1 / len(environments))
    total, rate = np.zeros_like(weights), 2.0
    for _ in range(steps):
        q = conditional(np.tensordot(weights, environments, axes=1))
        found = risks(environments, q)
        if found.max() - weights @ found < tolerance:
            break
        total = total + rate * found
        weights = np.exp(total - total.max())
        weights = weights / weights.sum()
    return float(found.max()), q
