"""V-REx (Krueger et al., ICML 2021, *Out-of-Distribution Generalization via Risk Extrapolation*)."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from graphshift.core.hparams import hparam
from graphshift.estimators.base import METHODS
from graphshift.methods.grouped import Group, PenalisedEstimator, PenalisedMethod


def variance_of_risks(risks: Tensor) -> Tensor:
    """Var({R_g}) of the risks ``[G]``, over G, not G − 1: what its Eq. 8 adds to the mean risk, times λ."""
    return risks.var(correction=0)


class VRExMethod(PenalisedMethod):
    """The mean risk and λ times the variance of the groups' risks."""

    def penalty_of(self, groups: Sequence[Group], risks: Tensor) -> Tensor:
        """The variance of the risks."""
        return variance_of_risks(risks)


@METHODS.register("vrex", label="V-REx")
@dataclass(eq=False, repr=False, kw_only=True)
class VREx(PenalisedEstimator):
    """Risk extrapolation: the mean risk of groups and λ times the variance of their risks.

    Args:
        penalty, anneal, groups … seed: as in :class:`~graphshift.methods.grouped.PenalisedEstimator`.
    """

    method_class = VRExMethod
    penalty: float = hparam(1.0, ge=0, le=1e12, search=(1.0, 10.0, 100.0, 1000.0), help="λ, the weight of the penalty")
    anneal: float = hparam(0.0, ge=0, lt=1, search=(0.0, 0.1, 0.5), help="share of training before the penalty counts")
