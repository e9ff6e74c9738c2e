"""What methods that compare groups of nodes share: the groups, one forward pass for all of a graph, and the step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.methods.groups import divided
from graphshift.training.method import Method


@dataclass(frozen=True)
class Group:
    """One group of nodes after the forward pass.

    Attributes:
        task: what is predicted.
        output: ``[n, out_channels]``.
        representation: what the last layer was given, ``[n, width]``.
        labels: ``[n]``.
    """

    task: Task
    output: Tensor
    representation: Tensor
    labels: Tensor

    @property
    def risk(self) -> Tensor:
        """The mean loss of the group."""
        return self.task.loss(self.output, self.labels)


class GroupedMethod(Method):
    """A step on groups of nodes, which stand for environments (see :func:`~graphshift.methods.groups.divided`).

    Args:
        backbone: the GNN.
        groups: parts that each graph is divided into, where graphs are.
        group_by: how.
        lr, weight_decay, clip: as in :class:`Method`.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        groups: int = 4,
        group_by: str = "auto",
        lr: float = 0.01,
        weight_decay: float = 1e-3,
        clip: float | None = None,
    ) -> None:
        super().__init__(backbone, lr=lr, weight_decay=weight_decay, clip=clip)
        self.groups, self.group_by = groups, group_by
        self._divided: list[list[Tensor]] = []

    @abstractmethod
    def objective(self, groups: Sequence[Group], progress: float) -> tuple[Tensor, dict[str, float]]:
        """What to minimise, and numbers for the history."""

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One forward pass of every graph, one step on the objective of all groups."""
        if len(self._divided) != len(environments):
            self._divided = divided(environments, self.group_by, self.groups)
        self.backbone.train()
        groups = []
        for environment, parts in zip(environments, self._divided, strict=True):
            groups += self._passed(environment, parts)
        loss, numbers = self.objective(groups, progress)
        loss.backward()
        self.descend()
        return {"loss": float(loss.detach()), **numbers}

    def _passed(self, environment: Environment, parts: Sequence[Tensor]) -> list[Group]:
        assert environment.y is not None  # training graphs have labels
        hidden, output = self.backbone.represent(self.backbone.stem(environment.x), environment.graph)
        return [Group(environment.task, output[n], hidden[n], environment.y[n]) for n in parts]


def penalised(risk: Tensor, penalty: Tensor, weight: float) -> Tensor:
    """(R̄ + λ P) / max(λ, 1): divided by a large λ, so that its learning rate is that of the risk (as IRM's authors do).

    Args:
        risk: R̄.
        penalty: P.
        weight: λ.
    """
    return (risk + weight * penalty) / max(weight, 1.0)


class PenalisedMethod(GroupedMethod):
    """The mean risk of the groups and λ times a penalty.

    Args:
        backbone: the GNN.
        penalty: λ.
        anneal: the share of training before the penalty counts.
        others: as in :class:`GroupedMethod`.
    """

    def __init__(self, backbone: Backbone, *, penalty: float = 1.0, anneal: float = 0.0, **others: Any) -> None:
        super().__init__(backbone, **others)
        self.penalty, self.anneal = penalty, anneal

    @abstractmethod
    def penalty_of(self, groups: Sequence[Group], risks: Tensor) -> Tensor:
        """What the groups are to agree in; ``risks`` has the risk of each."""

    def objective(self, groups: Sequence[Group], progress: float) -> tuple[Tensor, dict[str, float]]:
        """See :func:`penalised`."""
        risks = torch.stack([group.risk for group in groups])
        risk, penalty = risks.mean(), self.penalty_of(groups, risks)
        loss = penalised(risk, penalty, self.penalty if progress >= self.anneal else 0.0)
        return loss, {"risk": float(risk.detach()), "penalty": float(penalty.detach())}
