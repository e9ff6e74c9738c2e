"""Explore to estimate: shifted copies of a labelled graph, in all directions, and what is learned from them.

On each copy the true score is known, and so is what every estimate would have said. A small regression learns how one
follows from the other; copies that look like the target count most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.data.environment import Environment
from graphshift.data.expected import weighted_score
from graphshift.data.metrics import Metric
from graphshift.estimators.estimating import forms_of, within
from graphshift.estimators.held_out import HeldOut
from graphshift.estimators.predictor import Predictor
from graphshift.explorers.random import Random
from graphshift.graph.sparse import Sparse
from graphshift.shift.moving import rewired
from graphshift.shift.reference import Reference

Array = NDArray[np.float64]

_EDITS = (1, 3)  # flips for each node
_GUIDED = (0.1, 0.5)  # flips that raise the model's risk most, as a share of the edges
_MIXED = (0.3, 0.7)  # shares of edges that no longer depend on the classes
_MASKED = (0.1, 0.3)  # shares of the columns
_NOISES = (0.5, 1.0)  # in deviations of a column
_PARTS = 4
_SHARES, _CLASSES = (0.3, 3.0), 6  # how much rarer or commoner a class becomes, and how many classes are tried
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
    random, graph = np.random.default_rng(derive_seed(seed, 31)), environment.graph
    every = torch.from_numpy(reference.rows)
    yield "none", environment, every
    if environment.num_nodes > 2 and graph.num_edges:
        for edits in _EDITS:
            view = Random(edits, seed=int(random.integers(2**31))).propose(graph)
            yield "edges", environment.replace(graph=view.graph), every
        for share in _GUIDED:
            edited = _guided(model, environment, share)
            if edited is not None and edited is not environment:
                yield "gradient", edited, every
        margin = reference.pairs.sum(axis=1)
        for share in _MIXED:
            mixed = (1 - share) * reference.pairs + share * np.outer(margin, margin)
            yield "labels", environment.replace(graph=rewired(graph, reference.classes, mixed, random)), every
    for x in _feature_shifts(environment.x, random):
        yield "features", environment.replace(x=x), every
    degree = graph.degree.cpu()[every].numpy() if graph.num_edges else np.zeros(len(every))
    order = np.argsort(degree + 0.01 * random.random(len(every)))
    for part in np.array_split(order, _PARTS):
        yield "parts", environment, every[torch.from_numpy(np.sort(part))]
    for k in np.unique(reference.labels)[:_CLASSES]:
        for raised in _SHARES:
            chance = np.where(reference.labels == k, raised, 1.0)
            kept = random.random(len(every)) < chance / chance.max()
            yield "shares", environment, every[torch.from_numpy(kept)]


def _guided(model: Predictor, environment: Environment, share: float) -> Environment | None:
    try:
        return model.edited(environment, share)
    except GraphshiftError:  # a backbone without a gradient in the edges
        return None


def _feature_shifts(x: Tensor | Sparse, random: np.random.Generator) -> Iterator[Tensor | Sparse]:
    """Columns masked; of dense ones also noise."""
    for share in _MASKED:
        keep = torch.from_numpy(random.random(x.shape[1]) >= share)
        if isinstance(x, Sparse):
            yield Sparse(x.pattern, x.value * keep.to(x.value)[x.pattern.col.long()])
        else:
            yield torch.where(keep.to(x.device), x, x.mean(dim=0))
    if not isinstance(x, Sparse):
        for noise in _NOISES:
            yield x + noise * x.std(dim=0) * torch.from_numpy(random.standard_normal(x.shape)).to(x)
