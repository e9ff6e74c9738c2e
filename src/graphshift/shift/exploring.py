"""Explore to estimate: shifted copies of a labelled graph, in all directions, and what is learned from them.

On each copy the true score is known, and so is what every estimate would have said. A small regression learns how one
follows from the other; copies that look like the target count most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.data.environment import Environment
from graphshift.data.expected import weighted_score
from graphshift.data.metrics import Metric
from graphshift.estimators.copies import Strengths, shifted_copies
from graphshift.estimators.estimating import forms_of, within
from graphshift.estimators.held_out import HeldOut
from graphshift.estimators.predictor import Predictor
from graphshift.graph.graph import Graph
from graphshift.shift.moving import rewired
from graphshift.shift.reference import Reference

Array = NDArray[np.float64]

#: Of the copies: few, for each is predicted by every model; `relabelled` is the share that no longer knows classes.
_STRENGTHS = Strengths(edits=(1, 3), relabelled=(0.3, 0.7), masked=(0.1, 0.3), noises=(0.5, 1.0), classes=6)
_GUIDED = (0.1, 0.5)  # flips that raise the model's risk most, as a share of the edges
_FEWEST = 20  # nodes of a copy
_LEAST = 10  # copies that something is learned from
_RIDGE, _NEAR = 0.1, 0.05


@dataclass(frozen=True)
class Copy:
    """A shifted copy: its kind, the estimates there, and the true score."""

    kind: str
    by: dict[str, float]
    truth: float


def explored(copies: Sequence[Copy], by: Mapping[str, float]) -> float:
    """The score of a graph on which the estimates are ``by``, as it follows from them on copies; NaN with too few.

    A ridge regression of the distance between the true score and the mean estimate. Copies count by how near their
    estimates are.
    """
    names = [name for name in by if sum(name in one.by for one in copies) >= 0.8 * len(copies)]
    copies = [one for one in copies if all(name in one.by for name in names)]
    if len(copies) < _LEAST or not names:
        return float("nan")
    x = np.array([[one.by[name] for name in names] for one in copies])
    y, new = np.array([one.truth for one in copies]), np.array([by[name] for name in names])
    weight = 1 / (_NEAR + np.abs(x - new).mean(axis=1))
    weight /= weight.mean()
    left = y - x.mean(axis=1)
    centre, middle = np.average(x, axis=0, weights=weight), float(np.average(left, weights=weight))
    spread = (x - centre) * weight[:, None]
    slope = np.linalg.solve(spread.T @ (x - centre) + _RIDGE * np.eye(len(names)), spread.T @ (left - middle))
    return float(new.mean() + middle + (new - centre) @ slope)


def scored_copies(
    model: Predictor,
    environment: Environment,
    reference: Reference,
    held: HeldOut,
    metric: Metric,
    *,
    adapt: str | None,
    seed: int,
) -> list[Copy]:
    """The copies of a labelled graph, with estimates and true scores.

    Args:
        model: fitted.
        environment: with labels that the model was not trained on.
        reference: of it.
        held: the model's held-out nodes.
        metric: of the task.
        adapt: as in ``predict``.
        seed: of the copies.
    """
    found = []
    for kind, copy, rows in _shifted(model, environment, reference, seed):
        if rows.numel() < _FEWEST:
            continue
        try:
            (signals,) = model.signals([copy], adapt=adapt).values()
        except GraphshiftError:  # a backbone that cannot take such a graph
            continue
        shown = signals.at(rows)
        assert environment.y is not None
        truth = weighted_score(shown.p.numpy(), environment.y.cpu()[rows].numpy(), np.ones(rows.numel()), metric)
        by = within(forms_of(held, shown, model.prior_, metric)[0], metric)
        if np.isfinite(truth) and by:
            found.append(Copy(kind, by, truth))
    return found


def _shifted(
    model: Predictor, environment: Environment, reference: Reference, seed: int
) -> Iterator[tuple[str, Environment, Tensor]]:
    """Copies by kind, each with the nodes that count there."""
    margin = reference.pairs.sum(axis=1)

    def mixed(environment: Environment, share: float, random: np.random.Generator) -> Graph:
        wanted = (1 - share) * reference.pairs + share * np.outer(margin, margin)
        return rewired(environment.graph, reference.classes, wanted, random)

    def guided() -> Iterator[Environment]:
        for share in _GUIDED:
            try:
                edited = model.edited(environment, share)
            except GraphshiftError:  # a backbone without a gradient in the edges
                continue
            if edited is not None and edited is not environment:
                yield edited

    random = np.random.default_rng(derive_seed(seed, 31))
    return shifted_copies(environment, random, _STRENGTHS, relabel=mixed, guided=guided)
