"""Self-training (Lee, 2013; per class, Zou et al., ECCV 2018): confident predictions on the target become labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparam
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.base import METHODS
from graphshift.estimators.target import TargetEstimator
from graphshift.estimators.tuning import mutual_information
from graphshift.training.method import Method, with_prefix

_PREFIX = "self-training."


def confident(probabilities: Tensor, share: float) -> Tensor:
    """The class of the most confident nodes of every predicted class, −1 for the others, ``[nodes]``.

    Of the n_c nodes for which c is likeliest, the ⌈share · n_c⌉ with the largest probability; the first of equals.

    Args:
        probabilities: ``[nodes, classes]``.
        share: from 0 to 1. One threshold for all classes would take the easy ones alone.
    """
    sureness, predicted = probabilities.max(dim=1)
    found = torch.full_like(predicted, -1)
    for c in predicted.unique():
        nodes = (predicted == c).nonzero().squeeze(1)
        count = -int(-share * nodes.numel() // 1)
        found[nodes[sureness[nodes].argsort(descending=True, stable=True)[:count]]] = c
    return found


class SelfTrainingMethod(Method):
    """The source's risk, and after the first part of training that of the target's confident nodes as well.

    Training has ``rounds`` + 1 parts of equal length. Where one begins, the target is predicted. The new labels are
    taken if the mutual information of the predictions has not fallen since the last; else the old ones stay.
    """

    hparams: SelfTraining

    def __init__(self, backbone: Backbone, hparams: SelfTraining) -> None:
        super().__init__(backbone, hparams)
        self.round, self.estimate = 0, float("-inf")
        self.labels: list[Tensor] = []  # of each target graph, −1 where there is none

    @property
    def settled(self) -> bool:
        """Whether the last round has begun: validation data of the source would choose an epoch before it."""
        return self.round >= self.hparams.rounds

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One pass of every graph, one step."""
        rounds = self.hparams.rounds
        if (due := min(int(progress * (rounds + 1)), rounds)) > self.round:
            self.round = due
            self._label()
        self.backbone.train()
        risk = torch.stack([e.risk(self.output(e)) for e in environments]).mean()
        theirs = risk.new_zeros(())
        if self.labels:
            theirs = torch.stack([self._risk(*pair) for pair in zip(self.target, self.labels, strict=True)]).mean()
        loss = risk + self.hparams.weight * theirs
        loss.backward()
        self.descend()
        labelled = sum(int((labels >= 0).sum()) for labels in self.labels)
        found = {"loss": float(loss.detach()), "risk": float(risk.detach()), "target_risk": float(theirs.detach())}
        return found | {"labelled": float(labelled)}

    def _risk(self, environment: Environment, labels: Tensor) -> Tensor:
        known = labels >= 0
        return environment.task.loss(self.output(environment)[known], labels[known])

    def _label(self) -> None:
        """Labels the target anew, unless its predictions have become worse by their mutual information."""
        found = [e.task.class_scores(self.predict(e)).softmax(dim=1) for e in self.target]
        counted = [p[e.counted] for p, e in zip(found, self.target, strict=True)]
        estimate = mutual_information(torch.cat(counted))
        if estimate < self.estimate:
            return
        self.estimate, self.labels = estimate, []
        for p, e in zip(counted, self.target, strict=True):
            labels = torch.full((e.num_items,), -1, device=p.device)
            labels[e.counted] = confident(p, self.hparams.share)
            self.labels.append(labels)

    def state(self) -> dict[str, Tensor]:
        """The GNN, the optimiser, and the labels of the present round."""
        own = {f"{_PREFIX}labels.{i}": labels for i, labels in enumerate(self.labels)}
        numbers = torch.tensor([self.round, self.estimate], dtype=torch.float64)
        return super().state() | own | {f"{_PREFIX}round": numbers}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restores what :meth:`state` gave."""
        super().load_state(state)
        own = with_prefix(state, _PREFIX)
        self.round, self.estimate = int(own["round"][0]), float(own["round"][1])
        self.labels = [own[f"labels.{i}"] for i in range(len(own) - 1)]
        sizes = [(e.num_items, e.task.num_classes) for e in self.target] if self.labels else []
        fits = [
            (n, c) for (n, c), one in zip(sizes, self.labels, strict=True) if one.shape == (n,) and int(one.max()) < c
        ]
        if fits != sizes:
            raise GraphshiftError("the labels of the target have other shapes or classes")


@METHODS.register("self-training", label="Self-training")
@dataclass(eq=False, repr=False, kw_only=True)
class SelfTraining(TargetEstimator):
    """Source's risk, and that of the target's most confident nodes of each predicted class, labelled in rounds.

    Epochs before the last round are not chosen from.

    Args:
        rounds: how often the target is labelled.
        share: of the nodes of each predicted class that get a label.
        weight: of the target's risk.
        target: as in :class:`~graphshift.estimators.target.TargetEstimator`.
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
    """

    method_class = SelfTrainingMethod
    rounds: int = hparam(2, ge=1, le=1000, help="how often the target is labelled")
    share: float = hparam(
        0.6, gt=0, le=1, search=(0.3, 0.6, 0.9), help="share of each predicted class that is labelled"
    )
    weight: float = hparam(1.0, ge=0, le=1e6, help="weight of the target's risk")

    def check_task(self, task: Task) -> None:
        """Values have no confidence."""
        if not task.is_classification:
            raise GraphshiftError("method self-training labels classes, and the task is regression; choose another.")
