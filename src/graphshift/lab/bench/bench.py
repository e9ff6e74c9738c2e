"""What a part of the suite is given: sizes, data, a folder, and where to put what it finds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from graphshift.data.dataset import ShiftDataset
from graphshift.datasets import DATASETS, load
from graphshift.datasets.reading.files import data_directory
from graphshift.lab.bench.outcome import Measurement, Outcome, Table, anonymous
from graphshift.lab.bench.sizes import Sizes
from graphshift.lab.bench.timing import in_turns


@dataclass
class Bench:
    """One part's run.

    Args:
        sizes: how large everything is.
        folder: for files that are gone afterwards.
        threads: of this process and of those it starts.
        data_dir: where the raw files of datasets are; None as everywhere.
        say: told what is under way.
    """

    sizes: Sizes
    folder: Path
    threads: int
    data_dir: Path | None = None
    say: Callable[[str], None] = lambda _: None
    outcome: Outcome = field(default_factory=Outcome)

    def time(self, *jobs: Callable[[], object]) -> list[float]:
        """The median seconds of each job, in turns."""
        return in_turns(jobs, rounds=self.sizes.rounds, least=self.sizes.least, budget=self.sizes.budget)

    def time_once(self, *jobs: Callable[[], object]) -> list[float]:
        """The seconds of jobs that are too long, or change too much, to be repeated."""
        found = []
        for job in jobs:
            started = time.perf_counter()
            job()
            found.append(time.perf_counter() - started)
        return found

    def measured(
        self,
        id: str,
        what: str,
        value: float | None,
        *,
        unit: str = "×",
        bar: float | None = None,
        higher_is_better: bool = False,
        reason: str = "",
    ) -> None:
        """Keeps a number and its bar."""
        self.outcome.measurements.append(Measurement(id, what, value, unit, bar, higher_is_better, reason))

    def table(self, title: str, columns: Sequence[str], note: str = "") -> list[list[str]]:
        """Begins a table and gives its rows to append to; it is there even if the part does not come to its end."""
        rows: list[list[str]] = []
        self.outcome.tables.append(Table(title, list(columns), rows, note))
        return rows

    @contextmanager
    def stage(self, what: str) -> Iterator[None]:
        """Says what is under way; a failure is kept with its reason, and the part continues."""
        self.say(what)
        try:
            yield
        except Exception as error:
            self.failed(what, error)

    def failed(self, what: str, error: Exception) -> None:
        """Keeps the reason of a failure."""
        reason = anonymous(f"{type(error).__name__}: {error}")
        self.outcome.failures.append({"what": what, "reason": reason[:300]})

    def has_data(self, name: str) -> bool:
        """Whether all files of a dataset are there: a benchmark downloads nothing."""
        folder = data_directory(self.data_dir)
        return all((folder / source.path).is_file() for source in DATASETS[name].sources)

    def real_data(self, name: str) -> ShiftDataset:
        """A dataset that is read from files."""
        return load(name, data_dir=self.data_dir)
