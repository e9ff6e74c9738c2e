from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.methods import risks

SIZES = [2, 3, 4, 7]


@pytest.fixture(params=SIZES, ids=lambda k: f"K={k}")
def some(request: pytest.FixtureRequest) -> Tensor:
    return torch.rand(request.param, dtype=torch.float64)


def test_variance_divides_by_k_minus_one(some: Tensor) -> None:
    assert risks.variance(some).item() == pytest.approx(np.var(some.numpy(), ddof=1))
    assert risks.variance(torch.tensor([1.0, 4.0])).item() == pytest.approx(4.5)  # by hand: 1.5² + 1.5²


@pytest.mark.parametrize("beta", [0.0, 0.5, 3.0])
def test_the_objective_is_variance_plus_beta_times_the_mean(some: Tensor, beta: float) -> None:
    values = some.numpy()
    expected = ((values - values.mean()) ** 2).sum() / (values.size - 1) + beta / values.size * values.sum()
    assert risks.eerm_objective(some, beta).item() == pytest.approx(expected)


@pytest.mark.parametrize("beta", [0.0, 1.0, 3.0])
def test_weighted_gradients_of_single_risks_are_the_gradient_of_the_objective(some: Tensor, beta: float) -> None:
    """Σ_k c_k ∇L_k, one view at a time, with risks that share their parameters."""
    theta = torch.randn(5, dtype=torch.float64, requires_grad=True)
    views = torch.randn(some.numel(), 5, dtype=torch.float64)

    def risk(k: int) -> Tensor:
        return torch.tanh(views[k] @ theta).exp() + (views[k] * theta.square()).sum()

    all_risks = torch.stack([risk(k) for k in range(some.numel())])
    (expected,) = torch.autograd.grad(risks.eerm_objective(all_risks, beta), theta, retain_graph=True)
    weights = risks.objective_weights(all_risks, beta)
    assert not weights.requires_grad
    found = sum(weights[k] * torch.autograd.grad(risk(k), theta)[0] for k in range(some.numel()))
    torch.testing.assert_close(found, expected)


def test_difference_rewards_are_what_leaving_one_out_loses(some: Tensor) -> None:
    values = some.tolist()
    for k, reward in enumerate(risks.difference_rewards(some).tolist()):
        others = values[:k] + values[k + 1 :]
        without = np.var(others, ddof=1) if len(others) > 1 else 0.0
        assert reward == pytest.approx(np.var(values, ddof=1) - without)


@pytest.mark.parametrize("explorers", [2, 3])
def test_difference_rewards_give_the_same_expected_gradient_as_the_shared_reward(explorers: int) -> None:
    """By enumeration: every explorer draws one of 3 actions from its own softmax; the risk depends on the action."""
    actions = 3
    logits = torch.randn(explorers, actions, dtype=torch.float64, requires_grad=True)
    table = torch.rand(explorers, actions, dtype=torch.float64)  # the risk of explorer k's view under its action
    log_p = logits.log_softmax(dim=1)
    shared, difference, exact = 0.0, 0.0, 0.0
    for joint in itertools.product(range(actions), repeat=explorers):
        index = torch.arange(explorers), torch.tensor(joint)
        each = log_p[index]
        probability = each.sum().exp()
        weight = probability.detach()
        reward = risks.variance(table[index])
        differences = risks.difference_rewards(table[index])
        exact = exact + probability * reward
        shared = shared - weight * risks.score_function_loss(each.sum(), reward)
        difference = difference - weight * sum(
            risks.score_function_loss(each[k], differences[k]) for k in range(explorers)
        )
    gradients = [torch.autograd.grad(value, logits, retain_graph=True)[0] for value in (exact, shared, difference)]
    assert gradients[0].abs().max() > 1e-3  # there is something to learn
    torch.testing.assert_close(gradients[1], gradients[0])
    torch.testing.assert_close(gradients[2], gradients[0])


def test_rewards_are_constants() -> None:
    values = torch.rand(4, requires_grad=True)
    assert not risks.difference_rewards(values).requires_grad
    log_prob, reward = torch.tensor(-2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    loss = risks.score_function_loss(log_prob, reward)
    assert loss.item() == 6.0
    loss.backward()
    assert log_prob.grad.item() == -3.0
    assert reward.grad is None
    assert risks.score_function_loss(torch.tensor(-2.0), 0.5).item() == 1.0
    exact = risks.score_function_loss(torch.tensor(-3.0, dtype=torch.float64), 0.1)
    assert exact.item() == 0.1 * 3.0  # not the float32 nearest to 0.1


@pytest.mark.parametrize(
    "function",
    [
        risks.variance,
        lambda r: risks.eerm_objective(r, 1.0),
        lambda r: risks.objective_weights(r, 1.0),
        risks.difference_rewards,
    ],
    ids=["variance", "objective", "weights", "difference"],
)
@pytest.mark.parametrize("shape", [(1,), (0,), (), (2, 2)], ids=str)
def test_fewer_than_two_risks_are_refused_with_the_reason(function, shape: tuple[int, ...]) -> None:
    with pytest.raises(GraphshiftError, match="K at least 2: one risk has no variance") as caught:
        function(torch.ones(shape))
    assert str(list(shape)) in str(caught.value)


#: Groups of the risks of M = 3 graphs with K = 4 views each, as plain lists: what each variance is taken of.
GROUPS = {
    "pooled": lambda table: [[risk for row in table for risk in row]],
    "within": lambda table: table,
    "averaged": lambda table: [[sum(row[k] for row in table) / len(table) for k in range(len(table[0]))]],
}


@pytest.mark.parametrize("over", GROUPS)
def test_several_graphs_objective_weights_and_rewards_against_plain_sums(over: str) -> None:
    table = torch.rand(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    flat = table.flatten().requires_grad_()
    groups = GROUPS[over](table.tolist())
    expected = np.mean([np.var(group, ddof=1) for group in groups]) + 0.7 * float(table.mean())
    objective = risks.grouped_objective(flat, 3, over, 0.7)
    assert float(objective.detach()) == pytest.approx(expected)
    (gradient,) = torch.autograd.grad(objective, flat)
    torch.testing.assert_close(risks.grouped_weights(flat, 3, over, 0.7), gradient)

    shared = risks.grouped_rewards(flat, 3, over, shared=True).view(3, 4)
    own = risks.grouped_rewards(flat, 3, over, shared=False).view(3, 4)
    assert not shared.requires_grad
    assert not own.requires_grad
    for m in range(3):
        for k in range(4):
            group = groups[m] if over == "within" else groups[0]
            place = 4 * m + k if over == "pooled" else k
            others = group[:place] + group[place + 1 :]
            assert float(shared[m, k]) == pytest.approx(np.var(group, ddof=1))
            assert float(own[m, k]) == pytest.approx(np.var(group, ddof=1) - np.var(others, ddof=1))


def test_what_lies_between_graphs_is_no_reward_within_them() -> None:
    """Graphs whose risks are far apart, and views that hardly differ: pooled, the reward is nearly all between."""
    table = torch.tensor([[1.0, 1.1, 0.9], [5.0, 5.3, 4.7]], dtype=torch.float64)
    pooled, within = (risks.grouped_rewards(table.flatten(), 2, over, shared=True) for over in ("pooled", "within"))
    assert float(pooled[0]) > 4
    assert within.tolist() == pytest.approx([0.01] * 3 + [0.09] * 3)


@pytest.mark.parametrize("over", GROUPS)
def test_one_graph_makes_no_difference(over: str) -> None:
    values = torch.rand(5, dtype=torch.float64)
    assert float(risks.grouped_objective(values, 1, over, 2.0)) == pytest.approx(
        float(risks.eerm_objective(values, 2.0))
    )
    torch.testing.assert_close(risks.grouped_weights(values, 1, over, 2.0), risks.objective_weights(values, 2.0))
    rewards = risks.grouped_rewards(values, 1, over, shared=False)
    torch.testing.assert_close(rewards, risks.difference_rewards(values))
