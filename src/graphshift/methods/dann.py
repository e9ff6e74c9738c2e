"""DANN (Ganin et al., JMLR 2016, *Domain-Adversarial Training of Neural Networks*)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphshift.backbones import Backbone
from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparam
from graphshift.estimators.base import METHODS
from graphshift.estimators.target import TargetEstimator
from graphshift.methods.grouped import Group, GroupedEstimator, GroupedMethod, labelled
from graphshift.training.method import with_prefix

_PREFIX = "discriminator."


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: float) -> Tensor:
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.weight * gradients[0], None


def reversed_gradient(x: Tensor, weight: float) -> Tensor:
    """x itself, whose gradient is multiplied by −λ, the weight, on the way back (its Eq. 18)."""
    reversed_: Tensor = _Reversed.apply(x, weight)
    return reversed_


class DANNMethod(GroupedMethod):
    """A discriminator learns to tell groups, or source and target, apart by representations, which learn it cannot."""

    hparams: DANN

    def __init__(self, backbone: Backbone, hparams: DANN) -> None:
        super().__init__(backbone, hparams)
        self.discriminator: nn.Sequential | None = None
        self.groups = 0  # that the discriminator tells apart

    def objective(self, groups: Sequence[Group], progress: float) -> tuple[Tensor, dict[str, float]]:
        """R̄ and the discriminator's cross-entropy, whose gradient is reversed in the representations."""
        risk = torch.stack([group.risk for group in labelled(groups)]).mean()
        hidden = torch.cat([group.representation for group in groups])
        if self.discriminator is None:
            self._make(hidden.shape[1], self.count, hidden.device)
        assert self.discriminator is not None
        if self.count > self.groups:
            raise GraphshiftError(
                "DANN: a training graph came after the first step; show all of them beforehand: method.meet(graphs)."
            )
        which = torch.repeat_interleave(
            torch.tensor([group.number for group in groups], device=hidden.device),
            torch.tensor([group.output.shape[0] for group in groups], device=hidden.device),
        )
        logits = self.discriminator(reversed_gradient(hidden, self.hparams.penalty))
        told_apart = F.cross_entropy(logits, which)
        accuracy = float((logits.detach().argmax(dim=1) == which).float().mean())
        return risk + told_apart, {"risk": float(risk.detach()), "told_apart": accuracy}

    def _make(self, width: int, groups: int, device: torch.device) -> None:
        self.groups = groups
        self.discriminator = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, groups)).to(device)
        self.optimizer.add_param_group({"params": list(self.discriminator.parameters())})

    def apart(self) -> str:
        """Why it needs one process."""
        return "DANN's discriminator is made at the first step, in every worker another"

    def state(self) -> dict[str, Tensor]:
        """The GNN, the optimiser, and the discriminator."""
        own = {} if self.discriminator is None else self.discriminator.state_dict()
        return super().state() | {_PREFIX + name: tensor for name, tensor in own.items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restores what :meth:`state` gave."""
        own = with_prefix(state, _PREFIX)
        if own and self.discriminator is None:
            last = own["2.weight"]
            self._make(last.shape[1], last.shape[0], next(self.backbone.parameters()).device)
        super().load_state(state)
        if self.discriminator is not None:
            self.discriminator.load_state_dict(own)


@METHODS.register("dann", label="DANN")
@dataclass(eq=False, repr=False, kw_only=True)
class DANN(GroupedEstimator, TargetEstimator):
    """Domain-adversarial training: representations by which source and target, or groups, cannot be told apart.

    Args:
        target: as in :class:`~graphshift.estimators.target.TargetEstimator`; without one, groups are compared.
        penalty: λ, the weight of the reversed gradient.
        groups, group_by: as in :class:`~graphshift.methods.grouped.GroupedEstimator`.
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
    """

    method_class = DANNMethod
    needs_target = False
    penalty: float = hparam(
        1.0, ge=0, le=1e12, search=(0.01, 0.1, 1.0, 10.0), help="λ, the weight of the reversed gradient"
    )
