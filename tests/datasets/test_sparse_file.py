"""Sparse matrices from files: the same numbers as SciPy's reader on whole files, a message on every other."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.reading.sparse_file import read_sparse

MATRIX = scipy.sparse.random(9, 5, 0.4, format="csr", dtype=np.float64, rng=np.random.default_rng(0))


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_what_scipy_saves_is_read_alike(tmp_path: Path, form: str) -> None:
    path = tmp_path / "x.npz"
    scipy.sparse.save_npz(path, MATRIX.asformat(form))
    np.testing.assert_array_equal(read_sparse(path, 9, "nodes.csv").toarray(), MATRIX.toarray().astype(np.float32))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_matrix_market_is_read_alike(tmp_path: Path, packed: bool, dense: bool) -> None:
    path = tmp_path / "x.mtx"
    scipy.io.mmwrite(path, MATRIX.toarray() if dense else MATRIX, precision=17)
    if packed:
        path = tmp_path / "x.mtx.gz"
        path.write_bytes(gzip.compress((tmp_path / "x.mtx").read_bytes()))
    np.testing.assert_array_equal(read_sparse(path, 9, "nodes.csv").toarray(), MATRIX.toarray().astype(np.float32))


def test_entries_that_stand_twice_are_added(tmp_path: Path) -> None:
    twice = scipy.sparse.coo_array((np.array([1.0, 2.0]), (np.array([0, 0]), np.array([1, 1]))), shape=(2, 2))
    scipy.sparse.save_npz(tmp_path / "x.npz", twice)
    assert read_sparse(tmp_path / "x.npz", 2, "nodes.csv").toarray().tolist() == [[0.0, 3.0], [0.0, 0.0]]


def wrapped(kind: type[np.signedinteger]) -> np.ndarray[Any, Any]:
    """Row pointers that leave the matrix although no difference of neighbours is below 0: the differences wrap."""
    limits = np.iinfo(kind)
    pointer = np.array([0, limits.max, limits.min, -1, 2, 2, 2, 2, 2, 2], dtype=kind)
    assert (np.diff(pointer) >= 0).all()
    return pointer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indptr": wrapped(np.int32)}, "indptr"),
        ({"indptr": wrapped(np.int64)}, "indptr"),
        ({"indices": np.array([0, 5])}, "row 0 has an entry in column 5"),
        ({"indices": np.array([0, -1])}, "column -1"),
        ({"data": np.array([1.0, np.nan])}, "NaN or infinite"),
        ({"data": np.array([1.0, 1e300])}, "1 values are NaN or infinite, or too large"),
        ({"data": np.ones(3)}, "3 values for 2 columns"),
        ({"shape": np.array([2_000_000_000, 5])}, "has 2,000,000,000 rows and nodes.csv has 9"),
        ({"shape": np.array([9, 2_000_000_000])}, "2,000,000,000 columns"),
        ({"shape": np.array([9.0, 5.0])}, "not two whole numbers"),
        ({"format": np.array(b"dia")}, "in the form 'dia'; expected csr, csc or coo"),
        ({"format": np.array(b"\xff")}, "not a whole sparse matrix"),
        ({"data": np.array([None, None])}, "not a whole sparse matrix"),
    ],
)
def test_arrays_that_do_not_fit_together(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    whole = {"format": np.array(b"csr"), "shape": np.array([9, 5]), "data": np.ones(2), "indices": np.array([0, 4])}
    whole["indptr"] = np.array([0, 2, 2, 2, 2, 2, 2, 2, 2, 2])
    np.savez(tmp_path / "x.npz", **(whole | change))
    with pytest.raises(GraphshiftError, match=message):
        read_sparse(tmp_path / "x.npz", 9, "nodes.csv")


def test_coordinates_outside(tmp_path: Path) -> None:
    parts = {"format": np.array(b"coo"), "shape": np.array([9, 5]), "data": np.ones(1)}
    for row, column in ((9, 0), (-1, 0), (0, 5)):
        np.savez(tmp_path / "x.npz", row=np.array([row]), col=np.array([column]), **parts)
        with pytest.raises(GraphshiftError, match=r"a row or column is outside of \[9, 5\]"):
            read_sparse(tmp_path / "x.npz", 9, "nodes.csv")


def test_an_archive_that_unpacks_to_far_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSHIFT_MAX_UNPACKED", "1MB")
    pointer = np.array([0, *[200_000] * 9])
    parts = {"data": np.zeros(200_000), "indices": np.zeros(200_000, dtype=np.int64), "indptr": pointer}
    np.savez_compressed(tmp_path / "x.npz", format=np.array(b"csr"), shape=np.array([9, 5]), **parts)
    with pytest.raises(GraphshiftError, match="more than 1 MB when it is unpacked"):
        read_sparse(tmp_path / "x.npz", 9, "nodes.csv")


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("coordinate real general\n9 5 900000000000", "too short for them"),
        ("array real general\n9 900000", "too short for them"),
        ("coordinate real general\n9 2000000000 1\n1 1 1", "2,000,000,000 columns"),
        ("coordinate real general\n8 5 1\n1 1 1", "has 8 rows and nodes.csv has 9"),
        ("coordinate real general\n9 5 1\n10 1 1", "not a whole sparse matrix"),
        ("coordinate complex general\n9 5 1\n1 1 1 1", "its values are complex"),
    ],
)
def test_matrix_market_that_claims_too_much(tmp_path: Path, head: str, message: str) -> None:
    (tmp_path / "x.mtx").write_text(f"%%MatrixMarket matrix {head}\n")
    with pytest.raises(GraphshiftError, match=message):
        read_sparse(tmp_path / "x.mtx", 9, "nodes.csv")
