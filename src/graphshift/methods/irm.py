"""IRM (Arjovsky et al., 2019, *Invariant Risk Minimization*), in its practical form IRMv1."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphshift.data.tasks import Task
from graphshift.methods.grouped import Group, PenalisedMethod


def irm_penalty(output: Tensor, labels: Tensor, task: Task) -> Tensor:
    """‖∇_w R(w · f)‖² at w = 1: how much the group's risk could fall by rescaling its outputs (its Eq. IRMv1).

    Args:
        output: of the group, ``[n, out_channels]``.
        labels: ``[n]``.
        task: whose loss R is.
    """
    scale = output.new_ones(()).requires_grad_()
    (slope,) = torch.autograd.grad(task.loss(output * scale, labels), scale, create_graph=True)
    return slope.square()


class IRMMethod(PenalisedMethod):
    """The mean risk and λ times the mean penalty of the groups.

    Args:
        penalty: λ.
        anneal: the share of training before the penalty counts.
        others: as in :class:`GroupedMethod`.
    """

    def penalty_of(self, groups: Sequence[Group], risks: Tensor) -> Tensor:
        """The mean of the groups' penalties."""
        return torch.stack([irm_penalty(g.output, g.labels, g.task) for g in groups]).mean()
