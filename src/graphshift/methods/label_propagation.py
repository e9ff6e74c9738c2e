"""Label propagation (Zhou et al., NeurIPS 2004, *Learning with Local and Global Consistency*)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphshift.core.errors import GraphshiftWarning
from graphshift.core.hparams import hparam
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task, refuse_graph_level
from graphshift.estimators.base import METHODS
from graphshift.estimators.direct import Array, DirectEstimator, DirectModel
from graphshift.methods.diffusion import diffused, known_labels, operator_of
from graphshift.methods.majority import MajorityModel, checked_shares, training_shares

_LEAST = 1e-12  # of what reaches a node: below, nothing does


def propagated(environment: Environment, shares: Array, alpha: float) -> Array:
    """What labelled nodes say of the others: F_i / Σ_k F_ik with F = (1 − α) (I − α S)⁻¹ Y.

    Y has a one for the class of each node whose training label is known. In regression the values are spread and
    divided by what their number spreads to. A node that no label reaches has ``shares``.

    Args:
        environment: with ``known_y``.
        shares: of the classes in training, ``[classes]``, or the mean, ``[1]``.
        alpha: α.
    """
    is_known, labels = known_labels(environment)
    task = environment.task
    start = np.zeros((environment.num_nodes, task.num_classes or 2))
    nodes = np.flatnonzero(is_known)
    if task.is_classification:
        start[nodes, labels[nodes].astype(np.int64)] = 1
    else:
        start[nodes] = np.stack([labels[nodes], np.ones(nodes.size)], axis=1)
    spread = diffused(operator_of(environment.graph), start, alpha)
    total = spread.sum(axis=1) if task.is_classification else spread[:, 1]
    reached = total > _LEAST
    found = MajorityModel(shares, task).predict(environment)
    if task.is_classification:
        positive = spread[reached].clip(min=0)
        found[reached] = positive / positive.sum(axis=1, keepdims=True)
    else:
        found[reached] = spread[reached, 0] / total[reached]
    return found


class PropagationModel(DirectModel):
    """The classes' shares in training, which stand where no label reaches; labels are the environment's."""

    uses_edges = True
    no_module = "spreads the labels that a graph's nodes have, which an exported model does not take"

    def __init__(self, shares: Array, alpha: float, task: Task) -> None:
        self.shares, self.alpha, self.task = shares, alpha, task
        self.told = False

    def predict(self, environment: Environment) -> Array:
        """Labels, spread; the shares where none is known."""
        if environment.known_y is None:
            if not self.told:
                self.told = True
                warnings.warn(
                    f"label-propagation: environment {environment.name!r} holds no node whose training label is known, "
                    "so every node gets the classes' shares of training (or their mean).",
                    GraphshiftWarning,
                    stacklevel=2,
                )
            return MajorityModel(self.shares, self.task).predict(environment)
        return propagated(environment, self.shares, self.alpha)

    def arrays(self) -> dict[str, Array]:
        """The shares."""
        return {"shares": self.shares}


@METHODS.register("label-propagation", label="Label propagation")
@dataclass(eq=False, repr=False, kw_only=True)
class LabelPropagation(DirectEstimator):
    """Label propagation: training labels spread along edges; features are not used.

    It needs training nodes in the graph that is predicted, as with masks in one graph, or by time. Elsewhere every
    node gets the classes' shares of training, and a warning says so.

    Args:
        alpha: α, how far labels spread.
        selection, seed: as in :class:`~graphshift.estimators.direct.DirectEstimator`; the seed changes nothing.
    """

    alpha: float = hparam(0.9, ge=0, lt=1, search=(0.5, 0.8, 0.9, 0.99), help="α, how far labels spread")

    def check_task(self, task: Task) -> None:
        """Labels of nodes alone."""
        refuse_graph_level(task, "method label-propagation, which spreads labels along edges,")

    def learn(self, training: Sequence[Environment]) -> DirectModel:
        """Counts; labels come with the environment that is predicted."""
        return PropagationModel(training_shares(training), self.alpha, training[0].task)

    def model_of(self, arrays: Mapping[str, Array], features: int, task: Task) -> DirectModel:
        """Reads the shares."""
        return PropagationModel(checked_shares(arrays, task), self.alpha, task)
