"""``graphshift estimate``: what a model is expected to score on a graph without labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from graphshift.cli.options import DataDir, Json, load_dataset
from graphshift.cli.shift import environment_of
from graphshift.cli.use import TableOptions, as_tables, prepared_tables, validation_of
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.estimators.estimating import Estimate


def estimate(
    run: Annotated[Path, Argument(metavar="RUN", help="the folder of a run")],
    dataset: Annotated[
        str,
        Argument(
            metavar="DATASET|NODES.csv",
            help="a dataset, a TOML file, one environment of it (DATASET:ENVIRONMENT), or a table of nodes",
        ),
    ],
    edges: Annotated[Path | None, Argument(metavar="[EDGES.csv]", help="the table of edges")] = None,
    adapt: Annotated[str | None, Option(metavar="norm", help="as in `predict`")] = None,
    no_copies: Annotated[
        bool, Option("--no-copies", help="without shifted copies of the validation graphs: quicker, less right")
    ] = False,
    committee: Annotated[
        list[Path] | None, Option(metavar="RUN", help="another run of the same data; may be given several times")
    ] = None,
    seed: Annotated[int, Option(metavar="N", min=0, help="of the copies")] = 0,
    option: TableOptions = None,
    data_dir: DataDir = None,
    json_: Json = False,
) -> None:
    """Estimate what a model scores on graphs without labels, with an interval, or refuse with a reason.

    Labels of the graphs are not looked at. The graphs are the tests and targets of a dataset, or one of two tables.
    """
    from graphshift.data.metrics import METRICS
    from graphshift.data.pieces import remarks_on
    from graphshift.estimators.loading import load_model
    from graphshift.shift.estimating import estimate_score

    model = load_model(run)
    if tables := as_tables(dataset, edges):
        graphs = [prepared_tables(model, *tables, option, None)]
    elif ":" in dataset and not Path(dataset).exists():
        name, _, environment = dataset.rpartition(":")
        graphs = [environment_of(load_dataset(name, option, data_dir), environment)]
    else:
        data = load_dataset(dataset, option, data_dir)
        graphs = [*data.tests, *data.target]
        if not graphs:
            raise GraphshiftError(f"{dataset}: there is no test or target environment to estimate a score on.")
    validation = [] if no_copies else validation_of(run, data_dir)
    if committee and not validation:
        raise GraphshiftError("--committee needs the validation graphs of RUN; it is no use with --no-copies.")
    others = [load_model(folder) for folder in committee or ()]
    how: dict[str, Any] = {"adapt": adapt, "committee": others, "seed": seed, "progress": not json_}
    made = estimate_score(model, graphs, validation, **how) if validation else None
    found = made or model.estimate_score(graphs, adapt=adapt)
    assert isinstance(found, dict)  # of several graphs
    if json_:
        print(json.dumps({name: one.to_json() for name, one in found.items()}, indent=2))
    else:
        _show(run, found)
        for text in remarks_on(graphs):
            print(f"note: {text}.")
        if any(e.further_y is not None for e in [*validation, *graphs]):
            metric = METRICS.find(model.task_.metric).title
            print(f"note: {metric} of nodes with one label: how many labels a node of a new graph has is not known.")


def _show(run: Path, found: dict[str, Estimate]) -> None:
    from graphshift.data.metrics import METRICS
    from graphshift.report.tables import print_table

    metric = METRICS.find(next(iter(found.values())).metric)
    rows = []
    for name, one in found.items():
        interval = f"{metric.show(one.low)} to {metric.show(one.high)}"
        sure = one.expected is not None
        rows.append([name, metric.show(one.expected) if sure else "refused", interval if sure else "–", one.copies])
    own = metric.show(next(iter(found.values())).held_out)
    columns = ["environment", f"expected {metric.title}", "90 of 100 cases", "copies"]
    print_table(f"{run}: expected score without labels", columns, rows, note=f"On held-out nodes: {own}.")
    for name, one in found.items():
        if one.refused:
            print(f"{name}: refused: {one.refused}.")
