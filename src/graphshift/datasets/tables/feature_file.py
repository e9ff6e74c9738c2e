"""A sparse matrix of features beside the node table: SciPy's ``.npz`` or MatrixMarket's ``.mtx``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray
from pydantic import BaseModel, Field, model_validator

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import check_regular
from graphshift.datasets.reading.sparse_file import read_sparse
from graphshift.datasets.tables.files import plain_text, shown


class Matrix(BaseModel, extra="forbid", frozen=True):
    """Features that are in a file of their own; their values are used as they are.

    Attributes:
        file: the file's name, without its folder.
        ids: the name of the file that has the node's id for each row; None if the rows are those of the node table.
        width: how many columns the file has.
        kept: which of them vary in training and are used; None for all.
    """

    kind: Literal["matrix"] = "matrix"
    file: str = Field(pattern=r"^[^/\\\x00]+$")
    ids: str | None = Field(default=None, pattern=r"^[^/\\\x00]+$")
    width: int = Field(gt=0)
    kept: tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Matrix:
        if self.kept is not None and any(not 0 <= column < self.width for column in self.kept):
            raise ValueError(f"kept names a column outside 0…{self.width - 1}")
        return self

    @property
    def features(self) -> list[str]:
        """The names of the features: the file's and the number of the column."""
        stem = Path(self.file).stem
        return [f"{stem}:{column}" for column in (range(self.width) if self.kept is None else self.kept)]

    def remarks(self, path: Path) -> list[str]:
        """Which columns are left out, in words."""
        gone = [] if self.kept is None else sorted({*range(self.width)} - {*self.kept})
        first = ", ".join(map(str, gone[:3])) + (" …" if len(gone) > 3 else "")
        what = f"{len(gone):,} of {self.width:,} columns are constant in training and left out: {first} (from 0)."
        return [f"{path}: {what}"] if gone else []


def fit_matrix(path: Path, ids: Path | None, matrix: scipy.sparse.csc_array, rows: NDArray[np.bool_]) -> Matrix:
    """Learns from the training nodes, ``rows``, which columns vary."""
    train = scipy.sparse.csc_array(matrix.tocsr()[rows])
    count = np.diff(train.indptr)
    varies = (count > 0) & (count < train.shape[0])
    for column in np.flatnonzero(count == train.shape[0]):  # no zero among them: look at the values
        values = train.data[train.indptr[column] : train.indptr[column + 1]]
        varies[column] = bool(values.min() < values.max())
    kept = None if varies.all() else tuple(np.flatnonzero(varies).tolist())
    return Matrix(file=path.name, ids=None if ids is None else ids.name, width=matrix.shape[1], kept=kept)


def matrix_part(spec: Matrix, matrix: scipy.sparse.csc_array, path: Path) -> scipy.sparse.csc_array:
    """The columns that are used."""
    if matrix.shape[1] != spec.width:
        raise GraphshiftError(f"{path}: the matrix has {matrix.shape[1]} columns and training had {spec.width}.")
    return matrix if spec.kept is None else matrix[:, list(spec.kept)]


def read_matrix(path: Path, ids_path: Path | None, ids: pd.Index, nodes_where: str) -> scipy.sparse.csc_array:
    """Reads the features of the nodes, in the order of ``ids``, ``[nodes, columns]``, float32.

    Args:
        path: ends in ``.npz`` (SciPy's ``save_npz``) or ``.mtx`` (MatrixMarket).
        ids_path: a text file with the node's id for each row of the matrix, one a line; None if the rows are those of
            the node table.
        ids: of the nodes.
        nodes_where: the node table, for messages.
    """
    if path.suffix not in (".npz", ".mtx") and path.suffixes[-2:] != [".mtx", ".gz"]:
        raise GraphshiftError(f"{path}: expected a file that ends in .npz (SciPy's save_npz), .mtx or .mtx.gz.")
    if not path.exists():
        raise GraphshiftError(f"{path}: there is no such file, which has the features (option feature_file).")
    if ids_path is None:
        return read_sparse(path, len(ids), nodes_where).tocsc()
    lines = _lines(ids_path)
    matrix = read_sparse(path, len(lines), str(ids_path))
    return scipy.sparse.csc_array(matrix[_order(ids_path, lines, ids, nodes_where)])


def _lines(path: Path) -> list[str]:
    check_regular(path)
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise GraphshiftError(f"{path}: cannot be read as text: {error}.") from None


def _order(path: Path, lines: list[str], ids: pd.Index, nodes_where: str) -> NDArray[np.int64]:
    """The row of each node."""
    index = pd.Index(lines)
    if index.has_duplicates:
        raise GraphshiftError(f"{path}: id {shown(index[index.duplicated()][0])} stands twice; each row needs its own.")
    found = index.get_indexer(pd.Index([plain_text(value) for value in ids]))
    if (found < 0).any():
        first = ids[int((found < 0).argmax())]
        raise GraphshiftError(
            f"{path}: {int((found < 0).sum())} nodes of {nodes_where} have no row, such as {shown(first)}; expected "
            "one for each node."
        )
    return np.asarray(found, dtype=np.int64)
