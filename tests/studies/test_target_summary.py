"""What a model predicts for an unlabelled target, and how unlike training that is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.studies.target_summary import columns_apart, degrees_apart, target_summaries


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    made = gs.load("planted", nodes=120, environments=4)
    return gs.ShiftDataset("mine", made.train, made.val, target=made.tests)


@pytest.mark.filterwarnings("ignore")
def test_shares_and_confidence_are_those_of_the_predictions(data: gs.ShiftDataset) -> None:
    model = gs.ERM(epochs=5, hidden_channels=4).fit(data.train, data.val)
    found = target_summaries(model, data)
    assert [one.environment for one in found] == ["T1", "T2"]
    for one, environment in zip(found, data.target, strict=True):
        predicted, probabilities = model.predict(environment), model.predict_proba(environment)
        for name, share in one.shares.items():
            assert share == pytest.approx(float(np.mean(predicted == int(name))))
        assert one.confidence == pytest.approx(float(np.max(probabilities, axis=1).mean()))
        assert sum(one.training_shares.values()) == pytest.approx(1.0)
        assert one.nodes == 120
        largest = max(one.shares, key=one.shares.__getitem__)
        assert f"120 nodes: class {largest} {100 * one.shares[largest]:.0f} % (in" in one.sentence()
        assert f"mean confidence {100 * (one.confidence or 0):.0f} %" in one.sentence()


@pytest.mark.filterwarnings("ignore")
def test_values_have_a_mean_instead(data: gs.ShiftDataset) -> None:
    task = gs.Task("regression", 0)
    train = [e.replace(task=task, y=e.x[:, 0]) for e in data.train]
    values = gs.ShiftDataset("mine", train, target=[e.replace(task=task) for e in data.target])
    model = gs.ERM(epochs=3, hidden_channels=4, selection="last").fit(train)
    (one, _) = target_summaries(model, values)
    assert one.mean == pytest.approx(float(model.predict(values.target[0]).mean()))
    assert one.training_mean == pytest.approx(float(train[0].labels.mean()), rel=1e-5)
    assert (one.confidence, one.shares) == (None, {})
    assert "mean prediction" in one.sentence()


def test_how_unlike_columns_and_degrees_are(data: gs.ShiftDataset) -> None:
    (train,) = data.train
    moved = train.replace(name="moved", x=train.x + 10.0)
    assert columns_apart([train], moved) == pytest.approx(1.0)
    shuffled = train.replace(name="same", x=train.x[torch.randperm(120, generator=torch.Generator().manual_seed(0))])
    assert columns_apart([train], shuffled) == pytest.approx(0.5, abs=0.12)
    assert degrees_apart([train], train) == 0
    empty = train.replace(graph=type(train.graph).from_keys(120, train.graph.keys[:0], undirected=True))
    connected = float((train.graph.pattern.rowptr.diff() > 0).float().mean())
    assert degrees_apart([train], empty) == pytest.approx(connected, abs=1e-6)
    few = train.replace(mask=torch.arange(120) < 3)
    assert columns_apart([train], few) is None
