"""A model calibrated to one graph: sets and answers against their definition, files and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_tensors, write_tensors
from graphshift.estimators.answering import safe_limit
from graphshift.estimators.doubt import signs_of
from graphshift.estimators.held_out import score_parts
from graphshift.estimators.sets import limits_by_class
from graphshift.shift import calibrating
from graphshift.shift.matching import matched_copies
from graphshift.shift.reference import reference_of


@pytest.fixture(scope="module")
def data() -> Any:
    return gs.load("planted-structure", nodes=400)


@pytest.fixture(scope="module")
def model(data: Any) -> Any:
    model = gs.ERM("sage", epochs=20).fit(data)
    model.explore(data.val)
    return model


@pytest.fixture(scope="module")
def aimed(data: Any, model: Any) -> Any:
    return gs.calibrate_to(model, data.tests[-1], data.val)


def test_the_limit_is_the_lowest_that_enumeration_finds() -> None:
    random = np.random.default_rng(0)
    found = []
    for _ in range(100):
        sizes = (9, 6)
        pools = [(random.integers(5, 10, n) / 10, random.random(n) < 0.8, random.random(n)) for n in sizes]

        def safe(t: float, pools: Any = pools) -> bool:
            kept = [(ok[sure >= t], w[sure >= t]) for sure, ok, w in pools]
            return all(len(ok) and np.average(~ok, weights=w) <= 0.15 + 1e-12 for ok, w in kept)

        able = [t for t in {0.6, *pools[0][0], *pools[1][0]} if t >= 0.6 and safe(t)]
        found.append(safe_limit(pools, 0.15, least=0.6))
        assert found[-1] == (min(able) if able else np.inf)
    assert 20 < np.isfinite(found).sum() < 80  # both happen


def test_limits_of_classes_are_those_of_their_own_nodes() -> None:
    random = np.random.default_rng(0)
    scores, labels = random.random(60), np.repeat([0, 1], [45, 15])
    own = np.sort(scores[labels == 0])[int(np.ceil(46 * 0.8)) - 1]
    every = np.sort(scores)[int(np.ceil(61 * 0.8)) - 1]  # class 1 has fewer than 30
    assert limits_by_class(scores, labels, 2, 0.8).tolist() == [own, every]


def test_sets_are_the_largest_of_those_by_each_kind_of_copy(data: Any, model: Any, aimed: Any) -> None:
    val, test = data.val[0], data.tests[-1]
    assert {*aimed.explored_.pools} == {"nothing", "edges", "features", "both"}
    reference = reference_of(val)
    rows, y = torch.from_numpy(reference.rows), reference.labels
    (shown,) = model.signals([test]).values()
    asked, sizes = score_parts(test, shown, "aps")[0].numpy(), {}
    for name, one in {"nothing": val, **matched_copies(val, reference, test)}.items():
        (signals,) = model.signals([one]).values()
        scores = score_parts(one, signals, "aps")[0][rows].numpy()[np.arange(len(y)), y]
        limits = []
        for k in range(3):
            own = np.sort(scores[y == k])
            limits.append(own[int(np.ceil(0.9 * (len(own) + 1))) - 1])
        sizes[name] = asked <= np.array(limits)
    most = max(sizes, key=lambda name: sizes[name].sum())
    found = aimed.predict_set(test, 0.9)
    assert (found.weights, found.remark) == ("moved", f"largest with copies in which {most} moved")
    np.testing.assert_array_equal(found.members, sizes[most])
    plain = model.predict_set(test, 0.9)
    assert plain.weights != "moved"
    assert plain.covers(test.y).mean() + 0.05 < found.covers(test.y).mean() > 0.85


def test_answers_are_safe_on_every_kind_of_copy(data: Any, aimed: Any) -> None:
    test, explored = data.tests[0], aimed.explored_
    (signals,) = aimed.signals([test]).values()
    outlook = aimed.outlook(test, signals)
    found = aimed.predict_or_abstain(test, 0.35)
    assert 0 < found.share < 1
    limit, tested = found.right[found.answered].min(), []
    for rows in explored.pools.values():
        signs, log_p, labels = explored.signs[rows], explored.log_p[rows], explored.labels[rows]
        p = (explored.temperature.scaled(log_p, signs) / outlook.level).softmax(dim=1)
        p = p if outlook.ratios is None else p * outlook.ratios
        sure, said = (p / p.sum(dim=1, keepdim=True)).max(dim=1)
        weights = torch.ones(len(sure)) if outlook.ratios is None else outlook.ratios[labels]
        kept = sure >= limit
        tested.append(float((weights * (said != labels))[kept].sum() / weights[kept].sum()))
    assert max(tested) <= 0.35
    signs = signs_of(test, signals, explored.reference)
    p = (explored.temperature.scaled(signals.log_p, signs) / outlook.level).softmax(dim=1)
    if outlook.ratios is None:
        np.testing.assert_allclose(aimed.predict_proba(test, calibrated="target"), p.numpy())


def test_the_model_itself_stays_and_another_graph_takes_the_place(data: Any, model: Any, aimed: Any) -> None:
    test = data.tests[-1]
    assert model.explored_.pools == {}
    np.testing.assert_array_equal(model.predict_proba(test), aimed.predict_proba(test))
    again = gs.calibrate_to(aimed, test, data.val)
    for name in ("signs", "labels", "moved", "scores"):
        assert torch.equal(getattr(again.explored_, name), getattr(aimed.explored_, name))
    unlooked = gs.ERM("sage", epochs=3).fit(data)  # it is explored when it is needed
    assert gs.calibrate_to(unlooked, test, data.val).explored_ is not None
    assert unlooked.explored_ is None


def test_a_calibrator_answers_each_graph_by_its_own_copies(data: Any, model: Any, aimed: Any) -> None:
    careful = gs.Calibrator(model, data.val)
    tests = [data.tests[0], data.tests[-1]]
    sets, answers = careful.predict_set(tests, 0.9), careful.predict_or_abstain(tests, 0.35)
    chances = careful.predict_proba(tests)
    for test in tests:
        own = gs.calibrate_to(model, test, data.val)
        np.testing.assert_array_equal(sets[test.name].members, own.predict_set(test, 0.9).members)
        np.testing.assert_array_equal(answers[test.name].right, own.predict_or_abstain(test, 0.35).right)
        np.testing.assert_array_equal(chances[test.name], own.predict_proba(test, calibrated="target"))
    assert answers["T8"].moved
    assert not model.predict_or_abstain(tests[0]).moved
    assert "gs.Calibrator" in model.predict_or_abstain(tests[0])._repr_html_()
    assert "gs.Calibrator" not in answers["T8"]._repr_html_()
    assert model.explored_.pools == {}


def test_a_calibrator_remembers_graphs_by_what_is_in_them(
    data: Any, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    before = calibrating.matched_copies
    monkeypatch.setattr(calibrating, "matched_copies", lambda *how: made.append(how[2].name) or before(*how))
    careful = gs.Calibrator(model, data.val)
    careful.to(data.tests[0])
    assert careful.to(data.tests[0].replace(x=data.tests[0].x.clone(), y=None)) is careful.to(data.tests[0])
    assert made == ["T1"]
    other = data.tests[0].x.clone()
    other[0, 0] += 1
    careful.to(data.tests[0].replace(x=other))
    assert made == ["T1", "T1"]
    for test in data.tests[1:]:  # nine graphs by now, so the least recent one is forgotten
        careful.to(test)
    careful.to(data.tests[-1])
    assert len(made) == 9
    careful.to(data.tests[0])
    assert made[9:] == ["T1"]


def test_files(data: Any, aimed: Any, model: Any, tmp_path: Path) -> None:
    test = data.tests[-1]
    aimed.save(tmp_path / "aimed")
    loaded = gs.load_model(tmp_path / "aimed")
    np.testing.assert_array_equal(loaded.predict_set(test).members, aimed.predict_set(test).members)
    model.save(tmp_path / "plain")
    for place, change, message in (
        ("plain", lambda arrays: arrays.pop("moved"), None),  # as earlier versions wrote it
        ("aimed", lambda arrays: arrays["moved"].fill_(7), "what was moved"),
        ("aimed", lambda arrays: arrays.update(moved=arrays["moved"][1:]), "differ in length"),
    ):
        path = tmp_path / place / "explored.safetensors"
        arrays, _ = read_tensors(path)
        change(arrays)
        write_tensors(path, arrays)
        if message is None:
            assert gs.load_model(tmp_path / place).explored_.pools == {}
        else:
            with pytest.raises(GraphshiftError, match=message):
                gs.load_model(tmp_path / place)


def test_mistakes(data: Any, model: Any) -> None:
    test = data.tests[-1]
    with pytest.raises(GraphshiftError, match="no copies were moved to a graph"):
        model.predict_set(test, weights="moved")
    with pytest.raises(GraphshiftError, match="leave it out"):
        model.predict_set(test, weights="moved", alike=0.2)
    few = data.val[0].replace(mask=torch.arange(400) < 10)
    with pytest.raises(GraphshiftError, match="20 labelled nodes"):
        gs.calibrate_to(model, test, few)
    with pytest.raises(GraphshiftError, match="has 1 features and the model was trained with"):
        gs.calibrate_to(model, test.replace(x=test.x[:, :1]), data.val)
