"""What ``graphshift data info`` prints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphshift.data.dataset import ShiftDataset
    from graphshift.datasets import Entry

_MOST_CLASSES = 8  # with a column of their own in a table


def show_statistics(about: Entry, data: ShiftDataset, rows: list[dict[str, Any]]) -> None:
    """Prints a dataset's ``dataset_statistics`` as tables of graphs, of labels and features, and of class shares."""
    from graphshift.report.tables import print_table

    task = data.task
    kind = f"{task.kind}, {task.num_classes} classes" if task.is_classification else task.kind
    print(f"{data.name}: {about.summary}")
    for line in data.facts.get("rows", ()):
        print(line)
    print(f"{about.shift} shift · {kind} · {task.metric} · {rows[0]['features']:,} features · {about.origin}\n")
    edges = "directed edges" if any(row["directed"] for row in rows) else "edges"
    many = {"graphs": lambda row: f"{row['graphs']:,}"} if "graphs" in rows[0] else {}
    graph: dict[str, Callable[[Any], Any]] = {
        **many,
        "nodes": lambda row: f"{row['nodes']:,}",
        edges: lambda row: f"{row['edges']:,}",
        "density": lambda row: f"{row['density']:.4f}",
        "average degree": lambda row: f"{row['average_degree']:.1f}",
        "max. degree": lambda row: f"{row['maximum_degree']:,}",
        "isolated": lambda row: f"{row['isolated']:,}",
        "homophily (%)": lambda row: _percent(row["homophily"]),
    }
    share, title = "majority", "largest class (%)"
    if task.kind == "binary":
        share, title = "positive_rate", f"{data.class_names[1]} (%)" if "class_names" in data.facts else "positive (%)"
    labels: dict[str, Callable[[Any], Any]] = {
        "classes": lambda row: "–" if row["classes"] is None else row["classes"],
        "counted": lambda row: f"{row['counted']:,}",
        "label rate (%)": lambda row: _percent(row["label_rate"]),
        title: lambda row: _percent(row[share]),
        "x filled (%)": lambda row: f"{100 * row['feature_filling']:.2f}",
        "x shift": lambda row: "–" if row["feature_shift"] is None else f"{row['feature_shift']:.3f}",
    }
    note = f"note: {about.note}" if about.note else ""
    parts = [("graphs", graph, ""), ("labels and features", labels, note)]
    if task.num_classes > 2:
        parts.append(("class shares (%)", _share_columns(data, rows), ""))
    for heading, columns, below in parts:
        table = [[row["role"], row["environment"], *(show(row) for show in columns.values())] for row in rows]
        print_table(heading, ["role", "environment", *columns], table, note=below)


def _share_columns(data: ShiftDataset, rows: list[dict[str, Any]]) -> dict[str, Callable[[Any], Any]]:
    """A column for each class, or for the largest in training and one for all others."""
    shares = [
        sum(values) for values in zip(*(row["class_shares"] for row in rows if row["role"] == "train"), strict=True)
    ]
    order = sorted(range(len(shares)), key=lambda k: -shares[k])
    chosen = sorted(order if len(order) <= _MOST_CLASSES + 1 else order[:_MOST_CLASSES])

    def show(row: Any, classes: list[int]) -> str:
        return "–" if row["class_shares"] is None else f"{100 * sum(row['class_shares'][k] for k in classes):.1f}"

    columns: dict[str, Callable[[Any], Any]] = {data.class_names[k]: partial(show, classes=[k]) for k in chosen}
    rest = [k for k in order if k not in chosen]
    if rest:
        columns[f"{len(rest)} others"] = partial(show, classes=rest)
    columns["from training"] = lambda row: "–" if row["class_shift"] is None else f"{row['class_shift']:.2f}"
    return columns


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"
