"""IRM (Arjovsky et al., 2019, *Invariant Risk Minimization*), in its practical form IRMv1."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphshift.core.hparams import hparam
from graphshift.data.tasks import Task
from graphshift.estimators.base import METHODS
from graphshift.methods.grouped import Group, PenalisedEstimator, PenalisedMethod


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
    """The mean risk and λ times the mean penalty of the groups."""

    def penalty_of(self, groups: Sequence[Group], risks: Tensor) -> Tensor:
        """The mean of the groups' penalties."""
        return torch.stack([irm_penalty(g.output, g.labels, g.task) for g in groups]).mean()


@METHODS.register("irm", label="IRM")
@dataclass(eq=False, repr=False, kw_only=True)
class IRM(PenalisedEstimator):
    """Invariant risk minimisation: the mean risk of groups and λ times the mean IRMv1 penalty.

    Args:
        penalty, anneal, groups … seed: as in :class:`~graphshift.methods.grouped.PenalisedEstimator`.
    """

    method_class = IRMMethod
    penalty: float = hparam(1.0, ge=0, le=1e12, search=(1.0, 10.0, 100.0, 1000.0), help="λ, the weight of the penalty")
    anneal: float = hparam(0.0, ge=0, lt=1, search=(0.0, 0.1, 0.5), help="share of training before the penalty counts")
