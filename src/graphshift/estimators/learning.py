"""What a fitted model learns from labelled graphs that it was not trained on: temperature, thresholds, scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.data.pieces import standing_for
from graphshift.data.tasks import Task
from graphshift.estimators.adaptation import Calibration, calibrated_to, parts_of
from graphshift.estimators.confidence import Confidence, confidence_of
from graphshift.estimators.held_out import HeldOut, Signals
from graphshift.estimators.predictor import Predictor


@dataclass
class Learned:
    """By mode of adaptation, ``""`` for none.

    Attributes:
        confidences: of the probabilities; empty in regression.
        held_out: what prediction sets need.
        scores: of each graph logarithms of the class probabilities of its counted nodes; empty in regression.
        labels: of each graph those of its counted nodes.
    """

    confidences: dict[str, Confidence] = field(default_factory=dict)
    held_out: dict[str, HeldOut] = field(default_factory=dict)
    scores: dict[str, list[Tensor]] = field(default_factory=dict)
    labels: list[Tensor] = field(default_factory=list)

    def priors(self, prior: Tensor) -> tuple[dict[str, Calibration], dict[str, Confidence]]:
        """What ``adapt="prior"`` needs of each mode, and how sure the adapted model may be.

        The temperature of a calibration finds class shares well, which is not the one with which probabilities are
        right. So they get one more, fitted to these graphs as each is adapted to its own class prior.

        Args:
            prior: shares of the classes in training.
        """
        calibrations, confidences = dict[str, Calibration](), dict[str, Confidence]()
        for mode, scores in self.scores.items():
            found = calibrations[mode] = calibrated_to(scores, self.labels, prior)
            adapted = [(own, found.adapted(own)[0]) for own in scores]
            logs = [own if p is None else p.log() for own, p in adapted]
            confidences["+".join(filter(None, (mode, "prior")))] = confidence_of(logs, self.labels, binary=False)
        return calibrations, confidences


def learn_from(
    model: Predictor, environments: Sequence[Environment], modes: Sequence[str], *, sets: bool = True
) -> Learned:
    """Looks at labelled graphs once for each mode; nothing is learned without a graph.

    For a graph in a partition folder parts stand (:func:`~graphshift.data.pieces.standing_for`). What prediction sets
    need takes longest; ``sets`` says whether it is wanted.
    """
    environments = [standing_for(e) for e in environments]
    task, found = model.task_, Learned(labels=[e.labels.cpu() for e in environments])
    for mode in modes if environments else ():
        shown = []
        for e in environments:
            model._check_width(e)
            hidden, output = model._represented(e.to(model._device()), parts_of(mode or None))
            scores = (task.class_scores(output) if task.is_classification else output.cpu())[e.counted.cpu()]
            if not bool(torch.isfinite(scores).all()):
                raise GraphshiftError(
                    f"environment {e.name!r}: the model's predictions are not finite; its weights are "
                    "too large. Fit it anew (--force replaces a run): a checkpoint may be damaged, or the features "
                    "too large (scale them)."
                )
            shown.append((hidden, output, scores))
        confidence = None
        if task.is_classification:
            found.scores[mode] = [scores for *_, scores in shown]
            confidence = confidence_of(found.scores[mode], found.labels, binary=task.kind == "binary")
            found.confidences[mode] = confidence
        if sets:
            signals = [Signals.of(e, h, o, task, confidence) for e, (h, o, _) in zip(environments, shown, strict=True)]
            found.held_out[mode] = HeldOut.of(environments, signals, task)
    return found


def class_shares(environments: Sequence[Environment], task: Task) -> Tensor:
    """The shares of the classes among the nodes that count."""
    if not task.is_classification:
        return torch.empty(0, dtype=torch.float64)
    labels = torch.cat([e.y[e.counted].cpu() for e in environments if e.y is not None])
    return torch.bincount(labels, minlength=task.num_classes).double() / labels.numel()
