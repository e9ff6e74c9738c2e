"""Runs a plan to its end, however often it is interrupted: what is done is kept, and nothing is done twice."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from graphshift.core.errors import GraphshiftError
from graphshift.core.progress import error_console
from graphshift.core.storage import read_json, write_json
from graphshift.data.dataset import ShiftDataset
from graphshift.fitting.fit import locked
from graphshift.studies.facts import Facts, check, check_data_seeds, load_data
from graphshift.studies.folder import open_folder, plan_json
from graphshift.studies.jobs import Agenda, Job
from graphshift.studies.ledger import Ledger
from graphshift.studies.plan import Plan
from graphshift.studies.pool import Pool, cores
from graphshift.studies.provenance import session
from graphshift.studies.statistics import flat
from graphshift.studies.summary import make_summary
from graphshift.studies.watching import Standing, Watch, seconds_left, watching
from graphshift.studies.work import Desk, failed
from graphshift.training.loop import Interrupted

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Study:
    """A plan that has been run.

    Attributes:
        plan: what was to do.
        facts: what it knows of the dataset.
        records: one for each fit, in the plan's order.
        summary: everything that tables and figures show.
    """

    plan: Plan
    facts: Facts
    records: list[dict[str, Any]]
    summary: dict[str, Any]

    def rows(self, selection: str = "val") -> list[dict[str, Any]]:
        """The final runs as one selection rule sees them, for :func:`~graphshift.studies.statistics.compare`."""
        return flat(self.records, selection)


def run_study(
    plan: Plan,
    folder: Path | str | None = None,
    *,
    workers: int = 1,
    threads: int | None = None,
    force: bool = False,
    retry_failed: bool = False,
    progress: bool = False,
    report: Report | None = None,
    command: Sequence[str] = (),
) -> Study:
    """Runs a plan, or what is left of it, and summarises it.

    Every fit depends on the plan alone, so a study that was stopped, killed or run with more workers ends with the
    same scores as one that was not (on the same machine, with the same number of threads).

    Args:
        plan: what to do.
        folder: where ``plan.json``, ``results.jsonl``, ``provenance.json`` and ``summary.json`` go; one that holds
            this plan is gone on with, one that holds another is refused. None keeps all in memory.
        workers: processes that fit at the same time; 0 fits in this process.
        threads: that each computes with; None shares the machine's cores among the workers.
        force: replace the study in the folder.
        retry_failed: run those fits again that failed in an earlier session.
        progress: show how far it is on standard error.
        report: called with each new record.
        command: the words that started it, for the record.
    """
    if workers < 0 or (threads is not None and threads < 1):
        raise GraphshiftError(f"workers is {workers}, threads is {threads}; expected at least 0 and at least 1.")
    check_data_seeds(plan)
    threads = threads or max(1, cores() // max(workers, 1))
    with computing_with(threads):
        with error_console().status(f"{plan.dataset}: reading …") if progress else nullcontext():
            data = load_data(plan.dataset, plan.options, plan.draws[0][0])
        facts = check(plan, data)
        agenda = Agenda(plan, facts)
        folder = None if folder is None else Path(folder)
        with locked(folder) if folder else nullcontext():
            written = plan_json(plan, facts, agenda)
            if folder:
                open_folder(folder, written, force=force)
            ledger = Ledger(folder / "results.jsonl" if folder else None)
            if retry_failed:
                ledger.forget_failed()
            sitting = _Sitting(plan, agenda, ledger, workers, threads, report)
            sessions = _sessions(folder)
            if sitting.waiting():
                sessions.append(session(command, workers, threads))
                if folder:
                    write_json(folder / "provenance.json", {"sessions": sessions})
                first = data if workers == 0 else None
                del data  # the workers have their own
                sitting.run(progress, first)
            records = [ledger.records[job.id] for job in agenda.jobs(ledger.records)]
            summary = make_summary(plan, facts, agenda, ledger.records, sessions)
            if folder:
                write_json(folder / "summary.json", summary)
    return Study(plan, facts, records, summary)


class _Sitting:
    """One session of a study: hands out jobs until there are none."""

    def __init__(
        self, plan: Plan, agenda: Agenda, ledger: Ledger, workers: int, threads: int, report: Report | None
    ) -> None:
        self.plan, self.agenda, self.ledger = plan, agenda, ledger
        self.workers, self.threads, self.report = workers, threads, report
        self._jobs: list[Job] | None = None

    def waiting(self, running: Sequence[Job] = ()) -> list[Job]:
        """The jobs that can be run now. Those that cannot ever are recorded as failed."""
        if self._jobs is None:
            self._jobs = self.agenda.jobs(self.ledger.records)
        under_way = {job.id for job in running}
        found = [job for job in self._jobs if job.id not in self.ledger.records and job.id not in under_way]
        for job in found:
            if job.hopeless is not None:
                self.add(failed(job, job.hopeless))
        return [job for job in found if job.hopeless is None]

    def add(self, record: dict[str, Any]) -> None:
        self.ledger.add(record)
        self._jobs = None  # its arm may now be tuned, and have runs
        if self.report:
            self.report(record)

    def run(self, progress: bool, data: ShiftDataset | None) -> None:
        """Runs all jobs; Ctrl-C and SIGTERM end it, and what is done is kept."""
        with watching(self.plan.dataset, enabled=progress) as watch, _stoppable():
            try:
                if self.workers == 0:
                    self._run_here(watch, data)
                else:
                    self._run_in_workers(watch)
            except KeyboardInterrupt:
                standing = self.standing()
                raise Interrupted(
                    f"stopped with {standing.done} of {standing.total} fits done; they are kept."
                ) from None

    def _run_here(self, watch: Watch | None, data: ShiftDataset | None) -> None:
        held = {} if data is None else {self.plan.draws[0][0]: data}
        desk = Desk(self.plan.dataset, self.plan.options, held)
        while waiting := self.waiting():
            self.show(watch)
            self.add(desk.do(waiting[0]))
        self.show(watch)

    def _run_in_workers(self, watch: Watch | None) -> None:
        with Pool(self.workers, self.threads, self.plan.dataset, self.plan.options) as pool:
            while (waiting := self.waiting(pool.running())) or pool.running():
                for job in waiting[: pool.wants(len(waiting))]:
                    pool.take(job)
                self.show(watch)
                record = pool.wait(0.5)
                if record is not None:
                    self.add(record)
            self.show(watch)

    def show(self, watch: Watch | None) -> None:
        if watch is not None:
            watch.show(self.standing())

    def standing(self) -> Standing:
        records = self.ledger.records
        jobs = self.agenda.jobs(records) if self._jobs is None else self._jobs
        done = [records[job.id] for job in jobs if job.id in records]
        left = [(job.kind, job.arm) for job in jobs if job.id not in records]
        left += self.agenda.unknown(records)
        seconds = seconds_left(done, left, max(self.workers, 1))
        return Standing(len(done), sum(r["status"] == "failed" for r in done), len(done) + len(left), seconds)


def _sessions(folder: Path | None) -> list[dict[str, Any]]:
    path = folder / "provenance.json" if folder else None
    if path is None or not path.exists():
        return []
    content = read_json(path)
    if not isinstance(content, Mapping) or not isinstance(content.get("sessions"), list):
        raise GraphshiftError(f"{path}: field `sessions` is missing; the file is damaged. Remove it to go on.")
    return list(content["sessions"])


@contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Data and fits of this process use that many threads; the caller's number comes back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM stops a study as Ctrl-C does: workers are ended and the message says how to go on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
