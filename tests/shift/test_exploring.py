"""Shifted copies, and what is learned from them."""

from __future__ import annotations

import numpy as np
import pytest

import graphshift as gs
from graphshift.data.metrics import METRICS
from graphshift.shift.exploring import Copy, explored, scored_copies
from graphshift.shift.reference import reference_of


def test_how_fast_the_score_falls_is_learned() -> None:
    random = np.random.default_rng(0)
    said = random.uniform(0.5, 0.8, 40)
    copies = [Copy("any", {"doc": one, "other": 0.8}, 0.8 - 2 * (0.8 - one)) for one in said]
    assert explored(copies, {"doc": 0.72, "other": 0.8}) == pytest.approx(0.64, abs=0.02)
    assert np.isnan(explored(copies[:9], {"doc": 0.72, "other": 0.8}))


def test_copies_that_look_like_the_target_count_most() -> None:
    def line(at: float, error: float) -> list[Copy]:
        return [Copy("any", {"doc": at + 0.001 * i}, at + 0.001 * i + error) for i in range(20)]

    copies = line(0.8, 0.0) + line(0.5, -0.1)
    assert explored(copies, {"doc": 0.81}) > 0.79
    assert explored(copies, {"doc": 0.51}) < 0.44


def test_every_kind_of_copy_is_scored() -> None:
    data = gs.load("planted-structure", nodes=300)
    model, own = gs.ERM(epochs=20).fit(data), data.val[0]
    before = own.graph.keys.clone(), own.x.clone()
    how = {"adapt": None, "seed": 3}
    found = scored_copies(model, own, reference_of(own), model.held_out_[""], METRICS["accuracy"], **how)
    assert {one.kind for one in found} == {
        "none",
        "edges",
        "gradient",
        "labels",
        "features",
        "noise",
        "parts",
        "shares",
    }
    assert found[0].truth == pytest.approx(model.score(own))
    assert own.graph.keys.equal(before[0])
    assert own.x.equal(before[1])
    guided = [one.truth for one in found if one.kind == "gradient"]
    assert guided[1] < guided[0] < found[0].truth  # the more edits that raise the risk, the worse
    assert found == scored_copies(model, own, reference_of(own), model.held_out_[""], METRICS["accuracy"], **how)
