"""Explore to estimate: how a model's score falls with what can be seen without labels, learned on shifted copies.

Many labelled, shifted copies are made of validation graphs: edges flipped, edges moved from a node of the same class to
one of another, columns masked or noised, parts of the graph, other class shares. On each copy the true score is
known, and so is what every estimate of :mod:`graphshift.estimators.estimating` would have said. Estimates that were
right on copies like the target count most, and their errors there are the interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.data.environment import Environment
from graphshift.data.expected import weighted_score
from graphshift.data.metrics import METRICS, Metric
from graphshift.estimators.copies import shifted_copies
from graphshift.estimators.estimating import (
    Estimate,
    at_counted,
    check_metric,
    combined,
    disagreement,
    estimates_of,
    too_few,
)
from graphshift.estimators.held_out import HeldOut
from graphshift.estimators.predictor import Graphs, Predictor
from graphshift.estimators.trust import fitting

Array = NDArray[np.float64]

_LEAST = 0.03  # the smallest error that an estimate is thought to have
_NEAR = 0.05  # how near copies are that count fully
_MARGIN = 0.05  # by how much the target may lie outside of the copies
_RIDGE = 0.1
_COVERED = 0.9


@dataclass(frozen=True)
class Copy:
    """A shifted copy of a validation graph: its kind, the estimates there, and the true score."""

    kind: str
    by: dict[str, float]
    truth: float
    reach: float = 1.0


def estimate_score(
    model: Predictor, graphs: Graphs, validation: Graphs, *, adapt: str | None = None, seed: int = 0
) -> Estimate | dict[str, Estimate]:
    """The expected score on a graph without labels, learned on shifted copies of validation graphs.

    Several graphs give a dict; the copies are made once for all of them.

    Args:
        model: fitted with validation graphs.
        graphs: labels are not looked at. For a graph in a partition folder parts stand that fit into memory.
        validation: labelled graphs that the model was not trained on; likewise.
        adapt: ``"norm"`` or None.
        seed: of the copies.

    >>> import graphshift as gs
    >>> data = gs.load("planted-structure", nodes=300)
    >>> model = gs.ERM(epochs=20).fit(data)
    >>> found = gs.estimate_score(model, data.tests[0], data.val)
    >>> found.copies > 10 and found.low <= found.high
    True
    """
    metric = METRICS.find(model.task_.metric)
    check_metric(metric, model.task_.is_classification)
    shown = model.signals(fitting(graphs, model.task_), adapt=adapt)
    held, copies, found = model.held_out_[adapt or ""], None, {}
    for graph, signals in shown.items():
        plain = combined(held, at_counted(signals, graph.counted.cpu()), model.prior_, metric)
        if plain.by and not too_few(held):
            if copies is None:
                copies = list(
                    _copies(model, fitting(validation, model.task_, labelled=True), held, metric, adapt, seed)
                )
            plain = learned(plain, copies, metric)
        found[graph.name] = plain
    return next(iter(found.values())) if isinstance(graphs, Environment | Data) else found


def learned(plain: Estimate, copies: Sequence[Copy], metric: Metric) -> Estimate:
    """Combines the estimates by how right each was on the copies, weighted by how alike copies and target are.

    Args:
        plain: the estimates on the target.
        copies: with true scores.
        metric: of both.
    """
    names = [name for name in plain.by if sum(name in one.by for one in copies) >= 0.8 * len(copies)]
    copies = [one for one in copies if all(name in one.by for name in names)]
    if len(copies) < 10 or not names:
        return plain
    x = np.array([[one.by[name] for name in names] for one in copies])
    y, kinds = np.array([one.truth for one in copies]), np.array([one.kind for one in copies])
    new = np.array([plain.by[name] for name in names])
    # Of every copy: what would have been said if no copy of its kind had been seen.
    fitted = np.empty(len(y))
    for kind in np.unique(kinds):
        fitted[kinds == kind] = _ridge(x[kinds != kind], y[kinds != kind], x[kinds == kind])
    x, new = np.column_stack([x, fitted]), np.append(new, _ridge(x, y, new[None, :])[0])
    near = 1 / (_NEAR + np.abs(x[:, :-1] - new[:-1]).mean(axis=1))
    error = np.sqrt((near[:, None] * (x - y[:, None]) ** 2).sum(axis=0) / near.sum())
    weights = 1 / (error + _LEAST) ** 2
    weights /= weights.sum()
    said, expected = x @ weights, float(np.clip(new @ weights, *(metric.bounds or (-np.inf, np.inf))))
    width = _weighted_quantile(np.abs(said - y), near, _COVERED)
    by = plain.by | {"explored": float(np.clip(new[-1], *(metric.bounds or (-np.inf, np.inf))))}
    why = _unlike(plain.reach, min(one.reach for one in copies)) or _outside(x, new, metric)
    why = why or disagreement({name: by[name] for name in (*names, "explored")}, metric)
    low, high = metric.bounds or (-np.inf, np.inf)
    ends = max(low, expected - width), min(high, expected + width)
    shown = None if why else expected
    return Estimate(metric.name, shown, *ends, plain.held_out, by, why, plain.reach, len(copies), plain.remarks)


def _ridge(x: Array, y: Array, new: Array) -> Array:
    """Ridge regression of the true score's distance to the mean estimate on the estimates."""
    centre, base, spread = x.mean(axis=0), x.mean(axis=1), x - x.mean(axis=0)
    weight = np.linalg.solve(spread.T @ spread + _RIDGE * np.eye(x.shape[1]), spread.T @ (y - base - (y - base).mean()))
    return np.asarray(new.mean(axis=1) + (y - base).mean() + (new - centre) @ weight)


def _outside(x: Array, new: Array, metric: Metric) -> str:
    """Why a target that is unlike all copies is refused."""
    middle, least = float(np.median(new[:-1])), float(np.median(x[:, :-1], axis=1).min())
    if middle >= least - _MARGIN:
        return ""
    return (
        f"the graph lies outside of what was explored: the estimates say {metric.show(middle)}, on the worst copy of "
        f"the validation graphs they said {metric.show(least)}"
    )


def _unlike(reach: float, least: float) -> str:
    """Why a graph is refused whose nodes are less like the held-out ones than those of every copy."""
    if reach >= least:
        return ""
    return (
        f"the graph's nodes are unlike the held-out ones: weights that make these look like them leave {reach:.0%} by "
        f"effective number, and {least:.0%} on the least alike copy of the validation graphs"
    )


def _weighted_quantile(values: Array, weights: Array, share: float) -> float:
    order = np.argsort(values)
    mass = np.cumsum(weights[order]) / weights.sum()
    return float(values[order[min(int(np.searchsorted(mass, share)), len(values) - 1)]])


def _copies(
    model: Predictor, environments: Sequence[Environment], held: HeldOut, metric: Metric, adapt: str | None, seed: int
) -> Iterator[Copy]:
    for i, environment in enumerate(environments):
        random = np.random.default_rng(derive_seed(seed, 31 + i))
        for kind, copy, rows in shifted_copies(environment, random):
            try:
                (signals,) = model.signals([copy], adapt=adapt).values()
            except GraphshiftError:  # a backbone that cannot take such a graph
                continue
            own = copy.single.cpu() if rows is None else rows
            if own.numel() < 20:
                continue
            assert copy.y is not None
            shown = signals.at(own)
            truth = weighted_score(shown.p.numpy(), copy.y.cpu()[own].numpy(), np.ones(own.numel()), metric)
            found = estimates_of(held, shown, model.prior_, metric)
            if np.isfinite(truth) and found.by:
                yield Copy(kind, found.by, truth, found.reach)
