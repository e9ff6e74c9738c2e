"""``graphshift data``: the datasets, their statistics and their files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from graphshift.cli.data_tables import show_statistics
from graphshift.cli.options import (
    DataDir,
    Force,
    Json,
    Options,
    dataset_options,
    read_toml,
    refuse_existing,
    toml_dataset,
)
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.datasets import Entry

data_app = typer.Typer(name="data", no_args_is_help=True)

Name = Annotated[str, Argument(metavar="NAME", help="a dataset; `graphshift data list` lists them")]
NameOrFile = Annotated[
    str,
    Argument(metavar="NAME|FILE.toml", help="a dataset, or a TOML file with tables of your own (`graphshift init`)"),
]

_BAR_AFTER = 2.0  # seconds


@data_app.command("list")
def list_(data_dir: DataDir = None, json_: Json = False) -> None:
    """List the datasets and how many of their files are present."""
    from graphshift.datasets import DATASETS
    from graphshift.datasets.reading.files import data_directory
    from graphshift.report.tables import print_table

    folder = data_directory(data_dir)
    rows = []
    for e in DATASETS.values():
        if e.summary:
            present = sum((folder / source.path).is_file() for source in e.sources)
            about = {"dataset": e.name, "shift": e.shift, "summary": e.summary, "origin": e.origin}
            rows.append(about | {"files": len(e.sources), "present": present})
    if json_:
        _print_json({"data_dir": str(folder), "datasets": rows})
        return
    table = [
        [row["dataset"], row["shift"], row["summary"], f"{row['present']} of {row['files']}" if row["files"] else "–"]
        for row in rows
    ]
    print_table("datasets", ["name", "shift", "what", "files"], table, note=f"files: in {folder}; –: built in")


@data_app.command()
def info(
    name: NameOrFile,
    option: Options = None,
    data_dir: DataDir = None,
    figure: Annotated[Path | None, Option(metavar="FILE.png", help="draw the dataset into this file")] = None,
    kind: Annotated[
        str | None, Option(metavar="overview|sizes|rates|tsne", help="which figure; default: the dataset's own")
    ] = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Show sizes, degrees, labels, homophily and features of every environment."""
    from graphshift.datasets.statistics import class_remarks, dataset_statistics

    about, options = _found(name, option, data_dir)
    if kind is not None and figure is None:
        raise GraphshiftError("--kind needs --figure FILE.png.")
    if figure is not None:
        from graphshift.report.data_figures import checked_figure

        refuse_existing(figure, force)
        checked_figure(kind or about.figure, figure)
    data = about(**options)
    rows = dataset_statistics(data)
    remarks = class_remarks(data.train, [*data.val, *data.tests], data.class_names)
    if figure is not None:
        from graphshift.report.data_figures import draw_dataset

        draw_dataset(data, rows, figure, kind=kind or about.figure)
    if json_:
        task = {"task": data.task.kind, "classes": data.task.num_classes, "metric": data.task.metric}
        origin = {"dataset": data.name, "shift": about.shift, "origin": about.origin}
        read = {"rows": list(data.facts["rows"])} if "rows" in data.facts else {}
        names = {"class_names": list(data.class_names), "remarks": remarks}
        _print_json(origin | read | task | names | {"environments": rows})
        return
    show_statistics(about, data, rows)
    for remark in (remark for remark in remarks if remark not in data.facts.get("report", ())):
        print(f"note: {remark}")
    if figure is not None:
        print(f"drawn to {figure}")


@data_app.command()
def verify(name: Name, data_dir: DataDir = None, json_: Json = False) -> None:
    """Check a dataset's files by size and digest; exit with status 2 if one is missing or wrong."""
    from graphshift.datasets.reading.files import data_directory
    from graphshift.datasets.reading.files import verify as verify_files

    sources = _entry(name).sources
    rows = verify_files(name, sources, data_dir)
    wrong = [row for row in rows if not row["present"] or row["sha256"] == "wrong"]
    bad = [f"  {row['path']}: {'not what its authors publish' if row['present'] else 'missing'}" for row in wrong]
    if json_:
        _print_json({"dataset": name, "ok": not bad, "files": rows})
    elif not rows:
        print(f"{name} is built in: it has no files to verify.")
    else:
        from graphshift.report.tables import print_table

        table = [[row["path"], "yes" if row["present"] else "no", _size(row["size"]), row["sha256"]] for row in rows]
        print_table(f"{name} in {data_directory(data_dir)}", ["file", "present", "bytes", "digest"], table)
    if bad:
        raise GraphshiftError(
            f"dataset {name!r}: {len(bad)} of {len(rows)} files are missing or wrong; delete the wrong ones, then: "
            f"graphshift data fetch {name}\n" + "\n".join(bad)
        )


@data_app.command()
def fetch(name: Name, data_dir: DataDir = None, json_: Json = False) -> None:
    """Download the missing files of a dataset."""
    from graphshift.datasets.reading.files import data_directory, require

    sources = _entry(name).sources
    folder = data_directory(data_dir)
    before = sum((folder / source.path).is_file() for source in sources)
    require(name, sources, data_dir)
    if json_:
        _print_json({"dataset": name, "data_dir": str(folder), "files": len(sources), "fetched": len(sources) - before})
    elif not sources:
        print(f"{name} is built in: it has no files to fetch.")
    else:
        print(f"{name}: {len(sources)} files in {folder}, {len(sources) - before} of them fetched now.")


@data_app.command()
def make(
    name: NameOrFile,
    out: Annotated[Path, Option(metavar="DIR", help="where to write nodes.csv and edges.csv")],
    option: Options = None,
    data_dir: DataDir = None,
    max_mb: Annotated[int, Option(metavar="N", help="refuse larger tables")] = 500,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Write a dataset as tables: nodes.csv, edges.csv, and dataset.toml, with which they can be loaded again."""
    refuse_existing(out, force)

    from graphshift.datasets.export import estimated_bytes, export_tables, number_of_rows

    about, options = _found(name, option, data_dir)
    data = about(**options)
    size = estimated_bytes(data) / 1e6
    if size > max_mb:
        raise GraphshiftError(
            f"dataset {name!r}: its tables would have about {size:,.0f} MB, and --max-mb is {max_mb}; nothing was "
            "written. Raise --max-mb if there is room."
        )
    with _bar("writing", number_of_rows(data)) as advance:
        files = export_tables(data, out, advance)
    name, environments = data.name, [*data.environments, *data.target]
    nodes = sum(e.num_nodes for e in environments)
    if json_:
        sizes = {str(file): file.stat().st_size for file in files}
        _print_json({"dataset": name, "environments": len(environments), "nodes": nodes, "written": sizes})
        return
    print(f"{name}: {len(environments)} environments with {nodes:,} nodes written to {out}")
    for file in files:
        print(f"  {file.name}: {_size(file.stat().st_size)} bytes")


def _found(name: str, option: list[str] | None, data_dir: Path | None) -> tuple[Entry, dict[str, Any]]:
    """The dataset of a name or of a TOML file, and all its options."""
    if not name.endswith(".toml"):
        return _entry(name), dataset_options(name, option, data_dir)
    from graphshift.datasets import DATASETS

    path = Path(name)
    dataset, options = toml_dataset(read_toml(path), path)
    options |= dataset_options(dataset, option, data_dir)
    if dataset != "own":
        return _entry(dataset), options
    split = f"by {options.get('environments') or options.get('time')}"
    files = f"{Path(options['nodes']).name} and {Path(options['edges']).name}"
    about = replace(DATASETS["own"], summary=f"your tables, split {split}", origin=files)
    return replace(about, shift="temporal" if options.get("time") else "cross-domain"), options


def _entry(name: str) -> Entry:
    from graphshift.datasets import DATASETS

    if name.endswith(".toml"):
        raise GraphshiftError(f"{name}: only datasets of the catalogue have files to fetch and verify.")
    found = DATASETS.find(name)
    if not found.summary:
        raise GraphshiftError(
            f"dataset is {name!r}, which stands for your own tables and is not in the catalogue; "
            "`graphshift init NODES EDGES` starts with them."
        )
    return found


def _print_json(content: dict[str, Any]) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def _size(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


@contextmanager
def _bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, on a terminal, after two seconds."""
    started, done, progress = time.monotonic(), 0, None
    task: Any = None

    def advance(count: int) -> None:
        nonlocal done, progress, task
        done += count
        if progress is None and time.monotonic() - started > _BAR_AFTER:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            from graphshift.core.progress import error_console

            columns = (TextColumn(title), BarColumn(), TextColumn("{task.percentage:.0f} %"), TimeRemainingColumn())
            progress = Progress(*columns, console=error_console(), transient=True)
            task = progress.add_task(title, total=total)
            progress.start()
        if progress is not None:
            progress.update(task, completed=done)

    try:
        yield advance
    finally:
        if progress is not None:
            progress.stop()
