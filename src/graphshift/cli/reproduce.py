"""``graphshift reproduce``: the paper's tables and figures, rerun."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphshift.cli.options import DataDir, Force


def reproduce(
    item: Annotated[
        str, typer.Argument(metavar="ITEM", help="a table or figure such as fig2, an experiment, `all`, or `list`")
    ],
    settings: Annotated[
        str | None,
        typer.Option("--settings", metavar="NAMES", help="some of those that `list` shows", show_default="all"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="small: a test that it runs; ignore its numbers")] = False,
    seeds: Annotated[int | None, typer.Option("--seeds", metavar="N", min=1, help="training seeds of each arm")] = None,
    data_seeds: Annotated[
        int | None, typer.Option("--data-seeds", metavar="N", min=1, help="draws of generated data")
    ] = None,
    trials: Annotated[
        int | None, typer.Option("--trials", metavar="N", min=1, help="tuning trials of each arm, where it is tuned")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=0, help="fits at the same time")] = 1,
    threads_per_worker: Annotated[
        int | None,
        typer.Option("--threads-per-worker", metavar="N", min=1, help="threads", show_default="cores over workers"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="folder of the studies and items")] = Path(
        "reproduction"
    ),
    show: Annotated[bool, typer.Option("--show", help="run nothing; show what the folder has")] = False,
    data_dir: DataDir = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="run failed fits again")] = False,
    force: Force = False,
) -> None:
    """Rerun a table or figure of the paper (as published, as the text says, tuned alike), beside published numbers.

    The same command continues where it stopped. An item whose data are not on this machine is skipped with a note.
    """
    from graphshift.lab.reproduce.run import Request, list_items, run_items

    if item == "list":
        list_items(data_dir)
        return
    request = Request(
        out,
        settings=settings,
        seeds=seeds,
        data_seeds=data_seeds,
        trials=trials,
        quick=quick,
        show=show,
        data_dir=data_dir,
        workers=workers,
        threads=threads_per_worker,
        retry_failed=retry_failed,
        force=force,
    )
    run_items(item, request)
