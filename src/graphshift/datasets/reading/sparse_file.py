"""A sparse matrix from SciPy's ``.npz`` or from MatrixMarket: what a file says is compared with what it has.

``scipy.sparse.load_npz`` believes the file: row pointers whose differences wrap around pass its check, and what comes
after it then reads memory that is not the matrix's (scipy 1.17).
"""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import check_regular
from graphshift.core.unpacking import check_table_file, check_zip, too_large, unpacked_limit
from graphshift.datasets.reading.raw_graph import checked_csr

_MOST_COLUMNS = 10_000_000
_LEAST_OF_AN_ENTRY = 2  # bytes of a number and the space after it in MatrixMarket


def read_sparse(path: Path, rows: int, whose: str) -> scipy.sparse.csr_array:
    """Reads a matrix of finite numbers, float32, without stored zeros, that has ``rows`` rows.

    Args:
        path: ends in ``.npz``, ``.mtx`` or ``.mtx.gz``.
        rows: that are expected.
        whose: the file that has so many rows, for messages.
    """
    check_regular(path)
    try:
        found = _npz(path, rows, whose) if path.suffix == ".npz" else _matrix_market(path, rows, whose)
        matrix = scipy.sparse.csr_array(found)
        if matrix.dtype.kind not in "biuf":
            raise ValueError(f"its values are {matrix.dtype}")
    except GraphshiftError:
        raise
    except Exception as error:  # damaged archives raise almost anything: zip, zlib, struct, numpy, memory
        text = " ".join(str(error).split())[:200]
        raise GraphshiftError(f"{path}: this is not a whole sparse matrix of numbers ({text}).") from None
    with np.errstate(over="ignore"):
        matrix = matrix.astype(np.float32)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if wrong := int((~np.isfinite(matrix.data)).sum()):
        raise GraphshiftError(f"{path}: {wrong} values are NaN or infinite, or too large.")
    return matrix


def _check_shape(path: Path, found: tuple[int, int], rows: int, whose: str) -> None:
    if found[0] != rows:
        raise GraphshiftError(
            f"{path}: the matrix has {found[0]:,} rows and {whose} has {rows:,}; expected as many. If the "
            "rows are not in the order of the nodes, give a file with the id of each row as feature_ids."
        )
    if not 1 <= found[1] <= _MOST_COLUMNS:
        raise GraphshiftError(f"{path}: the matrix has {found[1]:,} columns; expected 1 to {_MOST_COLUMNS:,}.")


def _npz(path: Path, rows: int, whose: str) -> Any:
    with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
        check_zip(archive.zip, path)
        kind, shape = archive["format"].item(), archive["shape"]
        kind = kind.decode("ascii") if isinstance(kind, bytes) else str(kind)
        if kind not in ("csr", "csc", "coo"):
            raise GraphshiftError(f"{path}: the matrix is in the form {kind[:20]!r}; expected csr, csc or coo.")
        if shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise ValueError("its shape is not two whole numbers")
        size = (int(shape[0]), int(shape[1]))
        _check_shape(path, size, rows, whose)
        names = ("data", "row", "col") if kind == "coo" else ("data", "indices", "indptr")
        data, *places = (np.asarray(archive[name]) for name in names)
    if kind == "coo":
        return _by_coordinates(data, places, size)
    if kind == "csr":
        return checked_csr(str(path), data, places[0], places[1], size)
    return checked_csr(str(path), data, places[0], places[1], size[::-1]).T


def _by_coordinates(data: NDArray[Any], places: list[NDArray[Any]], size: tuple[int, int]) -> Any:
    for place, most in zip(places, size, strict=True):
        if place.ndim != 1 or place.shape != data.shape or place.dtype.kind not in "iu":
            raise ValueError("its rows, columns and values do not fit together")
        if place.size and (place.min() < 0 or place.max() >= most):
            raise ValueError(f"a row or column is outside of {list(size)}")
    row, column = (place.astype(np.int64) for place in places)
    return scipy.sparse.coo_array((data, (row, column)), shape=size)


def _matrix_market(path: Path, rows: int, whose: str) -> Any:
    check_table_file(path)
    found, columns, entries, form, field, _ = scipy.io.mminfo(path)
    _check_shape(path, (found, columns), rows, whose)
    if field not in ("real", "double", "integer", "unsigned-integer", "pattern"):
        raise ValueError(f"its values are {field}")
    needed = _LEAST_OF_AN_ENTRY * (found * columns if form == "array" else entries)
    limit = unpacked_limit(path) if path.suffix == ".gz" else path.stat().st_size
    if needed > limit:
        if path.suffix == ".gz":
            raise too_large(path, limit)
        raise ValueError(f"it names {entries:,} entries and is too short for them")
    return scipy.io.mmread(path)
