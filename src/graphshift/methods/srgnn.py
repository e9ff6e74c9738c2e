"""SR-GNN (Zhu et al., NeurIPS 2021, *Shift-Robust GNNs*): its regulariser, the central moment discrepancy.

The paper pulls the training nodes' representations to those of a sample from the target. Here no target is looked at:
every group is pulled to all groups together. Its second part, instance weights by kernel mean matching, needs the
target as well and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphshift.methods.grouped import Group, PenalisedMethod

__all__ = ["SRGNNMethod", "central_moment_discrepancy"]

_ORDERS = 5


def central_moment_discrepancy(first: Tensor, second: Tensor, orders: int = _ORDERS) -> Tensor:
    """‖E X − E Y‖ / (b − a) + Σ_{k=2}^K ‖c_k(X) − c_k(Y)‖ / (b − a)^k, of samples in [a, b] (Zellinger et al., 2017).

    c_k is the k-th central moment of every column. Representations are squashed by tanh, so b − a = 2.

    Args:
        first, second: ``[n, width]`` and ``[m, width]``.
        orders: K.
    """
    first, second = torch.tanh(first), torch.tanh(second)
    mean_1, mean_2 = first.mean(dim=0), second.mean(dim=0)
    centred_1, centred_2 = first - mean_1, second - mean_2
    total = _norm(mean_1 - mean_2) / 2
    for k in range(2, orders + 1):
        total = total + _norm(centred_1.pow(k).mean(dim=0) - centred_2.pow(k).mean(dim=0)) / 2**k
    return total


def _norm(difference: Tensor) -> Tensor:
    """‖d‖, whose gradient at d = 0 is 0 instead of not a number."""
    square = difference.square().sum()
    return torch.where(square > 0, square.clamp(min=torch.finfo(square.dtype).tiny).sqrt(), square)


class SRGNNMethod(PenalisedMethod):
    """The mean risk and λ times the mean discrepancy between a group and all groups together.

    Args:
        penalty: λ.
        others: as in :class:`GroupedMethod`.
    """

    def penalty_of(self, groups: Sequence[Group], risks: Tensor) -> Tensor:
        """The mean discrepancy."""
        everyone = torch.cat([group.representation for group in groups])
        return torch.stack([central_moment_discrepancy(g.representation, everyone) for g in groups]).mean()
