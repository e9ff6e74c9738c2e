"""Progress of a study: a bar on a terminal, a plain line now and then elsewhere, and an estimate of the time left."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from graphshift.core.progress import error_console
from graphshift.studies.records import Record

#: Seconds between two lines where there is no terminal.
_EVERY = 30.0


@dataclass(frozen=True)
class StudyProgress:
    """How far a study has come."""

    done: int  #: fits that are finished, failed ones included
    failed: int
    total: int  #: all fits, as far as they are known
    left: float | None  #: about how many seconds are left; None before anything is finished

    def sentence(self) -> str:
        """In words."""
        parts = [f"{self.done} of {self.total} fits done"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"about {duration(self.left)} left"] if self.left and self.done < self.total else []
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def seconds_left(records: Sequence[Record], waiting: Sequence[tuple[str, str]], workers: int) -> float | None:
    """An estimate: each waiting fit (kind, arm) takes as long as those like it took, shared among the workers."""
    taken = [(r.kind, r.arm, r.seconds) for r in records if r.seconds is not None]
    if not taken:
        return None
    overall = fmean(seconds for _, _, seconds in taken)
    known: dict[tuple[str, str], float] = {}
    total = 0.0
    for kind, arm in waiting:
        if (kind, arm) not in known:
            alike = [s for k, a, s in taken if (k, a) == (kind, arm)]
            # A limit is several fits of its own size; a trial and a run of one arm are much the same.
            related = [] if kind == "limit" else [s for k, a, s in taken if a == arm and k != "limit"]
            known[kind, arm] = fmean(alike or related or [overall])
        total += known[kind, arm]
    return total / workers


class ProgressDisplay:
    """Shows the progress of a study on standard error."""

    def __init__(self, title: str) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self.console = error_console()
        self.title, self._printed = title, -_EVERY
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[progress]}"))
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.task = self.bar.add_task(title, total=None, progress="starting workers …")

    def show(self, progress: StudyProgress) -> None:
        """Shows the latest."""
        if self.console.is_terminal:
            shown: Any = {"completed": progress.done, "total": progress.total, "progress": progress.sentence()}
            self.bar.update(self.task, **shown, refresh=True)
        elif time.monotonic() - self._printed >= _EVERY:
            self._printed = time.monotonic()
            print(f"{self.title}: {progress.sentence()}", file=sys.stderr, flush=True)


@contextmanager
def progress_display(title: str, *, enabled: bool) -> Iterator[ProgressDisplay | None]:
    """A display for the length of a block; None if there is to be none."""
    if not enabled:
        yield None
        return
    display = ProgressDisplay(title)
    with display.bar:
        yield display
