"""Co-training with Deep Graph Infomax: the loss node by node, the step, what is kept and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.methods.dgi import DGIMethod, infomax_loss
from small import copied, identical

SMALL: dict[str, Any] = {"hidden_channels": 8, "epochs": 3}


def test_the_loss_is_that_of_a_discriminator_asked_node_by_node() -> None:
    random = torch.Generator().manual_seed(0)
    h, other = (torch.randn(5, 3, dtype=torch.float64, generator=random) for _ in range(2))
    w = torch.randn(3, 3, dtype=torch.float64, generator=random)
    s = [1 / (1 + math.exp(-sum(row[k] for row in h.tolist()) / 5)) for k in range(3)]

    def told(row: list[float]) -> float:
        return 1 / (1 + math.exp(-sum(row[a] * w[a, b] * s[b] for a in range(3) for b in range(3))))

    real, false = (
        sum(math.log(p) for p in ps) / 5
        for ps in ([told(r) for r in h.tolist()], [1 - told(r) for r in other.tolist()])
    )
    assert float(infomax_loss(h, other, w)) == pytest.approx(-(real + false) / 2)
    assert float(infomax_loss(h, other, 0 * w)) == pytest.approx(math.log(2))


@pytest.mark.parametrize("backbone", ["gcn", "gprgnn"])
def test_a_step_is_the_risk_and_the_loss_of_training_and_target(backbone: str) -> None:
    data = gs.load("planted", nodes=60, environments=4)
    settings = gs.DGI(backbone, target="tests", penalty=0.5, **SMALL).resolved()
    network = settings.new_backbone(24, data.task)
    method = DGIMethod(network, settings)
    method.target = [data.tests[0].unlabelled()]
    torch.manual_seed(3)
    method._make(network.represent(network.stem(data.train[0].x), data.train[0].graph)[0].shape[1], torch.device("cpu"))
    weight, state = method.weight.detach().clone(), copied(network.state_dict())  # type: ignore[union-attr]
    torch.manual_seed(5)
    found = method.step(data.train, 0.0)
    network.load_state_dict(state)
    network.train()
    torch.manual_seed(5)
    losses, risks = [], []
    with torch.no_grad():
        for e in (*data.train, *method.target):
            hidden, output = network.represent(network.stem(e.x), e.graph)
            order = torch.randperm(60)
            x = e.x if isinstance(e.x, torch.Tensor) else e.x.to_dense()
            other, _ = network.represent(network.stem(x[order]), e.graph)  # the features themselves are permuted
            losses.append(float(infomax_loss(hidden, other, weight)))
            risks += [] if e.y is None else [float(e.risk(output))]
    expected = sum(losses) / len(losses)
    assert found["infomax"] == pytest.approx(expected, rel=1e-4)
    assert found["loss"] == pytest.approx(sum(risks) / len(risks) + 0.5 * expected, rel=1e-4)


def test_running_statistics_are_of_the_real_graph_alone() -> None:
    data = gs.load("planted", nodes=60, environments=3)
    kept = []
    for make in (gs.DGI, gs.ERM):
        settings = make("gcn", **SMALL).resolved()
        torch.manual_seed(0)
        network = settings.new_backbone(24, data.task)
        settings.make_method(network).step(data.train, 0.0)
        kept.append({n: b.clone() for n, b in network.named_buffers()})
    assert identical(*kept)


def test_it_is_fitted_saved_and_resumed_like_others() -> None:
    data = gs.load("planted", nodes=60, environments=3)
    model = gs.DGI("sage", **SMALL).fit(data)
    assert model.history_[-1]["infomax"] > 0
    assert not model.target_
    assert gs.DGI("sage", target="tests", **SMALL).fit(data).target_ == [e.name for e in data.tests]
    with pytest.raises(GraphshiftError, match="the backbone does not use edges"):
        gs.DGI("mlp", **SMALL).fit(data)
