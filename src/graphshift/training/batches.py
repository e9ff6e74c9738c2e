"""Batches: what one training step sees, as a list of ordinary environments.

``fit(..., batches=f)`` goes through ``f(environments, epoch)`` in each epoch; epochs count from 1. A batch may hold
pieces of environments (:mod:`graphshift.data.pieces`): then ``whole`` says of what.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.data.environment import Environment
from graphshift.data.pieces import parts_piece, sampled_piece, stored_of

#: Of n workers the i-th, as (i, n). It has the i-th run of every environment's parts or nodes in all epochs, so its
#: machine reads these alone, and what their halos need.
Share: TypeAlias = tuple[int, int]
ALL: Share = (0, 1)

Batches: TypeAlias = Callable[[Sequence[Environment], int], Iterable[Sequence[Environment]]]


def full_batch(environments: Sequence[Environment], epoch: int) -> Iterable[Sequence[Environment]]:
    """One batch with all training environments: the default, and Algorithm 1 of the paper."""
    return [environments]


def one_by_one(environments: Sequence[Environment], epoch: int) -> Iterable[Sequence[Environment]]:
    """Each training environment is a batch: one step for each of them, as the authors' code does on Facebook-100."""
    return [[environment] for environment in environments]


class Pieces(ABC):
    """Batches of pieces. In each epoch every node that counts is in one of them; ``seed`` and epoch say in which.

    With several training environments a batch has a piece of each, or (``each``) of one.
    """

    seed: int
    each: bool

    @abstractmethod
    def units(self, environment: Environment) -> tuple[NDArray[np.int64], int]:
        """What is dealt out, in increasing order, and how many of them make a piece."""

    @abstractmethod
    def piece(self, environment: Environment, units: NDArray[np.int64], generator: np.random.Generator) -> Environment:
        """The piece with some of the units."""

    def count(self, environments: Sequence[Environment], share: Share = ALL) -> int:
        """How many steps an epoch has."""
        needed = [-(-len(units) // size) for units, size in self._dealt(environments, share)]
        return sum(needed) if self.each else max(needed)

    def steps(
        self, environments: Sequence[Environment], epoch: int, share: Share = ALL
    ) -> list[list[tuple[int, NDArray[np.int64]]]]:
        """The units of each step of an epoch, by the environment's number."""
        generator = np.random.default_rng(derive_seed(self.seed, 3, epoch, *(() if share == ALL else share)))
        dealt = self._dealt(environments, share)
        needed = [-(-len(units) // size) for units, size in dealt]
        pieces = [
            [(i, np.sort(part)) for part in np.array_split(generator.permutation(units), count)] if count else []
            for i, (units, _) in enumerate(dealt)
            for count in [needed[i] if self.each else max(needed)]
        ]
        groups = (
            [[one] for own in pieces for one in own] if self.each else [list(row) for row in zip(*pieces, strict=True)]
        )
        return [groups[i] for i in generator.permutation(len(groups))]

    def _dealt(self, environments: Sequence[Environment], share: Share) -> list[tuple[NDArray[np.int64], int]]:
        own, of = share
        found = [self.units(environment) for environment in environments]
        return [(np.array_split(units, of)[own], size) for units, size in found]

    def __call__(self, environments: Sequence[Environment], epoch: int) -> Iterator[Sequence[Environment]]:
        """The batches of an epoch; those in which no node counts are left out."""
        for step, group in enumerate(self.steps(environments, epoch)):
            if pieces := self.batch(environments, epoch, step, group):
                yield pieces

    def batch(
        self, environments: Sequence[Environment], epoch: int, step: int, group: list[tuple[int, NDArray[np.int64]]]
    ) -> list[Environment]:
        """The pieces of one step; those in which no node counts, or which have one node alone, are left out."""
        found = []
        for number, units in group:
            if len(units):
                generator = np.random.default_rng(derive_seed(self.seed, 4, epoch, step, number))
                found.append(self.piece(environments[number], units, generator))
                if (stored := environments[number].stored) is not None:
                    stored.release()  # the piece is a copy
        return [one for one in found if one.num_nodes > 1 and bool(one.mask.any())]


@dataclass(frozen=True)
class PartBatches(Pieces):
    """Some parts of a partition folder at a time, with their halos (Cluster-GCN, Chiang et al., KDD 2019).

    Args:
        parts: of each environment in a batch; drawn anew in each epoch.
        seed: of their order.
        each: pieces of one environment alone in each batch.
    """

    parts: int
    seed: int = 0
    each: bool = False

    def units(self, environment: Environment) -> tuple[NDArray[np.int64], int]:
        """The parts."""
        return np.arange(len(stored_of(environment).begin) - 1), self.parts

    def piece(self, environment: Environment, units: NDArray[np.int64], generator: np.random.Generator) -> Environment:
        """Parts with their halos."""
        return parts_piece(environment, units.tolist())


@dataclass(frozen=True)
class NodeBatches(Pieces):
    """Some counted nodes at a time, with a sample of their neighbours (GraphSAGE, Hamilton et al., NeurIPS 2017).

    Args:
        nodes: of each environment in a batch.
        fanout: how many neighbours of a node are kept, for each hop.
        seed: of the nodes' order and the samples.
        each: pieces of one environment alone in each batch.
    """

    nodes: int
    fanout: Sequence[int]
    seed: int = 0
    each: bool = False

    def units(self, environment: Environment) -> tuple[NDArray[np.int64], int]:
        """The nodes that count."""
        return environment.counted.cpu().numpy(), self.nodes

    def piece(self, environment: Environment, units: NDArray[np.int64], generator: np.random.Generator) -> Environment:
        """Nodes with sampled neighbours."""
        return sampled_piece(environment, units, self.fanout, generator)


def parse_fanout(text: str, where: str = "") -> tuple[int, ...]:
    """``15,10``: how many neighbours at each hop."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(1 <= number <= 1_000_000 for number in found):
        raise GraphshiftError(
            f"{where}neighbours is {text!r}; expected how many neighbours are kept at each hop, as 15,10."
        )
    return found
