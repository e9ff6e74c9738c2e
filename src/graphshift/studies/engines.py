"""Where the fits of a study run: worker processes of this machine, or tasks of a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.data.dataset import ShiftDataset
from graphshift.studies.job_runner import Log
from graphshift.studies.jobs import Job
from graphshift.studies.pool import Pool, default_threads
from graphshift.studies.records import Record

ENGINES = ("local", "ray")


class Workers(Protocol):
    """What runs the jobs of one dataset. A job that is lost with its worker gives a record that says so."""

    def __enter__(self) -> Self:
        """Begins; workers may start later."""

    def __exit__(self, *_: object) -> None:
        """Ends every worker, whatever it is doing."""

    def running(self) -> list[Job]:
        """The jobs that are under way."""

    def idle(self, waiting: int) -> int:
        """How many of so many waiting jobs it can take now."""

    def start(self, job: Job) -> None:
        """Gives it a job."""

    def wait(self, seconds: float) -> Record | None:
        """The next record; None if there was none in that time."""


@dataclass(frozen=True)
class Engine:
    """Where fits run.

    Args:
        name: ``"local"``: worker processes of this machine (:class:`~graphshift.studies.pool.Pool`). ``"ray"``: tasks
            of a Ray cluster (:class:`~graphshift.studies.ray_workers.RayWorkers`).
        address: of the cluster, as ``HOST:6379`` or ``auto``. None: what ``RAY_ADDRESS`` names, else a cluster that
            runs on this machine, else one that is started for the length of this process.
    """

    name: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise GraphshiftError(f"engine is {self.name!r}; {expected_one_of(self.name, list(ENGINES))}")
        if self.address is not None and self.name != "ray":
            raise GraphshiftError(f"address is {self.address!r}; it needs engine ray.")

    def threads(self, workers: int | None) -> int:
        """Of each worker where nobody says: a share of this machine's cores; on a cluster one."""
        return default_threads(workers or 1) if self.name == "local" else default_threads(10**6)

    def count(self, workers: int | None, threads: int) -> int:
        """How many fits run at the same time: as many as are asked for; on a cluster, else, as it has room for."""
        if self.name == "local":
            return 1 if workers is None else workers
        from graphshift.core.cluster import room

        return workers or room(self.address, threads)

    def workers(
        self, count: int, threads: int, dataset: str, options: Mapping[str, Any], data: ShiftDataset | None, log: Log
    ) -> Workers:
        """The workers of a study; see :class:`~graphshift.studies.pool.Pool` for the arguments."""
        if self.name == "local":
            return Pool(count, threads, dataset, options, data, log=log)
        from graphshift.studies.ray_workers import RayWorkers

        return RayWorkers(self.address, count, threads, dataset, options, data, log=log)


LOCAL = Engine()
