"""CORAL (Sun and Saenko, 2016, *Deep CORAL*), with means as DomainBed has it: source and target, or all groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from graphshift.estimators.base import METHODS
from graphshift.estimators.target import TargetEstimator
from graphshift.methods.grouped import Group, PenalisedEstimator, PenalisedMethod, pooled

Moments = tuple[Tensor, Tensor]


def moments_of(sample: Tensor) -> Moments:
    """Mean and covariance of representations ``[n, width]``, at least two rows."""
    mean = sample.mean(dim=0)
    centred = sample - mean
    return mean, centred.t() @ centred / (sample.shape[0] - 1)


def coral_distance(first: Moments, second: Moments) -> Tensor:
    """Mean squared difference of the means, and of the covariances, that :func:`moments_of` gives for two samples."""
    (mean_1, covariance_1), (mean_2, covariance_2) = first, second
    return (mean_1 - mean_2).square().mean() + (covariance_1 - covariance_2).square().mean()


class CORALMethod(PenalisedMethod):
    """The mean risk and λ times the mean distance of all pairs of groups; with a target, of source and target."""

    def penalty_of(self, groups: Sequence[Group], risks: Tensor) -> Tensor:
        """The mean distance; a group of one node has no covariance and is left out of it."""
        moments = [moments_of(sample) for sample in pooled(groups) if sample.shape[0] > 1]
        pairs = [coral_distance(a, b) for a, b in combinations(moments, 2)]
        return torch.stack(pairs).mean() if pairs else risks.new_zeros(())


@METHODS.register("coral", label="CORAL")
@dataclass(eq=False, repr=False, kw_only=True)
class CORAL(PenalisedEstimator, TargetEstimator):
    """Deep CORAL: the mean risk and λ times the distance of representations, of source and target or of groups.

    Args:
        target: as in :class:`~graphshift.estimators.target.TargetEstimator`; without one, groups are aligned.
        penalty, anneal, groups … seed: as in :class:`~graphshift.methods.grouped.PenalisedEstimator`.
    """

    method_class = CORALMethod
    needs_target = False
