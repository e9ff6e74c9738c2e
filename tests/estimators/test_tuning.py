"""``adapt="tent"`` and ``"hops"``: what is lowered, what is put back, and when the model is left as it is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.estimators import tuning
from graphshift.estimators.tuning import mean_entropy, spread_within
from small import copied, identical

SMALL: dict[str, Any] = {"epochs": 20, "hidden_channels": 8}
WAYS = {"tent": "gcn", "hops": "gprgnn"}


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", nodes=80, environments=3)


@pytest.fixture(scope="module")
def models(data: gs.ShiftDataset) -> dict[str, gs.ERM]:
    return {way: gs.ERM(backbone, **SMALL).fit(data) for way, backbone in WAYS.items()}


def test_what_is_lowered_is_the_mean_entropy_and_the_share_of_variance_within_classes(data: gs.ShiftDataset) -> None:
    graph = data.tests[0].replace(mask=torch.arange(80) < 5)
    z = torch.randn(80, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows, p = z[:5].tolist(), z[:5].softmax(1).tolist()
    entropy = -sum(q * math.log(q) for row in p for q in row) / 5
    assert float(mean_entropy(z, graph)) == pytest.approx(entropy)
    within = 0.0
    for c in range(4):
        total = sum(row[c] for row in p)
        centre = [sum(row[c] * v[d] for row, v in zip(p, rows, strict=True)) / total for d in range(4)]
        within += sum(row[c] * math.dist(v, centre) ** 2 for row, v in zip(p, rows, strict=True))
    mean = [sum(v[d] for v in rows) / 5 for d in range(4)]
    assert float(spread_within(z, graph)) == pytest.approx(within / sum(math.dist(v, mean) ** 2 for v in rows))


@pytest.mark.parametrize("way", WAYS)
def test_tuning_lowers_it_and_puts_everything_back(way: str, data: gs.ShiftDataset, models: dict[str, gs.ERM]) -> None:
    model, graph = models[way], data.tests[0]
    weights, before = copied(model.backbone_.state_dict()), model.predict_proba(graph)
    loss = mean_entropy if way == "tent" else spread_within
    plain = {"adapt": "norm"} if way == "tent" else {}
    start, end = (
        float(loss(model.task_.output_of(torch.from_numpy(model.predict_proba(graph, **how))), graph))
        for how in (plain, {"adapt": way})
    )
    if way == "tent":
        assert end < start  # of "hops" a constant of each row is lost in probabilities
    assert not torch.equal(torch.from_numpy(before), torch.from_numpy(model.predict_proba(graph, adapt=way)))
    assert identical(weights, model.backbone_.state_dict())
    assert all(p.requires_grad and p.grad is None for p in model.backbone_.parameters())
    assert (model.predict_proba(graph) == before).all()


@pytest.mark.parametrize("way", WAYS)
def test_the_outputs_own_loss_falls(way: str, data: gs.ShiftDataset, models: dict[str, gs.ERM]) -> None:
    network, graph = models[way].backbone_, data.tests[0]
    loss = mean_entropy if way == "tent" else spread_within
    found = []
    for how in ("plain", "tuned"):
        steps = tuning._STEPS if how == "tuned" else 0
        with pytest.MonkeyPatch.context() as patch, torch.no_grad():
            patch.setattr(tuning, "_STEPS", steps)
            with tuning.tuned(network, graph, way):
                found.append(float(loss(network(graph.x, graph.graph), graph)))
    assert found[1] < found[0]


@pytest.mark.parametrize("way", WAYS)
def test_labels_are_not_looked_at(way: str, data: gs.ShiftDataset, models: dict[str, gs.ERM]) -> None:
    both = [models[way].predict_proba(e, adapt=way) for e in (data.tests[0], data.tests[0].unlabelled())]
    assert (both[0] == both[1]).all()


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_became_worse_is_left_as_it_was(
    way: str, data: gs.ShiftDataset, models: dict[str, gs.ERM], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, graph = models[way], data.tests[0]
    expected = model.predict_proba(graph, adapt="norm" if way == "tent" else None)
    falling = iter([1.0, 0.5])
    monkeypatch.setattr(tuning, "_information", lambda *_: next(falling))
    with pytest.warns(GraphshiftWarning, match="was left as it is: tuned on the graph"):
        found = model.predict_proba(graph, adapt=way)
    assert (found == expected).all()


def test_what_cannot_be_is_refused(data: gs.ShiftDataset, models: dict[str, gs.ERM]) -> None:
    graph = data.tests[0]
    for model, way, why in (
        (models["hops"], "tent", "batch normalisation"),
        (models["tent"], "hops", "weights of hops"),
        (models["tent"], "norm+tent", "norm.prior"),
        (gs.Logistic().fit(data), "tent", "has none"),
    ):
        with pytest.raises(GraphshiftError, match=why):
            model.predict(graph, adapt=way)
    with pytest.raises(GraphshiftError, match="no temperature"):
        models["tent"].predict_proba(graph, adapt="tent", calibrated=True)
    assert len(models["tent"].predict_frame(graph, adapt="tent")) == 80


def test_a_study_scores_it_where_it_can_be(tmp_path: Path) -> None:
    from graphshift.studies import Arm, run_study
    from tiny_studies import TINY, plan

    arms = [Arm(f"ERM, {name}", {"method": "erm", "backbone": name, **TINY}) for name in ("gcn", "gprgnn")]
    study = run_study(plan(arms=arms, trials=0, seeds=[0], adapt=("tent", "hops")), workers=0, threads=1)
    assert study.summary.arm_names() == ["ERM, gcn", "ERM, gcn, + tent", "ERM, gprgnn", "ERM, gprgnn, + hops"]
    assert {one.what for one in study.summary.skipped} == {"+ tent", "+ hops"}
