"""EERM on several training graphs: which variance the GNN lowers and which the explorers are rewarded with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.backbones import GCN
from graphshift.explorers import Random
from graphshift.methods import EERMMethod
from small import environments

OVER = ("pooled", "within", "averaged")


class Listening(Random):
    """A random explorer that keeps the rewards that it is given."""

    learns = True

    def __init__(self, seed: int) -> None:
        super().__init__(2, seed=seed)
        self.rewards: list[float] = []

    def learn(self, view: Any, reward: float) -> None:
        self.rewards.append(reward)


def method(**settings: Any) -> tuple[EERMMethod, list[Any]]:
    torch.manual_seed(0)
    graphs = environments(3)
    made = EERMMethod(GCN(5, 3, hidden_channels=6), gs.EERM(views=4, **settings), lambda m, k: Listening(10 * m + k))
    return made, graphs


def groups(table: np.ndarray) -> dict[str, list[np.ndarray]]:
    return {"pooled": [table.flatten()], "within": list(table), "averaged": [table.mean(axis=0)]}


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("own", ["same", "within"])
def test_rewards_are_the_variance_of_the_group(over: str, own: str) -> None:
    made, graphs = method(variance=over, reward_variance=own)
    _, risks = made.explore(graphs)
    table = risks.numpy().reshape(3, 4).astype(float)
    found = groups(table)[over if own == "same" else own]
    for m, row in enumerate(made.explorers):
        group = found[m] if "within" in (own, over if own == "same" else "") else found[0]
        for explorer in row:
            assert explorer.rewards == pytest.approx([np.var(group, ddof=1)], rel=1e-4)


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("over", OVER)
def test_the_step_descends_the_objective_of_the_groups(over: str, low_memory: bool) -> None:
    """The gradient of a step against autograd through the risks of the same views."""
    made, graphs = method(variance=over, beta=0.7, low_memory=low_memory, lr=1e-30)
    taken: dict[str, torch.Tensor] = {}
    made.descend = lambda: taken.update({n: p.grad.clone() for n, p in made.backbone.named_parameters()})  # type: ignore[method-assign]
    told = made.step(graphs, 0.0)

    twin, again = method(variance=over)  # the same seeds: the same weights and views
    twin.meet(again)
    twin.backbone.train()
    risks = []
    for environment, row in zip(again, twin.explorers, strict=True):
        for explorer in row:
            graph = explorer.propose(environment.graph).graph
            risks.append(environment.risk(twin.backbone(environment.x, graph)))
    table = torch.stack(risks).view(3, 4)
    variances = {
        "pooled": lambda: table.flatten().var(),
        "within": lambda: (table.var(dim=1)).mean(),
        "averaged": lambda: table.mean(dim=0).var(),
    }
    objective = variances[over]() + 0.7 * table.mean()
    objective.backward()
    assert told["loss"] == pytest.approx(float(objective.detach()), rel=1e-5)
    assert told["variance"] == pytest.approx(float(variances[over]().detach()), rel=1e-4)
    for name, parameter in twin.backbone.named_parameters():
        torch.testing.assert_close(taken[name], parameter.grad, rtol=1e-4, atol=1e-6)


def test_a_step_for_each_graph_is_fit_with_one_by_one() -> None:
    from graphshift.training.batches import one_by_one

    graphs = environments(3)

    def make(**how: Any) -> gs.EERM:
        return gs.EERM("gcn", explorer="random", views=2, epochs=3, selection="last", seed=1, **how)

    each, same, together = make(batch="each").fit(graphs), make().fit(graphs, batches=one_by_one), make().fit(graphs)
    for name, weight in each.backbone_.state_dict().items():
        assert torch.equal(weight, same.backbone_.state_dict()[name])
    weights = [dict(model.backbone_.named_parameters())["layers.0.linear.weight"] for model in (each, together)]
    assert float((weights[0] - weights[1]).detach().abs().max()) > 1e-3
