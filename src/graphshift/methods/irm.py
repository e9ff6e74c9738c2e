"""IRM (Arjovsky et al., 2019, *Invariant Risk Minimization*), in its practical form IRMv1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.methods.grouped import Group, GroupedMethod
from graphshift.tasks import Task

__all__ = ["IRMMethod", "irm_penalty"]


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


class IRMMethod(GroupedMethod):
    """The mean risk and λ times the mean penalty of the groups.

    Args:
        backbone: the GNN.
        penalty: λ.
        anneal: the share of training before the penalty counts.
        others: as in :class:`GroupedMethod`.
    """

    def __init__(self, backbone: Backbone, *, penalty: float = 1.0, anneal: float = 0.0, **others: Any) -> None:
        super().__init__(backbone, **others)
        self.penalty, self.anneal = penalty, anneal

    def objective(self, groups: Sequence[Group], progress: float) -> tuple[Tensor, dict[str, float]]:
        """R̄ + λ times the mean of the penalties."""
        risk = torch.stack([group.risk for group in groups]).mean()
        penalty = torch.stack([irm_penalty(g.output, g.labels, g.task) for g in groups]).mean()
        weight = self.penalty if progress >= self.anneal else 0.0
        # The whole is divided by a large λ, so that its learning rate is that of the risk (as the authors do).
        loss = (risk + weight * penalty) / max(weight, 1.0)
        return loss, {"risk": float(risk.detach()), "penalty": float(penalty.detach())}
