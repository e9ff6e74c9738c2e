"""The rule ``target``: the expected score on unlabelled graphs, held against validation."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, median

import numpy as np
import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.metrics import METRICS
from graphshift.estimators.direct import AsMethod
from graphshift.training.target_score import believed, target_score
from small import identical

ACCURACY = METRICS.find("accuracy")
FEW = {"epochs": 8, "hidden_channels": 8}


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted-structure", nodes=150)


def by_hand(model: gs.Estimator, data: gs.ShiftDataset) -> float:
    """The definition, with loops over thresholds."""
    p = np.concatenate([model.predict_proba(e) for e in data.val])
    y = np.concatenate([e.y.numpy() for e in data.val])
    own = float((p.argmax(1) == y).mean())
    found = []
    for e in data.tests:
        new = model.predict_proba(e)
        estimates = [own - p.max(1).mean() + new.max(1).mean()]
        for score in (lambda q: q.max(1), lambda q: (q * np.log(q)).sum(1)):
            right = round(own * len(y))
            threshold = np.sort(score(p))[::-1][right - 1]
            estimates.append((score(new) >= threshold).mean())
        found.append(min(own, median(estimates)))
    return fmean(found)


def test_the_score_is_its_definition(data: gs.ShiftDataset) -> None:
    model = gs.ERM("sage", **FEW).fit(data)
    method = AsMethod("erm", lambda e: model._plain_output(e, ()), "target")
    hidden = [e.replace(y=None) for e in data.tests]
    found = target_score(method, [*data.val, *hidden], 1)  # type: ignore[arg-type]
    assert found == pytest.approx(by_hand(model, data), abs=1e-6)


def test_an_estimate_above_validation_is_not_believed() -> None:
    assert believed(0.7, [0.6, 0.9, 0.65], ACCURACY) == 0.65
    assert believed(0.7, [0.8, 0.9, 0.65], ACCURACY) == 0.7
    assert believed(0.7, [], ACCURACY) == 0.7
    error = METRICS.find("ece")
    assert not error.higher_is_better
    assert believed(0.1, [0.05], error) == 0.1
    assert believed(0.1, [0.3], error) == 0.3


def test_labels_of_the_target_are_never_looked_at(data: gs.ShiftDataset) -> None:
    settings = {**FEW, "selection": "target"}
    wrong = [e.replace(y=(e.y + 1) % 4) for e in data.tests]
    fits = [
        gs.ERM(**settings).fit(data, target="tests"),
        gs.ERM(**settings).fit(data, target=wrong),
        gs.ERM(**settings).fit(replace(data, tests=(), target=data.tests)),
    ]
    assert len({fit.best_epoch_ for fit in fits}) == 1
    assert len({fit.best_score_ for fit in fits}) == 1
    assert all(identical(fits[0].arrays(), fit.arrays()) for fit in fits)


def test_the_epoch_with_the_best_expected_score_is_kept(data: gs.ShiftDataset) -> None:
    """Beside `val` in one training, as alone; methods without epochs have a score as well."""
    alone = gs.ERM(**FEW, selection="target").fit(data, target="tests")
    both = gs.ERM(**FEW).fit(data, target="tests", also=["target"])
    assert (both.also_["target"].epoch, both.also_["target"].score) == (alone.best_epoch_, alone.best_score_)
    scores = [row["val"] for row in alone.history_]
    assert alone.best_score_ == max(scores)
    assert alone.best_epoch_ == scores.index(max(scores)) + 1
    plain = gs.Logistic(selection="target").fit(data, target="tests")
    assert plain.best_score_ is not None
    assert plain.best_score_ <= plain.score(data.val[0]) + 1e-9


def test_roc_auc_has_one_estimate() -> None:
    data = gs.load("planted-structure", nodes=150)
    task = gs.Task("binary", 2, "roc_auc")
    val, test = (e.replace(y=(e.y > 1).long(), task=task) for e in (data.val[0], data.tests[0]))
    train = data.train[0].replace(y=(data.train[0].y > 1).long(), task=task)
    model = gs.ERM(**FEW, selection="target").fit(train, val, target=test)
    assert 0.5 < model.best_score_ <= model.score(val) + 0.03


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "selection 'target' needs unlabelled graphs: pass `target`"),
        ({"target": "test"}, "target is 'test'; expected graphs, or 'tests'"),
    ],
)
def test_what_is_missing_is_said(data: gs.ShiftDataset, given: dict[str, str], message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        gs.ERM(**FEW, selection="target").fit(data, **given)  # type: ignore[arg-type]


def test_values_cannot_be_estimated() -> None:
    data = gs.load("planted", nodes=60)
    task = gs.Task("regression", 0)
    train, val, test = (e.replace(y=e.x[:, 0], task=task) for e in (data.train[0], data.val[0], data.tests[0]))
    with pytest.raises(GraphshiftError, match="needs a task with classes"):
        gs.ERM(**FEW, selection="target").fit(train, val, target=test)
    with pytest.raises(GraphshiftError, match="no test environments"):
        gs.ERM(**FEW, selection="target").fit(train, val, target="tests")
