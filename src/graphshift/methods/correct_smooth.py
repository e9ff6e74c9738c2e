"""Correct & Smooth (Huang et al., ICLR 2021: *Combining Label Propagation and Simple Models*) of a linear model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.hparams import hparam
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task, refuse_graph_level
from graphshift.estimators.base import METHODS
from graphshift.estimators.direct import Array, DirectModel
from graphshift.methods.diffusion import diffused, known_labels, operator_of
from graphshift.methods.logistic import Logistic


def corrected_and_smoothed(environment: Environment, base: Array, correction: float, smoothing: float) -> Array:
    """The base model's probabilities after both steps, ``[nodes, classes]``.

    Correct: the errors E = Y − Z of nodes with a known label spread, Ê = (1 − α₁) (I − α₁ S)⁻¹ E, and a node without
    one becomes Z_i + σ Ê_i / ‖Ê_i‖₁, where σ is the mean ‖E_j‖₁ of the known ones (the paper's *autoscale*). Smooth:
    with the known labels in place, G spreads to (1 − α₂) (I − α₂ S)⁻¹ G. Without known labels the first step is left
    out. Negative numbers are cut off and rows divided by their sum; a row of zeros has the base's.

    Args:
        environment: with ``known_y`` if labels are known.
        base: Z, ``[nodes, classes]``.
        correction, smoothing: α₁ and α₂.
    """
    is_known, labels = known_labels(environment)
    operator, nodes = operator_of(environment.graph), np.flatnonzero(is_known)
    guess = base.copy()
    if nodes.size:
        truth = np.eye(base.shape[1])[labels[nodes].astype(np.int64)]
        errors = np.zeros_like(base)
        errors[nodes] = truth - base[nodes]
        spread = diffused(operator, errors, correction)
        length = np.abs(spread).sum(axis=1, keepdims=True)
        scale = np.abs(errors[nodes]).sum(axis=1).mean()
        guess += scale * np.divide(spread, length, out=np.zeros_like(spread), where=length > 0)
        guess[nodes] = truth
    smooth = diffused(operator, guess, smoothing).clip(min=0)
    total = smooth.sum(axis=1, keepdims=True)
    result: Array = np.where(total > 0, smooth / np.where(total > 0, total, 1.0), base)
    return result


class CorrectSmoothModel(DirectModel):
    """A model of rows, whose predictions the graph corrects and smooths."""

    uses_edges = True
    no_module = "spreads the labels that a graph's nodes have, which an exported model does not take"

    def __init__(self, base: DirectModel, correction: float, smoothing: float) -> None:
        self.base, self.correction, self.smoothing = base, correction, smoothing
        self.told = False

    def predict(self, environment: Environment) -> Array:
        """Both steps, or the second alone where no label is known."""
        if environment.known_y is None and not self.told:
            self.told = True
            warnings.warn(
                f"correct-smooth: environment {environment.name!r} holds no node whose training label is known, so "
                "predictions are smoothed and not corrected.",
                GraphshiftWarning,
                stacklevel=2,
            )
        return corrected_and_smoothed(environment, self.base.predict(environment), self.correction, self.smoothing)

    def arrays(self) -> dict[str, Array]:
        """The base model's."""
        return self.base.arrays()


@METHODS.register("correct-smooth", label="Correct & Smooth")
@dataclass(eq=False, repr=False, kw_only=True)
class CorrectSmooth(Logistic):
    """Correct & Smooth: logistic regression, whose errors on known labels and whose predictions spread along edges.

    Labels are known where the graph that is predicted holds training nodes, as with masks in one graph, or by time.
    Elsewhere predictions are smoothed and not corrected, and a warning says so.

    Args:
        correction: α₁, how far errors spread.
        smoothing: α₂, how far predictions spread.
        c, columns … seed: as in :class:`~graphshift.methods.logistic.Logistic`.
    """

    correction: float = hparam(0.9, ge=0, lt=1, search=(0.5, 0.9), help="α₁, how far errors spread")
    smoothing: float = hparam(0.8, ge=0, lt=1, search=(0.2, 0.5, 0.8), help="α₂, how far predictions spread")

    def check_task(self, task: Task) -> None:
        """Classes alone."""
        refuse_graph_level(task, "method correct-smooth, which spreads labels along edges,")
        if not task.is_classification:
            raise GraphshiftError("method correct-smooth predicts classes; for values take logistic or forest.")

    def learn(self, training: Sequence[Environment]) -> DirectModel:
        """The base model; labels come with the environment that is predicted."""
        return CorrectSmoothModel(super().learn(training), self.correction, self.smoothing)

    def model_of(self, arrays: Mapping[str, Array], features: int, task: Task) -> DirectModel:
        """The base model's arrays."""
        return CorrectSmoothModel(super().model_of(arrays, features, task), self.correction, self.smoothing)
