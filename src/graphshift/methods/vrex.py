"""V-REx (Krueger et al., ICML 2021, *Out-of-Distribution Generalization via Risk Extrapolation*)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from graphshift.methods.grouped import Group, PenalisedMethod


def variance_of_risks(risks: Tensor) -> Tensor:
    """Var({R_g}), over G, not G − 1: what its Eq. 8 adds to the mean risk, times λ.

    Args:
        risks: of all groups, ``[G]``.
    """
    return risks.var(correction=0)


class VRExMethod(PenalisedMethod):
    """The mean risk and λ times the variance of the groups' risks.

    Args:
        penalty: λ.
        anneal: the share of training before the penalty counts.
        others: as in :class:`GroupedMethod`.
    """

    def penalty_of(self, groups: Sequence[Group], risks: Tensor) -> Tensor:
        """The variance of the risks."""
        return variance_of_risks(risks)
