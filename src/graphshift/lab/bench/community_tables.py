"""Tables of a graph with communities, written in pieces: they may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from graphshift.lab.bench.workload import community_edges

_CHUNK = 1_000_000  # edges, or nodes, that are written at a time
_TEST = 100  # of so many nodes one is in the test graph


def write_tables(folder: Path, nodes: int, *, degree: int = 10, features: int = 4) -> tuple[Path, Path]:
    """Writes ``nodes.parquet`` and ``edges.csv``; every edge has two lines, one for each direction."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    number = generator.permutation(nodes)
    schema = pa.schema([("source", pa.int64()), ("target", pa.int64())])
    with csv.CSVWriter(folder / "edges.csv", schema, write_options=csv.WriteOptions(quoting_style="none")) as writer:
        for count in _pieces(nodes * degree // 2):
            one, other = (number[ends] for ends in community_edges(generator, nodes, count))
            both = [np.concatenate([one, other]), np.concatenate([other, one])]
            writer.write_table(pa.table(both, schema=schema))
    names = [(f"x{i}", pa.float32()) for i in range(features)]
    schema = pa.schema([("id", pa.int64()), ("label", pa.int8()), ("fold", pa.string()), *names])
    with parquet.ParquetWriter(folder / "nodes.parquet", schema) as nodes_writer:
        begin = 0
        for count in _pieces(nodes):
            ids = np.arange(begin, begin + count)
            x = generator.standard_normal((count, features), dtype=np.float32)
            y = (x.sum(axis=1) + generator.standard_normal(count, dtype=np.float32) > 0).astype(np.int8)
            fold = np.where(ids % _TEST == 0, "test", "train")
            nodes_writer.write_table(pa.table([ids, y, fold, *x.T], schema=schema))
            begin += count
    return folder / "nodes.parquet", folder / "edges.csv"


def _pieces(total: int) -> Iterator[int]:
    for begin in range(0, total, _CHUNK):
        yield min(_CHUNK, total - begin)
