"""SR-GNN (Zhu et al., NeurIPS 2021, *Shift-Robust GNNs*): its regulariser, the central moment discrepancy.

The paper pulls the training nodes' representations to those of a sample from the target. Here no target is looked at:
every group is pulled to all groups together. Its second part, instance weights by kernel mean matching, needs the
target as well and is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphshift.estimators.base import METHODS
from graphshift.methods.grouped import Group, PenalisedEstimator, PenalisedMethod

_ORDERS = 5


def central_moments(sample: Tensor, orders: int = _ORDERS) -> list[Tensor]:
    """Mean and central moments c_2 … c_K of every column, after tanh has put representations into [−1, 1].

    Args:
        sample: ``[n, width]``.
        orders: K.
    """
    squashed = torch.tanh(sample)
    found = [squashed.mean(dim=0)]
    power = centred = squashed - found[0]
    for _ in range(2, orders + 1):
        power = power * centred  # a product a moment: ``pow`` takes several times as long
        found.append(power.mean(dim=0))
    return found


def central_moment_discrepancy(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """‖E X − E Y‖ / (b − a) + Σ_{k=2}^K ‖c_k(X) − c_k(Y)‖ / (b − a)^k, of samples in [a, b] (Zellinger et al., 2017).

    b − a = 2. The arguments are what :func:`central_moments` gives for each sample.
    """
    parts = [_norm(one - other) / 2**k for k, (one, other) in enumerate(zip(first, second, strict=True), start=1)]
    return torch.stack(parts).sum()


def _norm(difference: Tensor) -> Tensor:
    """‖d‖, whose gradient at d = 0 is 0 instead of not a number."""
    square = difference.square().sum()
    return torch.where(square > 0, square.clamp(min=torch.finfo(square.dtype).tiny).sqrt(), square)


class SRGNNMethod(PenalisedMethod):
    """The mean risk and λ times the mean discrepancy between a group and all groups together."""

    def penalty_of(self, groups: Sequence[Group], risks: Tensor) -> Tensor:
        """The mean discrepancy."""
        everyone = central_moments(torch.cat([group.representation for group in groups]))
        own = [central_moments(group.representation) for group in groups]
        return torch.stack([central_moment_discrepancy(moments, everyone) for moments in own]).mean()


@METHODS.register("srgnn", label="SR-GNN")
@dataclass(eq=False, repr=False, kw_only=True)
class SRGNN(PenalisedEstimator):
    """SR-GNN's regulariser: the mean risk of groups and λ times their central moment discrepancy.

    Args:
        penalty, anneal, groups … seed: as in :class:`~graphshift.methods.grouped.PenalisedEstimator`.
    """

    method_class = SRGNNMethod
