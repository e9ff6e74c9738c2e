"""``graphshift audit``: what a model leans on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from graphshift.cli.options import DataDir, Force, Json, load_dataset, refuse_existing
from graphshift.cli.use import TableOptions, as_tables, prepared_tables
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.data.environment import Environment
    from graphshift.estimators.predictor import Predictor
    from graphshift.shift.auditing.audit import Audit

_GRAPH = "a labelled graph to look at last: DATASET:ENVIRONMENT, or a table of nodes; by default validation"


def audit(
    run: Annotated[Path, Argument(metavar="RUN", help="the folder of a run")],
    graph: Annotated[str | None, Argument(metavar="[GRAPH|NODES.csv]", help=_GRAPH)] = None,
    edges: Annotated[Path | None, Argument(metavar="[EDGES.csv]", help="the table of edges")] = None,
    flips: Annotated[int, Option(metavar="N", min=0, help="nodes whose prediction is to be flipped")] = 10,
    seed: Annotated[int, Option(metavar="N", min=0, help="of everything that is drawn")] = 0,
    out: Annotated[Path | None, Option(metavar="FILE.html", help="write a page with pictures")] = None,
    option: TableOptions = None,
    data_dir: DataDir = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Say what a model leans on: edges or columns, which of them, and the smallest edits that flip predictions.

    It compares the first training graph of the run with the first validation graph, or with GRAPH.
    """
    from graphshift.estimators.loading import load_model
    from graphshift.shift.auditing.audit import audit as audited

    if out is not None:
        refuse_existing(out, force)
    model = load_model(run)
    graphs, names = _graphs(model, run, graph, edges, option, data_dir)

    def tell(what: str) -> None:
        if not json_ and sys.stderr.isatty():
            print(f"{what} …", file=sys.stderr)

    found = audited(model, graphs, flips=flips, seed=seed, progress=tell, **names)
    if json_:
        print(json.dumps(found.to_json(), indent=2))
    else:
        _show(found)
    if out is not None:
        from graphshift.core.storage import write_text
        from graphshift.report.audit_page import audit_page

        write_text(out, audit_page(found, str(run)))
        if not json_:
            print(f"page: {out}")


def _graphs(
    model: Predictor, run: Path, graph: str | None, edges: Path | None, option: list[str] | None, data_dir: Path | None
) -> tuple[list[Environment], dict[str, Any]]:
    """The graphs in their order, and the names of columns and classes."""
    from graphshift.core.parsing import checked_note
    from graphshift.core.storage import read_json
    from graphshift.datasets import load
    from graphshift.fitting.notes import ConfigNote

    path = run / "config.json"
    if not path.is_file():
        raise GraphshiftError(f"{run}: there is no config.json; give the folder of a run, whose data are known.")
    config = checked_note(ConfigNote, read_json(path), where=str(path))
    data = load(config.dataset, **config.options | ({} if data_dir is None else {"data_dir": data_dir}))
    names: dict[str, Any] = {"class_names": data.class_names or None}
    first = data.train[0]
    if graph is None:
        return [first, *data.val[:1]], names
    if tables := as_tables(graph, edges):
        return [first, _labelled(prepared_tables(model, *tables, option, None))], names
    name, _, wanted = graph.rpartition(":")
    if not name:
        raise GraphshiftError(f"GRAPH is {graph!r}; expected DATASET:ENVIRONMENT, or NODES.csv EDGES.csv.")
    other = load_dataset(name, option, data_dir)
    every = {e.name: e for role in other.roles.values() for e in role}
    if wanted not in every:
        from graphshift.core.registry import expected_one_of

        raise GraphshiftError(f"dataset {name!r} has no environment {wanted!r}; {expected_one_of(wanted, list(every))}")
    return [first, _labelled(every[wanted])], names


def _labelled(environment: Environment) -> Environment:
    if environment.y is None or not bool(environment.mask.any()):
        raise GraphshiftError(f"{environment.name}: no node has a label, so nothing that is lost can be measured.")
    return environment


def _show(found: Audit) -> None:
    from graphshift.report.audit_page import (
        blocks_table,
        broken_table,
        columns_table,
        flips_table,
        moved_table,
        pairs_table,
    )
    from graphshift.report.tables import print_table

    tables = [broken_table(found), blocks_table(found), columns_table(found)]
    tables += [moved_table(found)] if found.moved else []
    tables += [pairs_table(found)] if found.leanings[0].pairs else []
    tables += [flips_table(found, kind) for kind in found.flips]
    for table in tables:
        print_table(table.title, table.columns, table.rows, note=table.note)
    for text in found.notes:
        print(f"note: {text}.")
    print(found.verdict)
