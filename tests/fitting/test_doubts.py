"""A model that is below the largest class does not pass without a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.data.diagnosis import homophily, remarks
from graphshift.data.tasks import Task
from graphshift.fitting.doubts import warnings_about
from graphshift.fitting.fit import result_of


def graph(
    name: str, seed: int, *, alike: float, codes: tuple[int, ...] = (0, 1, 2), metric: str = ""
) -> gs.Environment:
    """Three classes that the features tell; a share of edges joins equal ones, and codes may be exchanged."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.multinomial(torch.tensor([0.6, 0.2, 0.2]), 150, replacement=True, generator=generator)
    x = torch.nn.functional.one_hot(true, 3).float() + 0.2 * torch.randn(150, 3, generator=generator)
    first, second = torch.randint(150, (2, 3000), generator=generator)
    kept = ((true[first] == true[second]) == (torch.rand(3000, generator=generator) < alike)) & (first != second)
    ends = torch.stack([first[kept], second[kept]])
    ends = torch.unique(torch.cat([ends, ends.flip(0)], dim=1), dim=1)
    return gs.Environment(name, Data(x=x, edge_index=ends, y=torch.tensor(codes)[true]), Task("multiclass", 3, metric))


def made(*, alike: float = 0.9, metric: str = "", codes: Sequence[int] = (0, 1, 2)) -> gs.ShiftDataset:
    shared: dict[str, Any] = {"alike": alike, "metric": metric}
    tests = [graph("test", 2, codes=codes, **shared)]
    return gs.ShiftDataset("made", [graph("train", 0, **shared)], [graph("val", 1, **shared)], tests)


def told(model: gs.Estimator, data: gs.ShiftDataset) -> list[str]:
    return warnings_about(result_of(model.fit(data), data), data)


def test_nothing_is_said_of_a_good_model() -> None:
    assert told(gs.Logistic(), made()) == []
    assert told(gs.ERM("mlp", epochs=60), made()) == []


def test_codes_that_do_not_match_are_told() -> None:
    first, second = told(gs.Logistic(), made(codes=(1, 2, 0)))
    assert first.startswith("Logistic regression is below the largest class (%) in test (")
    assert "In 'test' 3 of 3 classes look like other classes of training: check that the class codes" in second


def test_unlike_neighbours_are_told() -> None:
    data = made(alike=0.02)
    found = told(gs.ERM("gcn", epochs=1, lr=1e-4), data)
    assert "ERM is below the largest class (%) in val (" in found[0]
    assert "of edges join nodes of one class" in found[1]
    assert "graphshift recommend" in found[-1]
    found = told(gs.Logistic(), made(alike=0.02, codes=(1, 2, 0)))
    assert found
    assert not any("of edges join" in one for one in found)  # it does not look at them


def test_other_metrics_and_the_largest_class_itself_are_left_alone() -> None:
    assert told(gs.Logistic(), made(codes=(1, 2, 0), metric="macro_f1")) == []
    assert told(gs.Majority(), made(codes=(1, 2, 0))) == []


def test_no_test_label_is_looked_at_unless_asked() -> None:
    data = made(codes=(1, 2, 0))
    assert remarks(data) == []
    assert len(remarks(data, data.tests)) == 1


def test_homophily_is_counted() -> None:
    ends = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    one = gs.Environment("one", Data(x=torch.zeros(4, 1), edge_index=ends, y=torch.tensor([0, 0, 1, 0])))
    assert homophily([one]) == (pytest.approx(2 / 6), pytest.approx((4 / 6) ** 2 + (2 / 6) ** 2))
    half = one.replace(mask=torch.tensor([True, True, False, False]))
    assert homophily([half]) == (1.0, 1.0)
    assert homophily([one.replace(mask=torch.tensor([True, False, True, False]))]) is None
