"""``graphshift reproduce``: the paper's tables and figures, rerun."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphshift.cli.options import DataDir, Force
from graphshift.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.paper import Item, Size
    from graphshift.report.study_tables import StudyTable

__all__ = ["reproduce"]


def reproduce(
    item: Annotated[str, typer.Argument(metavar="ITEM", help="a table or figure, as fig2; `all`; or `list`")],
    settings: Annotated[
        str | None,
        typer.Option("--settings", metavar="NAMES", help="of published, paper, fair, ablation; default: all it has"),
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
    from graphshift.paper import ITEMS, Size, find

    if item == "list":
        _list(data_dir)
        return
    size = Size.quick() if quick else Size()
    size = Size(seeds or size.seeds, data_seeds or size.data_seeds, trials or size.trials, size.epochs)
    place = out / "quick" if quick else out
    chosen = None if settings is None else [name.strip() for name in settings.split(",") if name.strip()]
    shown = 0
    for one in ITEMS.values() if item == "all" else (find(item),):
        tables = _one(
            one, chosen, place, size, quick=quick, show=show, data_dir=data_dir, workers=workers,
            threads=threads_per_worker, retry_failed=retry_failed, force=force,
        )  # fmt: skip
        shown += len(tables)
    if not shown:
        raise GraphshiftError(f"{item}: nothing of it can be shown here; see the notes above.")


def _one(
    item: Item, settings: list[str] | None, folder: Path, size: Size, *, quick: bool, show: bool,
    data_dir: Path | None, workers: int, threads: int | None, retry_failed: bool, force: bool,
) -> list[StudyTable]:  # fmt: skip
    from graphshift.paper.reproducing import absent, finished, run_experiment, settings_of
    from graphshift.report.paper_report import write_data_item, write_item, write_toy
    from graphshift.report.study_report import write_report
    from graphshift.report.tables import print_table
    from graphshift.training import Interrupted

    if item.data:
        missing = {name: why for name, _ in item.data if (why := absent(name, data_dir))}
        for why in missing.values():
            _note(f"{item.name}: skipped: {why}.")
        there = [name for name, _ in item.data if name not in missing]
        tables = write_data_item(item, there, folder, data_dir) if there else []
    elif not item.experiments:
        tables = write_toy(item, folder, quick=quick)
    else:
        command = ["graphshift", *sys.argv[1:]]
        studies = []
        for experiment, setting in settings_of(item, settings):
            found = finished(experiment, setting, folder) if show else None
            why = None if show else absent(experiment.dataset, data_dir)
            if why is not None:
                _note(f"{item.name}: {experiment.name}, {setting}: skipped: {why}.")
            elif show and found is None:
                _note(f"{item.name}: {experiment.name}, {setting}: not finished in {folder}; run it without --show.")
            elif not show:
                print(f"{item.name}: {experiment.name}, {setting}", file=sys.stderr)
                try:
                    found = run_experiment(
                        experiment, setting, folder, size, data_dir=data_dir, workers=workers, threads=threads,
                        force=force, retry_failed=retry_failed, command=command, report=write_report,
                    )  # fmt: skip
                except Interrupted as error:
                    again = shlex.join(word for word in command if word != "--force")  # which would start anew
                    raise Interrupted(f"{error} Go on with: {again}") from None
            studies += [found] if found is not None else []
        tables = write_item(item, studies, folder) if studies else []
        if studies and item.claim:
            print(f"The paper: {item.claim}")
    for table in tables:
        print_table(table.title, table.columns, table.rows, note=table.note)
    if tables:
        print(f"{item.name}: tables and figures in {folder / item.name}")
    return tables


def _list(data_dir: Path | None) -> None:
    from graphshift.paper import EXPERIMENTS, ITEMS, SETTINGS
    from graphshift.paper.reproducing import absent
    from graphshift.report.tables import print_table

    rows = []
    for item in ITEMS.values():
        experiments = [EXPERIMENTS[name] for name in item.experiments]
        datasets = list(dict.fromkeys([*(e.dataset for e in experiments), *(name for name, _ in item.data)]))
        gone = [name for name in datasets if absent(name, data_dir)]
        settings = [s for s in SETTINGS if any(s in e.settings for e in experiments)]
        rows.append([item.name, item.title, ", ".join(settings) or "–", ", ".join(gone) or "–"])
    print_table("what can be rerun", ["item", "what", "settings", "data that are absent"], rows)
    print("\n".join(f"{name}: {text}" for name, text in SETTINGS.items()))


def _note(text: str) -> None:
    print(f"graphshift: note: {text}", file=sys.stderr)
