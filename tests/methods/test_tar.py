"""TAR: the flow against a dense computation and finite differences, what it keeps, and the step."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import graphshift as gs
from graphshift.data.tasks import Task
from graphshift.methods.tar import TARMethod, counted_ends, flow, node_losses, robust_value, worst_shares
from small import environments

EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 3)]
ENDS = (torch.tensor([i for i, _ in EDGES]), torch.tensor([j for _, j in EDGES]))


def drawn(seed: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return torch.rand(4, dtype=torch.float64, generator=random).softmax(0), torch.rand(
        4, dtype=torch.float64, generator=random
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_flow_is_the_gradient_in_the_graphs_wasserstein_space(seed: int) -> None:
    """−L(q) ∂F/∂q, L the Laplacian whose edges weigh what flows: the dense form, and dF/dt along it by differences."""
    q, losses = drawn(seed)
    beta = 0.3
    slope = torch.autograd.functional.jacobian(lambda one: robust_value(one, losses, beta), q)
    laplacian = torch.zeros(4, 4, dtype=torch.float64)
    for i, j in EDGES:
        giver = i if slope[i] < slope[j] else j
        for a, b in itertools.product((i, j), repeat=2):
            laplacian[a, b] += q[giver] * (1 if a == b else -1)
    found = flow(q, losses, ENDS, beta)
    torch.testing.assert_close(found, laplacian @ slope)
    assert float(found.sum()) == pytest.approx(0, abs=1e-12)
    step = 1e-6
    risen = float(robust_value(q + step * found, losses, beta) - robust_value(q - step * found, losses, beta)) / (
        2 * step
    )
    assert risen == pytest.approx(float(slope @ laplacian @ slope), rel=1e-5)
    assert risen > 0


def test_weights_stay_shares_and_reach_what_the_flow_ends_in() -> None:
    """On a connected graph F has one maximum, q ∝ exp(l / β); where nothing is connected nothing moves."""
    _, losses = drawn(0)
    far = worst_shares(losses, ENDS, entropy=0.5, rate=0.05, steps=4000)
    torch.testing.assert_close(far, (losses / 0.5).softmax(0), atol=1e-6, rtol=0)
    for rate, steps in ((1e3, 50), (0.1, 5)):
        shares = worst_shares(losses, ENDS, entropy=0.01, rate=rate, steps=steps)
        assert float(shares.sum()) == pytest.approx(1)
        assert float(shares.min()) > 0
        assert robust_value(shares, losses, 0.01) > robust_value(torch.full((4,), 0.25).double(), losses, 0.01)
    none = (torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))
    assert worst_shares(losses, none, entropy=0.1, rate=0.1, steps=3).tolist() == [0.25] * 4


def test_edges_are_those_between_counted_nodes_once() -> None:
    (e,) = environments(1)
    counted = e.counted.tolist()
    expected = {
        frozenset((counted.index(a), counted.index(b)))
        for a, b in e.graph.edge_index.t().tolist()
        if a in counted and b in counted
    }
    low, high = counted_ends(e)
    found = [frozenset(pair) for pair in zip(low.tolist(), high.tolist(), strict=True)]
    assert len(found) == len(set(found))
    assert set(found) == expected


@pytest.mark.parametrize(
    ("task", "labels"),
    [
        (Task("multiclass", 3), torch.tensor([0, 2, 1, 1])),
        (Task("binary", 2), torch.tensor([0, 1, 1, 0])),
        (Task("binary", 2, two_logits=True), torch.tensor([0, 1, 1, 0])),
        (Task("regression", 0), torch.tensor([0.5, -1.0, 2.0, 0.0])),
    ],
)
def test_the_mean_of_the_nodes_losses_is_the_tasks(task: Task, labels: Tensor) -> None:
    output = torch.randn(4, task.out_channels, generator=torch.Generator().manual_seed(0))
    losses = node_losses(task, output, labels)
    torch.testing.assert_close(losses.mean(), task.loss(output, labels))
    torch.testing.assert_close(losses[1], task.loss(output[1:2], labels[1:2]))


@pytest.mark.parametrize("backbone", ["gcn", "mlp"])
def test_a_step_is_the_risk_under_the_worst_weights(backbone: str) -> None:
    how: dict[str, Any] = {"hidden_channels": 8, "entropy": 0.05, "flow_rate": 0.2, "flow_steps": 3}
    training = environments(2)
    settings = gs.TAR(backbone, **how).resolved()
    network = settings.new_backbone(5, training[0].task)
    method = TARMethod(network, settings)
    network.train()
    expected = []
    with torch.no_grad():
        for e in training:
            output = network(e.x, e.graph)[e.counted]
            losses = node_losses(e.task, output, e.labels)
            shares = worst_shares(losses, counted_ends(e), entropy=0.05, rate=0.2, steps=3)
            assert not math.isclose(float(shares @ losses), float(losses.mean()), rel_tol=1e-4)
            expected.append(float(shares @ losses))
    assert method.step(training, 0.0)["loss"] == pytest.approx(sum(expected) / 2, rel=1e-5)


def test_it_is_fitted_like_others() -> None:
    data = gs.load("planted", nodes=60, environments=3)
    model = gs.TAR(epochs=3, hidden_channels=8).fit(data)
    assert model.history_[-1]["largest_weight"] > 1
    assert set(model.score(data.tests)) == {e.name for e in data.tests}
