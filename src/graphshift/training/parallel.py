"""One training on several processes: each takes a step on a batch of its own, and gradients are averaged.

The processes are a group of ``torch.distributed``, which torchrun or Ray has made. Each has a share of the parts, or
of the nodes, and makes batches of it. Step g of an epoch takes batch g of every process. So it is the step of one
process on these batches, whose losses are averaged.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from graphshift.backbones.batchnorm import batch_norms
from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.data.environment import Environment
from graphshift.training.batches import Batches, Pieces
from graphshift.training.loop import Selection
from graphshift.training.method import Method
from graphshift.training.run import Run


@dataclass(frozen=True)
class Team:
    """The processes of one training: how many there are, and which this one is."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files, selects epochs and scores."""
        return self.rank == 0

    def told(self, value: bool | None) -> bool:
        """What the first process says, to all of them; they wait for it."""
        if self.size == 1:
            return bool(value)
        one = torch.tensor([float(bool(value))])
        dist.broadcast(one, 0)
        return bool(one[0])


def team() -> Team:
    """The team that this process is in; alone if there is none. Joins the one that torchrun asks for."""
    if not dist.is_available():
        return Team()
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "MASTER_ADDR" not in os.environ:
            return Team()
        dist.init_process_group("gloo")
    return Team(dist.get_rank(), dist.get_world_size())


class SharedBatches:
    """This process's batches of each epoch. An empty one: the others have a batch and this one has none.

    Args:
        batches: of the whole team.
        own: this process's place in it.
    """

    def __init__(self, batches: Pieces, own: Team) -> None:
        self.batches, self.own = batches, own

    def __call__(self, environments: Sequence[Environment], epoch: int) -> Iterator[Sequence[Environment]]:
        """As many as every other process has."""
        self.check(environments)
        rank, size = self.own.rank, self.own.size
        steps = self.batches.steps(environments, epoch, (rank, size))
        for number in range(max(self._counts(environments))):
            at = number * size + rank
            yield self.batches.batch(environments, epoch, at, steps[number]) if number < len(steps) else []

    def check(self, environments: Sequence[Environment]) -> None:
        """Refuses a team of which one would have nothing to do."""
        if 0 in self._counts(environments):
            raise GraphshiftError(
                f"{self.own.size} workers cannot share the training graphs: one of them would have no part, or no "
                "node that counts. Give fewer workers, or a partition with more parts."
            )

    def _counts(self, environments: Sequence[Environment]) -> list[int]:
        return [self.batches.count(environments, (rank, self.own.size)) for rank in range(self.own.size)]


class SharedMethod(Method):
    """A method whose optimiser takes the mean gradient of all processes that have a batch.

    Everything else is the method's own. What is random in a step depends on seed, epoch and process, so that a resumed
    training goes on as it would have.

    Args:
        method: that is trained.
        own: this process's place in the team.
        seed: of the training.
    """

    def __init__(self, method: Method, own: Team, seed: int) -> None:
        self.method, self.own, self.seed = method, own, seed
        self.backbone, self.hparams, self.optimizer = method.backbone, method.hparams, method.optimizer
        self._step = method.descend
        method.descend = self.descend  # type: ignore[method-assign]
        self._has_batch = True
        for parameter in self.backbone.parameters():
            dist.broadcast(parameter.data, 0)

    @property
    def settled(self) -> bool:
        """The method's own."""
        return self.method.settled

    def meet(self, environments: Sequence[Environment]) -> None:
        """The method's own; then what it keeps must be the same in every process."""
        self.method.meet(environments)
        if why := self.method.apart():
            raise GraphshiftError(f"several workers cannot train this together: {why}; train it with one.")

    def begin(self, epoch: int) -> None:
        """What is random in an epoch follows from seed, epoch and process."""
        torch.manual_seed(derive_seed(self.seed, 5, epoch, self.own.rank))
        self.method.reseed(derive_seed(self.seed, 6, epoch, self.own.rank))

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """The method's own step; without a batch the others' alone."""
        self._has_batch = bool(environments)
        if environments:
            return self.method.step(environments, progress)
        self.descend()
        return {}

    def descend(self) -> None:
        """Averages the gradients over those that have a batch, then the optimiser's step."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        one = torch.tensor([float(self._has_batch)])
        flat = torch.cat([one, *(_gradient(p).flatten() for p in parameters)])
        if not self._has_batch:
            flat.zero_()
        dist.all_reduce(flat)
        count, at = float(flat[0]), 1
        for parameter in parameters:
            size = parameter.numel()
            parameter.grad = (flat[at : at + size] / max(count, 1.0)).view_as(parameter)
            at += size
        if count:
            self._step()

    def end(self, steps: Sequence[dict[str, float]], nodes: int) -> tuple[list[dict[str, float]], int]:
        """The numbers of all processes' steps of an epoch, and the sum of what they saw.

        Running statistics of batch normalisation become their mean.
        """
        found: list[Any] = [None] * self.own.size
        dist.all_gather_object(found, ([step for step in steps if step], nodes))
        for norm in batch_norms(self.backbone):
            for buffer in (norm.running_mean, norm.running_var):
                assert buffer is not None
                dist.all_reduce(buffer)
                buffer /= self.own.size
        return [step for own, _ in found for step in own], sum(one for _, one in found)

    def predict(self, environment: Environment) -> Tensor:
        """The method's own."""
        return self.method.predict(environment)

    def state(self) -> dict[str, Tensor]:
        """The method's own."""
        return self.method.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        """The method's own."""
        self.method.load_state(state)


def shared_selection(selection: Selection, own: Team) -> Selection:
    """The first process scores; the others are told."""

    def score(method: Method, environments: Sequence[Environment], epoch: int) -> float | None:
        found = selection.score(method, environments, epoch) if own.leads else None
        told = torch.tensor([math.nan if found is None else found], dtype=torch.float64)
        dist.broadcast(told, 0)
        return None if bool(told.isnan()) else float(told)

    return replace(selection, score=score)


def shared_batches(batches: Batches, own: Team) -> SharedBatches:
    """A process's share of the batches, which must be pieces."""
    if not isinstance(batches, Pieces):
        raise GraphshiftError(
            f"{own.size} workers share the batches of an epoch, and this training has one batch: give --batch-parts or "
            "--batch-nodes."
        )
    return SharedBatches(batches, own)


class WriteRun(Run):
    """The folder of a run as the first process sees it: when it has looked what is there, the others may."""

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any], list[dict[str, Any]]] | None:
        """What is there to go on from."""
        found = super().load()
        dist.barrier()
        return found


class ReadRun(Run):
    """The folder of a run as the processes see it that do not write there: they read a checkpoint to go on from."""

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any], list[dict[str, Any]]] | None:
        """What the first process has found."""
        dist.barrier()
        return self.read()

    def record(self, row: dict[str, Any]) -> None:
        """Nothing: the first process does."""

    def is_due(self) -> bool:
        """Never."""
        return False

    def save(self, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
        """Nothing."""


def shared_run(run: Run | None, own: Team) -> Run | None:
    """The run as this process may use it."""
    if run is None:
        return None
    return WriteRun(run.folder, run.every, run.begin) if own.leads else ReadRun(Path(run.folder))


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
