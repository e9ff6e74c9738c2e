"""``graphshift score`` and ``predict`` use a saved model."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from graphshift.cli.options import DataDir, Force, Json, load_dataset, pairs, refuse_existing
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from graphshift.data.environment import Environment
    from graphshift.estimators import Predictor
    from graphshift.shift.calibrating import Calibrator

Adapt = Annotated[
    str | None,
    Option(
        metavar="norm|prior|norm+prior|tent|hops|centroids|neighbours|gtrans|beliefs",
        help="adapt the model to each graph without its labels",
    ),
]
Model = Annotated[Path, Argument(metavar="MODEL", help="the folder of a model or of a run")]
Data = Annotated[str, Argument(metavar="DATASET|NODES", help="a dataset's name, a TOML file, or a table of nodes")]
Edges = Annotated[Path | None, Argument(metavar="[EDGES]", help="after NODES: a table of edges")]
Graphs = Annotated[Path | None, Argument(metavar="[GRAPHS]", help="after EDGES, where graphs have labels: their table")]
Threshold = Annotated[
    str | None,
    Option(metavar="P|auto|recall=R", help="above which class 1 is predicted; auto, recall=, precision=, fpr= choose"),
]
Raw = Annotated[bool, Option("--raw", help="probabilities as they are, not calibrated on validation")]
Coverage = Annotated[
    float | None,
    Option(metavar="SHARE", help="add to each node a set of classes, or an interval; this share of them has the truth"),
]
Score = Annotated[str, Option(metavar="threshold|aps|raps", help="of --coverage: how sets are filled")]
Smooth = Annotated[float, Option(metavar="L", help="of --coverage: the part of a score that is its neighbours' mean")]
Weights = Annotated[
    str,
    Option(metavar="auto|none|each-class|classes|features|copies|moved", help="of --coverage: what may have shifted"),
]
Abstain = Annotated[
    float | None,
    Option(
        metavar="ERROR",
        help='answer so many nodes that at most this share of the answers is expected to be wrong; "I don\'t know" '
        "for the others",
    ),
]
MoveCopies = Annotated[
    bool | None,
    Option(
        "--move-copies/--no-move-copies",
        help="what sets, answers and probabilities that are calibrated to a graph learn from: copies of the validation "
        "graphs that are moved to it, or copies in all directions",
        show_default="moved, if the run's dataset is there",
    ),
]
Target = Annotated[
    bool, Option("--calibrate-to-graph", help="calibrate probabilities to each graph, without its labels")
]
_OPTIONS = "an option of the dataset, as nodes=500; of tables: unknown_ids=drop, separator=;"
TableOptions = Annotated[list[str] | None, Option("--option", "-o", metavar="NAME=VALUE", help=_OPTIONS)]


def score(
    model: Model,
    dataset: Data,
    edges: Edges = None,
    graphs: Graphs = None,
    adapt: Adapt = None,
    metric: Annotated[
        list[str] | None, Option(metavar="NAME", help="other metrics than the task's; may be repeated")
    ] = None,
    per_class: Annotated[bool, Option("--per-class", help="precision, recall and F1 of each class")] = False,
    threshold: Threshold = None,
    raw: Raw = False,
    page: Annotated[
        Path | None, Option(metavar="FILE.html", help="a page: reliability diagrams and risk-coverage curves")
    ] = None,
    option: TableOptions = None,
    data_dir: DataDir = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Score a saved model on every labelled environment of a dataset, or on tables with labels."""
    from graphshift.estimators.adaptation import has_temperature
    from graphshift.estimators.loading import load_model
    from graphshift.fitting import confidence

    if page is not None:
        refuse_existing(page, force)
    loaded = load_model(model)
    name, roles = _labelled(loaded, dataset, edges, option, data_dir, graphs)
    calibrated = bool(loaded.confidences_) and not raw and has_temperature(adapt)
    how: Any = {"adapt": adapt, "threshold": _threshold(threshold), "calibrated": calibrated}
    environments = [e for found in roles.values() for e in found]
    metrics = list(dict.fromkeys(metric or [environments[0].task.metric]))
    found = {
        one: {role: loaded.score([confidence.with_metric(e, one) for e in own], **how) for role, own in roles.items()}
        for one in metrics
    }
    classes = {e.name: confidence.per_class(loaded, e, **how) for e in environments} if per_class else {}
    if page is not None:
        _write_page(loaded, model, name, roles, page, data_dir)
    if json_:
        about: dict[str, Any] = {"dataset": name, "metric": metrics[0], "adapt": adapt}
        about |= {"threshold": threshold} if threshold else {}
        about |= found[metrics[0]] | ({"metrics": found} if metric else {})
        print(json.dumps(about | ({"per_class": classes} if per_class else {}), indent=2))
        return
    note = "" if adapt is None else f"adapt {adapt}: the model was adapted to each graph without its labels."
    if threshold is not None:
        chosen = loaded.threshold_of(how["threshold"], adapt=adapt, calibrated=calibrated)
        note += f" Threshold {threshold}: class {loaded.classes_[-1]} is predicted above a probability of {chosen:.3g}."
    _show(f"{model} on {name}", roles, found, classes, note.strip())
    if page is not None:
        print(f"page: {page}")


def predict(
    model: Model,
    dataset: Data,
    edges: Edges = None,
    graphs: Graphs = None,
    *,
    out: Annotated[Path, Option(metavar="FILE.csv", help="the file to write")],
    every_node: Annotated[
        bool, Option("--all", help="every node of every graph, not those alone that count in it")
    ] = False,
    adapt: Adapt = None,
    threshold: Threshold = None,
    raw: Raw = False,
    target: Target = False,
    move_copies: MoveCopies = None,
    abstain: Abstain = None,
    coverage: Coverage = None,
    set_score: Score = "aps",
    smooth: Smooth = 0.0,
    weights: Weights = "auto",
    option: TableOptions = None,
    data_dir: DataDir = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Write predictions as CSV, for a dataset or for new tables with the columns of the training tables."""
    from graphshift.estimators.loading import load_model
    from graphshift.estimators.sets import HowSets
    from graphshift.fitting.predictions import node_table, prediction_table, write_table
    from graphshift.shift.calibrating import moved_copies_help

    refuse_existing(out, force)
    if coverage is None and (set_score, smooth, weights) != ("aps", 0.0, "auto"):
        raise GraphshiftError("--set-score, --smooth and --weights say how sets are made: give --coverage too, as 0.9.")
    sets = None if coverage is None else HowSets(coverage, set_score, smooth, weights=weights)
    loaded = load_model(model)
    if raw and (target or abstain is not None):
        raise GraphshiftError("--raw leaves probabilities as they are; --calibrate-to-graph and --abstain do not.")
    calibrated = False if raw else "target" if target else None
    how: Any = {"adapt": adapt, "threshold": _threshold(threshold), "calibrated": calibrated, "sets": sets}
    how["abstain"] = abstain
    if move_copies and not (target or abstain is not None or coverage is not None):
        raise GraphshiftError(
            "--move-copies says how sets, answers and probabilities are calibrated: give --coverage, --abstain or "
            "--calibrate-to-graph too."
        )
    weighted = None if coverage is None else weights
    helps = moved_copies_help(loaded, adapt=adapt, calibrated=calibrated, abstain=abstain, weights=weighted)
    if move_copies or (move_copies is None and helps):
        found = calibrator(loaded, model, data_dir, needed=bool(move_copies))
        how["aim"] = None if found is None else found.to
    if tables := as_tables(dataset, edges):
        table = node_table(loaded, prepared_tables(loaded, *tables, option, data_dir, graphs), **how)
    else:
        table = prediction_table(loaded, load_dataset(dataset, option, data_dir), every_node=every_node, **how)
    write_table(table, out)
    told: dict[str, Any] = {"written": str(out), "nodes": len(table)}
    text = f"{len(table):,} predictions written to {out}"
    if abstain is not None:
        own, text = _answers(table, text)
        told |= own
    print(json.dumps(told) if json_ else text)


def _answers(table: "pd.DataFrame", text: str) -> tuple[dict[str, Any], str]:
    """How many nodes are answered, how many of these are expected to be wrong, and why others are not."""
    answered = table["reason"] == ""
    count, error = int(answered.sum()), float((1 - table["p_right"][answered]).mean())
    reasons = table["reason"][~answered].value_counts()
    text += f"\nanswered: {count:,} of {len(table):,}"
    text += f", of which {100 * error:.1f} % are expected to be wrong" if count else ""
    if len(reasons):
        text += "\nI don't know: " + ", ".join(f"{number:,} ({reason})" for reason, number in reasons.items())
    return {"answered": count, "expected_error": error if count else None}, text


def calibrator(model: "Predictor", run: Path, data_dir: Path | None, *, needed: bool) -> "Calibrator[Predictor] | None":
    """What calibrates the model to graphs, on copies of the validation graphs of its run.

    Where these cannot be had it is an error if they are needed, and else a note.
    """
    from graphshift.shift.calibrating import Calibrator

    try:
        if validation := validation_of(run, data_dir):
            return Calibrator(model, validation)
        why = f"{run} is not the folder of a run that `graphshift fit` made with a validation graph."
    except GraphshiftError as error:
        why = str(error)
    if needed:
        raise GraphshiftError(f"--move-copies needs the validation graphs that the model was fitted with: {why}")
    print(
        "graphshift: note: what is promised stands on copies in all directions, which is less safe: the validation "
        f"graphs that the model was fitted with are not there to be moved to each graph: {why}",
        file=sys.stderr,
    )
    return None


def _write_page(
    model: "Predictor", run: Path, name: str, roles: "dict[str, list[Environment]]", page: Path, data_dir: Path | None
) -> None:
    """Reliability of the tests, or of all graphs if there are no tests."""
    from graphshift.core.storage import write_text
    from graphshift.report.reliability_page import reliability_page
    from graphshift.shift.reliability import reliability

    graphs = roles.get("tests") or [e for own in roles.values() for e in own]
    validation = validation_of(run, data_dir) if model.explored_ is not None else []
    write_text(page, reliability_page(reliability(model, graphs, validation or None), f"{run} on {name}"))


def validation_of(run: Path, data_dir: Path | None) -> "Sequence[Environment]":
    """The validation graphs of a run, from the dataset that it was fitted on; none if that cannot be had."""
    from graphshift.fitting.recorded import data_of_run

    return data_of_run(run, data_dir).val if (run / "config.json").is_file() else []  # a model alone has none


def as_tables(dataset: str, edges: Path | None) -> tuple[str, Path] | None:
    """The two tables that are given, one after the other or with a comma between; None if none is, one is refused."""
    if edges is None and "," in dataset and not Path(dataset).exists():
        nodes, _, other = (part.strip() for part in dataset.partition(","))
        if not nodes or not other or "," in other:
            raise GraphshiftError(f"{dataset!r}: expected two files with a comma between, NODES.csv,EDGES.csv.")
        return nodes, Path(other)
    if edges is None and Path(dataset).suffix.lower() in (".csv", ".tsv", ".parquet"):
        raise GraphshiftError(f"{dataset}: a table of edges is missing; give it after the table of nodes.")
    return None if edges is None else (dataset, edges)


def prepared_tables(
    model: "Predictor",
    nodes: str,
    edges: Path,
    option: list[str] | None,
    data_dir: Path | None,
    graphs: Path | None = None,
) -> "Environment":
    """The graph of tables, named after the file of nodes."""
    if data_dir is not None:
        raise GraphshiftError(f"--data-dir: {nodes} is a table, not a dataset; leave it out.")
    options = pairs(option, "--option")
    if "name" in options:
        raise GraphshiftError("--option name: tables are named after their file; leave it out.")
    if graphs is not None:
        options["graphs"] = graphs
    return model.prepare(Path(nodes), edges, name=Path(nodes).stem, **options)


def _labelled(
    model: "Predictor",
    dataset: str,
    edges: Path | None,
    option: list[str] | None,
    data_dir: Path | None,
    graphs: Path | None,
) -> tuple[str, "dict[str, list[Environment]]"]:
    """The name of what is scored, and its environments that have labels, by role."""
    from graphshift.fitting.predictions import check_preparation

    tables = as_tables(dataset, edges)
    if tables is None:
        data = load_dataset(dataset, option, data_dir)
        check_preparation(model, data)
        return data.name, {role: list(data.roles[role]) for role in ("train", "val", "tests")}
    environment = prepared_tables(model, *tables, option, data_dir, graphs)
    if environment.y is None:
        assert model.preparation_ is not None
        label = model.preparation_.label.name
        raise GraphshiftError(
            f"{dataset if graphs is None else graphs}: no {environment.items[:-1]} has a label in column {label!r}, so "
            "nothing can be scored; use `graphshift predict`."
        )
    return dataset, {"tables": [environment]}


def _threshold(text: str | None) -> float | str | None:
    """A number, or the name of a rule."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _show(
    title: str,
    roles: "dict[str, list[Environment]]",
    found: dict[str, dict[str, dict[str, float]]],
    classes: dict[str, dict[str, dict[str, float]]],
    note: str,
) -> None:
    from graphshift.data.metrics import METRICS
    from graphshift.report.tables import print_table, show_score

    beside = any(METRICS.find(metric).largest_class for metric in found)
    rows: list[list[Any]] = []
    for role, environments in roles.items():
        for e in environments:
            row = [role, e.name, *(show_score(scores[role][e.name], metric) for metric, scores in found.items())]
            rows.append([*row, show_score(e.majority, "accuracy")] if beside else row)
    columns = ["role", "environment", *(METRICS.find(metric).title for metric in found)]
    print_table(title, columns + ["largest class (%)"] * beside, rows, note="" if classes else note)
    if classes:
        rows = [
            [
                e,
                name,
                *(show_score(one[part], "f1") for part in ("precision", "recall", "f1")),
                one["nodes"],
                one["predicted"],
            ]
            for e, own in classes.items()
            for name, one in own.items()
        ]
        heads = ["environment", "class", "precision (%)", "recall (%)", "F1 (%)", "nodes", "predicted"]
        print_table("By class", heads, rows, note=note)
