"""Tables that grow when they are read: bombs are refused, real tables and raised limits are not."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

import graphshift as gs
from graphshift.core import unpacking
from graphshift.core.errors import GraphshiftError

HOW = {"environments": "env", "train": ["a"], "tests": ["b"]}


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two small tables, and a limit of 10 kB where there is one of 256 MB."""
    monkeypatch.setattr(unpacking, "_LEAST", 10_000)
    rows = [f"{i},{i % 2},{'ab'[i // 4]},{i}.5" for i in range(8)]
    (tmp_path / "nodes.csv").write_text("id,label,env,x\n" + "\n".join(rows) + "\n")
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\n4,5\n")
    return tmp_path


def load(folder: Path, nodes: str = "nodes.csv") -> gs.ShiftDataset:
    return gs.from_tables(folder / nodes, folder / "edges.csv", **HOW)


def test_gzip(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (tables / "nodes.csv").read_bytes()
    (tables / "small.csv.gz").write_bytes(gzip.compress(content))
    assert load(tables, "small.csv.gz").train[0].num_nodes == 4
    (tables / "bomb.csv.gz").write_bytes(gzip.compress(content + b"9,0,b,1.0\n" * 100_000))
    with pytest.raises(GraphshiftError, match=r"bomb\.csv\.gz: has more than .* GRAPHSHIFT_MAX_UNPACKED=20GB"):
        load(tables, "bomb.csv.gz")
    monkeypatch.setenv("GRAPHSHIFT_MAX_UNPACKED", "20 MB")
    with pytest.raises(GraphshiftError, match="9"):  # the same id many times: it was read
        load(tables, "bomb.csv.gz")
    monkeypatch.setenv("GRAPHSHIFT_MAX_UNPACKED", "much")
    with pytest.raises(GraphshiftError, match="GRAPHSHIFT_MAX_UNPACKED is 'much'; expected a size"):
        load(tables, "bomb.csv.gz")


def test_parquet(tables: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ids, env = np.arange(8), ["a"] * 4 + ["b"] * 4
    pq.write_table(pa.table({"id": ids, "label": ids % 2, "env": env, "x": ids / 2}), tables / "small.parquet")
    assert load(tables, "small.parquet").train[0].num_nodes == 4
    pq.write_table(pa.table({"id": np.zeros(1_000_000, dtype=np.int8)}), tables / "rows.parquet")
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, dtype=np.int8)), pa.array(["x" * 4000]))
    pq.write_table(pa.table({"id": words}), tables / "words.parquet")
    for bomb in ("rows", "words"):
        with pytest.raises(GraphshiftError, match="when it is unpacked"):
            load(tables, f"{bomb}.parquet")


def test_columns_lines_and_pipes(tables: Path) -> None:
    (tables / "wide.csv").write_text("id,label,env," + ",".join(f"c{i}" for i in range(300_000)) + "\n")
    (tables / "long.csv").touch()
    os.truncate(tables / "long.csv", 2**40)
    os.mkfifo(tables / "pipe.csv")
    for name, match in (("wide", "columns or more; expected at most"), ("long", "first line"), ("pipe", "a pipe")):
        with pytest.raises(GraphshiftError, match=match):
            load(tables, f"{name}.csv")


def test_a_numpy_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphshift.datasets.reading.amazon import read_npz

    monkeypatch.setattr(unpacking, "_LEAST", 10_000)
    np.savez_compressed(tmp_path / "bomb.npz", labels=np.zeros(10_000_000))
    with pytest.raises(GraphshiftError, match="when it is unpacked"):
        read_npz(tmp_path / "bomb.npz")
