"""The score of predictions whose labels nobody knows, from their confidence and that of labelled predictions.

Difference of confidences (DoC, Guillory et al., 2021) and average thresholded confidence (ATC, Garg et al., 2022), as
functions of arrays: training looks at them after every epoch, estimators when a model is done.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.data.metrics import Metric

Array = NDArray[np.float64]

_DRAWS = 20  # of labels, or of nodes, where a metric has no closed form
_PLAIN = ("accuracy", "micro_f1")  # metrics that are the share of right nodes, where a node has one label


def share_right(metric: Metric) -> bool:
    """Whether the metric is the share of right nodes, where each has one label."""
    return metric.name in _PLAIN


def confidence_estimates(
    p: Array, y: NDArray[np.int64], weights: Array, q: Array, new: Array, new_q: Array, metric: Metric, suffix: str
) -> dict[str, float]:
    """DoC and ATC. Predictions are made by p and new; q and new_q are what is believed of their labels."""
    score = weighted_score(p, y, weights, metric)
    if not share_right(metric):
        # DoC of any metric: its expectation where labels are drawn from the believed probabilities.
        fall = expected_score(p, q, metric, weights) - expected_score(new, new_q, metric)
        return {f"doc{suffix}": score - fall}
    old_sure, new_sure = (b[np.arange(len(a)), a.argmax(axis=1)] for a, b in ((p, q), (new, new_q)))
    found = {f"doc{suffix}": score - float(np.average(old_sure, weights=weights) - new_sure.mean())}
    found[f"atc-confidence{suffix}"] = thresholded(old_sure, new_sure, score, weights)
    found[f"atc-entropy{suffix}"] = thresholded(_negative_entropy(q), _negative_entropy(new_q), score, weights)
    return found


def thresholded(held: Array, new: Array, score: float, weights: Array | None = None) -> float:
    """ATC: the share of new values above the threshold that a share ``score`` of the held-out ones lies above.

    Args:
        held: of held-out nodes, ``[n]``.
        new: of new nodes, ``[m]``.
        score: the held-out accuracy.
        weights: of held-out nodes; None for ones.
    """
    weights = np.ones(len(held)) if weights is None else weights
    order = np.argsort(-held, kind="stable")
    above = np.cumsum(weights[order]) / weights.sum()
    last = int(np.searchsorted(above, score - 1e-12))  # how many values are needed for the share
    if score <= 0:
        return 0.0
    return float((new >= held[order[min(last, len(held) - 1)]]).mean())


def weighted_score(p: Array, y: NDArray[np.int64], weights: Array, metric: Metric) -> float:
    """The score of held-out nodes with weights: exact for shares of right nodes, else the mean over weighted draws."""
    if share_right(metric):
        return float(np.average(p.argmax(axis=1) == y, weights=weights))
    if metric.name == "roc_auc":
        return area(p[:, 1], weights * (y == 1), weights * (y == 0))
    if np.ptp(weights) == 0:
        return computed(metric, y, p)
    random = np.random.default_rng(0)
    drawn = [random.choice(len(y), len(y), p=weights / weights.sum()) for _ in range(_DRAWS)]
    return _mean([computed(metric, y[rows], p[rows]) for rows in drawn])


def expected_score(p: Array, q: Array, metric: Metric, weights: Array | None = None) -> float:
    """The mean score of predictions p where labels are drawn from q; nodes are drawn by weight.

    Of ROC-AUC it is that of nodes which are of both classes, each by its probability: no draw is needed.
    """
    if metric.name == "roc_auc":
        both = q if weights is None else q * weights[:, None]
        return area(p[:, 1], both[:, 1], both[:, 0])
    random, found = np.random.default_rng(0), []
    for _ in range(_DRAWS):
        rows = np.arange(len(p))
        if weights is not None and np.ptp(weights):
            rows = random.choice(len(p), len(p), p=weights / weights.sum())
        y = (random.random((len(rows), 1)) > q[rows].cumsum(axis=1)).sum(axis=1).clip(max=q.shape[1] - 1)
        found.append(computed(metric, y, p[rows]))
    return _mean(found)


def area(values: Array, positive: Array, negative: Array) -> float:
    """ROC-AUC with weights: P(a positive node has the larger value), ties count half; NaN without one of the classes.

    Args:
        values: by which nodes are ordered, ``[n]``.
        positive, negative: how much each node counts as one and as the other, ``[n]``.
    """
    _, place = np.unique(values, return_inverse=True)
    above, below = (np.bincount(place, weights=one) for one in (positive, negative))
    pairs = float(above.sum() * below.sum())
    return float((above * (below.cumsum() - below / 2)).sum() / pairs) if pairs > 0 else np.nan


def _mean(values: Sequence[float]) -> float:
    """Of the finite ones; NaN without any."""
    finite = [value for value in values if np.isfinite(value)]
    return float(np.mean(finite)) if finite else np.nan


def computed(metric: Metric, y: NDArray[np.int64], p: Array) -> float:
    """The score, or NaN where the metric is not defined, as on a draw of one class."""
    try:
        return float(metric.compute(y, p))
    except (ValueError, GraphshiftError):
        return np.nan


def raised(p: Array, ratios: Array) -> Array:
    """Probabilities under other class shares; a node of which nothing is left keeps its own."""
    raised = p * ratios
    total = raised.sum(axis=1, keepdims=True)
    return np.where(total > 0, raised / np.where(total > 0, total, 1.0), p)


def _negative_entropy(p: Array) -> Array:
    return np.asarray((p * np.log(np.clip(p, 1e-300, None))).sum(axis=1))
