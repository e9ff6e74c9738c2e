"""Rewards that are divided by their running root mean square: the size of the risks does not matter."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.datasets.planted import planted
from graphshift.explorers import Reinforce, SparsePolicy, reinforce
from graphshift.graph.graph import Graph
from policies import logits_of
from reference import graph_of, random_data

REWARDS = [3.0, -1.0, 2.0, 0.0, 2.5]

#: What the policy must be taught with, worked out by hand; m is the mean square so far.
ADVANTAGES: dict[float | None, list[float]] = {
    # m = 9, 0.9 · 9 + 0.1 · 1 = 8.2, 0.9 · 8.2 + 0.1 · 4 = 7.78, 7.78 (a zero says nothing), 0.9 · 7.78 + 0.625
    None: [1.0, -1 / math.sqrt(8.2), 2 / math.sqrt(7.78), 0.0, 2.5 / math.sqrt(7.627)],
    # R − b = 0, −4, 1, −1.5, 1.75 with b = 3, 3, 1, 1.5, 0.75; m = –, 16, 8.5, 5.375, 4.21875
    0.5: [0.0, -1.0, 1 / math.sqrt(8.5), -1.5 / math.sqrt(5.375), 1.75 / math.sqrt(4.21875)],
    # R − b = 0, −4, 3, −2, 2.5, each over its own size
    0.0: [0.0, -1.0, 1.0, -1.0, 1.0],
}


@pytest.fixture
def graph() -> Graph:
    return graph_of(random_data())


def taught(graph: Graph, rewards: list[float], **options: Any) -> Reinforce:
    explorer = Reinforce(2, **{"lr": 0.3, "seed": 4, "normalise": True} | options)
    for reward in rewards:
        explorer.learn(explorer.propose(graph), reward)
    return explorer


@pytest.mark.parametrize("baseline", ADVANTAGES)
def test_the_advantage_over_its_running_root_mean_square(graph: Graph, baseline: float | None) -> None:
    explorer = Reinforce(2, lr=0.4, optimizer="sgd", baseline=baseline, normalise=True)
    twin = SparsePolicy(graph.num_nodes, optimizer="sgd", lr=0.4)
    for reward, advantage in zip(REWARDS, ADVANTAGES[baseline], strict=True):
        view = explorer.propose(graph)
        explorer.learn(view, reward)
        twin.reinforce(view.actions, advantage)
        torch.testing.assert_close(logits_of(explorer.policy), logits_of(twin), rtol=0, atol=1e-6)


@pytest.mark.parametrize("baseline", [None, 0.9])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_size_of_rewards_does_not_matter(graph: Graph, optimizer: str, baseline: float | None) -> None:
    rewards = [math.cos(step) for step in range(8)]
    options = {"optimizer": optimizer, "baseline": baseline}
    usual = taught(graph, rewards, **options)
    for scale in (1e-6, 1e-12, 1e6):
        other = taught(graph, [scale * reward for reward in rewards], **options)
        torch.testing.assert_close(logits_of(other.policy), logits_of(usual.policy), rtol=1e-4, atol=1e-5)
    tiny = taught(graph, [1e-12 * reward for reward in rewards], **options, normalise=False)
    spread = [logits_of(e.policy).nan_to_num(neginf=0).abs().max() for e in (tiny, usual)]
    assert spread[0] < 0.01 * spread[1]  # without, next to nothing is learned from them


def test_the_first_step_beside_a_baseline_changes_nothing(graph: Graph) -> None:
    explorer = taught(graph, [1e6], baseline=0.9)
    assert float(logits_of(explorer.policy).nan_to_num(neginf=0).abs().max()) == 0
    assert "mean_square" not in explorer.state()
    view = explorer.propose(graph)
    explorer.learn(view, 1e6 + 1e-3)  # the first difference sets the scale, however small beside the reward
    assert explorer.state()["mean_square"] == pytest.approx(1e-6, rel=1e-4)
    assert explorer.policy.log_prob(view.actions) > view.log_prob + 0.1


def test_rewards_that_are_all_zero_teach_nothing(graph: Graph) -> None:
    explorer = taught(graph, [0.0, 0.0])
    assert float(logits_of(explorer.policy).nan_to_num(neginf=0).abs().max()) == 0


@pytest.mark.parametrize("baseline", [None, 0.8])
def test_a_restored_explorer_knows_the_size_of_rewards(graph: Graph, baseline: float | None) -> None:
    explorer = taught(graph, [1.0, 5.0, 2.0], baseline=baseline)
    other = taught(graph, [100.0, 300.0], baseline=baseline, seed=9)  # has learned something else, which must go
    other.load_state(explorer.state())
    assert other.state()["mean_square"] == explorer.state()["mean_square"]
    for step in range(5):
        views = [e.propose(graph) for e in (explorer, other)]
        assert torch.equal(views[0].actions, views[1].actions)
        for e, view in zip((explorer, other), views, strict=True):
            e.learn(view, 3 * math.sin(step))
    assert torch.equal(logits_of(explorer.policy), logits_of(other.policy))
    assert other.state()["mean_square"] == explorer.state()["mean_square"]


def test_reset_forgets_the_size_of_rewards(graph: Graph) -> None:
    explorer = taught(graph, [1e6, 2e6])
    assert "mean_square" in explorer.state()
    explorer.reset()
    assert "mean_square" not in explorer.state()
    place = explorer.generator.get_state()
    fresh = Reinforce(2, lr=0.3, normalise=True)
    fresh.generator.set_state(place)
    for e in (explorer, fresh):
        e.learn(e.propose(graph), 1e-3)
    assert torch.equal(logits_of(explorer.policy), logits_of(fresh.policy))
    empty = Reinforce(2, normalise=True)
    explorer.load_state(empty.state())
    assert "mean_square" not in explorer.state()


def test_it_is_an_option_of_eerms_explorers(monkeypatch: pytest.MonkeyPatch) -> None:
    data = planted(nodes=60, environments=3)
    told: list[float] = []
    real = SparsePolicy.reinforce

    def listening(self: SparsePolicy, actions: torch.Tensor, reward: float, *rest: Any) -> Any:
        told.append(reward)
        return real(self, actions, reward, *rest)

    monkeypatch.setattr(reinforce.SparsePolicy, "reinforce", listening)
    settings = {"epochs": 3, "hidden_channels": 4, "views": 2, "edits_per_node": 1}
    model = gs.EERM(**settings, explorer_options={"normalise": True}).fit(data.train, data.val)
    mean, expected = None, []
    for row in model.history_:
        square = row["variance"] ** 2
        mean = square if mean is None else 0.9 * mean + 0.1 * square
        expected += [row["variance"] / math.sqrt(mean)] * 2
    assert told == pytest.approx(expected, rel=1e-4)
