"""Self-training: who gets a label, when, and what happens if predictions become worse."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.estimators.tuning import mutual_information
from graphshift.methods.self_training import SelfTrainingMethod, confident

SMALL: dict[str, Any] = {"hidden_channels": 4, "target": "tests", "lr": 0.05}


def test_confident_takes_a_share_of_every_predicted_class() -> None:
    p = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2], [0.3, 0.7], [0.45, 0.55], [0.7, 0.3], [0.7, 0.3]])
    assert confident(p, 0.4).tolist() == [0, -1, 0, 1, -1, -1, -1]  # 2 of 5, 1 of 2
    assert confident(p, 0.5).tolist() == [0, -1, 0, 1, -1, 0, -1]  # 3 of 5, the first of equals
    assert confident(p, 1.0).tolist() == [0, 0, 0, 1, 1, 0, 0]
    random = torch.rand(200, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    p = random / random.sum(1, keepdim=True)
    found = confident(p, 0.3)
    for c in range(4):
        own = [(float(p[i, c]), i) for i in range(200) if int(p[i].argmax()) == c]
        best = {i for _, i in sorted(own, reverse=True)[: math.ceil(0.3 * len(own))]}
        assert {i for i in range(200) if int(found[i]) == c} == best


def test_mutual_information_is_that_of_node_and_class() -> None:
    p = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    assert mutual_information(p) == pytest.approx(math.log(2))
    assert mutual_information(torch.full((5, 2), 0.5)) == pytest.approx(0, abs=1e-6)
    p = torch.tensor([[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]], dtype=torch.float64)
    mean = p.mean(0)
    expected = sum(
        float(q * math.log(q / m)) / 3 for row in p.tolist() for q, m in zip(row, mean.tolist(), strict=True)
    )
    assert mutual_information(p) == pytest.approx(expected)  # the mean divergence from the mean


def test_labels_come_in_rounds_and_earlier_epochs_are_not_chosen() -> None:
    data = gs.load("planted", nodes=60, environments=4)
    model = gs.SelfTraining(epochs=9, rounds=2, share=0.5, **SMALL).fit(data)
    labelled = [row["labelled"] for row in model.history_]
    begins = [i for i in range(9) if int(i / 8 * 3) > int((i - 1) / 8 * 3) and i]  # progress is i / 8
    assert labelled[: begins[0]] == [0] * begins[0]
    assert all(n >= 60 for n in labelled[begins[0] :])  # half of 120, rounded up in each class
    assert [("val" in row) for row in model.history_] == [int(i / 8 * 3) >= 2 for i in range(9)]
    assert model.best_epoch_ > begins[1]
    short = gs.SelfTraining(epochs=1, **SMALL).fit(data)
    assert short.best_epoch_ == 1


def test_a_step_adds_the_risk_of_the_labelled_nodes() -> None:
    data = gs.load("planted", nodes=60, environments=3)
    settings = gs.SelfTraining(share=0.5, weight=0.3, **SMALL).resolved()
    network = settings.new_backbone(24, data.task)
    method = SelfTrainingMethod(network, settings)
    method.target = [data.tests[0].replace(mask=torch.arange(60) < 40).unlabelled()]
    with torch.no_grad():
        p = network.eval()(data.tests[0].x, data.tests[0].graph).softmax(1)
        chosen = confident(p[:40].double(), 0.5)
        network.train()
        own = data.train[0].risk(network(data.train[0].x, data.train[0].graph))
        theirs = network(data.tests[0].x, data.tests[0].graph)[:40]
    network.load_state_dict(gs_state := {n: t.clone() for n, t in network.state_dict().items()})
    found = method.step(data.train, 0.4)
    expected = torch.nn.functional.cross_entropy(theirs[chosen >= 0], chosen[chosen >= 0])
    assert gs_state
    assert int(found["labelled"]) == int((chosen >= 0).sum())
    assert found["loss"] == pytest.approx(float(own + 0.3 * expected), rel=1e-3)


def test_labels_stay_where_predictions_have_become_worse() -> None:
    data = gs.load("planted", nodes=60, environments=3)
    settings = gs.SelfTraining(**SMALL).resolved()
    method = SelfTrainingMethod(settings.new_backbone(24, data.task), settings)
    method.target = [data.tests[0].unlabelled()]
    method._label()
    before, known = method.labels[0].clone(), method.estimate
    with torch.no_grad():
        for p in method.backbone.parameters():
            p.zero_()  # all nodes alike: no information
    method._label()
    assert torch.equal(method.labels[0], before)
    assert method.estimate == known > 0


def test_values_are_refused() -> None:
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    graph = gs.Environment(
        "g", __import__("torch_geometric").data.Data(x=torch.rand(3, 2), edge_index=ring, y=torch.rand(3))
    )
    with pytest.raises(GraphshiftError, match="labels classes"):
        gs.SelfTraining(epochs=2, selection="last").fit(graph, target=[graph.replace(name="t")])
