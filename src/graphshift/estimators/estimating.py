"""The score of a model on a graph without labels, estimated from held-out nodes and what the model shows of both.

Every estimate here is a function of :class:`~graphshift.estimators.held_out.HeldOut` (labelled nodes that the model was
not trained on) and :class:`~graphshift.estimators.held_out.Signals` (of the new graph). Each stands on an assumption
of its own; :data:`ESTIMATES` says which. Where they contradict each other, no number is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.html import html_table
from graphshift.data.expected import computed, confidence_estimates, raised, share_right, weighted_score
from graphshift.data.metrics import Metric
from graphshift.estimators.conformal import density_ratio, effective_number
from graphshift.estimators.held_out import HeldOut, Signals
from graphshift.estimators.sets import class_weights

Array = NDArray[np.float64]

#: The estimates by name, with what each takes for granted.
ESTIMATES = {
    "doc": "the score falls by as much as the score that the calibrated probabilities expect (Guillory et al., 2021)",
    "atc-confidence": "nodes above the confidence that reproduces the held-out accuracy are right (Garg et al., 2022)",
    "atc-entropy": "the same with negative entropy in place of confidence",
    "doc-prior": "doc, after the class shares were estimated on the graph and corrected for",
    "atc-confidence-prior": "atc-confidence, corrected for the class shares",
    "atc-entropy-prior": "atc-entropy, corrected for the class shares",
    "weighted": "nodes with the same hidden state and neighbourhood are as often right as held-out ones",
    "agreement": "the score falls by as much as the agreement with other models (`committee`)",
    "explored": "the score falls with the other estimates as it did on shifted copies of the validation graphs",
    "score-both": "the score is that on a labelled copy whose edges and features were moved to the graph's",
}

FEWEST = 50  # held-out nodes below which nothing is estimated
_EFFECTIVE = 30.0  # that weights must leave, by effective number
_FURTHEST = 0.2  # that estimates may be apart
_MOST = 5_000  # nodes of a graph that are looked at
_BOOT = 200  # resamples of held-out nodes, for the sampling error


@dataclass(frozen=True)
class Estimate:
    """What a model is expected to score on a graph without labels.

    Attributes:
        metric: its name.
        expected: the expected score; None where it is refused.
        low, high: where the score is expected in about 90 of 100 cases. With ``copies`` it comes from the errors on
            them; without, it spans the estimates and the sampling error of held-out nodes, and is a range, not a
            guarantee.
        held_out: the score on the held-out nodes.
        by: every estimate by its name in :data:`ESTIMATES`.
        refused: why no score is given; empty if one is.
        reach: how much of the held-out nodes is left when they are weighted to look like the graph, from 0 to 1 (their
            effective number). Near 0 the graph is unlike them.
        copies: shifted copies of validation graphs that the estimate was learned from; 0 for none.
        untold: by how much class shares seem to have moved where that cannot be told; 0 if it can.
        remarks: what could not be computed, and why.
    """

    metric: str
    expected: float | None
    low: float
    high: float
    held_out: float
    by: dict[str, float] = field(default_factory=dict)
    refused: str = ""
    reach: float = 1.0
    copies: int = 0
    untold: float = 0.0
    remarks: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """For Jupyter."""
        names = {"expected": self.expected, "low": self.low, "high": self.high, "on held-out nodes": self.held_out}
        rows = [[name, "refused" if value is None else value] for name, value in names.items()]
        return html_table(f"Expected {self.metric} without labels", ["", ""], rows, note=self.refused)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Estimates:
    """Estimates by name, how far the held-out nodes reach (:class:`Estimate`), and what could not be computed."""

    by: dict[str, float]
    reach: float
    remarks: tuple[str, ...] = ()


def estimates_of(held: HeldOut, target: Signals, prior: Tensor, metric: Metric) -> Estimates:
    """Every estimate that can be had but ``explored``. Of more than 5,000 nodes 5,000 are looked at.

    Args:
        held: held-out nodes.
        target: what the model shows of the new graph's nodes that count.
        prior: shares of the classes in training.
        metric: of a classification task.
    """
    target = some_of(target)
    found, remarks = forms_of(held, target, prior, metric)
    p, y = held.signals.p.numpy(), held.labels.numpy()
    weights, _ = density_ratio(held.signals.features.numpy(), target.features.numpy(), target.features.numpy()[:1])
    if (number := effective_number(weights)) >= _EFFECTIVE:
        found["weighted"] = weighted_score(p, y, weights, metric)
    else:
        remarks.append(f"no weights: they leave {number:.0f} held-out nodes by effective number")
    return Estimates(within(found, metric), number / len(y), tuple(remarks))


def some_of(target: Signals) -> Signals:
    """At most 5,000 nodes, drawn at random."""
    few = torch.randperm(target.p.shape[0], generator=torch.Generator().manual_seed(0))[:_MOST]
    return target.at(few) if target.p.shape[0] > _MOST else target


def within(found: Mapping[str, float], metric: Metric) -> dict[str, float]:
    """Those that are finite, inside the bounds of the metric."""
    low, high = metric.bounds or (-np.inf, np.inf)
    return {name: float(np.clip(value, low, high)) for name, value in found.items() if np.isfinite(value)}


def forms_of(held: HeldOut, target: Signals, prior: Tensor, metric: Metric) -> tuple[dict[str, float], list[str]]:
    """DoC and ATC, also corrected for class shares if these can be told; and why they cannot.

    Args:
        held, target, prior, metric: as in :func:`estimates_of`.
    """
    p, y, new = held.signals.p.numpy(), held.labels.numpy(), target.p.numpy()
    found = confidence_estimates(p, y, np.ones(len(y)), p, new, new, metric, "")
    ratios, unsafe = class_weights(target.log_p, held, prior)
    if unsafe is not None:
        return found, [f"no correction for class shares: {unsafe}"]
    by, believed = ratios.numpy(), [raised(one, ratios.numpy()) for one in (p, new)]
    return found | confidence_estimates(p, y, by[y], believed[0], new, believed[1], metric, "-prior"), []


def untold_shares(held: HeldOut, target: Signals, prior: Tensor) -> float:
    """By how much class shares seem to have moved where that cannot be told; 0 if it can. Args: as estimates_of."""
    shares = torch.bincount(held.labels, minlength=prior.numel()).double() / held.labels.numel()
    return held.calibration(prior).moved(target.log_p, shares)


def sampling_error(held: HeldOut, metric: Metric) -> float:
    """The standard error of the held-out score, by resampling nodes. Nodes of one graph depend on each other, so the
    true error is larger."""
    p, y, random = held.signals.p.numpy(), held.labels.numpy(), np.random.default_rng(0)
    if share_right(metric):
        share = float((p.argmax(axis=1) == y).mean())
        return float(np.sqrt(share * (1 - share) / len(y)))
    draws = [np.bincount(random.integers(len(y), size=len(y)), minlength=len(y)).astype(float) for _ in range(_BOOT)]
    if metric.name == "roc_auc":
        return float(np.nanstd([weighted_score(p, y, times, metric) for times in draws]))
    every = [np.repeat(np.arange(len(y)), times.astype(int)) for times in draws]
    return float(np.nanstd([computed(metric, y[rows], p[rows]) for rows in every]))


def too_few(held: HeldOut) -> str:
    """Why nothing can be estimated from so few held-out nodes; empty if something can."""
    n = len(held.labels)
    return f"{n} held-out nodes are too few, fewer than {FEWEST}" if n < FEWEST else ""


def disagreement(by: Mapping[str, float], metric: Metric) -> str:
    """Why estimates that contradict each other are refused; empty if they do not."""
    low, high = min(by, key=by.__getitem__), max(by, key=by.__getitem__)
    if by[high] - by[low] <= _FURTHEST:
        return ""
    return (
        f"the estimates contradict each other: {low} says {metric.show(by[low])}, {high} says {metric.show(by[high])} "
        f"(at most {_FURTHEST * metric.scale:g} {metric.unit} apart are accepted)"
    )


def combined(held: HeldOut, target: Signals, prior: Tensor, metric: Metric) -> Estimate:
    """The median of all estimates, or a refusal.

    Args:
        held, target, prior, metric: as in :func:`estimates_of`.
    """
    own = weighted_score(held.signals.p.numpy(), held.labels.numpy(), np.ones(len(held.labels)), metric)
    found = estimates_of(held, target, prior, metric)
    by = found.by
    more: dict[str, Any] = {"reach": found.reach, "remarks": found.remarks}
    if not by:
        return Estimate(metric.name, None, np.nan, np.nan, own, refused="no estimate can be computed", **more)
    error = 1.645 * sampling_error(held, metric)
    low, high = metric.bounds or (-np.inf, np.inf)
    ends = max(low, min(by.values()) - error), min(high, max(by.values()) + error)
    why = too_few(held) or disagreement(by, metric)
    return Estimate(metric.name, None if why else median(by.values()), *ends, own, by, why, **more)


def check_metric(metric: Metric, classification: bool) -> None:
    """Refuses what cannot be estimated."""
    if not classification:
        raise GraphshiftError(
            f"the model predicts values, and its metric is {metric.label}: without labels a score can be estimated "
            "only for classes."
        )


def at_counted(signals: Signals, counted: Tensor) -> Signals:
    """Of the nodes that count; of all where none has a mark."""
    return signals.at(counted) if counted.numel() else signals.at(torch.arange(signals.p.shape[0]))
