from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.methods import eerm as risks

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
