"""Columns that move, given the label: against numbers written by hand; and what a dataset without them is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.datasets.steady_columns import moved, steady_columns


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", nodes=300, environments=4)


def by_hand(first: Environment, second: Environment, column: int) -> float:
    assert first.y is not None
    assert second.y is not None
    total = spread = weights = 0.0
    for c in range(4):
        a, b = (e.x[(e.y == c) & e.mask][:, column].double().numpy() for e in (first, second))  # type: ignore[index]
        w = len(a) / int(first.mask.sum()) + len(b) / int(second.mask.sum())
        d = (a.mean() - b.mean()) ** 2 - a.var(ddof=1) / len(a) - b.var(ddof=1) / len(b)
        total, spread, weights = total + w * max(d, 0), spread + w * (a.var(ddof=1) + b.var(ddof=1)) / 2, weights + w
    return float(np.sqrt(total / spread))


def test_how_far_a_column_has_moved(data: gs.ShiftDataset) -> None:
    some = torch.arange(300) % 3 != 0
    first, second = data.train[0].replace(mask=some), data.val[0]
    found = moved(first, second)
    assert found.tolist() == pytest.approx([by_hand(first, second, i) for i in range(24)], abs=1e-9)
    assert float(found[:16].max()) < 0.25 < float(found[16:].min())


def test_another_share_of_classes_is_no_move() -> None:
    """Means of all nodes move with the classes' shares; those within a class do not."""
    g = torch.Generator().manual_seed(0)
    made, placed = gs.load("planted", nodes=2000, classes=2, environments=3), []
    for e, share in ((made.train[0], 0.9), (made.val[0], 0.1)):
        y = (torch.rand(2000, generator=g) > share).long()
        placed.append(e.replace(x=torch.stack([3.0 * y, 0.0 * y], dim=1) + torch.randn(2000, 2, generator=g), y=y))
    first, second = placed
    assert abs(float(first.x[:, 0].mean() - second.x[:, 0].mean())) > 1  # type: ignore[index]
    assert float(moved(first, second).max()) < 0.1


def test_the_dataset_without_them(data: gs.ShiftDataset) -> None:
    found = steady_columns(data)
    assert found.facts["columns_left_out"] == list(range(16, 24))
    assert found.facts["spurious_columns"] == []
    for old, new in zip(data.environments, found.environments, strict=True):
        assert torch.equal(new.x, old.x[:, :16])  # type: ignore[index,arg-type]
        assert new.graph is old.graph
    assert steady_columns(data, 1e9).train[0].num_features == 24
    with pytest.raises(GraphshiftError, match="most is -1; expected a number of standard deviations"):
        steady_columns(data, -1)
    with pytest.raises(GraphshiftError, match="training and validation have one graph together"):
        steady_columns(replace(data, val=[data.train[0].replace(name="held out")]))
    only = {role: [e.replace(x=e.x[:, 16:]) for e in graphs] for role, graphs in data.roles.items()}  # type: ignore[index]
    with pytest.raises(GraphshiftError, match="all 8 columns have moved by more than 0"):
        steady_columns(replace(data, **only), 0)
