"""``graphshift reproduce``: the paper's tables and figures, rerun."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from graphshift.cli.options import AS_MANY, Address, DataDir, EngineName, Force, RetryFailed, Threads


def reproduce(
    item: Annotated[
        str, Argument(metavar="ITEM", help="a table or figure such as fig2, an experiment, `all`, or `list`")
    ],
    settings: Annotated[
        str | None, Option(metavar="NAMES", help="some of those that `list` shows", show_default="all")
    ] = None,
    methods: Annotated[
        str | None, Option(metavar="NAMES", help="of the leaderboard: methods, your own too", show_default="all")
    ] = None,
    experiments: Annotated[
        str | None,
        Option(metavar="NAMES", help="of the leaderboard: experiments; of strangers: tables", show_default="all"),
    ] = None,
    budget: Annotated[
        str | None, Option(metavar="TIME", help="of strangers: each recommendation's", show_default="60s")
    ] = None,
    quick: Annotated[bool, Option("--quick", help="small: a test that it runs; ignore its numbers")] = False,
    seeds: Annotated[int | None, Option(metavar="N", min=1, help="training seeds of each arm")] = None,
    data_seeds: Annotated[int | None, Option(metavar="N", min=1, help="draws of generated data")] = None,
    trials: Annotated[
        int | None, Option(metavar="N", min=1, help="tuning trials of each arm, where it is tuned")
    ] = None,
    workers: Annotated[
        int | None, Option(metavar="N", min=0, help="fits at the same time", show_default=AS_MANY)
    ] = None,
    threads_per_worker: Threads = None,
    engine: EngineName = "local",
    address: Address = None,
    out: Annotated[Path, Option(metavar="DIR", help="folder of the studies and items")] = Path("reproduction"),
    show: Annotated[bool, Option("--show", help="run nothing; show what the folder has")] = False,
    data_dir: DataDir = None,
    retry_failed: RetryFailed = False,
    force: Force = False,
) -> None:
    """Rerun a table or figure of the paper (as published, as the text says, tuned alike), beside published numbers.

    The same command continues where it stopped. An item whose data are not on this machine is skipped with a note.
    """
    from graphshift.lab.reproduce.request import Request
    from graphshift.lab.reproduce.run import list_items, run_items
    from graphshift.studies import Engine
    from graphshift.studies.budget import seconds_of

    if item == "list":
        list_items(data_dir)
        return
    size: dict[str, Any] = {"settings": settings, "seeds": seeds, "data_seeds": data_seeds, "trials": trials}
    how: dict[str, Any] = {"workers": workers, "threads": threads_per_worker, "data_dir": data_dir, "force": force}
    how |= {"engine": Engine(engine, address), "methods": methods, "experiments": experiments}
    how["budget"] = None if budget is None else seconds_of(budget, "--budget")
    run_items(item, Request(out, quick=quick, show=show, retry_failed=retry_failed, **size, **how))
