"""A dataset as plain tables that any program opens and that ``from_tables`` reads back."""

import contextlib
import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import write_text
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.graph.graph import Graph
from graphshift.graph.keys import reverse
from graphshift.graph.sparse import Sparse

_CHUNK = 1000  # rows


def estimated_bytes(data: ShiftDataset) -> int:
    """About how large the tables of :func:`export_tables` will be: within a factor of two or so."""
    total = 0
    for e in _everyone(data):
        values = e.x.value if isinstance(e.x, Sparse) else e.x
        fraction = bool((values != values.round()).any())
        total += e.num_nodes * (2 * e.num_features + 4 * len(e.name))
        total += int(values.count_nonzero()) * (9 if fraction else 0)
        total += _rows_of_edges(e, data) * (2 * len(e.name) + 14)
    return total


def export_tables(data: ShiftDataset, folder: Path, advance: Callable[[int], None] = lambda rows: None) -> list[Path]:
    """Writes all environments of a dataset as ``nodes.csv``, ``edges.csv`` and ``dataset.toml``.

    ``nodes.csv`` has the columns ``id`` (environment and node, as ``DE:17``), ``environment``, ``role``, ``node``,
    ``label`` (in the user's own words or units where they are known; empty where the node does not count), ``counted``
    (0 or 1) and the features ``x0``, ``x1``, …, prepared; ``edges.csv`` has ``source`` and ``target``, ids both, and
    ``weight`` if the graphs are weighted, and features of edges ``e0``, ``e1``, … if they have some. An undirected edge
    has one row, unless another environment is directed. Where graphs have labels, ``graphs.csv`` has ``graph``,
    ``environment``, ``role``, ``label`` and ``counted`` of each, and ``nodes.csv`` ``id``, ``graph`` and the features.
    ``dataset.toml`` names these columns as :func:`~graphshift.datasets.own.from_tables` wants them.

    Args:
        data: the dataset.
        folder: is made if need be; files of these names are replaced, each when it is whole.
        advance: is told how many rows were written since the last time; :func:`number_of_rows` is their sum.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    nodes, edges, toml = (folder / name for name in ("nodes.csv", "edges.csv", "dataset.toml"))
    with _whole_file(nodes) as file:
        _write_nodes(data, file, advance)
    with _whole_file(edges) as file:
        _write_edges(data, file, advance)
    written = [nodes, edges]
    if data.task.is_graph_level:
        written.append(folder / "graphs.csv")
        with _whole_file(written[-1]) as file:
            _write_graphs(data, file)
    write_text(toml, _toml(data))
    return [*written, toml]


def number_of_rows(data: ShiftDataset) -> int:
    """How many rows the two tables will have together."""
    return sum(e.num_nodes + _rows_of_edges(e, data) for e in _everyone(data))


def _write_nodes(data: ShiftDataset, file: TextIO, advance: Callable[[int], None]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    own = ["graph"] if data.task.is_graph_level else ["environment", "role", "node", "label", "counted"]
    writer.writerow(["id", *own, *_feature_names(data)])
    for role, environments in data.roles.items():
        for e in environments:
            about = _about_nodes(data, e, role)
            for first in range(0, e.num_nodes, _CHUNK):
                rows = range(first, min(first + _CHUNK, e.num_nodes))
                for node, cells in zip(rows, _cells(e, rows), strict=True):
                    writer.writerow([f"{e.name}:{node}", *about(node), *cells])
                advance(len(rows))


def _about_nodes(data: ShiftDataset, e: Environment, role: str) -> Callable[[int], list[Any]]:
    """What is said of a node beside its id and its features: its graph, or all that is known of it."""
    if e.graph.blocks is not None:
        batch = e.graph.blocks.batch.tolist()
        return lambda node: [f"{e.name}:{batch[node]}"]
    labels, counted = np.where(e.mask.numpy(), _labels(data, e), ""), e.mask.int().tolist()
    return lambda node: [e.name, role, node, labels[node], counted[node]]


def _write_graphs(data: ShiftDataset, file: TextIO) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["graph", "environment", "role", "label", "counted"])
    for role, environments in data.roles.items():
        for e in environments:
            labels = np.where(e.mask.numpy(), _labels(data, e), "")
            rows = zip(labels.tolist(), e.mask.int().tolist(), strict=True)
            writer.writerows([f"{e.name}:{i}", e.name, role, *row] for i, row in enumerate(rows))


def _write_edges(data: ShiftDataset, file: TextIO, advance: Callable[[int], None]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    weighted = _weighted(data)
    writer.writerow(["source", "target", *(["weight"] if weighted else []), *_edge_feature_names(data)])
    for e in _everyone(data):
        source, target = e.graph.edge_index.numpy()
        weight = np.ones(source.size, dtype=np.float32) if e.graph.weight is None else e.graph.weight.numpy()
        attr = np.empty((source.size, 0), np.float32) if e.graph.edge_attr is None else e.graph.edge_attr.numpy()
        if _undirected(data):
            once = source < target
            source, target, weight, attr = source[once], target[once], weight[once], attr[once]
        for first in range(0, source.size, _CHUNK):
            part = slice(first, first + _CHUNK)
            ends = ([f"{e.name}:{node}" for node in side[part].tolist()] for side in (source, target))
            columns: list[Sequence[str]] = [*ends, *([_texts(weight[part]).tolist()] if weighted else [])]
            columns += [_texts(column[part]).tolist() for column in attr.T]
            writer.writerows(zip(*columns, strict=True))
            advance(len(columns[0]))


def _cells(e: Environment, rows: range) -> Iterator[list[str]]:
    """The features of some nodes as text, a list for each."""
    if not isinstance(e.x, Sparse):
        yield from _texts(e.x[rows.start : rows.stop].numpy()).tolist()
        return
    bounds = e.x.pattern.rowptr[rows.start : rows.stop + 1].tolist()
    columns = e.x.pattern.col[bounds[0] : bounds[-1]].tolist()
    texts = _texts(e.x.value[bounds[0] : bounds[-1]].numpy()).tolist()
    for first, last in pairwise(bounds):
        cells = ["0"] * e.num_features
        for i in range(first - bounds[0], last - bounds[0]):
            cells[columns[i]] = texts[i]
        yield cells


def _texts(values: NDArray[Any]) -> NDArray[np.str_]:
    """Numbers as the shortest text that reads back as the same float32."""
    distinct, place = np.unique(values, return_inverse=True)
    texts = np.array([str(value).removesuffix(".0") for value in distinct], dtype=np.str_)
    return texts[place].reshape(values.shape)


def _labels(data: ShiftDataset, e: Environment) -> NDArray[Any]:
    """The labels as text, none of a target."""
    if e.y is None:
        return np.full(e.num_items, "")
    preparation = data.facts.get("preparation")
    if preparation is None:
        return _texts(e.y.numpy())
    return np.array([str(label) for label in preparation.decode(e.y.numpy())], dtype=object)


def _everyone(data: ShiftDataset) -> list[Environment]:
    return [*data.environments, *data.target]


def _feature_names(data: ShiftDataset) -> list[str]:
    return [f"x{i}" for i in range(data.train[0].num_features)]


def _edge_feature_names(data: ShiftDataset) -> list[str]:
    return [f"e{i}" for i in range(data.train[0].num_edge_features)]


def _undirected(data: ShiftDataset) -> bool:
    """Whether one row can stand for both directions everywhere."""
    return all(e.graph.undirected and _same_both_ways(e.graph) for e in _everyone(data))


def _same_both_ways(graph: Graph) -> bool:
    """Whether the features of an undirected graph's edges are those of their reverses."""
    if graph.edge_attr is None:
        return True
    return torch.equal(graph.edge_attr, graph.edge_attr[torch.sort(reverse(graph.keys, graph.num_nodes)).indices])


def _weighted(data: ShiftDataset) -> bool:
    return any(e.graph.weight is not None for e in _everyone(data))


def _rows_of_edges(e: Environment, data: ShiftDataset) -> int:
    return e.graph.num_edges // 2 if _undirected(data) else e.graph.num_edges


def _toml(data: ShiftDataset) -> str:
    options: dict[str, Any] = {"name": data.name, "nodes": "nodes.csv", "edges": "edges.csv", "id": "id"}
    options |= {"graphs": "graphs.csv", "graph": "graph"} if data.task.is_graph_level else {}
    options |= {"label": "label", "environments": "environment"}
    named = {"unlabelled" if role == "target" else role: [e.name for e in part] for role, part in data.roles.items()}
    options |= {role: names for role, names in named.items() if names or role != "unlabelled"}
    options |= {"task": data.task.kind, "metric": data.task.metric, "undirected": _undirected(data)}
    options |= {**({"weight": "weight"} if _weighted(data) else {}), "features": _feature_names(data)}
    options |= {"edge_features": _edge_feature_names(data)} if data.train[0].num_edge_features else {}
    if data.task.kind == "binary":
        options["positive"] = data.class_names[1]
    options |= {"scale": "none", "structure": False}  # the features are prepared already
    # JSON's strings, lists and booleans are TOML's, but for one character.
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in options.items()]
    return "# graphshift fit dataset.toml\n\n[data]\n" + "\n".join(lines).replace("\x7f", "\\u007f") + "\n"


@contextlib.contextmanager
def _whole_file(path: Path) -> Iterator[TextIO]:
    """A text file that is there only when it is whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(temporary, path)
    except OSError as error:
        raise GraphshiftError(f"{path}: cannot be written: {error.strerror or error}.") from None
    finally:
        temporary.unlink(missing_ok=True)
