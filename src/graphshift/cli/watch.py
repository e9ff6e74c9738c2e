"""``graphshift watch``: is a model still right, snapshot by snapshot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from graphshift.cli.options import DataDir, Force, Json, load_dataset, pairs, refuse_existing
from graphshift.cli.use import TableOptions
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.data.environment import Environment
    from graphshift.estimators.predictor import Predictor
    from graphshift.shift.watching import Snapshot

_WHAT = "DATASET (its tests and targets), DATASET:ENVIRONMENT, or NODES.csv,EDGES.csv"


def watch(
    run: Annotated[Path, Argument(metavar="RUN", help="the folder of a run")],
    snapshots: Annotated[list[str], Argument(metavar="SNAPSHOT…", help=f"in order of time: {_WHAT}")],
    time: Annotated[
        str | None, Option(metavar="COLUMN", help="of one pair of tables: a snapshot for each value of this column")
    ] = None,
    since: Annotated[str | None, Option(metavar="VALUE", help="of --time: the first value to look at")] = None,
    log: Annotated[
        Path | None, Option(metavar="FILE.jsonl", help="where lines are appended", show_default="RUN/watch.jsonl")
    ] = None,
    out: Annotated[Path | None, Option(metavar="FILE.html", help="write a page with the timeline")] = None,
    level: Annotated[
        float, Option(metavar="P", help="share of snapshots that may alarm where nothing has moved")
    ] = 0.05,
    drop: Annotated[
        float | None, Option(metavar="X", help="expected loss that alarms: points of a percentage", show_default="5")
    ] = None,
    check: Annotated[
        bool, Option("--check", help="also keep the true score where labels are known; it decides nothing")
    ] = False,
    adapt: Annotated[str | None, Option(metavar="norm", help="as in `predict`")] = None,
    seed: Annotated[int, Option(metavar="N", min=0, help="of communities, exchanges and copies")] = 0,
    option: TableOptions = None,
    data_dir: DataDir = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Watch a model over time: what has moved in each snapshot, and what it is expected to score there.

    Ends with status 3 if a snapshot alarms. Snapshots that the log has are not looked at again; --force replaces the
    page alone. Labels are not looked at, unless you ask for --check.
    """
    from graphshift.core.progress import progress_bar
    from graphshift.core.storage import write_text
    from graphshift.data.metrics import METRICS
    from graphshift.estimators.loading import load_model
    from graphshift.fitting.recorded import data_of_run
    from graphshift.shift.watching import DROP
    from graphshift.shift.watching import watch as look

    if out is not None:
        refuse_existing(out, force)
    model = load_model(run)
    about = METRICS.find(model.task_.metric)
    data = data_of_run(run, data_dir)
    graphs = _graphs(model, snapshots, time, since, option, data_dir, labelled=check)
    how: dict[str, Any] = {"level": level, "check": check, "adapt": adapt, "seed": seed}
    how["drop"] = DROP if drop is None else drop / about.scale
    with progress_bar(f"watch {run}", len(graphs), unit="snapshots") as told:
        done: list[str] = []

        def report(one: Snapshot) -> None:
            done.append(one.id)
            told({"epoch": len(done)})

        file = log or run / "watch.jsonl"
        found = look(model, data.train, graphs, validation=data.val, log=file, report=report, **how)
    if out is not None:
        from graphshift.report.watch_page import watch_page

        write_text(out, watch_page(str(run), found))
    if json_:
        for one in found:
            print(json.dumps(one.to_json(), ensure_ascii=False))
    else:
        _show(run, found, file, out)
    if any(one.alarms for one in found):
        raise SystemExit(3)


def _show(run: Path, found: list[Snapshot], log: Path, out: Path | None) -> None:
    from graphshift.report.tables import print_table
    from graphshift.report.watch_page import verdict, watch_table

    table = watch_table(str(run), found)
    print_table(table.title, table.columns, table.rows, note=table.note)
    print(verdict(found))
    for one in found:
        if one.status in ("alarm", "unseen"):
            print(f"{one.id}: {one.why}.")
    print(f"log: {log}" + ("" if out is None else f"\npage: {out}"))


def _graphs(
    model: Predictor,
    snapshots: list[str],
    time: str | None,
    since: str | None,
    option: list[str] | None,
    data_dir: Path | None,
    *,
    labelled: bool,
) -> list[Environment]:
    if time is None and since is not None:
        raise GraphshiftError("--since says where to begin in a column of times: give --time too.")
    if time is not None and (len(snapshots) != 1 or "," not in snapshots[0]):
        raise GraphshiftError(f"--time {time}: give one pair of tables, NODES.csv,EDGES.csv, and nothing else.")
    found: list[Environment] = []
    loaded: dict[str, Any] = {}
    for text in snapshots:
        if "," in text:
            found += _tables(model, text, time, since, pairs(option, "--option"), labelled=labelled)
            continue
        name, _, environment = text.rpartition(":") if ":" in text and not Path(text).exists() else (text, "", "")
        name = name or next(reversed(loaded), "")  # ":T8" is of the dataset before
        if not name:
            raise GraphshiftError(f"{text!r} is no graph: expected {_WHAT}.")
        if name not in loaded:
            loaded[name] = load_dataset(name, option, data_dir)
        data = loaded[name]
        if environment:
            from graphshift.cli.shift import environment_of

            found.append(environment_of(data, environment))
        else:
            found += [*data.tests, *data.target]
    if not found:
        raise GraphshiftError(f"{snapshots[0]}: there is no test or target environment to watch.")
    return found


def _tables(
    model: Predictor, text: str, time: str | None, since: str | None, options: dict[str, Any], *, labelled: bool
) -> list[Environment]:
    from graphshift.datasets.tables.periods import by_period

    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise GraphshiftError(f"{text!r}: expected two files with a comma between, NODES.csv,EDGES.csv.")
    nodes, edges = (Path(name) for name in names)
    whole = model.prepare(nodes, edges, name=nodes.stem, **options)
    if not labelled or whole.y is None:
        whole = whole.replace(y=None, mask=whole.mask | True)
    if time is None:
        return [whole]
    assert model.preparation_ is not None  # it has prepared tables
    return by_period(whole, nodes, time, since, model.preparation_.layout, options)
