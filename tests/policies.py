"""What the tests of explorers compare with: a dense policy, and policies that have learned something."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from graphshift.explorers import SparsePolicy
from graphshift.methods.risks import score_function_loss


class DensePolicy:
    """The paper's N × N logits as one parameter, with autograd and a ``torch.optim`` optimiser."""

    def __init__(
        self, num_nodes: int, dtype: torch.dtype, optimizer: type[torch.optim.Optimizer], **options: Any
    ) -> None:
        self.logits = torch.nn.Parameter(torch.zeros(num_nodes, num_nodes, dtype=dtype))
        self.diagonal = torch.eye(num_nodes, dtype=torch.bool)
        self.optimizer = optimizer([self.logits], **options)

    def log_softmax(self) -> Tensor:
        return self.logits.masked_fill(self.diagonal, -math.inf).log_softmax(dim=1)

    def log_prob(self, columns: Tensor) -> Tensor:
        return self.log_softmax().gather(1, columns).sum()

    def reinforce(self, columns: Tensor, reward: float) -> None:
        self.optimizer.zero_grad()
        score_function_loss(self.log_prob(columns), reward).backward()
        self.optimizer.step()


def taught(
    nodes: int, steps: int, *, optimizer: str = "sgd", lr: float = 0.3, weight_decay: float = 0.0
) -> SparsePolicy:
    """A policy (float64) that has learned from draws of its own and random rewards of both signs."""
    policy = SparsePolicy(nodes, optimizer=optimizer, lr=lr, weight_decay=weight_decay, dtype=torch.float64)
    generator = torch.Generator().manual_seed(nodes + 100 * steps)
    for _ in range(steps):
        reward = 2 * float(torch.randn((), generator=generator))
        policy.reinforce(policy.sample(1, generator), reward)
    return policy


def probabilities_of(policy: SparsePolicy) -> Tensor:
    """Every p(n → m), ``[nodes, nodes]``, from ``log_prob`` alone: one row's action changes, others cancel."""
    n = policy.num_nodes
    result = torch.zeros(n, n, dtype=torch.float64)
    base = torch.tensor([[1 if row == 0 else 0] for row in range(n)])
    for row in range(n):
        others = [m for m in range(n) if m != row]
        scores = []
        for m in others:
            columns = base.clone()
            columns[row] = m
            scores.append(policy.log_prob(columns))
        shifted = torch.tensor(scores, dtype=torch.float64) - policy.log_prob(base)
        result[row, others] = shifted.exp()
    return result / result.sum(dim=1, keepdim=True)


def logits_of(policy: SparsePolicy) -> Tensor:
    """The N × N logits in float64; −∞ on the diagonal. A test holds them against :func:`probabilities_of`."""
    return policy.dense_logits().double().clone()


def joint_actions(nodes: int, draws: int = 1) -> Iterator[Tensor]:
    """Every joint action, ``[nodes, draws]``."""
    rows = [list(itertools.product([m for m in range(nodes) if m != row], repeat=draws)) for row in range(nodes)]
    for joint in itertools.product(*rows):
        yield torch.tensor(joint)
