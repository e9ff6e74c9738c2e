"""The yardstick computes what it should: against enumeration, sampled frequencies and the sparse policy."""

from __future__ import annotations

import math

import pytest
import torch

from graphshift.explorers import SparsePolicy, apply_actions
from graphshift.graph.graph import Graph
from graphshift.lab.bench.dense import DensePolicy, DenseReinforce
from policies import joint_actions, probabilities_of
from reference import random_data


@pytest.fixture
def graph() -> Graph:
    data = random_data(8)
    return Graph.from_edge_index(data.edge_index, 8, undirected=True)


def test_the_probabilities_of_all_joint_actions_sum_to_one() -> None:
    policy = DensePolicy(3)
    with torch.no_grad():
        policy.logits.copy_(torch.randn(3, 3))
    log = policy.log_softmax().detach()
    total = sum(float(log.gather(1, actions).sum().exp()) for actions in joint_actions(3, 2))
    assert total == pytest.approx(1.0, abs=1e-5)
    assert (log.diagonal() == -math.inf).all()


def test_draws_follow_the_softmax_and_know_their_probability() -> None:
    policy, generator = DensePolicy(4), torch.Generator().manual_seed(1)
    with torch.no_grad():
        policy.logits.copy_(torch.randn(4, 4))
    actions, log_prob = policy.draw(40_000, generator)
    assert actions.shape == (4, 40_000)
    counts = torch.stack([row.bincount(minlength=4) for row in actions]) / 40_000
    torch.testing.assert_close(counts, policy.log_softmax().exp().detach(), atol=0.01, rtol=0)
    torch.testing.assert_close(log_prob, policy.log_softmax().gather(1, actions).sum(), rtol=1e-4, atol=0)


def test_it_learns_what_the_sparse_policy_learns(graph: Graph) -> None:
    explorer, sparse = DenseReinforce(2, lr=0.3, seed=3), SparsePolicy(8, lr=0.3)
    for reward in (1.0, -0.5, 2.0, 0.7):
        view = explorer.propose(graph)
        assert view.actions is not None
        assert view.log_prob == pytest.approx(sparse.log_prob(view.actions), rel=1e-5)
        explorer.learn(view, reward)
        sparse.reinforce(view.actions, reward)
    assert explorer.policy is not None
    dense = explorer.policy.log_softmax().exp().detach().double()
    torch.testing.assert_close(dense, probabilities_of(sparse).double(), atol=2e-5, rtol=0)
    assert float(dense.max()) > 0.3  # from 1/7: something was learned


def test_its_views_flip_what_was_drawn(graph: Graph) -> None:
    explorer = DenseReinforce(2, seed=3)
    view = explorer.propose(graph)
    assert view.actions is not None
    edited, flips = apply_actions(graph, view.actions)
    assert torch.equal(view.flips, flips)
    assert torch.equal(view.edge_index, edited.edge_index)
    assert view.graph.undirected


def test_its_memory_is_counted() -> None:
    policy = DensePolicy(10)
    assert policy.num_bytes == 10 * 10 * (4 + 1)  # logits and the mask
    policy.reinforce(policy.draw(1, torch.Generator())[1], 1.0)
    assert policy.num_bytes == 10 * 10 * (4 + 1 + 4 + 8) + 4  # a gradient, two moments, and AdamW's count of steps


def test_it_forgets(graph: Graph) -> None:
    explorer = DenseReinforce(1)
    explorer.learn(explorer.propose(graph), 1.0)
    explorer.reset()
    assert explorer.policy is None
