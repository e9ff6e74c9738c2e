"""``graphshift data``: the datasets, their statistics and their files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from graphshift.cli.options import DataDir, Force, Json, Options, dataset_options, refuse_existing
from graphshift.core.errors import GraphshiftError

if TYPE_CHECKING:
    from graphshift.data.dataset import ShiftDataset
    from graphshift.datasets import Entry

data_app = typer.Typer(name="data", no_args_is_help=True)

Name = Annotated[str, Argument(metavar="NAME", help="a dataset; `graphshift data list` lists them")]

_BAR_AFTER = 2.0  # seconds
_FEW_CLASSES = 6  # whose shares fit into a table


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
    name: Name,
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
    from graphshift.datasets.statistics import dataset_statistics

    about = _entry(name)
    if kind is not None and figure is None:
        raise GraphshiftError("--kind needs --figure FILE.png.")
    if figure is not None:
        from graphshift.report.data_figures import checked_figure

        refuse_existing(figure, force)
        checked_figure(kind or about.figure, figure)
    data = about(**dataset_options(name, option, data_dir))
    rows = dataset_statistics(data)
    if figure is not None:
        from graphshift.report.data_figures import draw_dataset

        draw_dataset(data, rows, figure, kind=kind or about.figure)
    if json_:
        task = {"task": data.task.kind, "classes": data.task.num_classes, "metric": data.task.metric}
        origin = {"dataset": name, "shift": about.shift, "origin": about.origin}
        _print_json(origin | task | {"environments": rows})
        return
    _show_statistics(about, data, rows)
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
    name: Name,
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

    data = _entry(name)(**dataset_options(name, option, data_dir))
    size = estimated_bytes(data) / 1e6
    if size > max_mb:
        raise GraphshiftError(
            f"dataset {name!r}: its tables would have about {size:,.0f} MB, and --max-mb is {max_mb}; nothing was "
            "written. Raise --max-mb if there is room."
        )
    with _bar("writing", number_of_rows(data)) as advance:
        files = export_tables(data, out, advance)
    nodes = sum(e.num_nodes for e in data.environments)
    if json_:
        sizes = {str(file): file.stat().st_size for file in files}
        _print_json({"dataset": name, "environments": len(data.environments), "nodes": nodes, "written": sizes})
        return
    print(f"{name}: {len(data.environments)} environments with {nodes:,} nodes written to {out}")
    for file in files:
        print(f"  {file.name}: {_size(file.stat().st_size)} bytes")


def _entry(name: str) -> Entry:
    from graphshift.datasets import DATASETS

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


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _show_statistics(about: Entry, data: ShiftDataset, rows: list[dict[str, Any]]) -> None:
    from graphshift.report.tables import print_table

    task = data.task
    kind = f"{task.kind}, {task.num_classes} classes" if task.is_classification else task.kind
    print(f"{about.name}: {about.summary}")
    print(f"{about.shift} shift · {kind} · {task.metric} · {rows[0]['features']:,} features · {about.origin}\n")
    edges = "directed edges" if any(row["directed"] for row in rows) else "edges"
    graph: dict[str, Callable[[Any], Any]] = {
        "nodes": lambda row: f"{row['nodes']:,}",
        edges: lambda row: f"{row['edges']:,}",
        "density": lambda row: f"{row['density']:.4f}",
        "average degree": lambda row: f"{row['average_degree']:.1f}",
        "max. degree": lambda row: f"{row['maximum_degree']:,}",
        "isolated": lambda row: f"{row['isolated']:,}",
        "homophily (%)": lambda row: _percent(row["homophily"]),
    }
    share, title = ("positive_rate", "positive (%)") if task.kind == "binary" else ("majority", "largest class (%)")
    labels: dict[str, Callable[[Any], Any]] = {
        "classes": lambda row: "–" if row["classes"] is None else row["classes"],
        "counted": lambda row: f"{row['counted']:,}",
        "label rate (%)": lambda row: _percent(row["label_rate"]),
        title: lambda row: _percent(row[share]),
        "x filled (%)": lambda row: f"{100 * row['feature_filling']:.2f}",
        "x shift": lambda row: "–" if row["feature_shift"] is None else f"{row['feature_shift']:.3f}",
    }
    if 2 < task.num_classes <= _FEW_CLASSES:
        labels["class shares (%)"] = lambda row: " ".join(f"{100 * one:.0f}" for one in row["class_shares"])
    note = f"note: {about.note}" if about.note else ""
    for heading, columns, below in (("graphs", graph, ""), ("labels and features", labels, note)):
        table = [[row["role"], row["environment"], *(show(row) for show in columns.values())] for row in rows]
        print_table(heading, ["role", "environment", *columns], table, note=below)


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
