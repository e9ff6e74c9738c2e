"""Discrete models of Assumptions 1 and 2, and every deterministic encoder of their input.

The input of a node (its ego-graph G_v) is a pair x = (r, r̄) of finite parts. An environment e is a joint distribution

    p_e(r, r̄, y) = p_e(r) p(y | r) p_e(r̄ | y, r):

the label comes from the invariant part r in the same way everywhere (Assumption 1); how the spurious part r̄ goes with
the label is the environment's own (Assumption 2). Symbols are counted as x = r · |r̄| + r̄.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from graphshift.lab.theory.information import Array, conditional

#: An encoder: the representation z of every input, as whole numbers 0, 1, … in order of appearance.
Encoder = tuple[int, ...]


@dataclass(frozen=True)
class World:
    """Training environments with their weights, and the environments that there are.

    Attributes:
        train: p_e(x, y) of the training environments, ``[E, X, Y]``.
        weights: p(e), ``[E]``.
        every: p_e(x, y) of environments whose mixtures are all of ℰ, ``[T, X, Y]``; the worst of them counts.
        invariant: r of every input x, an encoder.
    """

    train: Array
    weights: Array
    every: Array
    invariant: Encoder

    @property
    def mixture(self) -> Array:
        """p(x, y) = Σ_e p(e) p_e(x, y), what the mean of the risks sees."""
        return np.tensordot(self.weights, self.train, axes=1)

    @property
    def ideal(self) -> Array:
        """f* = p(y | r) for every input, ``[X, Y]``."""
        return fitted(self.mixture, self.invariant)


def environment(
    noise: Sequence[float], channel: Sequence[Sequence[float]], right: Sequence[float] = (0.5, 0.5)
) -> Array:
    """One environment with binary r, r̄ and y: p_e(x, y), ``[4, 2]``.

    Args:
        noise: p(y ≠ r | r) for r = 0 and 1. Equal numbers are the paper's y = c*(r) + n with n independent of r.
        channel: p_e(r̄ = 1 | y, r), ``[y][r]``.
        right: p_e(r).
    """
    p = np.zeros((2, 2, 2))
    for r in range(2):
        for y in range(2):
            label = right[r] * (noise[r] if y != r else 1 - noise[r])
            p[r, :, y] = label * np.array([1 - channel[y][r], channel[y][r]])
    return p.reshape(4, 2)


def agreeing(rho: float) -> list[list[float]]:
    """The channel in which r̄ is y with probability ρ."""
    return [[1 - rho, 1 - rho], [rho, rho]]


def partitions(count: int) -> Iterator[Encoder]:
    """Every encoder of that many inputs, up to the names of z: the set partitions (1, 2, 5, 15, 52, 203, …)."""

    def extend(start: Encoder, used: int) -> Iterator[Encoder]:
        if len(start) == count:
            yield start
            return
        for label in range(used + 1):
            yield from extend((*start, label), max(used, label + 1))

    yield from extend((), 0)


def encoded(p: Array, encoder: Encoder) -> Array:
    """p(z, y) from p(x, y): sums over the inputs of each z. Takes ``[..., X, Y]``, gives ``[..., Z, Y]``."""
    chosen = np.eye(max(encoder) + 1)[list(encoder)]
    return np.einsum("...xy,xz->...zy", p, chosen)


def fitted(p: Array, encoder: Encoder) -> Array:
    """The best classifier on top of an encoder, q(y | z) = p(y | z), for every input: ``[X, Y]``."""
    return conditional(encoded(p, encoder))[list(encoder)]


def described(encoder: Encoder) -> str:
    """An encoder of four inputs in words, or its cells."""
    known = {
        (0, 0, 0, 0): "nothing",
        (0, 0, 1, 1): "r",
        (0, 1, 0, 1): "r̄",
        (0, 1, 1, 0): "r ⊕ r̄",
        (0, 1, 2, 3): "r and r̄",
        (0, 0, 0, 1): "r ∧ r̄",
        (0, 1, 1, 1): "r ∨ r̄",
    }
    if encoder in known:
        return known[encoder]
    cells = [[x for x, label in enumerate(encoder) if label == z] for z in range(max(encoder) + 1)]
    return " | ".join(" ".join(f"{x // 2}{x % 2}" for x in cell) for cell in cells)
