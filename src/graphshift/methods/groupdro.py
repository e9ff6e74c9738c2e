"""GroupDRO (Sagawa et al., ICLR 2020, *Distributionally Robust Neural Networks*)."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.methods.grouped import Group, GroupedMethod


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
    """The groups' risks with weights that move to the worst of them.

    Args:
        backbone: the GNN.
        group_lr: η, how fast weight moves.
        others: as in :class:`GroupedMethod`.
    """

    def __init__(self, backbone: Backbone, *, group_lr: float = 0.01, **others: Any) -> None:
        super().__init__(backbone, **others)
        self.group_lr = group_lr
        self.log_weights: Tensor | None = None

    def objective(self, groups: Sequence[Group], progress: float) -> tuple[Tensor, dict[str, float]]:
        """Σ_g q_g R_g."""
        risks = torch.stack([group.risk for group in groups])
        before = torch.full_like(risks.detach(), -log(risks.numel())) if self.log_weights is None else self.log_weights
        self.log_weights = groupdro_weights(before.to(risks.device), risks, self.group_lr)
        return (self.log_weights.exp() * risks).sum(), {"worst_risk": float(risks.detach().max())}

    def state(self) -> dict[str, Tensor]:
        """The GNN, its optimiser, and the groups' weights."""
        return super().state() | ({} if self.log_weights is None else {"log_weights": self.log_weights})

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave."""
        super().load_state(state)
        self.log_weights = state.get("log_weights")
