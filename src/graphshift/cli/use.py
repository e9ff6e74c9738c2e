"""``graphshift score`` and ``graphshift predict``: a saved model at work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from graphshift.cli.options import DataDir, Force, Json, Options, dataset_options, refuse_existing


def _model_folder(model: Path) -> Path:
    return model / "model" if (model / "model" / "model.json").is_file() else model


def score(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="a model's folder, or a run's")],
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="a dataset's name")],
    option: Options = None,
    data_dir: DataDir = None,
    json_: Json = False,
) -> None:
    """Score a saved model on every environment of a dataset."""
    from graphshift.datasets import load
    from graphshift.models import load_model
    from graphshift.report.tables import LABELS, print_table, show_score

    loaded = load_model(_model_folder(model))
    data = load(dataset, **dataset_options(dataset, option, data_dir))
    roles = {role: loaded.score(getattr(data, role)) for role in ("train", "val", "tests")}
    if json_:
        print(json.dumps({"dataset": data.name, "metric": data.task.metric, **roles}, indent=2))
        return
    metric = data.task.metric
    majority = {e.name: e.majority for e in data.environments}
    rows = [
        [role, name, show_score(value, metric), show_score(majority[name], "accuracy")]
        for role, scores in roles.items()
        for name, value in scores.items()
    ]
    print_table(f"{model} on {data.name}", ["role", "environment", LABELS[metric], "largest class (%)"], rows)


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="a model's folder, or a run's")],
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="a dataset's name")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.csv", help="where to write")],
    option: Options = None,
    data_dir: DataDir = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Write a prediction for every node of every environment as CSV."""
    from graphshift.datasets import load
    from graphshift.models import load_model
    from graphshift.predictions import write_predictions

    refuse_existing(out, force)
    loaded = load_model(_model_folder(model))
    data = load(dataset, **dataset_options(dataset, option, data_dir))
    count = write_predictions(loaded, data.environments, out)
    print(json.dumps({"written": str(out), "nodes": count}) if json_ else f"{count:,} predictions written to {out}")
