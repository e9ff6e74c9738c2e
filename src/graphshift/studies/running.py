"""Runs a plan to its end, however often it is interrupted: what is done is kept, and nothing is done twice."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from graphshift.core.errors import GraphshiftError
from graphshift.core.html import html_table
from graphshift.core.ledger import Ledger
from graphshift.core.parsing import checked_note
from graphshift.core.progress import error_console
from graphshift.core.storage import read_json, write_json
from graphshift.data.dataset import ShiftDataset
from graphshift.studies.engines import LOCAL, Engine
from graphshift.studies.folder import open_folder, plan_json, study_folder
from graphshift.studies.job_runner import JobRunner, Log, failed
from graphshift.studies.jobs import Job, Schedule
from graphshift.studies.notes import Provenance
from graphshift.studies.plan import Plan
from graphshift.studies.progress import ProgressDisplay, StudyProgress, progress_display, seconds_left
from graphshift.studies.provenance import session
from graphshift.studies.records import Record, Row, rows_of
from graphshift.studies.resolved import ResolvedPlan, check_data_seeds, data_of, resolve
from graphshift.studies.summary import Summary, make_summary
from graphshift.training.loggers import check_log
from graphshift.training.loop import Interrupted

Report = Callable[[Record], None]

#: Workers, and threads of each.
_MOST = 1024


@dataclass(frozen=True)
class Study:
    """A plan that has been run.

    Attributes:
        plan: what was to do, with what is known of the dataset.
        records: one for each fit, in the plan's order.
        summary: everything that tables and figures show.
    """

    plan: ResolvedPlan
    records: list[Record]
    summary: Summary

    def rows(self, rule: str = "val") -> list[Row]:
        """The final runs as one selection rule sees them, for :func:`~graphshift.studies.statistics.compare`."""
        return rows_of(self.records, rule)

    def _repr_html_(self) -> str:
        """For Jupyter: every arm's mean over its runs, by the first rule; :class:`gs.compare` shows statistics."""
        rule = self.plan.selections[0]
        found: dict[str, list[Row]] = {}
        for row in self.rows(rule):
            found.setdefault(row.arm, []).append(row)
        rows = []
        for arm, runs in found.items():
            val = [row.val for row in runs if row.val is not None]
            tests = [fmean(row.tests.values()) for row in runs if row.tests]
            rows.append([arm, len(runs), fmean(val) if val else "–", fmean(tests) if tests else "–"])
        failed = sum(not record.ok for record in self.records)
        note = f"means of {self.summary.metric} over runs; chosen by {rule}; {failed} fits failed."
        return html_table(f"Study of {self.plan.title}", ["arm", "runs", "validation", "tests"], rows, note=note)


def run_study(
    plan: Plan,
    folder: Path | str | None = None,
    *,
    workers: int | None = 1,
    threads: int | None = None,
    engine: Engine = LOCAL,
    force: bool = False,
    retry_failed: bool = False,
    progress: bool = False,
    report: Report | None = None,
    command: Sequence[str] = (),
    log: Sequence[str] = (),
    data: ShiftDataset | None = None,
) -> Study:
    """Runs a plan, or what is left of it, and summarises it.

    Every fit depends on the plan alone, so a study that was stopped, killed or run with more workers ends with the
    same scores as one that was not (on the same machine, with the same number of threads).

    Args:
        plan: what to do.
        folder: where ``plan.json``, ``results.jsonl``, ``provenance.json`` and ``summary.json`` go; one that holds
            this plan is resumed, one that holds another is refused. None keeps all in memory.
        workers: fits at the same time; 0 fits in this process. None: one, or as many as a cluster has room for (there 0
            means the same).
        threads: that each computes with; None takes ``OMP_NUM_THREADS``, or shares the cores among the workers, and
            takes one on a cluster.
        engine: where fits run: on this machine, or on a Ray cluster.
        force: replace the study in the folder.
        retry_failed: run those fits again that failed in an earlier session.
        progress: show how far it is on standard error.
        report: called with each new record.
        command: the words that started it, for the record.
        log: experiment trackers that every fit is logged to, each ``NAME`` or ``NAME:PLACE``
            (:mod:`graphshift.training.loggers`). One that fails later does not end the study.
        data: those that the plan names (of its first data seed), where they have been loaded before; None loads them.
    """
    if not 0 <= (workers or 0) <= _MOST or (threads is not None and not 1 <= threads <= _MOST):
        expected = f"expected 0 to {_MOST}, and 1 to {_MOST}"
        raise GraphshiftError(f"workers is {workers}, threads is {threads}; {expected}.")
    check_data_seeds(plan)
    check_log(log, group=plan.title)
    threads = threads or engine.threads(workers)
    count = engine.count(workers, threads)
    with computing_with(threads):
        with error_console().status(f"{plan.title}: reading …") if progress else nullcontext():
            data = data_of(plan, plan.draws[0][0]) if data is None else data
        schedule = Schedule(resolve(plan, data))
        owned = None if folder is None else study_folder(Path(folder))
        with owned.locked() if owned else nullcontext():
            if owned:
                open_folder(owned, plan_json(schedule), force=force)
            ledger = Ledger(Record, owned.path / "results.jsonl" if owned else None)
            if retry_failed:
                ledger.forget_failed()
            current = Session(schedule, ledger, count, threads, report, log, engine)
            sessions = _sessions(owned.path / "provenance.json" if owned else None)
            if current.waiting():
                sessions.append(session(command, count, threads, engine.name))
                if owned:
                    write_json(owned.path / "provenance.json", {"sessions": sessions})
                first = data if count == 0 else None
                del data  # the workers have their own
                current.run(progress, first)
            records = [ledger.records[job.id] for job in schedule.jobs(ledger.records)]
            summary = make_summary(schedule, ledger.records, sessions)
            if owned:
                write_json(owned.path / "summary.json", summary.to_json())
    return Study(schedule.plan, records, summary)


class Session:
    """One session of a study: hands out jobs until there are none."""

    def __init__(
        self,
        schedule: Schedule,
        ledger: Ledger[Record],
        workers: int,
        threads: int,
        report: Report | None,
        log: Sequence[str] = (),
        engine: Engine = LOCAL,
    ) -> None:
        self.engine = engine
        self.plan, self.schedule, self.ledger = schedule.plan, schedule, ledger
        self.workers, self.threads, self.report = workers, threads, report
        self.log = Log(self.plan.title, list(log))
        self._jobs: list[Job] | None = None

    def waiting(self, running: Sequence[Job] = ()) -> list[Job]:
        """The jobs that can be run now. Those that can never be run are recorded as failed."""
        if self._jobs is None:
            self._jobs = self.schedule.jobs(self.ledger.records)
        under_way = {job.id for job in running}
        found = [job for job in self._jobs if job.id not in self.ledger.records and job.id not in under_way]
        for job in found:
            if job.blocked is not None:
                self.add(failed(job, job.blocked))
        return [job for job in found if job.blocked is None]

    def add(self, record: Record) -> None:
        """Keeps a record."""
        self.ledger.add(record)
        self._jobs = None  # its arm may now be tuned, and have runs
        if self.report:
            self.report(record)

    def run(self, progress: bool, data: ShiftDataset | None) -> None:
        """Runs all jobs; Ctrl-C and SIGTERM end it, and what is done is kept."""
        with progress_display(self.plan.title, enabled=progress) as display, _stoppable():
            try:
                if self.workers == 0:
                    self._run_here(display, data)
                else:
                    self._run_in_workers(display)
            except KeyboardInterrupt:
                now = self.progress()
                raise Interrupted(f"stopped with {now.done} of {now.total} fits done; they are kept.") from None

    def _run_here(self, display: ProgressDisplay | None, data: ShiftDataset | None) -> None:
        runner = JobRunner(self.plan.dataset, self.plan.options, self.plan.data, self.log)
        runner.loaded |= {} if data is None else {self.plan.draws[0][0]: data}
        while waiting := self.waiting():
            self.show(display)
            self.add(runner.run(waiting[0]))
        self.show(display)

    def _run_in_workers(self, display: ProgressDisplay | None) -> None:
        plan = self.plan
        workers = self.engine.workers(self.workers, self.threads, plan.dataset, plan.options, plan.data, self.log)
        with workers as pool:
            while (waiting := self.waiting(pool.running())) or pool.running():
                for job in waiting[: pool.idle(len(waiting))]:
                    pool.start(job)
                self.show(display)
                record = pool.wait(0.5)
                if record is not None:
                    self.add(record)
            self.show(display)

    def show(self, display: ProgressDisplay | None) -> None:
        """Shows how far it is."""
        if display is not None:
            display.show(self.progress())

    def progress(self) -> StudyProgress:
        """How far it is."""
        records = self.ledger.records
        jobs = self.schedule.jobs(records) if self._jobs is None else self._jobs
        done = [records[job.id] for job in jobs if job.id in records]
        left = [(str(job.kind), job.arm) for job in jobs if job.id not in records]
        left += self.schedule.expected(records)
        seconds = seconds_left(done, left, max(self.workers, 1))
        return StudyProgress(len(done), sum(not record.ok for record in done), len(done) + len(left), seconds)


def _sessions(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.exists():
        return []
    content = read_json(path)
    try:
        checked_note(Provenance, content, where=str(path))
    except GraphshiftError as error:
        raise GraphshiftError(f"{error} Remove the file to continue.") from None
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
    """SIGTERM stops a study as Ctrl-C does: workers are ended and the message says how to resume."""
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
