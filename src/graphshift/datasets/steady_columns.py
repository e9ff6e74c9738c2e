"""Leaving out columns that say another thing about the label in another labelled graph."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment

#: A difference of means that is called large, in standard deviations (Imbens and Rubin, 2015, section 14.2).
LARGE = 0.25


def moved(first: Environment, second: Environment) -> Tensor:
    """How far each column has moved between two labelled graphs, given the label, ``[features]``.

    √(Σ_c w_c (d_c² − n_c)⁺) / s: d_c is the difference of the two means over the nodes of class c, n_c the part of d_c²
    that chance is expected to have, w_c the mean share of the class, s the standard deviation within classes. Classes
    that either graph has fewer than two nodes of are left out. In regression there is one class: all nodes.

    Args:
        first, second: with labels; of columns only the counted nodes are looked at.
    """
    (x, y), (other, z) = _shown(first), _shown(second)
    total, spread, weights = (
        torch.zeros(x.shape[1], dtype=torch.float64),
        torch.zeros(x.shape[1], dtype=torch.float64),
        0.0,
    )
    for c in torch.unique(y).tolist():
        one, two = x[y == c], other[z == c]
        if min(len(one), len(two)) < 2:
            continue
        weight = len(one) / len(x) + len(two) / len(other)
        noise = one.var(dim=0) / len(one) + two.var(dim=0) / len(two)
        total += weight * ((one.mean(dim=0) - two.mean(dim=0)).square() - noise).clamp(min=0)
        spread += weight * (one.var(dim=0) + two.var(dim=0)) / 2
        weights += weight
    if not weights:
        raise GraphshiftError(
            f"steady_columns: environments {first.name!r} and {second.name!r} have no class with two labelled nodes in "
            "both."
        )
    return torch.where(total > 0, (total / spread.clamp(min=1e-300)).sqrt(), 0.0)


def steady_columns(data: ShiftDataset, most: float = LARGE) -> ShiftDataset:
    """The dataset without the columns that have :func:`moved` by more than ``most`` between two of its labelled graphs.

    A column that says one thing about the label in one training or validation graph and another in the next will
    hardly be right in a third. Two labelled graphs are needed, as training and validation graphs with features of
    their own; tests and targets are not looked at. Whether it helps, validation says: compare both.

    Args:
        data: whose features are dense.
        most: in standard deviations within classes.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=200, environments=3)  # the last 8 of 24 columns are spurious
    >>> steady_columns(data).train[0].num_features
    16
    """
    if not most >= 0:
        raise GraphshiftError(f"steady_columns: most is {most}; expected a number of standard deviations, 0 or more.")
    labelled = list(
        {id(e.x): e for e in (*data.train, *data.val)}.values()
    )  # held-out nodes of a graph are not another
    if len(labelled) < 2:
        raise GraphshiftError(
            "steady_columns: training and validation have one graph together, so nothing can be seen to move; give a "
            "second labelled graph with features of its own."
        )
    furthest = torch.stack([moved(*pair) for pair in combinations(labelled, 2)]).amax(dim=0)
    keep = (furthest <= most).nonzero().squeeze(1)
    if not len(keep):
        raise GraphshiftError(
            f"steady_columns: all {len(furthest)} columns have moved by more than {most} standard deviations, the "
            f"steadiest by {float(furthest.min()):.2f}; raise most."
        )
    left_out = [i for i in range(len(furthest)) if float(furthest[i]) > most]
    places = {old: new for new, old in enumerate(keep.tolist())}
    facts = {**data.facts, "columns_left_out": left_out}
    if "spurious_columns" in facts:
        facts["spurious_columns"] = [places[i] for i in facts["spurious_columns"] if i in places]
    cut: dict[int, Tensor] = {}
    roles: dict[str, Any] = {}
    for role, graphs in data.roles.items():
        for e in graphs:
            cut.setdefault(id(e.x), _dense(e)[:, keep])
        roles[role] = [e.replace(x=cut[id(e.x)]) for e in graphs]
    return replace(data, **roles, facts=facts)


def _dense(e: Environment) -> Tensor:
    if not isinstance(e.x, Tensor):
        raise GraphshiftError(f"steady_columns: environment {e.name!r} has sparse features; expected dense ones.")
    return e.x


def _shown(e: Environment) -> tuple[Tensor, Tensor]:
    x = _dense(e)[e.counted].double().cpu()
    return x, e.labels.cpu() if e.task.is_classification else torch.zeros(len(x), dtype=torch.int64)
