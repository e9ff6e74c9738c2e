"""Prediction sets and intervals with a stated coverage: split conformal prediction for a fitted model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.html import html_table
from graphshift.core.registry import expected_one_of
from graphshift.data.environment import Environment
from graphshift.estimators.conformal import SCORES, density_ratio, effective_number, quantile
from graphshift.estimators.explored import Explored
from graphshift.estimators.held_out import HeldOut, Signals, mixed, score_parts

#: Weights of held-out nodes, with what they assume.
WEIGHTS = {
    "none": "held-out nodes and these are exchangeable",
    "each-class": "class shares may have changed in any way, and nothing else has; nothing is estimated",
    "classes": "class shares have changed, and nothing else; they are estimated",
    "features": "what the model shows of nodes has changed, and not what labels follow from it",
    "copies": "among shifted copies of the validation graphs are nodes like these",
    "moved": "copies of the validation graphs that were moved to the graph are like it; of those that differ in what "
    "was moved the one with the largest sets is taken",
    "auto": "moved if copies were moved to the graph; else each-class if all classes have 30 held-out nodes, else "
    "classes, features, none; it is said which",
}

_FEWEST = 30.0  # held-out nodes that weights must leave, by effective number, or of a class


@dataclass(frozen=True)
class HowSets:
    """How sets are made.

    Args:
        coverage: the share of nodes whose set is to have their class.
        score: a name from :data:`~graphshift.estimators.conformal.SCORES`.
        smooth: λ, the part of a score that is its neighbours' mean (DAPS).
        alike: μ, the part that is the mean of ten nodes of the graph with the nearest hidden states (SNAPS).
        weights: a name from :data:`WEIGHTS`.
    """

    coverage: float = 0.9
    score: str = "aps"
    smooth: float = 0.0
    alike: float = 0.0
    weights: str = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.coverage, bool) or not isinstance(self.coverage, int | float) or not 0 < self.coverage < 1:
            raise GraphshiftError(f"coverage is {self.coverage!r}; expected a share between 0 and 1, as 0.9.")
        if self.score not in SCORES:
            raise GraphshiftError(f"score is {self.score!r}; {expected_one_of(str(self.score), list(SCORES))}")
        if self.weights not in WEIGHTS:
            raise GraphshiftError(f"weights is {self.weights!r}; {expected_one_of(str(self.weights), list(WEIGHTS))}")
        for name in ("smooth", "alike"):
            if not 0 <= getattr(self, name) <= 1:
                raise GraphshiftError(f"{name} is {getattr(self, name)!r}; expected a part between 0 and 1.")
        if self.weights in ("copies", "moved") and self.alike:
            raise GraphshiftError(
                f"alike is {self.alike}, and weights {self.weights!r} have no alike nodes; leave it out."
            )
        if self.smooth + self.alike > 1:
            raise GraphshiftError(f"smooth is {self.smooth} and alike {self.alike}; together they are at most 1.")


@dataclass(frozen=True, eq=False, repr=False)
class PredictionSets:
    """The sets of one graph's nodes.

    Attributes:
        coverage: what was asked for.
        members: which classes are in each node's set, bool ``[nodes, classes]``; None in regression.
        intervals: from and to, ``[nodes, 2]``, in the labels' own unit; None for classes.
        weights: which were used, by a name from :data:`WEIGHTS`.
        nodes: how many held-out nodes the sets stand on; with weights their effective number.
        remark: what was tried and refused, and why; empty if nothing was.
    """

    coverage: float
    members: NDArray[np.bool_] | None
    intervals: NDArray[np.float64] | None
    weights: str
    nodes: float
    remark: str = ""

    def __repr__(self) -> str:
        what = "classes" if self.members is not None else "wide"
        mean = f"{self.sizes.mean():.3g} {what} on average" if len(self.sizes) else "empty"
        return f"PredictionSets({len(self.sizes)} nodes, coverage {self.coverage:g}, {mean}, weights {self.weights!r})"

    def _repr_html_(self) -> str:
        """For Jupyter."""
        title, note = f"Sets with a coverage of {100 * self.coverage:g} %", f"Weights: {self.weights}. {self.remark}"
        if self.members is not None:
            sizes, counts = np.unique(self.sizes, return_counts=True)
            rows: list[list[Any]] = [[int(size), int(count)] for size, count in zip(sizes, counts, strict=True)]
            return html_table(title, ["classes in the set", "nodes"], rows, note=note.strip())
        rows = [[f"{100 * part:g} %", f"{np.quantile(self.sizes, part):.4g}"] for part in (0.1, 0.5, 0.9)]
        return html_table(title, ["of the intervals", "are at most so wide"], rows, note=note.strip())

    @property
    def sizes(self) -> NDArray[Any]:
        """How many classes each set has; in regression how wide each interval is."""
        if self.members is not None:
            return np.asarray(self.members.sum(axis=1))
        assert self.intervals is not None
        return np.asarray(self.intervals[:, 1] - self.intervals[:, 0])

    def covers(self, y: Any) -> NDArray[np.bool_]:
        """Whether each node's set has its label. Args: y: of all nodes, ``[nodes]``."""
        y = np.asarray(y)
        if self.members is not None:
            return np.asarray(self.members[np.arange(len(y)), y.clip(0, self.members.shape[1] - 1)])
        assert self.intervals is not None
        return np.asarray((self.intervals[:, 0] <= y) & (y <= self.intervals[:, 1]))


@dataclass(frozen=True)
class Weighting:
    """Weights of the held-out nodes, ``[n]``, and of a new node: for each class, for each node, or one."""

    name: str
    held: NDArray[np.float64]
    new: NDArray[np.float64]
    remark: str = ""

    def limits(self, scores: NDArray[np.float64], labels: NDArray[np.int64], coverage: float) -> NDArray[np.float64]:
        """Up to which score a class belongs to a set, for every class or every node: ``[1 or n, classes or 1]``.

        Args:
            scores: of the true classes of held-out nodes, ``[n]``.
            labels: theirs.
            coverage: as asked for.
        """
        if self.name == "each-class":  # Vovk, 2012: the held-out nodes of a class answer for it
            return np.stack([quantile(scores[labels == k], coverage) for k in range(len(self.new))])[None, :]
        found = quantile(scores, coverage, self.held, self.new)
        return found[None, :] if self.name == "classes" else found.reshape(-1, 1)


def sets_of(
    environment: Environment,
    signals: Signals,
    held: HeldOut,
    prior: Tensor,
    how: HowSets,
    names: Sequence[Any],
    explored: Explored | None = None,
) -> PredictionSets:
    """The sets of a graph's nodes.

    Args:
        environment: the graph.
        signals: what the model shows of all its nodes.
        held: what it showed of held-out nodes, and their labels.
        prior: shares of the classes in training.
        how: how.
        names: of the classes, for remarks.
        explored: what shifted copies said, for weights ``"copies"`` and ``"moved"``.
    """
    if how.weights == "copies" and explored is not None:
        return _sets_by_copies(environment, signals, explored, how)
    if explored is not None and (
        how.weights == "moved" or (explored.pools and how.weights == "auto" and not how.alike)
    ):
        return _sets_by_moved(environment, signals, explored, how)
    found = weighting(signals.at(environment.counted.cpu()), signals, held, prior, how.weights, names)
    if found.remark:
        warnings.warn(f"environment {environment.name!r}: {found.remark}", GraphshiftWarning, stacklevel=5)
    number = effective_number(found.held)
    told: dict[str, Any] = {"weights": found.name, "nodes": number, "remark": found.remark}
    if not prior.numel():
        limit = quantile(held.scores["residual"][0].numpy(), how.coverage, found.held, found.new)
        value, limit = signals.p[:, 0].numpy(), np.broadcast_to(limit, signals.p.shape[:1])
        return PredictionSets(how.coverage, None, np.stack([value - limit, value + limit], axis=1), **told)
    scores = mixed(score_parts(environment, signals, how.score, alike=how.alike > 0), how.smooth, how.alike).numpy()
    true = held.scores_of(how.score, how.smooth, how.alike).numpy()
    limits = found.limits(true, held.labels.numpy(), how.coverage)
    return PredictionSets(how.coverage, scores <= limits, None, **told)


def _sets_by_copies(environment: Environment, signals: Signals, explored: Explored, how: HowSets) -> PredictionSets:
    """With the nodes of copies for held-out ones, weighted to look like the graph."""
    outlook = explored.on(environment, signals)
    remark = f"{outlook.unlike}; the sets are for nodes like those of the copies." if outlook.unlike else ""
    if remark:
        warnings.warn(f"environment {environment.name!r}: {remark}", GraphshiftWarning, stacklevel=6)
    scores = mixed(score_parts(environment, signals, how.score, alike=False), how.smooth, 0.0).numpy()
    limits = quantile(explored.scores_of(how.score, how.smooth), how.coverage, outlook.weights, outlook.own)
    return PredictionSets(how.coverage, scores <= limits[:, None], None, "copies", outlook.number, remark)


def _sets_by_moved(environment: Environment, signals: Signals, explored: Explored, how: HowSets) -> PredictionSets:
    """Of copies that were moved to the graph, by what was moved, those by which the sets on it are the largest."""
    pools = explored.pools
    if not pools:
        raise GraphshiftError(
            "weights is 'moved', and no copies were moved to a graph: ask gs.Calibrator(model, validation), or "
            "`graphshift predict --move-copies`."
        )
    scores = mixed(score_parts(environment, signals, how.score, alike=False), how.smooth, 0.0).numpy()
    counted = environment.counted.cpu().numpy()
    true, labels = explored.scores_of(how.score, how.smooth), explored.labels.numpy()
    found = {}
    for name, pool in pools.items():
        limits = limits_by_class(true[pool.numpy()], labels[pool.numpy()], scores.shape[1], how.coverage)
        found[name] = scores <= limits
    name = max(found, key=lambda one: float(found[one][counted if len(counted) else ...].sum()))
    remark = f"largest with copies in which {name} moved"
    return PredictionSets(how.coverage, found[name], None, "moved", float(pools[name].numel()), remark)


def limits_by_class(
    scores: NDArray[np.float64], labels: NDArray[np.int64], classes: int, coverage: float
) -> NDArray[np.float64]:
    """Up to which score a class belongs to a set, ``[classes]``: of fewer than 30 nodes of it by those of all.

    Args:
        scores: of the true classes of labelled nodes, ``[n]``.
        labels: theirs.
        classes: how many.
        coverage: as asked for.
    """
    every = quantile(scores, coverage)
    own = [labels == k for k in range(classes)]
    return np.array([quantile(scores[one], coverage) if one.sum() >= _FEWEST else every for one in own])


def weighting(
    target: Signals, every: Signals, held: HeldOut, prior: Tensor, weights: str, names: Sequence[Any]
) -> Weighting:
    """The weights that were asked for, or the next that can be had, with a remark.

    Args:
        target: what the model shows of the nodes that count.
        every: of all nodes, in their order.
        held: held-out nodes.
        prior: shares of the classes in training.
        weights: a name from :data:`WEIGHTS`.
        names: of the classes.
    """
    remarks, n = [], len(held.labels)
    if weights in ("classes", "each-class") and not prior.numel():
        raise GraphshiftError(f"weights is {weights!r} and the model predicts values, which have no classes.")
    if weights in ("auto", "each-class") and prior.numel():
        counts = torch.bincount(held.labels, minlength=prior.numel())
        if int(counts.min()) >= _FEWEST or weights == "each-class":
            return Weighting("each-class", np.ones(n), np.ones(prior.numel()))
        fewest = f"class {names[int(counts.argmin())]} has {int(counts.min())} held-out nodes, fewer than {_FEWEST:.0f}"
        remarks.append(f"quantiles of each class were refused: {fewest}")
    if weights in ("auto", "classes") and prior.numel():
        ratios, unsafe = class_weights(target.log_p, held, prior, names)
        if unsafe is None:
            return Weighting("classes", ratios[held.labels].numpy(), ratios.numpy(), _joined(remarks))
        remarks.append(f"weights by class shares were refused: {unsafe}")
    if weights in ("auto", "features"):
        old, new = density_ratio(held.signals.features.numpy(), target.features.numpy(), every.features.numpy())
        number = effective_number(old)
        if number >= _FEWEST:
            return Weighting("features", old, new, _joined(remarks))
        left = f"they leave {number:.0f} held-out nodes of {n} by effective number, fewer than {_FEWEST:.0f}"
        remarks.append(f"weights by features were refused: {left}")
    remarks += ["the sets are for nodes like the held-out ones"] if remarks else []
    return Weighting("none", np.ones(n), np.ones(1), _joined(remarks))


def _joined(remarks: Sequence[str]) -> str:
    return "; ".join(remarks) + ("." if remarks else "")


def class_weights(
    log_p: Tensor, held: HeldOut, prior: Tensor, names: Sequence[Any] | None = None
) -> tuple[Tensor, str | None]:
    """π_target / π_held of every class (Podkopaev and Ramdas, 2021), and why they cannot be trusted; None if they can.

    The target's shares are estimated without labels, with the guards of
    :meth:`~graphshift.estimators.adaptation.Calibration.prior_on`.

    Args:
        log_p: logarithms of the class probabilities of target nodes, ``[m, classes]``.
        held: held-out nodes.
        prior: shares of the classes in training.
        names: of the classes.
    """
    found, unsafe = held.calibration(prior).prior_on(log_p, names)
    shares = torch.bincount(held.labels, minlength=prior.numel()).double() / held.labels.numel()
    return torch.where(shares > 0, found / shares.clamp(min=1e-12), 0.0), unsafe
