"""``graphshift score`` and ``predict`` use a saved model; ``graphshift init`` starts with tables of your own."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from graphshift.cli.options import DataDir, Force, Json, Options, load_dataset, refuse_existing

Adapt = Annotated[
    str | None, Option(metavar="norm|prior|norm+prior", help="adapt the model to each graph without its labels")
]
Model = Annotated[Path, Argument(metavar="MODEL", help="the folder of a model or of a run")]


def _model_folder(model: Path) -> Path:
    """The folder of the model itself: that of a run is inside the run's folder."""
    single = (model / "model" / "model.json").is_file() and not (model / "ensemble.json").is_file()
    return model / "model" if single else model


def score(
    model: Model,
    dataset: Annotated[str, Argument(metavar="DATASET", help="a dataset's name or a TOML file")],
    adapt: Adapt = None,
    option: Options = None,
    data_dir: DataDir = None,
    json_: Json = False,
) -> None:
    """Score a saved model on every environment of a dataset."""
    from graphshift.estimators.loading import load_model
    from graphshift.report.tables import print_table, show_score

    loaded = load_model(_model_folder(model))
    data = load_dataset(dataset, option, data_dir)
    roles = {role: loaded.score(getattr(data, role), adapt=adapt) for role in ("train", "val", "tests")}
    if json_:
        about = {"dataset": data.name, "metric": data.task.metric, "adapt": adapt}
        print(json.dumps(about | roles, indent=2))
        return
    metric = data.task.metric
    majority = {e.name: e.majority for e in data.environments}
    rows = [
        [role, name, show_score(value, metric), show_score(majority[name], "accuracy")]
        for role, scores in roles.items()
        for name, value in scores.items()
    ]
    note = "" if adapt is None else f"adapt {adapt}: the model was adapted to each graph without its labels."
    columns = ["role", "environment", data.task.scorer.title, "largest class (%)"]
    print_table(f"{model} on {data.name}", columns, rows, note=note)


def predict(
    model: Model,
    dataset: Annotated[
        str, Argument(metavar="DATASET|NODES", help="a dataset's name, a TOML file, or a table of nodes")
    ],
    edges: Annotated[Path | None, Argument(metavar="[EDGES]", help="after NODES: a table of edges")] = None,
    *,
    out: Annotated[Path, Option(metavar="FILE.csv", help="the file to write")],
    adapt: Adapt = None,
    option: Options = None,
    data_dir: DataDir = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Write a prediction for every node as CSV, for a dataset or for new tables with the same columns."""
    from graphshift.estimators.loading import load_model
    from graphshift.fitting.predictions import prediction_table, table_predictions, write_table

    refuse_existing(out, force)
    folder = _model_folder(model)
    loaded = load_model(folder)
    if edges is not None:
        table = table_predictions(loaded, folder, Path(dataset), edges, adapt=adapt)
    else:
        table = prediction_table(loaded, load_dataset(dataset, option, data_dir), adapt=adapt)
    write_table(table, out)
    count = len(table)
    print(json.dumps({"written": str(out), "nodes": count}) if json_ else f"{count:,} predictions written to {out}")


def init(
    nodes: Annotated[Path, Argument(metavar="NODES", help="your table of nodes, CSV or Parquet")],
    edges: Annotated[Path, Argument(metavar="EDGES", help="your table of edges, CSV or Parquet")],
    out: Annotated[Path, Option(metavar="FILE.toml", help="the file to write")] = Path("my.toml"),
    separator: Annotated[str, Option(metavar="C", help="between the fields of a CSV file")] = ",",
    force: Force = False,
) -> None:
    """Guess the columns of your tables and write a commented TOML file for `graphshift fit`."""
    from graphshift.core.storage import write_text
    from graphshift.datasets.tables.describe import describe_tables

    refuse_existing(out, force)
    text = describe_tables(nodes, edges, base=out.parent, separator=separator)
    write_text(out, text)
    if "\nlabel = " not in text:
        print(f"no column looks like the label: set `label` in {out}.")
    print(f"written to {out}: check it, then run: graphshift fit {out}")
