"""Lemmas 2 to 4 and Theorem 3: the error on a new environment, its two parts, and what bounds it.

Two distributions count here: the training one, t = 0, and that of a new environment e', t = 1. Both have the weight ½
(:data:`WEIGHT`). The error is Eq. 6's divergence D_KL(p_e'(y | x) ‖ q(y | x)), in expectation over p_e'(x).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from graphshift.lab.theory.information import Array, conditional, conditional_information, jsd, kl
from graphshift.lab.theory.worlds import Encoder, encoded

WEIGHT = 0.5


@dataclass(frozen=True)
class Errors:
    """What Theorem 3 speaks of, for one encoder, one predictor and one new environment.

    Attributes:
        error: D_KL(p_e'(y|x) ‖ q(y|x)), the OOD error.
        lost: I_e'(x; y | z), what the encoder loses there.
        lost_training: I_e(x; y | z), what it loses in training; the paper's condition is that the two are equal.
        latent: D_KL(p_e'(y|z) ‖ q(y|z)).
        latent_js: the same as a Jensen–Shannon divergence, which is what Lemma 3 bounds.
        fit: D_KL(p_e(y|z) ‖ q(y|z)), the error of fit in training.
        gap: I(y; t | z) between training and the new environment.
        paper: I_e(x; y | z) plus Lemma 3's right side with α = min p(t): what the paper's steps add up to.
        repaired: a bound that holds, :func:`repaired_bound`.
    """

    error: float
    lost: float
    lost_training: float
    latent: float
    latent_js: float
    fit: float
    gap: float
    paper: float
    repaired: float


def lemma_3(gap: float, fit: float, alpha: float) -> float:
    """(√(I(y; e | z) / 2α) + √(D_KL(p_e(y|z) ‖ q(y|z)) / 2))², the right side of Lemma 3."""
    return float((np.sqrt(max(gap, 0.0) / (2 * alpha)) + np.sqrt(max(fit, 0.0) / 2)) ** 2)


def gaps_by_representation(p: Array) -> Array:
    """I(y; t | z = z) for every z, from p(t, z, y): Σ_t p(t | z) D_KL(p(y | z, t) ‖ p(y | z))."""
    found = []
    for part in p.transpose(1, 0, 2):  # [t, y]
        total = part.sum()
        pooled = part.sum(axis=0)
        shares = part.sum(axis=1)
        found.append(sum(s / total * kl(row / s, pooled / total) for s, row in zip(shares, part, strict=True) if s > 0))
    return np.array(found)


def divergence_ratio(least: float) -> float:
    """The least c with D_KL(p ‖ q) ≤ c · JSD(p, q) for all p and all q with no entry below ``least``.

    Both are f-divergences, Σ q f(p / q), with f_KL(t) = t log t − t + 1 and
    f_JS(t) = ½ (t log t − (t + 1) log((t + 1) / 2)); p / q is at most 1 / least. So c is the largest f_KL / f_JS up to
    there. It is infinite for ``least`` = 0.
    """
    if least <= 0:
        return float("inf")

    def ratio(t: float) -> float:
        if abs(t - 1) < 1e-4:
            return 4.0 + 2 / 3 * (t - 1)  # both vanish at 1
        return float((t * np.log(t) - t + 1) / (0.5 * (t * np.log(t) - (t + 1) * np.log((t + 1) / 2))))

    most = 1 / least
    inside = minimize_scalar(lambda t: -ratio(t), bounds=(1e-12, most), method="bounded")
    return max(ratio(most), -float(inside.fun))


def repaired_bound(lost: float, p: Array, q: Array) -> float:
    """I_e'(x; y | z) + c Σ_z p_e'(z) (√(I(y; t | z = z) / 2α_z) + √(D_KL(p_e(y|z) ‖ q(y|z)) / 2))².

    Lemma 3 for every z by itself, with α_z = min_t p(t | z), and c of :func:`divergence_ratio` from JSD to KL.

    Args:
        lost: I_e'(x; y | z).
        p: p(t, z, y), ``[2, Z, Y]``.
        q: q(y | z), ``[Z, Y]``.
    """
    ratio = divergence_ratio(float(q.min()))
    shares, rows = p.sum(axis=2), conditional(p)
    new = shares[1] / shares[1].sum()
    total = 0.0
    for z, gap in enumerate(gaps_by_representation(p)):
        if new[z] > 0:
            alpha = float(min(shares[0, z], shares[1, z]) / shares[:, z].sum())
            total += float(new[z]) * (lemma_3(gap, kl(rows[0, z], q[z]), alpha) if alpha > 0 else np.log(2))
    return lost + ratio * total if total > 0 else lost


def errors(training: Array, new: Array, encoder: Encoder, q: Array) -> Errors:
    """Everything of :class:`Errors`.

    Args:
        training: p_e(x, y), ``[X, Y]``; of several environments their mixture.
        new: p_e'(x, y), ``[X, Y]``.
        encoder: z of every x.
        q: q(y | x), ``[X, Y]``, equal for inputs with the same z.
    """
    first = [encoder.index(z) for z in range(max(encoder) + 1)]
    p = np.stack([(1 - WEIGHT) * encoded(training, encoder), WEIGHT * encoded(new, encoder)])
    rows = conditional(p)
    new_z, old_z = p[1].sum(axis=1) / WEIGHT, p[0].sum(axis=1) / (1 - WEIGHT)
    fit = _mean(old_z, [kl(row, q[x]) for row, x in zip(rows[0], first, strict=True)])
    gap = conditional_information(p.transpose(2, 0, 1))
    lost, lost_training = (_lost(law, encoder) for law in (new, training))
    return Errors(
        error=_mean(new.sum(axis=1), [kl(row, own) for row, own in zip(conditional(new), q, strict=True)]),
        lost=lost,
        lost_training=lost_training,
        latent=_mean(new_z, [kl(row, q[x]) for row, x in zip(rows[1], first, strict=True)]),
        latent_js=_mean(new_z, [jsd(row, q[x]) for row, x in zip(rows[1], first, strict=True)]),
        fit=fit,
        gap=gap,
        paper=lost_training + lemma_3(gap, fit, min(WEIGHT, 1 - WEIGHT)),
        repaired=repaired_bound(lost, p, q[first]),
    )


def _lost(p: Array, encoder: Encoder) -> float:
    """I(x; y | z) of p(x, y)."""
    joint = np.zeros((*p.shape, max(encoder) + 1))  # [x, y, z]
    joint[np.arange(len(encoder)), :, list(encoder)] = p
    return conditional_information(joint)


def _mean(weights: Array, values: list[float]) -> float:
    """Σ w v without the terms of weight 0, whose value may be infinite."""
    return float(sum(w * v for w, v in zip(weights, values, strict=True) if w > 0))
