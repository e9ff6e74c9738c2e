"""The explorers of EERM persist: each graph has K of its own from when it is first met to the end of training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.data.environment import Environment
from graphshift.explorers import Explorer
from graphshift.graph.graph import Graph

Result = TypeVar("Result")

_MOST_THREADS = 16


@dataclass
class _Met:
    """An environment that was met: its number in checkpoints, its graph on the CPU, its K explorers."""

    number: int
    home: Graph
    explorers: list[Explorer]


class KeptExplorers:
    """K explorers for each environment. They belong to the environment, not to its place.

    Args:
        make: makes the explorer of environment m and view k: ``make(m, k)``.
        views: K.
        new_edge_features: what an added edge has.
        low_memory: drops the forms of a graph that can be made again.
    """

    def __init__(
        self, make: Callable[[int, int], Explorer], views: int, new_edge_features: str, *, low_memory: bool
    ) -> None:
        self.make, self.views, self.new_edge_features, self.low_memory = make, views, new_edge_features, low_memory
        self._met: WeakKeyDictionary[Environment, _Met] = WeakKeyDictionary()
        self._count = 0
        self._pool: ThreadPoolExecutor | None = None

    def meet(self, environments: Sequence[Environment]) -> None:
        """Makes the explorers of environments that are new."""
        for home in (environment.home for environment in environments):
            if home in self._met:
                continue
            graph = self._explored(home)
            if self.low_memory:
                graph.forget()
            self._met[home] = _Met(self._count, graph, [self.make(self._count, k) for k in range(self.views)])
            self._count += 1

    def _explored(self, environment: Environment) -> Graph:
        """What explorers edit. They work on the CPU, where their 64-bit keys are; views move to the backbone's."""
        return environment.graph.to(torch.device("cpu")).filled(self.new_edge_features)

    def graph_of(self, environment: Environment) -> Graph:
        """The graph that the explorers of an environment edit; of a batch its own."""
        return self._met[environment.home].home if environment.whole is None else self._explored(environment)

    def of(self, environment: Environment) -> list[Explorer]:
        """The K explorers of an environment that was met."""
        return self._met[environment.home].explorers

    @property
    def rows(self) -> list[list[Explorer]]:
        """The K explorers of each environment, in the order in which these were met."""
        return [met.explorers for met in sorted(self._met.values(), key=lambda one: one.number)]

    def __iter__(self) -> Iterator[Explorer]:
        return (explorer for row in self.rows for explorer in row)

    @property
    def change_features(self) -> bool:
        """Whether any of them changes features."""
        return any(explorer.changes_features for explorer in self)

    def together(self, explorers: Sequence[Explorer], jobs: Sequence[Callable[[], Result]]) -> list[Result]:
        """The explorers' jobs, each on a core of its own where they allow it: they do not depend on each other."""
        # A thread for each: three jobs in turns on two cores are done sooner than one after two.
        threads = min(len(jobs), _MOST_THREADS) if torch.get_num_threads() > 1 else 1
        if threads < 2 or not all(explorer.side_by_side for explorer in explorers):
            return [job() for job in jobs]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(threads, "explorer")
        return list(self._pool.map(lambda job: job(), jobs))

    def state(self) -> dict[str, Tensor]:
        """Of every explorer, by environment and view."""
        return {
            f"{met.number}.{k}.{name}": tensor
            for met in self._met.values()
            for k, explorer in enumerate(met.explorers)
            for name, tensor in explorer.state().items()
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what :meth:`state` gave. The environments are met before, in the same order."""
        parts: dict[tuple[int, int], dict[str, Tensor]] = {}
        for name, tensor in state.items():
            m, k, rest = name.split(".", maxsplit=2)
            parts.setdefault((int(m), int(k)), {})[rest] = tensor
        met = {one.number: one for one in self._met.values()}
        if parts.keys() != {(number, k) for number, one in met.items() for k in range(len(one.explorers))}:
            raise GraphshiftError(f"it has {len(parts)} explorers, or others than the {len(met)} graphs here have")
        for (i, j), part in parts.items():
            met[i].explorers[j].load_state(part)

    def apart(self) -> str:
        """Why processes that share batches cannot have them: what was learned stays in one; empty if they can."""
        for explorer in self:
            if explorer.learns or explorer.state().keys() != {"generator"}:
                return f"explorer {type(explorer).__name__} keeps what it has learned, of its own batches alone"
        return ""

    def reseed(self, seed: int) -> None:
        """New random numbers for each."""
        for m, row in enumerate(self.rows):
            for k, explorer in enumerate(row):
                explorer.generator.manual_seed(derive_seed(seed, m, k))
