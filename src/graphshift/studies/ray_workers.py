"""The fits of a study as tasks of a Ray cluster. Ray places them, repeats those whose node is lost, and moves the data.

Data are put into Ray's object store once for each data seed, from this machine; every node fetches them once, and every
worker keeps those of its latest job.
"""

from __future__ import annotations

import contextlib
import json
import platform
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

import torch

from graphshift._version import __version__
from graphshift.core.cluster import RETRIES, check_versions, connect, room
from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.studies.job_runner import NO_LOG, Log, attempt, failed, reason_of
from graphshift.studies.jobs import Job
from graphshift.studies.pool import plain_data
from graphshift.studies.records import Record
from graphshift.studies.resolved import load_data


class RayWorkers:
    """Runs the jobs of one dataset on a Ray cluster; see :class:`~graphshift.studies.engines.Workers`.

    Args:
        address: see :class:`~graphshift.studies.engines.Engine`.
        count: fits at the same time.
        threads: of each.
        dataset, options: what is loaded here for each data seed.
        data: the data, if they are in memory.
        log: experiment trackers.
    """

    def __init__(
        self,
        address: str | None,
        count: int,
        threads: int,
        dataset: str,
        options: Mapping[str, Any],
        data: ShiftDataset | None = None,
        *,
        log: Log = NO_LOG,
    ) -> None:
        connect(address)
        import ray

        room(address, threads)
        check_versions()
        self.count, self.threads, self.dataset, self.options, self.log = count, threads, dataset, options, log
        self._run = ray.remote(num_cpus=threads, max_retries=RETRIES)(run_job)
        self._kept: dict[int | None, Any] = {} if data is None else {None: ray.put(plain_data(data))}
        self._jobs: dict[Any, Job] = {}
        self._unloadable: list[tuple[Job, Record]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        for task in self._jobs:
            with contextlib.suppress(Exception):  # the cluster may be gone
                ray.cancel(task, force=True)
        self._kept.clear()

    def running(self) -> list[Job]:
        """The jobs that are under way."""
        return [*self._jobs.values(), *(job for job, _ in self._unloadable)]

    def idle(self, waiting: int) -> int:
        """How many jobs it can take now. Ray itself waits for processors where nodes are gone."""
        return max(self.count - len(self._jobs), 0)

    def start(self, job: Job) -> None:
        """Sends a job to the cluster, and before it the data, if it is the first to need them."""
        import ray

        seed = job.data_seed if job.draws_data else None
        if seed not in self._kept:
            try:
                self._kept[seed] = ray.put(plain_data(load_data(self.dataset, self.options, seed)))
            except Exception as error:
                self._unloadable.append((job, failed(job, reason_of(error))))
                return
        given = json.dumps(asdict(job))
        task = self._run.remote(given, [self._kept[seed]], self.threads, asdict(self.log), __version__)
        self._jobs[task] = job

    def wait(self, seconds: float) -> Record | None:
        """The next record; None if there was none in that time."""
        import ray

        if self._unloadable:
            return self._unloadable.pop()[1]
        if not self._jobs:
            time.sleep(seconds)
            return None
        ready, _ = ray.wait(list(self._jobs), num_returns=1, timeout=seconds)
        if not ready:
            return None
        job = self._jobs.pop(ready[0])
        try:
            return Record.from_json(json.loads(ray.get(ready[0])), where="a worker's answer: ")
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, GraphshiftError):
                raise GraphshiftError(str(error.cause)) from None
            return failed(job, reason_of(error.cause if isinstance(error.cause, Exception) else error))
        except ray.exceptions.RayError as error:
            why = " ".join(str(error).split())[:200]
            return failed(job, f"the worker that ran it was lost {1 + RETRIES} times: {type(error).__name__}: {why}")


_latest: dict[str, ShiftDataset] = {}  # of this worker, by the data's place in the object store


def run_job(job: str, data: list[Any], threads: int, log: Mapping[str, Any], version: str) -> str:
    """Runs one job in a worker of the cluster; both it and the record are JSON."""
    import ray

    if version != __version__:
        raise GraphshiftError(
            f"a worker of the Ray cluster, on {platform.node()}, has graphshift {__version__} and the study {version}; "
            "install the same. What is done is kept."
        )
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")  # the study itself has shown the warnings about the data
    (place,) = data
    key = place.hex()
    if key not in _latest:
        _latest.clear()
        _latest[key] = ray.get(place)
    record = attempt(Job(**json.loads(job)), _latest[key], Log(**log))
    return json.dumps(record.to_json(), allow_nan=False)
