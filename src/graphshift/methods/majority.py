"""The largest class of training, or in regression its mean: what every model has to beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.base import METHODS
from graphshift.estimators.direct import DirectEstimator, DirectModel
from graphshift.methods.modules import SameForAll

Array = NDArray[Any]


def training_shares(environments: Sequence[Environment]) -> Array:
    """The shares of the classes among the counted nodes, ``[classes]``; in regression their mean value, ``[1]``."""
    labels = np.concatenate([e.labels.cpu().numpy() for e in environments])
    task = environments[0].task
    if not task.is_classification:
        return np.array([labels.mean(dtype=np.float64)])
    return np.bincount(labels, minlength=task.num_classes) / labels.size


def checked_shares(arrays: Mapping[str, Array], task: Task) -> Array:
    """The saved array ``shares``, if it can be what :func:`training_shares` gave; else a ValueError."""
    found = arrays["shares"]
    whole = found.shape == (task.num_classes or 1,) and found.dtype.kind == "f" and bool(np.isfinite(found).all())
    if not whole or (task.is_classification and ((found < 0).any() or abs(found.sum() - 1) > 1e-6)):
        raise ValueError("shares are not those of the classes, or the mean")
    return found


class MajorityModel(DirectModel):
    """The same for every node."""

    def __init__(self, shares: Array, task: Task) -> None:
        self.shares, self.task = shares, task

    def predict(self, environment: Environment) -> Array:
        """The shares as probabilities, or the mean."""
        if not self.task.is_classification:
            return np.full(environment.num_items, self.shares[0])
        return np.tile(self.shares, (environment.num_items, 1))

    def module(self, task: Task) -> nn.Module:
        """The same."""
        shares = torch.from_numpy(self.shares).unsqueeze(0)
        return SameForAll(task.output_of(shares) if task.is_classification else shares)

    def arrays(self) -> dict[str, Array]:
        """The shares."""
        return {"shares": self.shares}


@METHODS.register("majority", label="Largest class")
@dataclass(eq=False, repr=False, kw_only=True)
class Majority(DirectEstimator):
    """The largest class of training for every node, with the classes' shares as probabilities; in regression the mean.

    Args:
        selection, seed: as in :class:`~graphshift.estimators.direct.DirectEstimator`; the seed changes nothing.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=100)
    >>> model = gs.Majority().fit(data)
    >>> len(set(model.predict(data.tests[0])))
    1
    """

    def learn(self, training: Sequence[Environment]) -> DirectModel:
        """Counts."""
        return MajorityModel(training_shares(training), training[0].task)

    def model_of(self, arrays: Mapping[str, Array], features: int, task: Task) -> DirectModel:
        """Reads the shares."""
        return MajorityModel(checked_shares(arrays, task), task)
