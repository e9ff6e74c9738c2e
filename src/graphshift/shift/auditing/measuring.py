"""What a model reaches on a labelled graph: its score, its risk, and how often it is right in each class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from graphshift.data.environment import Environment
from graphshift.estimators.predictor import Predictor


@dataclass(frozen=True, eq=False)
class Reached:
    """On one graph.

    Attributes:
        score: by the task's metric.
        risk: the mean loss: negative log-likelihood, in regression the squared error.
        by_class: the share of nodes of each class that are right, ``[classes]``; NaN of a class without nodes; empty in
            regression.
        confused: the share of nodes of class i that are predicted to be j, ``[classes, classes]``; likewise.
    """

    score: float
    risk: float
    by_class: NDArray[np.float64]
    confused: NDArray[np.float64]


def reached(model: Predictor, environment: Environment) -> Reached:
    """What a model reaches on the nodes of a graph that count.

    Args:
        model: fitted.
        environment: with labels.
    """
    counted, y = environment.counted.cpu(), environment.labels.cpu()
    if not model.task_.is_classification:
        value = torch.from_numpy(np.asarray(model.predict(environment)))
        empty = np.zeros(0)
        risk = float((value[counted] - y.double()).square().mean())
        return Reached(environment.score(value.unsqueeze(1)), risk, empty, empty.reshape(0, 0))
    p = torch.from_numpy(np.asarray(model.predict_proba(environment)))
    score = environment.to(torch.device("cpu")).score(model.task_.output_of(p))
    own, classes = p[counted], model.task_.num_classes
    risk = float(-own.gather(1, y.unsqueeze(1)).clamp(min=1e-12).log().mean())
    counts = torch.bincount(y * classes + own.argmax(dim=1), minlength=classes**2).view(classes, classes).double()
    nodes = counts.sum(dim=1, keepdim=True)
    confused = torch.where(nodes > 0, counts / nodes.clamp(min=1), torch.nan).numpy()
    return Reached(score, risk, confused.diagonal().copy(), confused)
