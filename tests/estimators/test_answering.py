"""Answers and abstentions: limits and areas against enumeration, reasons, tables, files and mistakes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_tensors, write_tensors
from graphshift.estimators.answering import REASONS, UNKNOWN, answers_of, aurc, limit_of, risk_coverage
from graphshift.estimators.copies import moved_edges


@pytest.fixture(scope="module")
def data() -> Any:
    return gs.load("planted-structure", nodes=400)


@pytest.fixture(scope="module")
def model(data: Any) -> Any:
    model = gs.ERM("sage", epochs=20).fit(data)
    model.explore(data.val)
    return model


def test_the_limit_is_the_lowest_that_enumeration_finds() -> None:
    random = np.random.default_rng(0)
    for _ in range(100):
        right = random.integers(5, 11, 7) / 10  # with ties
        able = [t for t in right if np.mean(1 - right[right >= t]) <= 0.15 + 1e-12]
        assert limit_of(right, 0.15) == (min(able) if able else np.inf)


def test_the_area_is_the_mean_over_all_orders_of_ties() -> None:
    confidence = np.array([0.9, 0.7, 0.7, 0.7, 0.2])
    right = np.array([True, False, True, False, True])
    areas = []
    for order in itertools.permutations(range(5)):
        sure = confidence[list(order)]
        if (np.diff(sure) <= 0).all():
            wrong = ~right[list(order)]
            areas.append(np.mean(np.cumsum(wrong) / np.arange(1, 6)))
    assert aurc(confidence, right) == pytest.approx(np.mean(areas))
    shares, risks = risk_coverage(confidence, right)
    assert shares.tolist() == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert risks.tolist() == pytest.approx([0, 1 / 2, 1 / 3, 2 / 4, 2 / 5])


def test_answers_promise_what_they_say(data: Any, model: Any) -> None:
    for error in (0.05, 0.15, 0.3):
        found = model.predict_or_abstain(data.val[0], error)
        assert found.expected_error is None or found.expected_error <= error
        assert ((found.reasons == "") == found.answered).all()
        assert found.right[found.answered].min(initial=1) >= found.right[~found.answered].max(initial=0)
        assert np.array_equal(found.predictions, found.probabilities.argmax(axis=1))
        assert (~found.answered[data.val[0].y.numpy() >= 0]).mean() == pytest.approx(1 - found.share)
    assert model.predict_or_abstain(data.val[0], 0.3).share > model.predict_or_abstain(data.val[0], 0.05).share


def test_reasons_are_the_first_that_holds(data: Any, model: Any) -> None:
    val = data.val[0]
    (signals,) = model.signals([val]).values()
    outlook, explored = model.outlook(val, signals), model.explored_
    found = answers_of(val, signals, explored, outlook, 0.05)
    assert set(found.reasons) <= {"", *REASONS}
    for v in np.flatnonzero(~found.answered)[:50]:
        if found.energy[v] > float(explored.usual[0]) or found.distance[v] > float(explored.usual[1]):
            assert found.reasons[v] == "unlike training"
        elif int(signals.near[v].argmax()) != found.predictions[v]:
            assert found.reasons[v] == "neighbours disagree"
        else:
            assert found.reasons[v] == "low confidence"
    refused = answers_of(val, signals, explored, outlook, 0.05, "the estimates contradict each other")
    assert not refused.answered.any()
    assert refused.expected_error is None
    assert set(refused.reasons) == {"the estimate refuses"}


def test_labels_are_never_looked_at(data: Any, model: Any) -> None:
    test = data.tests[2]
    one, two = (model.predict_or_abstain(e) for e in (test, test.replace(y=None)))
    assert np.array_equal(one.right, two.right)
    assert np.array_equal(one.answered, two.answered)


def test_sets_cover_where_edges_lie_as_on_copies(data: Any, model: Any) -> None:
    """A fresh copy of validation, with edges moved: sets by copies cover, those without weights do not."""
    val = data.val[0]
    shifted = val.replace(graph=moved_edges(val, 0.7, np.random.default_rng(99)))
    y = val.y.numpy()
    covered = {w: model.predict_set(shifted, 0.9, weights=w).covers(y).mean() for w in ("none", "copies")}
    assert covered["none"] < 0.85
    assert covered["copies"] == pytest.approx(0.9, abs=0.045)
    plain, target = (model.predict_proba(shifted, calibrated=c) for c in (True, "target"))
    right = plain.argmax(axis=1) == y
    assert abs(target.max(axis=1).mean() - right.mean()) < abs(plain.max(axis=1).mean() - right.mean())


def test_a_graph_unlike_every_copy_is_not_answered(data: Any, model: Any) -> None:
    far = data.val[0].replace(x=data.val[0].x * 40 + 100)
    found = model.predict_or_abstain(far)
    assert not found.answered.any()
    assert set(found.reasons) == {"the estimate refuses"}
    assert found.refused
    with pytest.warns(gs.GraphshiftWarning, match="unlike every copy"):
        assert "unlike every copy" in model.predict_set(far, weights="copies").remark


def test_the_same_after_saving_and_damage_is_told(data: Any, model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    again = gs.load_model(tmp_path / "m").predict_or_abstain(data.tests)
    for e in data.tests:
        assert np.array_equal(again[e.name].right, model.predict_or_abstain(e).right)
    path = tmp_path / "m" / "explored.safetensors"
    arrays, _ = read_tensors(path)
    wrong = {"labels": torch.full_like(arrays["labels"], 99), "p": torch.ones(2, 2), "usual": torch.ones(3)}
    for name, one in wrong.items():
        write_tensors(path, arrays | {name: one})
        with pytest.raises(GraphshiftError, match=r"explored\.safetensors: .*damaged"):
            gs.load_model(tmp_path / "m")
    write_tensors(path, arrays | {"reference": torch.ones(5, 3)})
    with pytest.raises(GraphshiftError, match="of another model"):
        gs.load_model(tmp_path / "m").predict_or_abstain(data.tests[0])
    path.unlink()
    old = gs.load_model(tmp_path / "m")
    with pytest.raises(GraphshiftError, match=r"model\.explore\(graphs\)"):
        old.predict_or_abstain(data.tests[0])
    model.calibrate(data.val)  # other temperatures: the copies are out of date
    assert model.explored_ is None
    model.explore(data.val)
    ensemble = gs.Ensemble([model, model])
    ensemble.calibrate(data.val)
    ensemble.explore(data.val)
    ensemble.save(tmp_path / "e")
    loaded = gs.load_model(tmp_path / "e").predict_or_abstain(data.tests[0])
    assert np.array_equal(loaded.right, ensemble.predict_or_abstain(data.tests[0]).right)


def test_a_table_has_answers(data: Any, model: Any) -> None:
    table = model.predict_frame(data.val, abstain=0.2)
    found = model.predict_or_abstain(data.val[0], 0.2)
    wanted = [int(p) if a else UNKNOWN for p, a in zip(found.predictions, found.answered, strict=True)]
    assert table["answer"].tolist() == wanted
    assert table["reason"].tolist() == found.reasons.tolist()
    np.testing.assert_array_equal(
        table[["p(0)", "p(1)", "p(2)"]], model.predict_proba(data.val[0], calibrated="target")
    )


def test_the_command_writes_answers(graphshift: Any, tmp_path: Path) -> None:
    out, run = tmp_path / "p.csv", tmp_path / "run"
    fit = ("fit", "planted-structure", "-o", "nodes=200", "--method", "erm", "--epochs", 15, "--out", run)
    assert graphshift(*fit).status == 0
    answer = graphshift("predict", run, "planted-structure", "-o", "nodes=200", "--abstain", 0.3, "--out", out)
    assert answer.status == 0, answer.err
    table = pd.read_csv(out, keep_default_na=False)
    number = int((table["answer"] != UNKNOWN).sum())
    assert f"answered: {number:,} of {len(table):,}" in answer.out
    assert set(table["reason"]) <= {"", *REASONS}
    how = ("predict", run, "planted-structure", "-o", "nodes=200", "--coverage", 0.9, "--weights", "copies")
    told = graphshift(*how, "--calibrate-to-graph", "--json", "--out", tmp_path / "q.csv")
    assert told.status == 0, told.err
    assert json.loads(told.out)["nodes"] == len(table)
    bad = graphshift(*how, "--raw", "--calibrate-to-graph", "--out", tmp_path / "r.csv")
    assert (bad.status, "--raw leaves" in bad.err) == (2, True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, e: m.predict_or_abstain(e, 1.0), "error is 1.0; expected a share"),
        (lambda m, e: m.predict_or_abstain(e, True), "error is True"),
        (lambda m, e: m.predict_proba(e, calibrated="graph"), "calibrated is 'graph'"),
        (lambda m, e: m.predict_proba(e, calibrated="target", adapt="norm"), "adapt is 'norm'; copies"),
        (lambda m, e: m.predict_frame(e, abstain=0.1, threshold=0.3), "threshold is 0.3, and probabilities"),
        (lambda m, e: m.predict_set(e, weights="copies", alike=0.2), "alike is 0.2"),
    ],
)
def test_mistakes(data: Any, model: Any, call: Any, message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        call(model, data.tests[0])
