"""The worker processes of a study: starts them, gives them jobs, collects records, replaces those that died.

Of the executors that others maintain, ``concurrent.futures`` and loky give up all jobs that run or wait when one worker
is killed (docs/scale.md has the test). Here that costs the one job that it had.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, Self

import graphshift
from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.studies.job_runner import NO_LOG, Log, failed
from graphshift.studies.jobs import Job
from graphshift.studies.records import Record

#: What Python is asked to run; without the working folder on its path, where a `random.py` might lie.
_WORKER = ("-P", str(Path(__file__).with_name("worker.py")))

#: After so many workers in a row that ended before they were ready, the study ends.
_MAX_FAILED_STARTS = 3


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_threads(workers: int) -> int:
    """The threads of each worker where nobody says: ``OMP_NUM_THREADS``, or the cores divided by the workers."""
    told = os.environ.get("OMP_NUM_THREADS", "").strip()
    if told.isdecimal() and int(told):
        return int(told)
    return max(1, cores() // max(workers, 1))


def plain_data(data: ShiftDataset) -> ShiftDataset:
    """Data without the facts that no fit needs: what workers are given."""
    return replace(data, facts={name: fact for name, fact in data.facts.items() if name == "spurious_columns"})


def hand_over(data: ShiftDataset, path: Path) -> None:
    """Writes data in memory for the workers of this very study, which read them with ``pickle``."""
    with path.open("wb") as file:
        pickle.dump(plain_data(data), file, protocol=pickle.HIGHEST_PROTOCOL)


class _Worker:
    """One process, the thread that reads its answers, and the job it has."""

    def __init__(self, config: Mapping[str, Any], events: SimpleQueue[tuple[_Worker, str | None]]) -> None:
        paths = [str(Path(graphshift.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {f"{name}_NUM_THREADS": str(config["threads"]) for name in ("OMP", "MKL", "OPENBLAS")}
        environment |= {"OMP_WAIT_POLICY": "PASSIVE", "PYTHONUTF8": "1", "PYTHONPATH": os.pathsep.join(paths)}
        self.job: Job | None = None
        self.ready = False
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `end`)
        self.process = subprocess.Popen(
            [sys.executable, *_WORKER, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=os.environ | environment,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for the study, which ends its workers
        )
        self.send(config)
        threading.Thread(target=self._read, args=(events,), daemon=True).start()

    def send(self, content: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(content) + "\n")
            self.process.stdin.flush()
        except OSError:
            return  # it died; its reader says so

    def _read(self, events: SimpleQueue[tuple[_Worker, str | None]]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as answers:
            for line in answers:
                if line.endswith("\n"):
                    events.put((self, line))
        self.process.wait()
        events.put((self, None))

    def exit_reason(self) -> str:
        """How it ended."""
        status = self.process.returncode
        if status is not None and status < 0:
            name = signal.Signals(-status).name
            return f"killed by {name}" + (" (out of memory, perhaps)" if name == "SIGKILL" else "")
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return f"ended with status {status}" + (f": {lines[-1]}" if lines else "")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.errors.close()
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()


class Pool:
    """A number of workers that run the jobs of one dataset, each with so many threads."""

    def __init__(
        self,
        count: int,
        threads: int,
        dataset: str,
        options: Mapping[str, Any],
        data: ShiftDataset | None = None,
        *,
        log: Log = NO_LOG,
    ) -> None:
        plain = json.loads(json.dumps(dict(options), default=str))
        self.config = {"dataset": dataset, "options": plain, "threads": threads, "log": asdict(log)}
        self.count = count
        self._kept: tempfile.TemporaryDirectory[str] | None = None
        if data is not None:  # through a file that nobody else may read or write
            self._kept = tempfile.TemporaryDirectory(prefix="graphshift-")
            self.config["data"] = str(Path(self._kept.name) / "data.pickle")
            hand_over(data, Path(self.config["data"]))
        self.events: SimpleQueue[tuple[_Worker, str | None]] = SimpleQueue()
        self.workers: list[_Worker] = []
        self._failed_starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end()
        if self._kept is not None:
            self._kept.cleanup()

    def running(self) -> list[Job]:
        """The jobs that are under way."""
        return [worker.job for worker in self.workers if worker.job is not None]

    def idle(self, waiting: int) -> int:
        """How many jobs it can take now. Starts workers, as many as there is work for."""
        busy = len(self.running())
        while len(self.workers) < min(self.count, busy + waiting):
            self.workers.append(_Worker(self.config, self.events))
        return sum(worker.ready and worker.job is None for worker in self.workers)

    def start(self, job: Job) -> None:
        """Gives a job to an idle worker."""
        worker = next(worker for worker in self.workers if worker.ready and worker.job is None)
        worker.job = job
        worker.send(asdict(job))

    def wait(self, seconds: float) -> Record | None:
        """The next record; None if there was none in that time."""
        try:
            worker, line = self.events.get(timeout=seconds)
        except Empty:
            return None
        if line is None:
            return self._worker_ended(worker)
        if not worker.ready:
            worker.ready, self._failed_starts = True, 0
            return None
        worker.job = None
        return Record.from_json(json.loads(line), where="a worker's answer: ")

    def _worker_ended(self, worker: _Worker) -> Record | None:
        """A worker is gone: its job has failed, and the next job starts another worker."""
        self.workers.remove(worker)
        reason = worker.exit_reason()
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                raise GraphshiftError(f"workers cannot be started; the last one {reason}.")
        worker.end()
        return None if worker.job is None else failed(worker.job, f"the worker that ran it was lost: {reason}.")
