"""GroupDRO (Sagawa et al., ICLR 2020, *Distributionally Robust Neural Networks*)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.core.hparams import hparam
from graphshift.estimators.base import METHODS
from graphshift.methods.grouped import Group, GroupedEstimator, GroupedMethod


def groupdro_weights(log_weights: Tensor, risks: Tensor, rate: float) -> Tensor:
    """q_g ← q_g exp(η R_g) / Σ_h q_h exp(η R_h), as log q: weight moves to groups with high risk (its Algorithm 1).

    Logarithms, because a weight that a small float rounds to 0 would never come back.

    Args:
        log_weights: log q, ``[G]``, where q sums to 1.
        risks: of the groups, ``[G]``; taken as constants.
        rate: η.
    """
    return torch.log_softmax(log_weights + rate * risks.detach(), dim=0)


class GroupDROMethod(GroupedMethod):
    """The groups' risks with weights that move to the worst of them."""

    hparams: GroupDRO

    def __init__(self, backbone: Backbone, hparams: GroupDRO) -> None:
        super().__init__(backbone, hparams)
        self.log_weights = torch.empty(0)

    def objective(self, groups: Sequence[Group], progress: float) -> tuple[Tensor, dict[str, float]]:
        """Σ_g q_g R_g."""
        risks = torch.stack([group.risk for group in groups])
        if new := self.count - self.log_weights.numel():  # a group that was not met yet starts with an even share
            even = torch.full((new,), -log(self.count), dtype=risks.dtype)
            self.log_weights = torch.cat([self.log_weights.cpu(), even])
        self.log_weights = self.log_weights.to(risks.device)
        numbers = torch.tensor([group.number for group in groups], device=risks.device)
        weights = groupdro_weights(self.log_weights[numbers], risks, self.hparams.group_lr)
        self.log_weights = self.log_weights.index_copy(0, numbers, weights)
        return (weights.exp() * risks).sum(), {"worst_risk": float(risks.detach().max())}

    def apart(self) -> str:
        """Why it needs one process."""
        return "GroupDRO keeps a weight for each group, which every worker would move on its own"

    def state(self) -> dict[str, Tensor]:
        """The GNN, its optimiser, and the groups' weights."""
        return super().state() | {"log_weights": self.log_weights}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restores what :meth:`state` gave."""
        super().load_state(state)
        self.log_weights = state["log_weights"]


@METHODS.register("groupdro", label="GroupDRO")
@dataclass(eq=False, repr=False, kw_only=True)
class GroupDRO(GroupedEstimator):
    """Group distributionally robust optimisation: the risks of groups, weighted towards the worst.

    Args:
        group_lr: η, how fast weight moves to the worst group.
        groups, group_by: as in :class:`~graphshift.methods.grouped.GroupedEstimator`.
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
    """

    method_class = GroupDROMethod
    group_lr: float = hparam(
        0.01, ge=0, le=1e6, search=(0.001, 0.01, 0.1, 1.0), help="η, how fast GroupDRO turns to the worst group"
    )
