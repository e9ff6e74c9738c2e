"""``graphshift partition``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from graphshift.cli.options import DataDir, Dataset, Force, Json, Options, load_dataset, read_toml, toml_dataset
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.data.dataset import ShiftDataset

_SHARE = 8  # an edge table larger than this part of the free memory is read in pieces


def partition(
    dataset: Dataset,
    *,
    parts: Annotated[int, Option(metavar="P", min=1, help="parts of each environment")],
    out: Annotated[Path, Option(metavar="FOLDER", help="where to write")],
    hops: Annotated[int, Option(metavar="H", min=0, max=10, help="how far the halo of a part reaches")] = 1,
    by: Annotated[
        str, Option(metavar="auto|metis|streaming", help="who divides; auto: METIS if it fits into memory")
    ] = "auto",
    seed: Annotated[int, Option(min=0, help="seed of the division")] = 0,
    out_of_core: Annotated[
        bool, Option("--out-of-core", help="read the edges of a TOML file's tables in pieces, however few they are")
    ] = False,
    option: Options = None,
    data_dir: DataDir = None,
    resume: Annotated[bool, Option("--resume", help="go on with the partition in --out")] = False,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Write a dataset as a folder of parts that fit, score and predict read piece by piece.

    A table of edges that is large for the memory is read in pieces.
    """
    from graphshift.datasets.partitions import partition as write
    from graphshift.datasets.partitions import partition_tables
    from graphshift.fitting.memory.machine import available_bytes

    if resume and force:
        raise GraphshiftError("--resume and --force: give one; the first goes on, the second starts anew.")
    free = available_bytes()
    how: dict[str, Any] = {"parts": parts, "hops": hops, "by": by, "seed": seed, "force": force, "resume": resume}
    how |= {"memory": None if free is None else free / 2, "progress": not json_}
    tables = _tables(dataset, out_of_core, free)
    if tables is None:
        data = write(load_dataset(dataset, option, data_dir), out, **how)
    else:
        data = partition_tables(out=out, **how, **tables | _pairs(option))
    if json_:
        print(json.dumps(data.facts["partition"].model_dump(mode="json"), indent=2))
    else:
        _show(data, out, "read in pieces" if tables is not None else "")


def _pairs(option: list[str] | None) -> dict[str, Any]:
    from graphshift.cli.options import pairs

    return pairs(option, "--option")


def _tables(dataset: str, asked: bool, free: int | None) -> dict[str, Any] | None:
    """The options of a TOML file's tables if their edges are to be read in pieces; else None."""
    name, options = "", dict[str, Any]()
    if dataset.endswith(".toml"):
        name, options = toml_dataset(read_toml(Path(dataset)), Path(dataset))
    if name != "own":
        if asked:
            raise GraphshiftError(
                f"--out-of-core: {dataset} is not a TOML file with tables of your own; `graphshift init NODES EDGES` "
                "writes one."
            )
        return None
    path = Path(str(options["edges"]))
    large = free is not None and path.is_file() and path.stat().st_size > free / _SHARE
    return options if asked or large else None


def _show(data: ShiftDataset, out: Path, reading: str) -> None:
    from graphshift.report.tables import print_table

    note = data.facts["partition"]
    rows = [
        [
            e.role,
            e.name,
            f"{e.nodes:,}",
            f"{e.edges:,}",
            len(e.digests),
            f"{100 * e.cut / max(e.edges, 1):.1f}",
            e.divided_by,
        ]
        for e in note.environments
    ]
    columns = ["role", "environment", "nodes", "edges", "parts", "edges cut (%)", "divided by"]
    text = f"halo of {note.hops} hop{'s' * (note.hops != 1)}" + (f"; edges {reading}" if reading else "")
    print_table(f"{note.name}: partition", columns, rows, note=text)
    print(f"written to {out}; train on it: graphshift fit {out} --batch-parts 4")
