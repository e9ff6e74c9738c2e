"""What is timed is what is said."""

from __future__ import annotations

import pytest
import torch

from graphshift.explorers import Gradient, Random, Reinforce
from graphshift.lab.bench.dense import DenseReinforce
from graphshift.lab.bench.workload import (
    METHODS,
    Floor,
    explorer_bytes,
    new_backbone,
    new_method,
    planted_environment,
    stepping,
)
from graphshift.methods import EERMMethod, ERMMethod


def test_the_planted_graph_has_the_size_asked_for() -> None:
    environment = planted_environment(200, degree=6, features=20)
    assert (environment.num_nodes, environment.num_features) == (200, 20)
    assert 4 < environment.graph.num_edges / 200 < 8


def test_methods_are_what_their_names_say() -> None:
    environment = planted_environment(60)
    assert isinstance(new_method(environment, "erm"), ERMMethod)
    kinds = (("random", Random), ("reinforce", Reinforce), ("gradient", Gradient), ("dense", DenseReinforce))
    for kind, explorer in kinds:
        method = new_method(environment, kind, views=4, edits=2, low_memory=True)
        assert isinstance(method, EERMMethod)
        stepping(method, environment)()
        made = method.explorers[0]
        assert [type(one) for one in made] == [explorer] * 4
        assert {one.edits_per_node for one in made} == {2}
        assert len({one.seed for one in made}) == 4
        assert method.hparams.low_memory
    assert set(METHODS) == {"erm", "random", "reinforce", "gradient", "dense"}


def test_backbones_start_with_the_same_weights_and_leave_the_random_state() -> None:
    environment = planted_environment(60)
    before = torch.get_rng_state()
    first, second = new_backbone(environment), new_backbone(environment)
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_job_takes_as_many_steps_as_it_says() -> None:
    environment = planted_environment(60)
    method = new_method(environment, "reinforce")
    stepping(method, environment, 3)()
    assert isinstance(method, EERMMethod)
    explorer = method.explorers[0][0]
    assert isinstance(explorer, Reinforce)
    assert explorer.policy is not None
    assert explorer.policy.steps == 3
    assert explorer_bytes(method) == sum(e.policy.num_bytes for e in method.explorers[0])  # type: ignore[attr-defined]
    assert explorer_bytes(new_method(environment, "erm")) == 0


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gat"])
def test_both_floors_give_the_gradient_of_all_views(backbone: str) -> None:
    environment = planted_environment(60)
    floor = Floor(environment, views=3, edits=2, backbone=backbone)
    assert len(floor.graphs) == 3
    assert all(graph.num_edges > environment.graph.num_edges for graph in floor.graphs)
    gradients = []
    for passes in (floor.passes, floor.passes_from_one_stem):
        floor.backbone.zero_grad()
        passes()
        gradients.append([p.grad.clone() for p in floor.backbone.parameters() if p.grad is not None])
    assert len(gradients[0]) == len(list(floor.backbone.parameters()))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    floor.backbone.zero_grad()
    risks = [environment.risk(floor.backbone(environment.x, graph)) for graph in floor.graphs]
    torch.stack(risks).sum().backward()
    for one, parameter in zip(gradients[0], floor.backbone.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, atol=1e-5, rtol=1e-4)
