"""The policy's learning: against enumeration of all actions, and against a dense policy with torch.optim."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from graphshift.explorers import SparsePolicy, apply_actions
from graphshift.graph.graph import Graph
from policies import DensePolicy, joint_actions, logits_of, taught
from reference import dense_normalised


def climbed(policy: SparsePolicy, columns: Tensor, reward: float) -> Tensor:
    """The gradient that one step follows: with SGD and learning rate 1, the change of the logits."""
    twin = SparsePolicy(policy.num_nodes, optimizer="sgd", lr=1.0, dtype=torch.float64)
    twin.load_state(policy.state())
    before = logits_of(twin)
    twin.reinforce(columns, reward)
    return (logits_of(twin) - before).nan_to_num(0.0)  # −∞ − −∞ on the diagonal


# --- enumeration


@pytest.mark.parametrize(("nodes", "draws"), [(2, 1), (3, 1), (3, 2), (4, 1)])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_the_mean_score_is_zero(nodes: int, draws: int, steps: int) -> None:
    """E[∇ log p] = 0, over every joint action."""
    policy = taught(nodes, steps, lr=0.5)
    mean, size, total = torch.zeros(nodes, nodes, dtype=torch.float64), 0.0, 0.0
    for columns in joint_actions(nodes, draws):
        p, score = math.exp(policy.log_prob(columns)), climbed(policy, columns, 1.0)
        mean, size, total = mean + p * score, size + p * float(score.abs().sum()), total + p
    assert total == pytest.approx(1)
    assert size > 0.1 or nodes == 2  # scores are not all zero
    torch.testing.assert_close(mean, torch.zeros_like(mean), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("nodes", "draws"), [(3, 2), (4, 1)])
def test_the_score_is_the_gradient_of_log_prob(nodes: int, draws: int) -> None:
    policy = taught(nodes, 2, lr=0.5)
    for columns in list(joint_actions(nodes, draws))[::5]:
        logits = logits_of(policy).requires_grad_()
        logits.log_softmax(dim=1).gather(1, columns).sum().backward()
        torch.testing.assert_close(climbed(policy, columns, 1.0), logits.grad.nan_to_num(0.0))


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("steps", [0, 1, 6])
def test_the_expected_step_is_the_gradient_of_the_expected_reward(steps: int, undirected: bool) -> None:
    """Over all 81 joint actions on 4 nodes; the reward is a GCN's risk on the edited graph, of which the dense
    computation is all ours: A + B ∘ (complement(A) − A), then Â x w."""
    nodes = 4
    adjacency = torch.zeros(nodes, nodes, dtype=torch.float64)
    for n, m in [(0, 1), (1, 2)]:
        adjacency[n, m] = 1
        adjacency[m, n] = 1 if undirected else 0
    graph = Graph.from_edge_index(adjacency.nonzero().t().flip(0), nodes)
    assert graph.undirected == undirected
    x, y = torch.randn(nodes, 3, dtype=torch.float64), torch.randn(nodes, dtype=torch.float64)
    w = torch.randn(3, dtype=torch.float64)

    policy = taught(nodes, steps, lr=0.7)
    logits = logits_of(policy).requires_grad_()
    log_p = logits.log_softmax(dim=1)
    expected_reward, estimate = torch.zeros((), dtype=torch.float64), torch.zeros(nodes, nodes, dtype=torch.float64)
    rewards = []
    for columns in joint_actions(nodes):
        b = torch.zeros_like(adjacency).scatter(1, columns, 1.0)
        if undirected:
            b = b.maximum(b.t())
        edited = adjacency + b * ((1 - torch.eye(nodes) - adjacency) - adjacency)
        risk = (dense_normalised(edited) @ x @ w - y).square().mean()
        view, _ = apply_actions(graph, columns)
        assert torch.equal(view.adjacency.to_dense().double(), edited)
        rewards.append(float(risk))
        expected_reward = expected_reward + log_p.gather(1, columns).sum().exp() * risk
        estimate += math.exp(policy.log_prob(columns)) * climbed(policy, columns, float(risk))
    assert max(rewards) > 1.5 * min(rewards)
    expected_reward.backward()
    exact = logits.grad.nan_to_num(0.0)
    assert exact.abs().max() > 1e-2
    torch.testing.assert_close(estimate, exact, rtol=0, atol=1e-12)


# --- the dense twin

OPTIMIZERS: dict[str, tuple[str, float, type[torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": ("sgd", 0.0, torch.optim.SGD, {}),
    "sgd-decay": ("sgd", 0.05, torch.optim.SGD, {"weight_decay": 0.05}),
    "adam": ("adam", 0.0, torch.optim.Adam, {}),
    "adamw-decay": ("adam", 0.1, torch.optim.AdamW, {"weight_decay": 0.1}),
}


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-3)], ids=["float64", "float32"]
)
@pytest.mark.parametrize(("nodes", "draws", "steps"), [(2, 2, 50), (3, 3, 80), (6, 2, 120), (30, 2, 60)])
@pytest.mark.parametrize("case", OPTIMIZERS)
def test_it_equals_a_dense_policy_fed_the_same_draws(
    case: str, nodes: int, draws: int, steps: int, dtype: torch.dtype, tolerance: float
) -> None:
    optimizer, decay, reference, options = OPTIMIZERS[case]
    sparse = SparsePolicy(nodes, optimizer=optimizer, lr=0.1, weight_decay=decay, dtype=dtype)
    dense = DensePolicy(nodes, dtype, reference, lr=0.1, **options)
    generator = torch.Generator().manual_seed(nodes)
    off_diagonal = ~torch.eye(nodes, dtype=torch.bool)
    for step in range(steps):
        columns = sparse.sample(draws, generator)
        reward = float(torch.randn((), generator=generator)) + 0.5
        assert sparse.log_prob(columns) == pytest.approx(dense.log_prob(columns).item(), rel=tolerance, abs=tolerance)
        sparse.reinforce(columns, reward)
        dense.reinforce(columns, reward)
        if step % 10 == 0 or step == steps - 1:
            found, expected = logits_of(sparse)[off_diagonal], dense.logits.detach()[off_diagonal].double()
            torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)
    assert sparse.touched == nodes * (nodes - 1) if nodes < 6 else sparse.touched > nodes
    if nodes == 30:
        assert sparse.touched < nodes * (nodes - 1)  # some columns are still shared
    if nodes > 2:
        assert logits_of(sparse)[off_diagonal].std() > 0.05  # it learned


def test_any_draws_can_be_learned_from() -> None:
    """Not only its own: columns touched late must carry the history of the untouched."""
    sparse = SparsePolicy(5, optimizer="adam", lr=0.1, dtype=torch.float64)
    dense = DensePolicy(5, torch.float64, torch.optim.Adam, lr=0.1)
    for step in range(60):
        last = 2 if step < 30 else 5  # columns 2, 3 and 4 are not drawn before step 30
        slot = torch.randint(last - 1, (5, 2))
        columns = torch.where(slot == torch.arange(5).unsqueeze(1), last - 1, slot)
        columns[last - 1 :, :] = columns[last - 1 :, :].clamp(max=max(0, last - 2))
        sparse.reinforce(columns, math.cos(step))
        dense.reinforce(columns, math.cos(step))
    off_diagonal = ~torch.eye(5, dtype=torch.bool)
    expected = dense.logits.detach()[off_diagonal]
    torch.testing.assert_close(logits_of(sparse)[off_diagonal], expected, rtol=0, atol=1e-9)
