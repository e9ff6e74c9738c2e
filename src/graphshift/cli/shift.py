"""``graphshift shift``: what has moved between two graphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from graphshift.cli.options import DataDir, Force, Json, load_dataset, pairs, refuse_existing
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.data.environment import Environment
    from graphshift.estimators.estimating import Estimate
    from graphshift.shift.comparing.compare import Comparison

_WHAT = "DATASET:ENVIRONMENT (also FILE.toml:ENVIRONMENT), NODES.csv,EDGES.csv"
Source = Annotated[str, Argument(metavar="SOURCE", help=f"what is known: {_WHAT}, or the folder of a run")]
Target = Annotated[str, Argument(metavar="TARGET", help=f"what is new: {_WHAT}")]
TableOptions = Annotated[
    list[str] | None,
    Option(
        "--option", "-o", metavar="NAME=VALUE", help="of the dataset, or of tables: label=vote, id=node, separator=;"
    ),
]


def shift(
    source: Source,
    target: Target,
    option: TableOptions = None,
    no_labels: Annotated[bool, Option("--no-labels", help="do not look at labels of the target")] = False,
    level: Annotated[float, Option(metavar="P", help="chance of naming a block if nothing moved")] = 0.05,
    seed: Annotated[int, Option(metavar="N", min=0, help="of communities and exchanges")] = 0,
    out: Annotated[Path | None, Option(metavar="FILE.html", help="write a page with pictures")] = None,
    data_dir: DataDir = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Say what has moved between two graphs: features, structure, labels, what edges say about labels."""
    from graphshift.data.pieces import remarks_on
    from graphshift.report.shift_tables import told
    from graphshift.shift.comparing.compare import compare_graphs

    if out is not None:
        refuse_existing(out, force)
    first, second, about = _graphs(source, target, option, data_dir)
    if no_labels:
        second = second.replace(y=None)
    remarks = about.pop("remarks", []) + remarks_on([*first, second])
    expected = _expected(Path(source), second, data_dir, json_) if _kind(source) == "run" else None
    found = compare_graphs(first, second, level=level, seed=seed, progress=not json_, **about)
    if json_:
        print(json.dumps(found.to_json() | {"remarks": remarks, "estimate": expected and expected.to_json()}, indent=2))
    else:
        _show(found, remarks)
        if expected is not None:
            print(told(expected, source))
    if out is not None:
        from graphshift.core.storage import write_text
        from graphshift.report.shift_page import shift_page

        write_text(out, shift_page(found, remarks, expected))
        if not json_:
            print(f"page: {out}")


def _expected(run: Path, target: Environment, data_dir: Path | None, quiet: bool) -> Estimate | None:
    """What the run's model is expected to score on the target; None where nothing can be said of it."""
    from graphshift.cli.use import validation_of
    from graphshift.estimators.loading import load_model
    from graphshift.shift.estimating import estimate_score

    model, validation = load_model(run), validation_of(run, data_dir)
    if not (model.held_out_ and validation and model.task_.is_classification):
        return None
    found = estimate_score(model, [target], validation, progress=not quiet)
    assert isinstance(found, dict)  # of a list
    return found[target.name]


def _show(found: Comparison, remarks: list[str]) -> None:
    from graphshift.report.shift_tables import blocks_table
    from graphshift.report.tables import print_table

    table = blocks_table(found)
    print_table(table.title, table.columns, table.rows, note=table.note)
    print(found.verdict)
    for block in found.blocks:
        print(f"{block.name}: {block.says}")
    for text in (*(f"{b.name}: {c}" for b in found.blocks for c in b.caveats), *found.caveats, *remarks):
        print(f"caveat: {text}" + "." * (not text.endswith("?")))
    for text in found.advice:
        print(f"→ {text}")


def _graphs(
    source: str, target: str, option: list[str] | None, data_dir: Path | None
) -> tuple[list[Environment], Environment, dict[str, Any]]:
    """The graphs of both sides, with the names of columns and classes, and remarks."""
    kinds = [_kind(source), _kind(target)]
    if kinds == ["tables", "tables"]:
        from graphshift.shift.comparing.tables import read_pair

        read = read_pair(_tables(source), _tables(target), pairs(option, "--option"))
        names: dict[str, Any] = {"column_names": read.column_names, "column_units": read.column_units}
        return [read.source], read.target, names | {"class_names": read.class_names or None, "remarks": read.remarks}
    if kinds[1] == "run":
        raise GraphshiftError(f"TARGET is {target!r}, a run; a run can be the SOURCE: what it was trained on.")
    if kinds[0] == "run":
        return _from_run(Path(source), target, kinds[1], option, data_dir)
    if "tables" in kinds:
        raise GraphshiftError("tables are compared with tables, or with the run of a model that was trained on tables.")
    return _from_datasets(source, target, option, data_dir)


def _kind(text: str) -> str:
    if "," in text:
        return "tables"
    if ":" in text and not Path(text).exists():
        return "dataset"
    if (Path(text) / "config.json").is_file():
        return "run"
    raise GraphshiftError(f"{text!r} is no graph: expected {_WHAT}, or the folder of a run.")


def _tables(text: str) -> Any:
    from graphshift.shift.comparing.tables import Tables

    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise GraphshiftError(f"{text!r}: expected two files with a comma between, NODES.csv,EDGES.csv.")
    return Tables(Path(names[0]), Path(names[1]))


def _from_datasets(
    source: str, target: str, option: list[str] | None, data_dir: Path | None
) -> tuple[list[Environment], Environment, dict[str, Any]]:
    names = [source.rpartition(":")[0], target.rpartition(":")[0]]
    first = load_dataset(names[0], option, data_dir)
    second = first if names[1] in (names[0], "") else load_dataset(names[1], option, data_dir)
    found = [environment_of(data, text.rpartition(":")[2]) for data, text in ((first, source), (second, target))]
    return [found[0]], found[1], _names(first)


def environment_of(data: Any, name: str) -> Environment:
    """The environment of that name, or an error that lists them."""
    from graphshift.core.registry import expected_one_of

    everyone = {e.name: e for role in data.roles.values() for e in role}
    if name not in everyone:
        raise GraphshiftError(
            f"dataset {data.name!r} has no environment {name!r}; {expected_one_of(name, list(everyone))}"
        )
    found: Environment = everyone[name]
    return found


def _names(data: Any) -> dict[str, Any]:
    from graphshift.shift.comparing.compare import columns_of

    return columns_of(data.facts.get("preparation")) | {"class_names": data.class_names or None}


def _from_run(
    folder: Path, target: str, kind: str, option: list[str] | None, data_dir: Path | None
) -> tuple[list[Environment], Environment, dict[str, Any]]:
    """The graphs that a run was trained on, and a new one with the same columns."""
    from graphshift.core.storage import read_json
    from graphshift.datasets import load
    from graphshift.estimators.loading import load_model
    from graphshift.fitting.notes import ConfigNote

    config = ConfigNote.model_validate(read_json(folder / "config.json"))
    options = config.options | ({} if data_dir is None else {"data_dir": data_dir})
    data = load(config.dataset, **options)
    if kind == "tables":
        tables = _tables(target)
        new = load_model(folder).prepare(
            tables.nodes, tables.edges, name=tables.nodes.stem, **pairs(option, "--option")
        )
        if not bool(new.mask.any()) or new.y is None:
            new = new.replace(y=None)
    else:
        name, _, environment = target.rpartition(":")
        new = environment_of(load_dataset(name, option, data_dir), environment)
    return list(data.train), new, _names(data)
