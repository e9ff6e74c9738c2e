"""Explore to estimate: the copies, what is learned on them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.data.metrics import METRICS
from graphshift.estimators.copies import moved_edges, shifted_copies
from graphshift.estimators.estimating import Estimate
from graphshift.shift.estimating import Copy, learned

ACCURACY = METRICS.find("accuracy")


def copies(count: int = 40, slope: float = 2.0) -> list[Copy]:
    """The score falls twice as fast as one estimate says; another says nothing."""
    random = np.random.default_rng(0)
    said = random.uniform(0.5, 0.8, count)
    truth = 0.8 - slope * (0.8 - said)
    return [Copy("abcd"[i % 4], {"doc": said[i], "weighted": 0.8}, truth[i], 0.5) for i in range(count)]


def on_target(doc: float, reach: float = 0.9) -> Estimate:
    return Estimate("accuracy", doc, 0.0, 1.0, 0.8, {"doc": doc, "weighted": 0.8}, reach=reach)


def test_how_fast_the_score_falls_is_learned() -> None:
    found = learned(on_target(0.72), copies(), ACCURACY)
    assert found.by["explored"] == pytest.approx(0.64, abs=0.03)
    assert found.expected == pytest.approx(0.64, abs=0.04)
    assert found.copies == 40
    assert found.low < 0.64 < found.high


def test_what_lies_outside_of_the_copies_is_refused() -> None:
    assert "outside of what was explored" in learned(on_target(0.1), copies(), ACCURACY).refused
    assert "unlike the held-out ones" in learned(on_target(0.7, reach=0.4), copies(), ACCURACY).refused


def test_few_copies_change_nothing() -> None:
    plain = on_target(0.7)
    assert learned(plain, copies(8), ACCURACY) == plain


def test_edges_within_a_class_lead_to_another() -> None:
    environment = gs.load("planted-structure", nodes=400).val[0]
    assert environment.y is not None

    def homophily(graph: object) -> float:
        row, column = graph.edge_index  # type: ignore[attr-defined]
        return float((environment.y[row] == environment.y[column]).double().mean())  # type: ignore[index]

    old = [homophily(environment.graph)]
    for share in (0.3, 0.7):
        made = moved_edges(environment, share, np.random.default_rng(0))
        assert made.undirected
        assert abs(made.num_edges - environment.graph.num_edges) < 0.1 * environment.graph.num_edges
        old.append(homophily(made))
    assert old[0] > old[1] + 0.05 > old[2] + 0.1


def test_copies_keep_the_graph_and_the_seed_decides() -> None:
    environment = gs.load("planted", nodes=200).val[0]
    before = environment.graph.keys.clone(), environment.x.clone()
    one, two = ([*shifted_copies(environment, np.random.default_rng(5))] for _ in range(2))
    assert {kind for kind, *_ in one} == {"none", "edges", "labels", "features", "noise", "parts", "shares"}
    for (_, a, rows), (_, b, again) in zip(one, two, strict=True):
        assert torch.equal(a.graph.keys, b.graph.keys)
        assert torch.equal(a.x, b.x)
        assert (rows is None and again is None) or torch.equal(rows, again)
    assert torch.equal(environment.graph.keys, before[0])
    assert torch.equal(environment.x, before[1])


def test_labels_of_the_graph_are_never_looked_at() -> None:
    data = gs.load("planted-structure", nodes=300)
    model = gs.ERM(epochs=20).fit(data)
    test = data.tests[0]
    assert gs.estimate_score(model, test, data.val) == gs.estimate_score(model, test.replace(y=None), data.val)
