"""Answer, or say "I don't know": which nodes a model may be asked about, so that few answers are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.html import html_table
from graphshift.data.environment import Environment
from graphshift.estimators.doubt import SIGNS
from graphshift.estimators.explored import Explored, Outlook
from graphshift.estimators.held_out import Signals

Array = NDArray[np.float64]

#: What stands in tables for no answer.
UNKNOWN = "I don't know"

#: Why a node is not answered, with what each means. The first that holds is told.
REASONS = {
    "the estimate refuses": "no error can be estimated on this graph, so no node is answered",
    "unlike training": "its energy or its distance to held-out nodes is above that of 95 of 100 held-out nodes",
    "neighbours disagree": "another class is likelier on average among its neighbours",
    "low confidence": "none of these",
}


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """Which nodes of a graph are answered.

    Attributes:
        error: the share of wrong answers that is allowed.
        answered: bool ``[nodes]``.
        predictions: classes by number, ``[nodes]``, of all nodes.
        probabilities: of the classes, calibrated to the graph, ``[nodes, classes]``.
        right: the probability that each prediction is right, ``[nodes]``.
        reasons: of :data:`REASONS`, ``[nodes]``; empty where a node is answered.
        energy, distance: how unlike training each node is, ``[nodes]``.
        expected_error: the share of wrong answers to expect; None without an answer.
        share: of the nodes that count, how many are answered.
        refused: why no node is; empty if some may be.
        moved: whether copies that were moved to the graph said it too, which is safer.
    """

    error: float
    answered: NDArray[np.bool_]
    predictions: NDArray[np.int64]
    probabilities: Array
    right: Array
    reasons: NDArray[np.object_]
    energy: Array
    distance: Array
    expected_error: float | None
    share: float
    refused: str = ""
    moved: bool = False

    def __repr__(self) -> str:
        return f"Answers({int(self.answered.sum())} of {len(self.answered)} nodes, error at most {self.error:g})"

    def _repr_html_(self) -> str:
        """For Jupyter."""
        reasons, counts = np.unique(self.reasons.astype(str), return_counts=True)
        rows = [[str(reason) or "answered", int(count)] for reason, count in zip(reasons, counts, strict=True)]
        expected = "none" if self.expected_error is None else f"{100 * self.expected_error:.1f} %"
        note = f"Expected share of wrong answers: {expected}; allowed: {100 * self.error:g} %. {self.refused}".strip()
        note += "" if self.moved else " No copies were moved to the graph; gs.Calibrator does so, which is safer."
        return html_table(
            f"Answers for {100 * self.share:.0f} % of the nodes that count", ["", "nodes"], rows, note=note
        )


def limit_of(right: Array, error: float) -> float:
    """The lowest limit so that of nodes at or above it a share ``error`` is expected to be wrong at most; ∞ if none is.

    >>> limit_of(np.array([0.99, 0.6, 0.93, 0.9]), 0.06)
    0.9

    Args:
        right: the probability of each prediction to be right, ``[n]``.
        error: between 0 and 1.
    """
    falling = -np.sort(-right)
    wrong = np.cumsum(1 - falling) / np.arange(1, len(falling) + 1)  # it never falls, as the least sure come last
    last = np.append(falling[1:] < falling[:-1], True)  # of a run of ties: all of them or none
    able = falling[last & (wrong <= error + 1e-12)]
    return float(able[-1]) if able.size else np.inf


def safe_limit(pools: Sequence[tuple[Array, NDArray[np.bool_], Array]], error: float, least: float) -> float:
    """The lowest limit so that in every pool of labelled nodes a share ``error`` at or above it is wrong at most.

    It is ∞ if there is none. Where a pool has no node, nothing is known of its error, so that is not safe either.

    >>> pool = np.array([0.9, 0.8, 0.7]), np.array([True, True, False]), np.ones(3)
    >>> safe_limit([pool], 0.1, least=0.5)
    0.8

    Args:
        pools: of each the confidence of predictions, whether they are right, and by what nodes count; ``[n]`` all.
        error: between 0 and 1.
        least: the limit is this at least.
    """
    tried = np.unique(np.concatenate([[least], *(confidence[confidence > least] for confidence, *_ in pools)]))
    safe = np.ones(len(tried), dtype=bool)
    for confidence, right, weights in pools:
        order = np.argsort(confidence, kind="stable")
        # Of the nodes at and above each place: their weight, and that of those that are wrong.
        mass, wrong = (np.append(np.cumsum(w[order][::-1])[::-1], 0.0) for w in (weights, weights * ~right))
        from_here = np.searchsorted(confidence[order], tried, side="left")
        safe &= (wrong[from_here] <= error * mass[from_here] + 1e-12) & (mass[from_here] > 0)
    return float(tried[safe][0]) if safe.any() else np.inf


def risk_coverage(confidence: Array, right: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The shares of nodes that are answered, the surest first, and the share of them that is wrong: both ``[n]``.

    Args:
        confidence: of each prediction, ``[n]``; of ties the first comes first.
        right: whether it is right, ``[n]``.
    """
    wrong = ~np.asarray(right, dtype=bool)[np.argsort(-confidence, kind="stable")]
    number = np.arange(1, len(wrong) + 1)
    return number / len(wrong), np.cumsum(wrong) / number


def aurc(confidence: Array, right: NDArray[np.bool_]) -> float:
    """The area under the risk–coverage curve (Geifman et al., 2019): small if wrong predictions are the least sure.

    Ties count as their mean over all orders.

    >>> aurc(np.array([0.9, 0.8, 0.7]), np.array([True, True, False])) == (0 + 0 + 1 / 3) / 3
    True
    """
    wrong = 1.0 - np.asarray(right, dtype=float)
    _, places, counts = np.unique(-confidence, return_inverse=True, return_counts=True)
    shared = np.bincount(places, weights=wrong) / counts
    number = np.arange(1, len(wrong) + 1)
    return float((np.cumsum(np.repeat(shared, counts)) / number).mean())


def answers_of(
    environment: Environment, signals: Signals, explored: Explored, outlook: Outlook, error: float, refused: str = ""
) -> Answers:
    """Which nodes of a graph are answered.

    Args:
        environment: the graph; the expected error is that of the nodes that count.
        signals: what the model shows of all its nodes.
        explored: what was learned from copies.
        outlook: what the copies say of the graph.
        error: the share of wrong answers that is allowed.
        refused: why nothing can be said of the graph; empty if something can.
    """
    refused = refused or outlook.unlike
    sure, predicted = outlook.p.max(dim=1)
    right, names = sure.numpy(), [*SIGNS]
    counted = environment.counted.cpu().numpy()
    counted = counted if len(counted) else np.arange(len(right))
    limit = np.inf if refused else limit_of(right[counted], error)
    if explored.pools and np.isfinite(limit):  # labelled nodes that are like the graph's in what was moved
        limit = safe_limit([_seen(explored, pool, outlook) for pool in explored.pools.values()], error, limit)
    found = right >= limit
    energy, distance = (outlook.signs[:, names.index(name)] for name in ("energy", "distance"))
    unlike = (energy > explored.usual[0]) | (distance > explored.usual[1])
    disagree = signals.near.argmax(dim=1) != predicted
    reasons = np.select(
        [found, np.full(len(found), bool(refused)), unlike.numpy(), disagree.numpy()],
        ["", *[*REASONS][:3]],
        [*REASONS][3],
    ).astype(object)
    own = found[counted]
    expected = float((1 - right[counted][own]).mean()) if own.any() else None
    shown = (predicted.numpy(), outlook.p.numpy(), right, reasons, energy.numpy(), distance.numpy())
    return Answers(error, found, *shown, expected, float(own.mean()), refused, bool(explored.pools))


def _seen(explored: Explored, pool: Tensor, outlook: Outlook) -> tuple[Array, NDArray[np.bool_], Array]:
    p, labels, weights = explored.seen_in(pool, outlook)
    sure, said = p.max(dim=1)
    return sure.numpy(), (said == labels).numpy(), weights.numpy()


def check_error(error: float) -> None:
    """Refuses what is no share."""
    if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < 1:
        raise GraphshiftError(f"error is {error!r}; expected a share between 0 and 1, as 0.05.")
