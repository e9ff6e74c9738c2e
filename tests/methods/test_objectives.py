"""Every method's objective as a pure function, against an independent computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats

from graphshift.backbones import GCN
from graphshift.data.tasks import Task
from graphshift.methods.coral import coral_distance, moments_of
from graphshift.methods.dann import reversed_gradient
from graphshift.methods.groupdro import groupdro_weights
from graphshift.methods.grouped import penalised
from graphshift.methods.irm import irm_penalty
from graphshift.methods.mixup import mixup_risk
from graphshift.methods.srgnn import central_moment_discrepancy, central_moments
from graphshift.methods.vrex import variance_of_risks
from small import environments

TASKS = {
    "multiclass": (Task("multiclass", 3), torch.tensor([0, 2, 1, 1, 0])),
    "binary": (Task("binary", 2), torch.tensor([0, 1, 1, 0, 1])),
    "regression": (Task("regression", 0), torch.tensor([0.5, -1.0, 2.0, 0.0, 1.5], dtype=torch.float64)),
}


def outputs(task: Task, rows: int = 5) -> torch.Tensor:
    made = torch.randn(rows, task.out_channels, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return made.requires_grad_()


@pytest.mark.parametrize("kind", TASKS)
def test_irm_penalty_is_the_squared_slope_of_the_risk_in_the_scale_of_the_outputs(kind: str) -> None:
    task, labels = TASKS[kind]
    output, step = outputs(task), 1e-5
    slope = (task.loss(output * (1 + step), labels) - task.loss(output * (1 - step), labels)) / (2 * step)
    assert irm_penalty(output, labels, task).item() == pytest.approx(slope.item() ** 2, rel=1e-6)


def test_irm_penalty_has_a_gradient_itself() -> None:
    task, labels = TASKS["multiclass"]
    output = outputs(task)
    assert torch.autograd.gradcheck(lambda o: irm_penalty(o, labels, task), output)


def test_irm_penalty_vanishes_where_no_rescaling_helps() -> None:
    task = Task("regression", 0)
    output = torch.tensor([[1.0], [2.0], [3.0]])
    labels = torch.tensor([1.0, 2.0, 3.0])
    assert irm_penalty(output, labels, task).item() == 0
    assert irm_penalty(0.5 * output, labels, task).item() > 0


def test_vrex_is_the_mean_and_the_variance_over_all_groups() -> None:
    risks = torch.tensor([0.3, 1.1, 0.7, 2.0], dtype=torch.float64)
    expected = np.mean(risks.numpy()) + 2.5 * np.var(risks.numpy())  # numpy divides by G
    found = 2.5 * penalised(risks.mean(), variance_of_risks(risks), 2.5)
    assert float(found) == pytest.approx(expected)
    assert float(penalised(risks.mean(), variance_of_risks(risks), 0.5)) == pytest.approx(
        np.mean(risks.numpy()) + 0.5 * np.var(risks.numpy())
    )


def test_groupdro_weights_follow_the_papers_update() -> None:
    weights, risks = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.1, 2.0, 1.0])
    raised = weights.double().numpy() * np.exp(0.7 * risks.double().numpy())
    found = groupdro_weights(weights.log(), risks, 0.7).exp().numpy()
    np.testing.assert_allclose(found, raised / raised.sum(), rtol=1e-6)
    torch.testing.assert_close(groupdro_weights(weights.log(), risks, 0.0).exp(), weights)


def test_groupdro_weights_come_back_from_nothing() -> None:
    """As in exact arithmetic: what 200 steps take, 200 steps the other way give back."""
    weights = torch.full((2,), 0.5).log()
    for risks in [torch.tensor([0.0, 1.0])] * 200 + [torch.tensor([1.0, 0.0])] * 200:
        weights = groupdro_weights(weights, risks, 1.0)
    torch.testing.assert_close(weights.exp(), torch.full((2,), 0.5), atol=1e-3, rtol=0)


def test_mixup_is_cross_entropy_with_soft_labels_of_mixed_outputs() -> None:
    task, labels = TASKS["multiclass"]
    output, partner, share = outputs(task), torch.tensor([3, 0, 4, 1, 2]), 0.3
    soft = share * F.one_hot(labels, 3) + (1 - share) * F.one_hot(labels[partner], 3)
    mixed = share * output + (1 - share) * output[partner]
    expected = -(soft * mixed.log_softmax(dim=1)).sum(dim=1).mean()
    torch.testing.assert_close(mixup_risk(output, labels, partner, share, task), expected)
    torch.testing.assert_close(mixup_risk(output, labels, partner, 1.0, task), task.loss(output, labels))


def test_mixing_outputs_is_mixing_the_last_hidden_layer_of_two_branches() -> None:
    """Each node's last layer sees its own neighbours; being affine, it may come before or after the mixing."""
    (e,) = environments(1)
    network = GCN(5, 3, hidden_channels=6).eval()
    hidden, output = network.represent(network.stem(e.x), e.graph)
    partner, share = torch.randperm(e.num_nodes, generator=torch.Generator().manual_seed(0)), 0.4
    messages = (e.graph.normalised @ torch.eye(e.num_nodes)) @ hidden
    last = network.layers[-1]
    expected = (share * messages + (1 - share) * messages[partner]) @ last.linear.weight.t() + last.bias
    torch.testing.assert_close(share * output + (1 - share) * output[partner], expected, rtol=1e-4, atol=1e-5)


def test_coral_is_the_difference_of_means_and_covariances() -> None:
    first, second = (torch.randn(n, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(n)) for n in (7, 9))
    means = first.mean(0).numpy() - second.mean(0).numpy()
    covariances = np.cov(first.numpy(), rowvar=False) - np.cov(second.numpy(), rowvar=False)
    assert float(coral_distance(moments_of(first), moments_of(second))) == pytest.approx(
        (means**2).mean() + (covariances**2).mean()
    )
    assert float(coral_distance(moments_of(first), moments_of(first))) == 0


def test_central_moments_are_those_of_scipy() -> None:
    first, second = (torch.randn(n, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(n)) for n in (8, 6))
    x, y = np.tanh(first.numpy()), np.tanh(second.numpy())
    expected = np.linalg.norm(x.mean(0) - y.mean(0)) / 2
    for k in range(2, 6):
        expected += np.linalg.norm(stats.moment(x, k) - stats.moment(y, k)) / 2**k
    assert float(central_moment_discrepancy(central_moments(first), central_moments(second))) == pytest.approx(expected)


def test_the_discrepancy_of_equal_samples_is_zero_and_has_a_gradient() -> None:
    sample = torch.randn(5, 3, requires_grad=True, generator=torch.Generator().manual_seed(1))
    distance = central_moment_discrepancy(central_moments(sample), central_moments(sample.detach()))
    distance.backward()
    assert float(distance) == 0
    assert sample.grad is not None
    assert bool(torch.isfinite(sample.grad).all())


def test_the_gradient_is_reversed_and_weighted() -> None:
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = reversed_gradient(x, 0.5)
    torch.testing.assert_close(y, x)
    (y * torch.tensor([3.0, 4.0])).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([-1.5, -2.0]))
