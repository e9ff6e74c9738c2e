"""Split conformal prediction: scores of every class, quantiles of held-out scores, and their weights under shift.

A set has every class whose score is at most a quantile of the scores that held-out nodes have for their true class.
Nothing here knows models or graphs beyond a neighbours' mean; :mod:`graphshift.estimators.sets` puts it together.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from graphshift.core.randomness import derive_seed
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse

Array = NDArray[np.float64]

_PENALTY, _FREE = 0.05, 2  # of RAPS: for each further class, and how many are free
_LEAST, _MOST = 0.05, 20.0  # that a density ratio may be: one node must not decide alone
_STRENGTH = 0.1  # inverse of the penalty of the classifier that tells source from target


def threshold_scores(p: Tensor, _: Tensor) -> Tensor:
    """1 − p_y (Sadinle, Lei and Wasserman, 2019): the smallest sets on average. Args: p: ``[n, classes]``."""
    return 1 - p


def aps_scores(p: Tensor, u: Tensor) -> Tensor:
    """APS (Romano, Sesia and Candès, 2020): the mass of likelier classes, and a random part u of the class's own.

    Args:
        p: class probabilities, ``[n, classes]``.
        u: uniform in (0, 1), ``[n]``; without it sets are too large.
    """
    ordered, order = p.sort(dim=1, descending=True, stable=True)
    before = ordered.cumsum(dim=1) - ordered
    return torch.empty_like(p).scatter_(1, order, before + u.unsqueeze(1) * ordered)


def raps_scores(p: Tensor, u: Tensor) -> Tensor:
    """RAPS (Angelopoulos et al., 2021): APS and a penalty of 0.05 for every class after the second likeliest."""
    rank = p.argsort(dim=1, descending=True, stable=True).argsort(dim=1) + 1
    return aps_scores(p, u) + _PENALTY * (rank - _FREE).clamp(min=0)


#: Scores by name. A class with a small score belongs to the set.
SCORES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "threshold": threshold_scores,
    "aps": aps_scores,
    "raps": raps_scores,
}


def uniforms(count: int, seed: int) -> Tensor:
    """The random part of APS: the same for the same graph, so that a node's set never changes between calls."""
    generator = torch.Generator().manual_seed(derive_seed(seed, 29))
    return torch.rand(count, generator=generator, dtype=torch.float64)


def neighbour_mean(graph: Graph, values: Tensor) -> Tensor:
    """The mean of the neighbours' rows, by edge weight; a node without neighbours keeps its own. ``[nodes, any]``."""
    graph = graph.to(torch.device("cpu"))
    weight = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    # Not graph.adjacency, which the graph would keep: the user's data must not grow by being looked at.
    total = (Sparse(graph.pattern, weight) @ values.float()).to(values.dtype)
    degree = graph.degree.to(values.dtype).unsqueeze(1)
    return torch.where(degree > 0, total / degree.clamp(min=torch.finfo(values.dtype).tiny), values)


def smoothed_scores(own: Tensor, near: Tensor, smooth: float) -> Tensor:
    """DAPS (Zargarbashi, Antonelli and Bojchevski, 2023): (1 − λ) s(v, y) + λ · mean over neighbours of s(u, y).

    Args:
        own: scores, any shape.
        near: the neighbours' mean of them.
        smooth: λ.
    """
    return (1 - smooth) * own + smooth * near


def alike_mean(hidden: Tensor, values: Tensor, pool: Tensor, pool_values: Tensor, nearest: int) -> Tensor:
    """The mean of ``pool_values`` of each node's nearest in ``pool`` by cosine (SNAPS, Song et al., 2024).

    Args:
        hidden: hidden states, ``[n, width]``.
        values: of these nodes, ``[n, any]``: what a node has for which the pool is empty.
        pool: hidden states of nodes to look among, ``[m, width]``; a node's equal is not left out.
        pool_values: ``[m, any]``.
        nearest: how many.
    """
    if not pool.shape[0]:
        return values
    pool = torch.nn.functional.normalize(pool.float(), dim=1)
    found = []
    for part in torch.nn.functional.normalize(hidden.float(), dim=1).split(256):
        places = (part @ pool.t()).topk(min(nearest, pool.shape[0]), dim=1).indices
        found.append(pool_values[places].mean(dim=1))
    return torch.cat(found) if found else values


def quantile(scores: Array, coverage: float, weights: Array | None = None, own: Array | float = 1.0) -> Array:
    """The smallest t with held-out weight at least ``coverage`` at or below it; the new node's own weight is at ∞.

    Without weights it is the ⌈(n + 1) · coverage⌉-th smallest score, so that the set of a node that is exchangeable
    with the n held-out ones has its class with probability at least ``coverage``. With w_i = dQ/dP it holds for a node
    of Q (Tibshirani et al., 2019).

    Args:
        scores: of the held-out nodes, ``[n]``.
        coverage: between 0 and 1.
        weights: of these, ``[n]``, not negative; None for ones.
        own: the weight of the new node, one or many; as many thresholds are returned.
    """
    order = np.argsort(scores, kind="stable")
    weights = np.ones(len(scores)) if weights is None else weights
    mass = np.concatenate([np.cumsum(weights[order]), [math.inf]])
    need = coverage * (weights.sum() + np.asarray(own, dtype=float))
    steps = np.concatenate([scores[order], [math.inf]])
    # A share that is met exactly counts as met, whatever rounding says.
    return np.asarray(steps[np.searchsorted(mass, need * (1 - 1e-12), side="left")])


def density_ratio(source: Array, target: Array, new: Array) -> tuple[Array, Array]:
    """dQ/dP at the rows of P and at new rows: the odds of a logistic regression (Bickel, Brückner and Scheffer, 2009).

    Ratios are held between 1/20 and 20: one held-out node must not decide alone. That makes them an approximation.

    Args:
        source: rows of P, ``[n, width]``.
        target: rows of Q, ``[m, width]``.
        new: rows to weigh too, ``[any, width]``.
    """
    random = np.random.default_rng(0)
    few = min(len(source), len(target))  # as many of both, so that the odds are the ratio
    parts = [part[random.permutation(len(part))[:few]] for part in (source, target)]
    x, y = np.concatenate(parts), np.repeat([0, 1], few)
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    scale = np.where(deviation > 1e-9, deviation, 1.0)
    model = LogisticRegression(C=_STRENGTH, max_iter=300).fit((x - mean) / scale, y)
    odds = [np.exp(model.decision_function((part - mean) / scale).clip(-20, 20)) for part in (source, new)]
    return np.clip(odds[0], _LEAST, _MOST), np.clip(odds[1], _LEAST, _MOST)


def effective_number(weights: Array) -> float:
    """(Σ w)² / Σ w² (Kish): as many unweighted nodes would say as much."""
    return float(weights.sum() ** 2 / max(float((weights**2).sum()), 1e-300))
