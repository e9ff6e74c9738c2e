"""V-REx (Krueger et al., ICML 2021, *Out-of-Distribution Generalization via Risk Extrapolation*)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.methods.grouped import Group, GroupedMethod

__all__ = ["VRExMethod", "vrex_objective"]


def vrex_objective(risks: Tensor, penalty: float) -> Tensor:
    """R̄ + λ Var({R_g}): the mean risk and λ times the variance of the risks (its Eq. 8; over G, not G − 1).

    Args:
        risks: of all groups, ``[G]``.
        penalty: λ.
    """
    return risks.mean() + penalty * risks.var(correction=0)


class VRExMethod(GroupedMethod):
    """The mean risk and λ times the variance of the groups' risks.

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
        """R̄ + λ Var."""
        risks = torch.stack([group.risk for group in groups])
        weight = self.penalty if progress >= self.anneal else 0.0
        # The whole is divided by a large λ, so that its learning rate is that of the risk (as IRM's authors do).
        loss = vrex_objective(risks, weight) / max(weight, 1.0)
        return loss, {"risk": float(risks.detach().mean()), "penalty": float(risks.detach().var(correction=0))}
