"""The expected score on graphs without labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError


@pytest.fixture(scope="module")
def fitted() -> tuple[gs.ShiftDataset, gs.Estimator]:
    data = gs.load("planted-structure", nodes=600)
    return data, gs.ERM("sage", epochs=40).fit(data)


def test_it_is_nearer_to_the_truth_than_validation(fitted: tuple[gs.ShiftDataset, gs.Estimator]) -> None:
    data, model = fitted
    found, truth = gs.estimate_score(model, data.tests, data.val), model.score(data.tests)
    assert isinstance(found, dict)
    errors = {name: abs(one.by["doc-both"] - truth[name]) for name, one in found.items()}
    plain = {name: abs(one.held_out - truth[name]) for name, one in found.items()}
    assert np.mean([*errors.values()]) < 0.5 * np.mean([*plain.values()])
    assert all(one.low <= one.high and one.copies > 15 for one in found.values())


def test_labels_of_the_graph_are_never_looked_at(fitted: tuple[gs.ShiftDataset, gs.Estimator]) -> None:
    data, model = fitted
    test = data.tests[3]
    one = gs.estimate_score(model, test, data.val)
    assert one == gs.estimate_score(model, test.replace(y=None), data.val)
    assert one == gs.estimate_score(model, test, data.val)  # the same seed, the same copies


def test_a_committee_adds_its_agreement(fitted: tuple[gs.ShiftDataset, gs.Estimator]) -> None:
    data, model = fitted
    other, test, val = gs.Logistic().fit(data), data.tests[-1], data.val[0]
    found = gs.estimate_score(model, test, data.val, committee=[other])
    same = [float((model.predict(e) == other.predict(e)).mean()) for e in (test, val)]
    assert found.by["agreement"] == pytest.approx(found.held_out + same[0] - same[1])


def test_several_validation_graphs_count_by_their_nodes(fitted: tuple[gs.ShiftDataset, gs.Estimator]) -> None:
    data, model = fitted
    test, (val,) = data.tests[2], data.val
    one = gs.estimate_score(model, test, [val])
    twice = gs.estimate_score(model, test, [val, val.replace(name="again")])
    assert twice.by["doc-both"] == pytest.approx(one.by["doc-both"])
    assert twice.copies == 2 * one.copies


def test_two_graphs_of_one_name_and_few_nodes_are_refused(fitted: tuple[gs.ShiftDataset, gs.Estimator]) -> None:
    data, model = fitted
    with pytest.raises(GraphshiftError, match="two environments are called"):
        gs.estimate_score(model, [data.tests[0], data.tests[0].replace()], data.val)
    (val,) = data.val
    few = val.replace(mask=torch.arange(val.num_nodes) < 40)
    found = gs.estimate_score(gs.ERM(epochs=5).fit(data.train, val=[few]), data.tests[0], [few])
    assert found.expected is None
    assert "held-out nodes are too few" in found.refused


def test_an_area_is_estimated_too() -> None:
    from graphshift.data.expected import area, weighted_score
    from graphshift.data.metrics import METRICS

    sk = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    values, positive, negative = random.integers(0, 20, 200) / 20, random.random(200), random.random(200)
    weight = np.concatenate([positive, negative])
    expected = sk.roc_auc_score(np.repeat([1, 0], 200), np.tile(values, 2), sample_weight=weight)
    assert area(values, positive, negative) == pytest.approx(expected)
    y, p = (random.random(200) < values).astype(int), np.stack([1 - values, values], axis=1)
    assert weighted_score(p, y, np.ones(200), METRICS["roc_auc"]) == pytest.approx(sk.roc_auc_score(y, values))
    assert np.isnan(area(values, positive, 0 * negative))
