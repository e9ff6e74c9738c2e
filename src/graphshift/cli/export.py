"""``graphshift export``."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from graphshift.cli.options import DataDir, Force, Json, load_dataset
from graphshift.cli.use import Edges, Model, TableOptions, as_tables, prepared_tables

if TYPE_CHECKING:
    from graphshift.data.dataset import ShiftDataset
    from graphshift.data.environment import Environment

_CHECK = "what the exported model is compared on: a dataset, a TOML file or a table of nodes; default: the run's own"


def export(
    model: Model,
    dataset: Annotated[str | None, Argument(metavar="[DATASET|NODES]", help=_CHECK)] = None,
    edges: Edges = None,
    *,
    format_: Annotated[str, Option("--format", metavar="onnx|torch", help="what to write")] = "onnx",
    out: Annotated[Path, Option(metavar="FILE", help="the file to write")],
    tolerance: Annotated[float, Option(metavar="X", help="largest difference of a probability", min=0.0)] = 1e-5,
    option: TableOptions = None,
    data_dir: DataDir = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Write a model for programs without graphshift, after a comparison on your own graphs.

    The file takes graphs of any size. FILE.json says what it takes and gives, and FILE.preparation.json prepares raw
    tables for it.
    """
    from graphshift.core.progress import error_console
    from graphshift.estimators.export import export_model
    from graphshift.estimators.loading import load_model
    from graphshift.fitting.recorded import data_of_run

    loaded = load_model(model)
    with error_console().status("exporting, and comparing …"):
        if dataset is None:
            graphs = _all(data_of_run(model, data_dir))
        elif tables := as_tables(dataset, edges):
            graphs = [prepared_tables(loaded, *tables, option, data_dir)]
        else:
            graphs = _all(load_dataset(dataset, option, data_dir))
        how: dict[str, Any] = {"format": format_, "tolerance": tolerance, "force": force}
        found = export_model(loaded, out, graphs, **how)
    if json_:
        print(json.dumps({"written": [str(path) for path in found.files], **found.note}, indent=2, ensure_ascii=False))
        return
    checked = found.note["checked"]
    worst = max(one["difference"] for one in checked.values())
    for name, shape in found.note["inputs"].items():
        print(f"takes {name}: {shape[0]} [{', '.join(map(str, shape[1:]))}]")
    for name, shape in found.note["outputs"].items():
        print(f"gives {name}: {shape[0]} [{', '.join(map(str, shape[1:]))}]")
    print(f"compared with the model on {len(checked)} graphs: the largest difference is {worst:.1e}")
    print(f"written to {', '.join(str(path) for path in found.files)}")


def _all(data: "ShiftDataset") -> "list[Environment]":
    """The graphs of every role; labels are not looked at."""
    return [environment for environments in data.roles.values() for environment in environments]
