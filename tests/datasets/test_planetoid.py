"""Planetoid's pickles: read right, and a damaged, swapped or malicious one is an error that runs nothing."""

from __future__ import annotations

import os
import pickle
import struct
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.reading.planetoid import planetoid_graph, planetoid_sources, read_planetoid

Write = Callable[..., dict[str, Path]]


def test_reads_what_planetoid_means(tmp_path: Path, write_planetoid: Write) -> None:
    files = write_planetoid(tmp_path)
    raw = read_planetoid(files)
    allx, tx = (pickle.loads(files[part].read_bytes()).toarray() for part in ("allx", "tx"))
    expected = np.zeros((10, 5), dtype=np.float32)
    expected[:6] = allx
    for row, node in enumerate((8, 6, 9, 7)):
        expected[node] = tx[row]
    assert raw.x.layout == torch.sparse_csr
    assert np.array_equal(raw.x.to_dense().numpy(), expected)
    assert raw.y.tolist() == [0, 1, 2, 0, 1, 2, 1, 0, 2, 0]
    edges = {(0, 1), (0, 2), (1, 3), (3, 9), (7, 8)}
    found = list(map(tuple, raw.edge_index.t().tolist()))
    assert sorted(found) == sorted(edges | {(v, u) for u, v in edges})


def test_isolated_test_nodes_have_no_features_and_no_label(tmp_path: Path, write_planetoid: Write) -> None:
    raw = read_planetoid(write_planetoid(tmp_path, test_index=b"8\n6\n11\n10\n", graph=defaultdict(list, {0: [11]})))
    assert raw.x.shape == (12, 5)
    assert raw.y[[7, 9]].tolist() == [-1, -1]
    assert raw.x.to_dense()[[7, 9]].count_nonzero() == 0
    assert raw.y[[8, 6, 11, 10]].tolist() == [2, 1, 0, 0]
    assert raw.edge_index.tolist() == [[11, 0], [0, 11]]


@pytest.mark.parametrize("protocol", [2, 4])
def test_old_and_new_pickles(tmp_path: Path, write_planetoid: Write, protocol: int) -> None:
    """Planetoid's own files are of Python 2: protocol 2, old module names, bytes as strings."""
    graph = pickle.dumps(defaultdict(list, {0: [1]}), protocol=protocol)
    ty = np.asfortranarray(np.eye(3, dtype=">i4")[[2, 1, 0, 0]])
    state = pickle.dumps(ty, protocol=4).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    state = state.replace(struct.pack("<B", len("numpy._core.multiarray")) + b"numpy.core", b"\x15numpy.core")
    frame = state.index(b"\x95")
    state = state[:frame] + state[frame + 9 :]  # the frame's length is no longer right, and a frame is not needed
    raw = read_planetoid(write_planetoid(tmp_path, graph=graph, ty=state))
    assert raw.y[6:].tolist() == [1, 0, 2, 0]


def test_cora_and_the_cache(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict.fromkeys(("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"), (0, ""))
    sources = planetoid_sources("cora", "cora/raw", known)
    first, files = planetoid_graph("cora", "cora", sources, shared_data)
    assert first.x.shape == (2708, 1433)
    assert first.x.values().numel() == 49216
    assert first.edge_index.shape[1] == 2 * 5278
    assert first.y.bincount().tolist() == [351, 217, 418, 818, 426, 298, 180]
    assert len(files) == 8
    monkeypatch.setattr(
        "graphshift.datasets.reading.planetoid.read_planetoid", lambda parts: pytest.fail("parsed again")
    )
    second, _ = planetoid_graph("cora", "cora", sources, shared_data)
    assert torch.equal(first.x.to_dense(), second.x.to_dense())
    assert torch.equal(first.y, second.y)
    assert torch.equal(first.edge_index, second.edge_index)


class Runs:
    """A pickle of this calls a function when it is loaded."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def malicious(marker: Path) -> dict[str, Any]:
    """Ways to make a plain ``pickle.load`` create a file."""
    script = f"open({str(marker)!r}, 'w').close()"
    return {
        "system": Runs(os.system, f"touch {marker}"),
        "exec": Runs(exec, script),
        "eval in a list": [1, Runs(eval, script)],
        "open": Runs(open, str(marker), "w"),
        "numpy writes": Runs(np.savetxt, str(marker), [1]),
        "numpy loads": Runs(np.load, str(marker), None, True),
        "as a neighbour": defaultdict(list, {0: [Runs(eval, script)]}),
        "as a factory": Runs(defaultdict, Runs(eval, script)),
        "by hand": b"cos\nsystem\n(S'touch " + str(marker).encode() + b"'\ntR.",
        "by attribute": b"\x80\x04\x8c\x08builtins\x8c\x0elist.__class__\x93.",
        "extension": b"\x80\x02\x82\x01.",
        "changes a class": b"ccollections\ndefaultdict\n(N}S'items'\nI1\nstb.",
        "an empty shell": b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81.",
        "an empty array": b"\x80\x02cnumpy\nndarray\n)\x81.",
        "persistent": b"Pname\n.",
    }


@pytest.mark.parametrize("way", list(malicious(Path("marker"))))
def test_malicious_pickle_runs_nothing(tmp_path: Path, write_planetoid: Write, way: str) -> None:
    marker = tmp_path / "marker"
    for part in ("x", "ally", "graph"):
        files = write_planetoid(tmp_path / "raw", **{part: malicious(marker)[way]})
        with pytest.raises(GraphshiftError, match=rf"ind\.cora\.{part}: ") as caught:
            read_planetoid(files)
        assert not marker.exists()
        if way not in ("extension", "changes a class", "an empty shell", "an empty array", "persistent"):
            assert "nothing of it was run" in str(caught.value)


def test_the_malicious_pickle_would_run(tmp_path: Path) -> None:
    """The test above means something: a plain ``pickle.load`` of the same file does create the marker."""
    pickle.loads(pickle.dumps(malicious(tmp_path / "marker")["system"]))
    assert (tmp_path / "marker").exists()


def csr(data: Any = (1.0, 1.0), indices: Any = (0, 4), indptr: Any = (0, 1, 2), shape: Any = (2, 5)) -> Any:
    """A CSR matrix of any parts, checked by nobody."""
    matrix = scipy.sparse.csr_matrix((2, 5), dtype=np.float32)
    matrix.data, matrix.indices, matrix.indptr = np.array(data), np.array(indices), np.array(indptr)
    matrix._shape = shape
    return matrix


ONEHOT = np.eye(3, dtype=np.int32)
DAMAGE: dict[str, tuple[str, dict[str, Any], str]] = {
    "empty file": ("allx", {"allx": b""}, "not a whole pickle"),
    "not a pickle": ("graph", {"graph": b"<!DOCTYPE html><html>"}, "not a whole pickle"),
    "bytes behind the end": ("y", {"y": pickle.dumps(ONEHOT[:2]) + b"more"}, "4 bytes follow the end"),
    "labels for features": ("x", {"x": ONEHOT}, "holds an array; expected a CSR matrix"),
    "features for a graph": ("graph", {"graph": csr()}, "holds a CSR matrix; expected a graph"),
    "a number for labels": ("ty", {"ty": 3}, "holds int; expected an array"),
    "training set of another dataset": ("x", {"x": csr()}, "not the first rows of allx"),
    "columns of another dataset": ("tx", {"tx": csr(shape=(2, 6))}, "has 6 columns; allx has 5"),
    "rows of another dataset": ("ty", {"ty": ONEHOT}, "rows and classes"),
    "no shape": ("allx", {"allx": csr(shape=None)}, "shape None"),
    "no rows": ("allx", {"allx": csr((), (), (0,), (0, 5))}, "0 × 5"),
    "columns without end": ("allx", {"allx": csr(shape=(2, 10**12))}, "2 × 1000000000000"),
    "NaN feature": ("x", {"x": csr(data=(1.0, np.nan))}, "NaN or infinite, first in row 1"),
    "column outside": ("x", {"x": csr(indices=(0, 5))}, r"row 1 has an entry in column 5; expected 0…4"),
    "negative column": ("x", {"x": csr(indices=(-1, 0))}, "row 0 has an entry in column -1"),
    "rows that overlap": ("x", {"x": csr(indptr=np.array((0, 3, 2), np.uint32))}, "does not describe 2 rows"),
    "a value missing": ("x", {"x": csr(data=(1.0,))}, "1 values for 2 columns"),
    "indices that are not whole": ("x", {"x": csr(indices=(0.0, 1.0))}, "`indices` is float64"),
    "text as values": ("x", {"x": csr(data=("a", "b"))}, "`data` is not a whole array of numbers"),
    "objects as values": ("x", {"x": csr(data=np.array([[], {}], dtype=object))}, "`data` is not a whole array"),
    "two classes": ("ally", {"ally": np.ones((6, 3), np.int32)}, r"row 0 is \[1, 1, 1\]; expected one 1"),
    "class numbers": ("ally", {"ally": np.arange(6)}, r"shape \[6\]; expected \[rows, classes\]"),
    "words in test.index": ("test.index", {"test_index": b"8\n6\nseven\n9\n"}, "line 3 is 'seven'"),
    "negative test.index": ("test.index", {"test_index": b"8\n-6\n7\n9\n"}, "line 2 is '-6'"),
    "binary test.index": ("test.index", {"test_index": b"\x80\x04\xff\xfe"}, "is not text"),
    "short test.index": ("test.index", {"test_index": b"8\n6\n"}, "has 2 lines; tx and ty have 4 rows"),
    "repeated test node": ("test.index", {"test_index": b"8\n6\n6\n9\n"}, "names node 6 2 times"),
    "test nodes elsewhere": ("test.index", {"test_index": b"1\n2\n3\n4\n"}, "expected them to begin at 6"),
    "test node far away": ("test.index", {"test_index": b"8\n6\n7\n999999999\n"}, "6…999999999"),
    "edge to nowhere": ("graph", {"graph": defaultdict(list, {0: [1], 1: [10]})}, "has the edge 1 – 10; nodes are 0…9"),
    "edge from nowhere": ("graph", {"graph": defaultdict(list, {-1: [1]})}, "has the edge -1 – 1"),
    "names for nodes": ("graph", {"graph": defaultdict(list, {0: ["a"]})}, "entry '0' is not a node's number"),
    "node beyond 64 bits": ("graph", {"graph": defaultdict(list, {0: [2**70]})}, "more than 64 bits"),
}


@pytest.mark.parametrize("what", list(DAMAGE))
def test_damaged_files_are_named(tmp_path: Path, write_planetoid: Write, what: str) -> None:
    part, parts, message = DAMAGE[what]
    files = write_planetoid(tmp_path, **parts)
    with pytest.raises(GraphshiftError, match=message) as caught:
        read_planetoid(files)
    assert str(files[part]) in str(caught.value)


def test_truncated_anywhere(tmp_path: Path, write_planetoid: Write) -> None:
    for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
        files = write_planetoid(tmp_path)
        whole = files[part].read_bytes()
        for kept in range(0, len(whole) - 1, max(1, len(whole) // 40)):
            files[part].write_bytes(whole[:kept])
            with pytest.raises(GraphshiftError, match=rf"ind\.cora\.{part}: "):
                read_planetoid(files)


@pytest.mark.parametrize("part", ["x", "ally", "graph"])
def test_any_changed_byte_is_an_error_or_other_data(tmp_path: Path, write_planetoid: Write, part: str) -> None:
    """Whatever a damaged byte does, nothing but a GraphshiftError comes out."""
    files = write_planetoid(tmp_path)
    whole = files[part].read_bytes()
    random = np.random.default_rng(0)
    for place in random.choice(len(whole), size=min(150, len(whole)), replace=False):
        changed = bytearray(whole)
        changed[place] ^= int(random.integers(1, 256))
        files[part].write_bytes(changed)
        with suppress(GraphshiftError):
            read_planetoid(files)


def test_swapped_files(tmp_path: Path, write_planetoid: Write) -> None:
    files = write_planetoid(tmp_path)
    for one, other in [("x", "tx"), ("allx", "tx"), ("y", "ty"), ("ally", "ty"), ("x", "y"), ("graph", "test.index")]:
        with pytest.raises(GraphshiftError, match=r"ind\.cora\."):
            read_planetoid(files | {one: files[other], other: files[one]})


def test_missing_and_unreadable_files(tmp_path: Path, write_planetoid: Write) -> None:
    files = write_planetoid(tmp_path)
    for part in ("x", "test.index"):
        with pytest.raises(GraphshiftError, match="cannot be read"):
            read_planetoid(files | {part: tmp_path / "gone"})
