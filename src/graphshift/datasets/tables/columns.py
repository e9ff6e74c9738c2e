"""Columns of a table as features, as they were fitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, TypeAlias

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from graphshift.datasets.tables.cells import Findings
from graphshift.datasets.tables.feature_file import Matrix
from graphshift.datasets.tables.files import Table
from graphshift.datasets.tables.numeric import OF_RANKS, Numbers, Unit
from graphshift.datasets.tables.scaling import Part, number_parts, values_here
from graphshift.datasets.tables.text import Text, text_part
from graphshift.datasets.tables.words import Category, MultiHot, category_part, multi_hot_part

Column: TypeAlias = Annotated[Numbers | Category | MultiHot | Text | Matrix, Field(discriminator="kind")]

#: Features are kept sparse from this width on, if fewer than this share of the values are other than 0.
_SPARSE_WIDTH, _SPARSE_SHARE = 200, 0.1


def transform(
    columns: Sequence[Column],
    nodes: Table,
    rows: NDArray[np.bool_] | None = None,
    *,
    matrix: scipy.sparse.csc_array | None = None,
    sparse: bool | NDArray[np.bool_] | None = None,
) -> tuple[Tensor, list[str]]:
    """Turns a table into features, ``[nodes, width]``, float32, but for those that depend on the graph.

    Args:
        columns: as they were fitted.
        nodes: the table.
        rows: which nodes to take; None for all.
        matrix: the part of a feature file that is used, for these nodes.
        sparse: whether the features are a ``torch.sparse_csr``; or the nodes, among those taken, that decide it: sparse
            if the features are wide and mostly 0 there. None: all decide.

    Returns:
        The features and remarks that count missing values and what training never had.
    """
    findings = Findings(nodes, rows)
    count = len(nodes.frame) if rows is None else int(rows.sum())
    deciding = np.ones(count, dtype=bool) if sparse is None else sparse
    features = width(columns)
    if not isinstance(deciding, bool) and _surely_dense(columns, features):
        deciding = False
    parts = (part for spec in columns for part in _parts(spec, nodes, rows, matrix, findings))
    if isinstance(deciding, bool) and not deciding:
        dense, first = np.empty((count, features), dtype=np.float32), 0
        for part in parts:
            dense[:, first : first + part.shape[1]] = part if isinstance(part, np.ndarray) else part.toarray()
            first += part.shape[1]
        return torch.from_numpy(dense), findings.remarks()
    csc = scipy.sparse.hstack([_csc(part) for part in parts], format="csc", dtype=np.float32)
    if not isinstance(deciding, bool):
        filled = int(deciding[csc.indices].sum())
        if filled >= _SPARSE_SHARE * int(deciding.sum()) * features:
            return torch.from_numpy(csc.toarray()), findings.remarks()
    return _torch(csc.tocsr()), findings.remarks()


def here(columns: Sequence[Column], nodes: Table, rows: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """The numbers that are ranked inside each graph, ``[nodes, columns]``, NaN where missing."""
    count = len(nodes.frame) if rows is None else int(rows.sum())
    found = [
        values_here(spec, nodes, rows) for spec in columns if isinstance(spec, Numbers) and spec.how == "rank here"
    ]
    return np.concatenate(found, axis=1) if found else np.zeros((count, 0))


def width(columns: Sequence[Column]) -> int:
    """How many features :func:`transform` makes of the columns."""
    return sum(len(spec.features) for spec in columns)


def feature_names(columns: Sequence[Column]) -> list[str]:
    """A name for every feature: those of :func:`transform`, then those of :func:`here`."""
    ranked = [
        f"{name} rank"
        for spec in columns
        if isinstance(spec, Numbers) and spec.how == "rank here"
        for name in spec.names
    ]
    return [name for spec in columns for name in spec.features] + ranked


def feature_units(columns: Sequence[Column]) -> list[Unit]:
    """Of each of :func:`feature_names` in which units its values are told."""
    ranked = [spec for spec in columns if isinstance(spec, Numbers) and spec.how == "rank here"]
    found = [one for spec in columns for one in (spec.units if isinstance(spec, Numbers) else [Unit()] * width([spec]))]
    return found + [OF_RANKS] * sum(len(spec.names) for spec in ranked)


def as_text(columns: Sequence[Column]) -> list[str]:
    """The columns that are read as text, also if all their values look like numbers."""
    dates = [name for spec in columns if isinstance(spec, Numbers) and spec.dates is not None for name in spec.names]
    words = [spec for spec in columns if isinstance(spec, Category | MultiHot | Text)]
    return dates + [spec.name for spec in words if not (isinstance(spec, Category) and spec.numeric)]


def _parts(
    spec: Column,
    nodes: Table,
    rows: NDArray[np.bool_] | None,
    matrix: scipy.sparse.csc_array | None,
    findings: Findings,
) -> Iterator[Part]:
    if isinstance(spec, Numbers):
        yield from number_parts(spec, nodes, rows, findings)
    elif isinstance(spec, Category):
        yield category_part(spec, nodes, rows, findings)
    elif isinstance(spec, MultiHot):
        yield multi_hot_part(spec, nodes, rows, findings)
    elif isinstance(spec, Text):
        yield text_part(spec, nodes, rows, findings)
    else:
        assert matrix is not None
        yield matrix


def _surely_dense(columns: Sequence[Column], features: int) -> bool:
    """Whether no table can make the features sparse, so that they can be filled in as they come."""
    filled = sum(len(spec.names) for spec in columns if isinstance(spec, Numbers) and spec.scale)
    return features < _SPARSE_WIDTH or filled >= _SPARSE_SHARE * features


def _csc(part: Part) -> scipy.sparse.csc_array:
    return scipy.sparse.csc_array(part) if isinstance(part, np.ndarray) else part


def _torch(csr: scipy.sparse.csr_array) -> Tensor:
    indptr, indices = (torch.from_numpy(part.astype(np.int64)) for part in (csr.indptr, csr.indices))
    return torch.sparse_csr_tensor(indptr, indices, torch.from_numpy(csr.data), csr.shape, check_invariants=False)
