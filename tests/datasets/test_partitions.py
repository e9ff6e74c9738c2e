"""Tables whose edges are read in pieces give the partition that the same tables give in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import graphshift as gs
from graphshift.data.partition import external
from graphshift.datasets import partitions

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::graphshift.GraphshiftWarning")  # rows that are left out are told


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    generator = np.random.default_rng(0)
    count = 90
    nodes = pd.DataFrame({"id": [f"n{i}" for i in range(count)], "age": generator.random(count)})
    nodes["label"] = generator.integers(0, 2, count)
    nodes["town"] = np.array(["a", "b", "c"])[np.arange(count) % 3]
    nodes["year"] = 2000 + np.arange(count) % 3
    ends = generator.integers(0, count, (2, 700))
    edges = pd.DataFrame({"source": nodes["id"][ends[0]].to_numpy(), "target": nodes["id"][ends[1]].to_numpy()})
    edges["w"] = generator.random(700).round(3) + 0.1
    edges = pd.concat([edges, edges[:40].rename(columns={"source": "target", "target": "source"})])
    edges["w"] = np.arange(len(edges)) + 1.0  # repeated edges differ in weight: the first counts
    paths = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    nodes.to_csv(paths[0], index=False)
    edges.to_csv(paths[1], index=False)
    return paths


def options(split: str) -> dict[str, object]:
    if split == "towns":
        return {"environments": "town", "train": "a", "val": "b", "tests": "c", "features": ["age"]}
    return {"time": "year", "train_until": 2000, "val_until": 2001, "test_until": 2002, "features": ["age"]}


@pytest.mark.parametrize("split", ["towns", "years"])
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_edges_read_in_pieces_give_the_same_graphs(
    tables: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str, undirected: bool, kind: str
) -> None:
    monkeypatch.setattr(external, "_CHUNK", 50)
    monkeypatch.setattr(external, "_BUCKET", 100)
    monkeypatch.setattr(partitions, "_BLOCK", 2000)
    nodes, edges = tables
    asked = {**options(split), "weight": "w", "undirected": undirected}
    whole = gs.from_tables(nodes, edges, **asked)  # type: ignore[arg-type]
    if kind == "parquet":
        pd.read_csv(edges).to_parquet(tmp_path / "edges.parquet")
        edges = tmp_path / "edges.parquet"
    found = gs.partition_tables(nodes, edges, tmp_path / "p", parts=3, by="streaming", **asked)
    assert [e.name for e in found.environments] == [e.name for e in whole.environments]
    for e, stored in zip(whole.environments, found.environments, strict=True):
        order = torch.from_numpy(np.array(stored.stored.arrays["order"]))  # type: ignore[union-attr]
        a, b = (one.graph.adjacency.to_torch().to_dense() for one in (e, stored))
        assert torch.equal(a[order][:, order], b)
        assert isinstance(e.x, torch.Tensor)
        assert isinstance(stored.x, torch.Tensor)
        assert torch.equal(e.x[order], stored.x)
        assert torch.equal(e.mask[order], stored.mask)
        assert e.ids is not None
        assert stored.ids is not None
        assert list(np.asarray(e.ids)[order.numpy()]) == list(stored.ids)
    assert not (tmp_path / "p" / "work").exists()
    assert found.facts["preparation"].columns == whole.facts["preparation"].columns


def test_unknown_ids_are_named_or_dropped(tables: tuple[Path, Path], tmp_path: Path) -> None:
    nodes, edges = tables
    with open(edges, "a") as file:
        file.write("n1,nobody,1.0\n")
    with pytest.raises(gs.GraphshiftError, match="row 741, column 'target' is 'nobody'"):
        gs.partition_tables(nodes, edges, tmp_path / "p", parts=3, **options("towns"))  # type: ignore[arg-type]
    gs.partition_tables(nodes, edges, tmp_path / "q", parts=3, unknown_ids="drop", **options("towns"))  # type: ignore[arg-type]


def test_what_needs_all_edges_in_memory_is_refused(tables: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(gs.GraphshiftError, match="structure: needs all edges in memory"):
        gs.partition_tables(*tables, tmp_path / "p", parts=3, structure=True, **options("towns"))  # type: ignore[arg-type]
