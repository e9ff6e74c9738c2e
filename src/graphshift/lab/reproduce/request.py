"""What was asked of ``graphshift reproduce``, and what every item says on its way."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.lab.paper import SETTINGS, Item, Size
from graphshift.lab.paper.reproducing import absent
from graphshift.studies.engines import LOCAL, Engine
from graphshift.training.loop import Interrupted


@dataclass(frozen=True)
class Request:
    """What was asked for.

    Attributes:
        out: the folder of studies and items.
        settings: names with commas between; None for all.
        seeds, data_seeds, trials: how much; None leaves it to the experiment.
        quick: small, in a folder ``quick`` of its own.
        show: run nothing, show what the folder has.
        data_dir: where the raw files of datasets are.
        methods, experiments: of the leaderboard; names with commas between; None for all. Of ``strangers`` the tables.
        budget: of ``strangers``: seconds that each recommendation may take; None for its default.
        workers, threads, engine, retry_failed, force: what :func:`graphshift.studies.run_study` takes.
    """

    out: Path
    settings: str | None = None
    seeds: int | None = None
    data_seeds: int | None = None
    trials: int | None = None
    quick: bool = False
    show: bool = False
    data_dir: Path | None = None
    methods: str | None = None
    experiments: str | None = None
    budget: float | None = None
    workers: int | None = 1
    threads: int | None = None
    engine: Engine = LOCAL
    retry_failed: bool = False
    force: bool = False

    @property
    def folder(self) -> Path:
        """Where everything is kept."""
        return self.out / "quick" if self.quick else self.out

    @property
    def size(self) -> Size:
        """How much to run."""
        size = Size.quick() if self.quick else Size()
        return Size(
            self.seeds or size.seeds, self.data_seeds or size.data_seeds, self.trials or size.trials, size.epochs
        )

    @property
    def chosen(self) -> list[str] | None:
        """The names of settings, checked."""
        if self.settings is None:
            return None
        names = [name.strip() for name in self.settings.split(",") if name.strip()]
        for name in names:
            if name not in SETTINGS:
                raise GraphshiftError(f"--settings has {name!r}; {expected_one_of(name, list(SETTINGS))}")
        return names


def not_here(item: Item, datasets: Iterable[str], request: Request) -> set[str]:
    """The datasets that are not on this machine; a note for each."""
    found = {name: why for name in dict.fromkeys(datasets) if (why := absent(name, request.data_dir))}
    for why in found.values():
        note(f"{item.name}: skipped: {why}.")
    return set(found)


def command() -> list[str]:
    """What the user typed, as a study keeps it."""
    return ["graphshift", *sys.argv[1:]]


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C says how to continue."""
    try:
        yield
    except KeyboardInterrupt as error:
        again = shlex.join(word for word in command() if word != "--force")  # which would start anew
        raise Interrupted(f"{str(error) or 'stopped; what is done is kept.'} Continue with: {again}") from None


def note(text: str) -> None:
    """Something that the user should know, beside the tables."""
    print(f"graphshift: note: {text}", file=sys.stderr)
