"""What methods that compare groups of nodes share: the groups, one forward pass for all of a graph, and the step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.core.hparams import hparam
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.gnn import GNNEstimator
from graphshift.methods.groups import grouping, parts_of
from graphshift.training.method import Method


@dataclass(frozen=True)
class Group:
    """One group of nodes after the forward pass.

    Attributes:
        number: of the group; it keeps it from step to step.
        task: what is predicted.
        output: ``[n, out_channels]``.
        representation: what the last layer was given, ``[n, width]``.
        labels: ``[n]``; empty in an unlabelled target.
    """

    number: int
    task: Task
    output: Tensor
    representation: Tensor
    labels: Tensor

    @property
    def risk(self) -> Tensor:
        """The mean loss of the group."""
        return self.task.loss(self.output, self.labels)


def labelled(groups: Sequence[Group]) -> list[Group]:
    """The groups that have a risk."""
    return [group for group in groups if group.labels.numel()]


def pooled(groups: Sequence[Group]) -> list[Tensor]:
    """The representations of groups with the same number together, ``[n, width]`` each."""
    found: dict[int, list[Tensor]] = {}
    for group in groups:
        found.setdefault(group.number, []).append(group.representation)
    return [torch.cat(parts) for parts in found.values()]


class GroupedMethod(Method):
    """A step on groups of nodes, which stand for environments (see :func:`~graphshift.methods.groups.divided`).

    With a target there are two: all training nodes (0), and all nodes of the target (1).
    """

    hparams: GroupedEstimator

    def __init__(self, backbone: Backbone, hparams: GroupedEstimator) -> None:
        super().__init__(backbone, hparams)
        self._parts: WeakKeyDictionary[Environment, list[tuple[int, Tensor]]] = WeakKeyDictionary()
        self._group_of: WeakKeyDictionary[Environment, Tensor] = WeakKeyDictionary()
        #: How many groups there are; each has a number that it keeps.
        self.count = 0

    def meet(self, environments: Sequence[Environment]) -> None:
        """Divides environments that are new into groups. Groups belong to the environment, not to its place."""
        homes = [environment.home for environment in environments]
        new = [home for home in homes if home not in self._parts]
        if self.target:
            self.count = 2
            for number, graphs in enumerate((new, self.target)):
                self._parts.update({e: [(number, e.counted)] for e in graphs})
        elif new:
            by = grouping(homes, self.hparams.group_by)
            for environment in new:
                parts = parts_of(environment, by, self.hparams.groups)
                self._parts[environment] = list(enumerate(parts, start=self.count))
                self.count += len(parts)

    @abstractmethod
    def objective(self, groups: Sequence[Group], progress: float) -> tuple[Tensor, dict[str, float]]:
        """What to minimise, and numbers for the history."""

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One forward pass of every graph, one step on the objective of all groups."""
        self.meet(environments)
        self.backbone.train()
        groups = [group for environment in (*environments, *self.target) for group in self._passed(environment)]
        loss, numbers = self.objective(groups, progress)
        loss.backward()
        self.descend()
        return {"loss": float(loss.detach()), **numbers}

    def _passed(self, environment: Environment) -> list[Group]:
        task, y = environment.task, environment.y
        none = environment.mask.new_empty(0, dtype=torch.int64)
        hidden, output = self.represented(environment)
        parts = self._parts[environment.home] if environment.whole is None else self._in_batch(environment)
        return [Group(number, task, output[n], hidden[n], none if y is None else y[n]) for number, n in parts]

    def _in_batch(self, batch: Environment) -> list[tuple[int, Tensor]]:
        """The groups of the whole that have nodes in a batch, as numbers of the batch's nodes."""
        assert batch.rows is not None
        home = batch.home
        if home not in self._group_of:
            group_of = torch.full((home.num_nodes,), -1)
            for number, nodes in self._parts[home]:
                group_of[nodes] = number
            self._group_of[home] = group_of
        counted = batch.counted
        numbers = self._group_of[home][batch.rows[counted]]
        return [(int(number), counted[numbers == number]) for number in numbers.unique()]


@dataclass(eq=False, repr=False, kw_only=True)
class GroupedEstimator(GNNEstimator):
    """The hyper-parameters of methods that compare groups of nodes.

    Args:
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
        groups: parts that each training graph is divided into, where graphs are divided.
        group_by: how; see :func:`~graphshift.methods.groups.divided`.
    """

    groups: int = hparam(4, ge=2, le=100_000, help="parts that a training graph is divided into, as environments")
    group_by: Literal["auto", "graphs", "degree", "features", "time"] = hparam(
        "auto", help="how; auto: graphs if there are several, else degree"
    )


def penalised(risk: Tensor, penalty: Tensor, weight: float) -> Tensor:
    """(R̄ + λ P) / max(λ, 1): divided by a large λ, so that the learning rate stays that of the risk (as in IRM)."""
    return (risk + weight * penalty) / max(weight, 1.0)


class PenalisedMethod(GroupedMethod):
    """The mean risk of the groups and λ times a penalty, which counts after the share ``anneal`` of training."""

    hparams: PenalisedEstimator

    @abstractmethod
    def penalty_of(self, groups: Sequence[Group], risks: Tensor) -> Tensor:
        """What the groups are to agree in; ``risks`` has the risk of each."""

    def objective(self, groups: Sequence[Group], progress: float) -> tuple[Tensor, dict[str, float]]:
        """See :func:`penalised`."""
        risks = torch.stack([group.risk for group in labelled(groups)])
        risk, penalty = risks.mean(), self.penalty_of(groups, risks)
        loss = penalised(risk, penalty, self.hparams.penalty if progress >= self.hparams.anneal else 0.0)
        return loss, {"risk": float(risk.detach()), "penalty": float(penalty.detach())}


@dataclass(eq=False, repr=False, kw_only=True)
class PenalisedEstimator(GroupedEstimator):
    """The hyper-parameters of methods with a penalty.

    Args:
        penalty: λ.
        anneal: the share of training before the penalty counts.
    """

    penalty: float = hparam(1.0, ge=0, le=1e12, search=(0.01, 0.1, 1.0, 10.0), help="λ, the weight of the penalty")
    anneal: float = hparam(0.0, ge=0, lt=1, help="share of training before the penalty counts")
