"""Edges that do not fit into memory, sorted into CSR form: buckets of rows on disk, one sorted at a time."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphshift.data.partition.writing import Rows
from graphshift.graph.subgraphs import distinct

_CHUNK = 2_000_000  # edges that are read at a time
_BUCKET = 4_000_000  # entries that are sorted at a time, about


class Ends(NamedTuple):
    """Some edges: both ends as numbers of nodes, and weights or None."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float32] | None


def write_edges(path: Path, chunks: Iterable[Ends], num_nodes: int, *, weighted: bool) -> int:
    """Writes edges as records of a few bytes, in their order; returns how many."""
    count = 0
    with open(path, "wb") as file:
        for ends in chunks:
            records = np.empty(len(ends.source), dtype=_record(num_nodes, weighted))
            records["row"], records["col"] = ends.target, ends.source
            if ends.weight is not None:
                records["weight"] = ends.weight
            file.write(records.tobytes())
            count += len(records)
    return count


def read_edges(path: Path, num_nodes: int, *, weighted: bool) -> Iterator[NDArray[Any]]:
    """What :func:`write_edges` wrote, some records at a time."""
    with open(path, "rb") as file:
        while len(records := np.fromfile(file, dtype=_record(num_nodes, weighted), count=_CHUNK)):
            yield records


def sorted_rows(
    edges: Path, place: NDArray[np.integer], nodes: int, folder: Path, *, undirected: bool, weighted: bool
) -> Rows:
    """The graph of some nodes in CSR form, of edges that :func:`write_edges` wrote; self-loops are left out.

    Of an edge that is there several times, in either direction if undirected, the first weight counts. Memory is that
    of a few numbers for each node, one chunk of edges and one bucket.

    Args:
        edges: the file.
        place: the number in this graph of every node of the file; -1 for those that are not in it.
        nodes: of this graph.
        folder: for buckets and the result; it is made.
        undirected: whether each edge goes both ways.
        weighted: whether edges have weights.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = _record(len(place), weighted)
    entries = edges.stat().st_size // record.itemsize * (1 + undirected)
    buckets = max(1, min(-(-entries // _BUCKET), 500, nodes))
    files = [open(folder / f"bucket-{i}", "wb") for i in range(buckets)]  # noqa: SIM115 (closed below)
    try:
        for records in read_edges(edges, len(place), weighted=weighted):
            records["row"], records["col"] = place[records["row"]], place[records["col"]]
            records = records[(records["row"] >= 0) & (records["col"] >= 0) & (records["row"] != records["col"])]
            if undirected:  # side by side, so that the order of the table is kept
                both = np.repeat(records, 2)
                both["row"][1::2], both["col"][1::2] = records["col"], records["row"]
                records = both
            bucket = records["row"].astype(np.int64) * buckets // nodes
            order = np.argsort(bucket, kind="stable")
            limits = np.searchsorted(bucket[order], np.arange(buckets + 1))
            records = records[order]
            for i, file in enumerate(files):
                file.write(records[limits[i] : limits[i + 1]].tobytes())
    finally:
        for file in files:
            file.close()
    degree = np.zeros(nodes, dtype=np.int64)
    weights = open(folder / "weight.raw", "wb") if weighted else None  # noqa: SIM115 (closed below)
    with open(folder / "col.raw", "wb") as columns:
        for i in range(buckets):
            records = np.fromfile(folder / f"bucket-{i}", dtype=record)
            key = records["row"].astype(np.int64) * nodes + records["col"]
            if weights is None:
                key = distinct(key)
            else:
                key, first = np.unique(key, return_index=True)
                weights.write(records["weight"][first].tobytes())
            if len(key):  # rows of a bucket are a run, and in no other
                row, column = np.divmod(key, nodes)
                degree[int(row[0]) : int(row[-1]) + 1] = np.bincount(row - row[0])
                columns.write(column.astype(record["col"]).tobytes())
            (folder / f"bucket-{i}").unlink()
    if weights is not None:
        weights.close()
    rowptr = np.concatenate([[0], np.cumsum(degree)])
    more = {"weight": _mapped(folder / "weight.raw", np.dtype(np.float32))} if weighted else {}
    return Rows(rowptr, _mapped(folder / "col.raw", record["col"]), more, undirected)


def _record(num_nodes: int, weighted: bool) -> np.dtype[Any]:
    whole = "<i4" if num_nodes < 2**31 else "<i8"
    return np.dtype([("row", whole), ("col", whole), *([("weight", "<f4")] if weighted else [])])


def _mapped(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype)
