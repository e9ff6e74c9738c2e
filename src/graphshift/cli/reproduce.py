"""``graphshift reproduce``: the paper's tables and figures, rerun."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphshift.cli.options import DataDir, Force
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.lab.paper import Item, Size
    from graphshift.report.study_tables import StudyTable


_STEPS = 200  # of explorers, in the study of what they learn


def reproduce(
    item: Annotated[str, typer.Argument(metavar="ITEM", help="a table or figure, as fig2; `all`; or `list`")],
    settings: Annotated[
        str | None, typer.Option("--settings", metavar="NAMES", help="of those that `list` shows; default: all")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="small: shows that it runs, its numbers mean nothing")] = False,
    seeds: Annotated[int | None, typer.Option("--seeds", metavar="N", min=1, help="of the runs of each arm")] = None,
    data_seeds: Annotated[
        int | None, typer.Option("--data-seeds", metavar="N", min=1, help="draws of data that are made")
    ] = None,
    trials: Annotated[
        int | None, typer.Option("--trials", metavar="N", min=1, help="of tuning for each arm, in `fair`")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=0, help="fits at the same time")] = 1,
    threads_per_worker: Annotated[
        int | None, typer.Option("--threads-per-worker", metavar="N", min=1, help="default: cores over workers")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="where studies and items are kept")] = Path(
        "reproduction"
    ),
    show: Annotated[bool, typer.Option("--show", help="run nothing: show what the folder has")] = False,
    data_dir: DataDir = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="run failed fits again")] = False,
    force: Force = False,
) -> None:
    """Rerun a table or figure of the paper: as published, as the paper says, and fairly; beside published numbers.

    The same command goes on where it was stopped. What needs data that are absent says so and is skipped.
    """
    from graphshift.lab.paper import ITEMS, SETTINGS, Size, find

    if item == "list":
        _list(data_dir)
        return
    size = Size.quick() if quick else Size()
    size = Size(seeds or size.seeds, data_seeds or size.data_seeds, trials or size.trials, size.epochs)
    place = out / "quick" if quick else out
    chosen = None if settings is None else [name.strip() for name in settings.split(",") if name.strip()]
    for name in chosen or ():
        if name not in SETTINGS:
            raise GraphshiftError(f"--settings has {name!r}; expected some of {', '.join(SETTINGS)}.")
    how = _How(place, size, chosen, quick, show, data_dir, workers, threads_per_worker, retry_failed, force)
    wanted = list(ITEMS.values()) if item == "all" else [find(item)]
    if not sum(len(_one(one, how)) for one in wanted):
        raise GraphshiftError(f"{item}: nothing of it can be shown here; see the notes above.")


@dataclass(frozen=True)
class _How:
    """The command's options, as every kind of item needs them."""

    folder: Path
    size: Size
    settings: list[str] | None
    quick: bool
    show: bool
    data_dir: Path | None
    workers: int
    threads: int | None
    retry_failed: bool
    force: bool


def _one(item: Item, how: _How) -> list[StudyTable]:
    from graphshift.lab.paper.report import write_toy
    from graphshift.report.tables import print_table

    if how.show and not item.experiments:
        return _shown(item, how)
    if item.data:
        tables = _data(item, how)
    elif not item.experiments:
        tables = write_toy(item, how.folder, quick=how.quick)
    else:
        tables = _exploring(item, how) if item.name == "exploring" else []
        tables += _studies(item, how)
    for table in tables:
        print_table(table.title, table.columns, table.rows, note=table.note)
    if tables:
        print(f"{item.name}: tables and figures in {how.folder / item.name}")
    return tables


def _shown(item: Item, how: _How) -> list[StudyTable]:
    """What an item without studies left when it was run."""
    from graphshift.report.study_tables import StudyTable

    file = how.folder / item.name / "table.txt"
    if not file.is_file():
        _note(f"{item.name}: not in {how.folder}; run it without --show.")
        return []
    print(file.read_text(encoding="utf-8"))
    return [StudyTable(item.title, [], [])]


def _data(item: Item, how: _How) -> list[StudyTable]:
    from graphshift.lab.paper.report import write_data_item
    from graphshift.lab.paper.reproducing import absent

    missing = {name: why for name, _ in item.data if (why := absent(name, how.data_dir))}
    for why in missing.values():
        _note(f"{item.name}: skipped: {why}.")
    there = [name for name, _ in item.data if name not in missing]
    return write_data_item(item, there, how.folder, how.data_dir) if there else []


def _studies(item: Item, how: _How) -> list[StudyTable]:
    from graphshift.lab.paper.report import write_item
    from graphshift.lab.paper.reproducing import absent, finished, run_experiment, settings_of
    from graphshift.report.study_report import write_report

    wanted = settings_of(item, how.settings)
    missing = {}
    if not how.show:
        datasets = dict.fromkeys(experiment.dataset for experiment, _ in wanted)
        missing = {name: why for name in datasets if (why := absent(name, how.data_dir))}
    for why in missing.values():
        _note(f"{item.name}: skipped: {why}.")
    studies = []
    for experiment, setting in wanted:
        if experiment.dataset in missing:
            continue
        label = f"{item.name}: {experiment.name}, {setting}"
        if how.show:
            found = finished(experiment, setting, how.folder)
            if found is None:
                _note(f"{label}: not finished in {how.folder}; run it without --show.")
                continue
        else:
            print(label, file=sys.stderr)
            with _going_on():
                found = run_experiment(
                    experiment,
                    setting,
                    how.folder,
                    how.size,
                    data_dir=how.data_dir,
                    workers=how.workers,
                    threads=how.threads,
                    force=how.force,
                    retry_failed=how.retry_failed,
                    command=_command(),
                    report=write_report,
                )
        studies.append(found)
    if studies and item.claim:
        print(f"The paper: {item.claim}")
    return write_item(item, studies, how.folder) if studies else []


def _exploring(item: Item, how: _How) -> list[StudyTable]:
    from graphshift.core.progress import progress_bar
    from graphshift.lab.paper.exploring import DATASETS, cases, explore_all, explored
    from graphshift.lab.paper.report import write_exploring
    from graphshift.lab.paper.reproducing import absent

    file = how.folder / item.name / "results.jsonl"
    if how.show:
        records = explored(file)
    else:
        missing = {name: why for name in DATASETS if (why := absent(name, how.data_dir))}
        for why in missing.values():
            _note(f"{item.name}: skipped: {why}.")
        seeds, steps = (1, 10) if how.quick else (how.size.seeds or 3, _STEPS)
        wanted = cases([name for name in DATASETS if name not in missing], seeds, steps)
        with _going_on(), progress_bar("exploring", len(wanted), unit="cases") as report:
            records = explore_all(wanted, file, how.data_dir, report)
    return write_exploring(item, records, how.folder) if records else []


def _command() -> list[str]:
    return ["graphshift", *sys.argv[1:]]


@contextmanager
def _going_on() -> Iterator[None]:
    """Ctrl-C says how to go on."""
    from graphshift.training.loop import Interrupted

    try:
        yield
    except KeyboardInterrupt as error:
        again = shlex.join(word for word in _command() if word != "--force")  # which would start anew
        raise Interrupted(f"{str(error) or 'stopped; what is done is kept.'} Go on with: {again}") from None


def _list(data_dir: Path | None) -> None:
    from graphshift.lab.paper import EXPERIMENTS, ITEMS, SETTINGS
    from graphshift.lab.paper.reproducing import absent
    from graphshift.report.tables import print_table

    rows = []
    for item in ITEMS.values():
        experiments = [EXPERIMENTS[name] for name in item.experiments]
        datasets = list(dict.fromkeys([*(e.dataset for e in experiments), *(name for name, _ in item.data)]))
        gone = [name for name in datasets if absent(name, data_dir)]
        settings = [s for s in item.settings if any(s in e.settings for e in experiments)]
        rows.append([item.name, item.title, ", ".join(settings) or "–", ", ".join(gone) or "–"])
    print_table("what can be rerun", ["item", "what", "settings", "data that are absent"], rows)
    print("\n".join(f"{name}: {text}" for name, text in SETTINGS.items()))


def _note(text: str) -> None:
    print(f"graphshift: note: {text}", file=sys.stderr)
