"""The rule ``target``: the score that a model is expected to have on unlabelled graphs, after every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

import numpy as np
import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.data.expected import confidence_estimates, weighted_score
from graphshift.data.metrics import METRICS, Metric
from graphshift.training.method import Method

_MOST = 2_000  # nodes of each side that are looked at: this runs after every epoch


def target_score(method: Method, environments: Sequence[Environment], epoch: int) -> float | None:
    """The mean over the unlabelled graphs of what the present model is expected to score there.

    Of each it is the median of DoC and both forms of ATC (of DoC alone, where the metric is not a share of right
    nodes), compared with the validation nodes. See :func:`believed` for estimates above the validation score.

    Args:
        method: that is trained.
        environments: those with labels are for validation, those without are the target.
        epoch: not used.

    Returns:
        The score in the unit of the task's metric; None where predictions are not finite.
    """
    outputs = [method.predict(environment) for environment in environments]
    if not all(bool(torch.isfinite(output).all()) for output in outputs):
        return None
    shown = list(zip(environments, outputs, strict=True))
    labelled = [(e, output, e.single) for e, output in shown if e.y is not None]
    p = np.concatenate([_probabilities(*one) for one in labelled])
    y = np.concatenate([e.y[rows].cpu().numpy() for e, _, rows in labelled if e.y is not None])
    few = _drawn(len(y))
    p, y, ones, metric = p[few], y[few], np.ones(len(few)), METRICS.find(environments[0].task.metric)
    own, found = weighted_score(p, y, ones, metric), []
    for e, output in shown:
        if e.y is None:
            rows = e.counted if e.counted.numel() else torch.arange(e.num_nodes, device=e.mask.device)
            new = _probabilities(e, output, rows)
            new = new[_drawn(len(new))]
            by = confidence_estimates(p, y, ones, p, new, new, metric, "")
            found.append(believed(own, [value for value in by.values() if np.isfinite(value)], metric))
    return fmean(found)


def believed(held_out: float, estimates: Sequence[float], metric: Metric) -> float:
    """The median of estimates, but never better than the score on labelled nodes.

    A model that is surer of new nodes than of those it was validated on is more often too sure than better: confidence
    can show that something is wrong, not that something is right.

    Args:
        held_out: the score on labelled nodes that the model was not trained on.
        estimates: of the score on new nodes; none leaves the held-out score.
        metric: of both.
    """
    if not estimates:
        return held_out
    middle = median(estimates)
    return held_out if metric.better(middle, held_out) else middle


def check_unlabelled(target: Sequence[Environment], where: str) -> None:
    """Refuses what the rule cannot estimate: a task without classes, a graph without nodes."""
    for e in target:
        if not e.task.is_classification:
            raise GraphshiftError(
                f"{where} needs a task with classes: without labels the score of predicted values cannot be estimated; "
                "choose another rule."
            )
        if not e.num_nodes:
            raise GraphshiftError(f"{where}: target {e.name!r} has no node; give a graph with nodes.")


def _probabilities(environment: Environment, output: Tensor, rows: Tensor) -> np.ndarray:
    found: np.ndarray = environment.task.probabilities(output[rows].double()).cpu().numpy()
    return found


def _drawn(count: int) -> np.ndarray:
    """Places of at most so many nodes, always the same."""
    return np.random.default_rng(0).permutation(count)[:_MOST] if count > _MOST else np.arange(count)
