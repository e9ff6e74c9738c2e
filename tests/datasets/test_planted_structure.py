"""planted-structure: homophily as asked in every environment, labels of a node's own features alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.datasets.planted_structure import planted_structure


def homophily(e: gs.Environment) -> float:
    row, column = e.graph.keys // e.num_nodes, e.graph.keys % e.num_nodes
    return (e.y[row] == e.y[column]).double().mean().item()


def fitted(e: gs.Environment) -> LogisticRegression:
    return LogisticRegression(C=100, max_iter=1000).fit(e.x.numpy(), e.y.numpy())


@pytest.mark.parametrize("options", [{}, {"train_homophily": 1.0, "val_homophily": 0.9, "classes": 2, "tests": 3}])
def test_homophily_is_as_asked_and_falls_to_zero(options: dict[str, Any]) -> None:
    data = planted_structure(3000, **options)
    asked = data.facts["homophily"]
    assert list(asked) == [e.name for e in data.environments]
    assert asked["train"] == options.get("train_homophily", 0.8)
    assert asked["val"] == options.get("val_homophily", 0.6)
    tests = [asked[e.name] for e in data.tests]
    np.testing.assert_allclose(np.diff([asked["val"], *tests]), -asked["val"] / len(tests))  # equal steps
    assert tests[-1] == 0
    for e in data.environments:
        share = asked[e.name]
        error = 4 * math.sqrt(share * (1 - share) / (e.graph.num_edges / 2)) + 0.015  # pairs drawn twice count once
        assert homophily(e) == pytest.approx(share, abs=error)
    assert homophily(data.tests[-1]) == 0


def test_roles_and_task() -> None:
    data = gs.load("planted-structure", nodes=60)
    assert [e.name for e in data.environments] == ["train", "val", *(f"T{i}" for i in range(1, 9))]
    assert [len(data.train), len(data.val), len(data.tests)] == [1, 1, 8]
    assert (data.task.kind, data.task.num_classes) == ("multiclass", 3)
    assert planted_structure(60, classes=2).task.kind == "binary"
    assert data.facts["spurious_columns"] == []
    assert all(e.num_nodes == 60 and e.num_features == 16 for e in data.environments)


def test_labels_depend_on_own_features_the_same_way_everywhere() -> None:
    data = planted_structure(2000, noise=0.0)
    model = fitted(data.train[0])
    for e in data.environments:
        assert model.score(e.x.numpy(), e.y.numpy()) > 0.97  # without noise they are a linear function


def test_noise_decides_what_features_do_not_tell() -> None:
    scores = []
    for noise in (0.0, 0.5, 1.0, 4.0):
        data = planted_structure(2000, noise=noise)
        test = data.tests[3]
        scores.append(fitted(data.train[0]).score(test.x.numpy(), test.y.numpy()))
    assert scores == sorted(scores, reverse=True)
    assert scores[0] - scores[-1] > 0.35
    assert scores[-1] > 1 / 3


def test_labels_do_not_depend_on_the_edges() -> None:
    """Given its own features a node's neighbours tell its noise in training, where edges follow labels, not later."""
    gains = {}
    data = planted_structure(3000)
    for e in (data.train[0], data.tests[-1]):
        row, column = e.graph.keys // e.num_nodes, e.graph.keys % e.num_nodes
        votes = torch.zeros(e.num_nodes, 3).index_add_(0, row, torch.nn.functional.one_hot(e.y[column], 3).float())
        share = votes / votes.sum(dim=1, keepdim=True).clamp(min=1)
        both = e.replace(x=torch.cat([e.x, share], dim=1))
        gains[e.name] = both
    train, last = gains["train"], gains["T8"]
    model = fitted(train)
    assert model.score(train.x.numpy(), train.y.numpy()) > 0.8
    assert model.score(last.x.numpy(), last.y.numpy()) < 0.5  # who trusts neighbours is wrong at the end
    own = fitted(data.train[0])
    assert own.score(data.tests[-1].x.numpy(), data.tests[-1].y.numpy()) > 0.6


def test_every_environment_has_nodes_of_its_own() -> None:
    data = planted_structure(100)
    for i, e in enumerate(data.environments):
        for other in data.environments[:i]:
            assert not torch.equal(e.x, other.x)
            assert not torch.equal(e.y, other.y)


def test_the_seed_decides_everything_and_degrees_are_skewed() -> None:
    first, again, other = (planted_structure(1000, seed=seed) for seed in (1, 1, 2))
    for a, b, c in zip(first.environments, again.environments, other.environments, strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.graph.keys, b.graph.keys)
        assert not torch.equal(a.x, c.x)
    degrees = torch.bincount(first.train[0].graph.keys // 1000, minlength=1000).double()
    assert degrees.max() > 6 * degrees.mean()
    assert degrees.mean().item() == pytest.approx(8, rel=0.08)


def test_large_graphs_are_made_without_a_matrix_of_all_pairs() -> None:
    data = planted_structure(100_000, tests=1, features=4)
    assert data.train[0].num_nodes == 100_000


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"nodes": 59}, "planted-structure: nodes is 59; expected at least 60"),
        ({"tests": 0}, "tests is 0; expected from 1"),
        ({"classes": 1}, "classes is 1"),
        ({"features": 0}, "features is 0"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"train_homophily": 1.1}, "train_homophily is 1.1; expected from 0 to 1"),
        ({"val_homophily": -0.1}, "val_homophily is -0.1; expected from 0 to 1"),
        ({"degree": 0.0}, "degree is 0.0"),
        ({"seed": -1}, "seed is -1"),
        ({"tests": 2.0}, "tests is 2.0; expected a whole number"),
        ({"homophily": 0.5}, "has no option 'homophily'; expected one of nodes, seed, tests"),
    ],
)
def test_impossible_options_are_named(options: dict[str, Any], match: str) -> None:
    with pytest.raises(GraphshiftError, match=match):
        gs.load("planted-structure", **options)
