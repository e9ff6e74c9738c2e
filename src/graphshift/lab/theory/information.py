"""Entropies, mutual information and divergences of finite distributions, in nats. 0 log 0 = 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def plogq(p: ArrayLike, q: ArrayLike) -> float:
    """Σ p log q over all entries; −∞ where q = 0 and p > 0."""
    p, q = np.broadcast_arrays(np.asarray(p, dtype=float), np.asarray(q, dtype=float))
    there = p > 0
    with np.errstate(divide="ignore"):
        return float((p[there] * np.log(q[there])).sum())


def entropy(p: ArrayLike) -> float:
    """H of a joint distribution with any number of axes."""
    return -plogq(p, p)


def mutual_information(p: ArrayLike) -> float:
    """I(a; b) of a joint distribution ``[a, b]``, by entropies."""
    p = np.asarray(p, dtype=float)
    return entropy(p.sum(axis=1)) + entropy(p.sum(axis=0)) - entropy(p)


def conditional_information(p: ArrayLike) -> float:
    """I(a; b | c) of a joint distribution ``[a, b, c]``, by entropies."""
    p = np.asarray(p, dtype=float)
    return entropy(p.sum(axis=1)) + entropy(p.sum(axis=0)) - entropy(p) - entropy(p.sum(axis=(0, 1)))


def kl(p: ArrayLike, q: ArrayLike) -> float:
    """D_KL(p ‖ q) = Σ p log (p / q); infinite where q = 0 and p > 0."""
    return plogq(p, p) - plogq(p, q)


def jsd(p: ArrayLike, q: ArrayLike) -> float:
    """The Jensen–Shannon divergence with equal weights: ½ D_KL(p ‖ m) + ½ D_KL(q ‖ m) with m = (p + q) / 2."""
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    middle = (p + q) / 2
    return (kl(p, middle) + kl(q, middle)) / 2


def conditional(p: ArrayLike) -> Array:
    """p(b | a) of a joint distribution ``[a, b]``; uniform where p(a) = 0."""
    p = np.asarray(p, dtype=float)
    total = p.sum(axis=-1, keepdims=True)
    return np.divide(p, total, out=np.full_like(p, 1 / p.shape[-1]), where=total > 0)
