"""Columns of a table as features: fitted on the training nodes, applied to any table, written as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated, TypeAlias

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.cells import Findings, as_array, is_plain, listed, loose_dates, numbers, refuse, together
from graphshift.datasets.tables.feature_file import Matrix
from graphshift.datasets.tables.files import Table, is_number, shown
from graphshift.datasets.tables.kinds import check_slips, date_format, digits
from graphshift.datasets.tables.numeric import Constant, FittedNumber, Numbers, Scale, blocks, fit_numbers
from graphshift.datasets.tables.scaling import Part, number_parts, values_here
from graphshift.datasets.tables.text import Text, TextKind, fit_text, text_part
from graphshift.datasets.tables.words import (
    Category,
    MultiHot,
    category_part,
    fit_category,
    fit_multi_hot,
    list_separator,
    multi_hot_part,
)

__all__ = ["Column", "Wishes", "feature_names", "fit_columns", "here", "numbers", "transform", "width"]

Column: TypeAlias = Annotated[Numbers | Category | MultiHot | Text | Matrix, Field(discriminator="kind")]

#: Features are kept sparse from this width on, if fewer than this share of the values are other than 0.
_SPARSE_WIDTH, _SPARSE_SHARE = 200, 0.1

_BAG = 20  # so many columns of mostly zeros are a bag of words
_FEATURES = "the features (option features)"


@dataclass(frozen=True)
class Wishes:
    """What the user says of columns; see :func:`graphshift.datasets.own.from_tables`.

    ``text``, ``multi_hot`` and ``dates`` give the kind, the separator and the format of each column, empty if not said.
    """

    categorical: Collection[str] = ()
    scale: Scale | Mapping[str, Scale] = "auto"
    per_environment: bool | Collection[str] = False
    text: Mapping[str, TextKind] = field(default_factory=dict)
    multi_hot: Mapping[str, str] = field(default_factory=dict)
    dates: Mapping[str, str] = field(default_factory=dict)

    @property
    def special(self) -> set[str]:
        """The columns that are not taken as they look."""
        return {*self.categorical, *self.text, *self.multi_hot, *self.dates}

    def of_number(self, name: str) -> str:
        """What to do with a column if it holds numbers."""
        if self.per_environment is True:
            return "auto rank here"
        if self.per_environment is not False and name in self.per_environment:
            return "rank here"
        return self.scale if isinstance(self.scale, str) else self.scale.get(name, "auto")


class _LeftOut(str):
    """Why a column is not used."""


_Fitted: TypeAlias = "FittedNumber | Constant | Category | MultiHot | Text | _LeftOut"


def fit_columns(
    nodes: Table, names: Sequence[str], rows: NDArray[np.bool_], wishes: Wishes | None = None, *, chosen: bool
) -> tuple[tuple[Numbers | Category | MultiHot | Text, ...], list[str]]:
    """Learns how to turn columns into features from the training nodes, ``rows``, alone; with remarks on the rest.

    Unless the user has ``chosen`` the columns, those that give every node a word of its own are left out.
    """
    wishes = wishes or Wishes()
    fitted = [*_fit_all(nodes, names, rows, wishes, chosen=chosen)]
    words = sum(isinstance(f, FittedNumber) and (f.zero_one or f.instead is not None) for f in fitted)
    if words < _BAG:
        fitted = [(f.instead or f) if isinstance(f, FittedNumber) else f for f in fitted]
    columns: list[Numbers | Category | MultiHot | Text] = []
    for is_numbers, run in groupby(
        (f for f in fitted if not isinstance(f, Constant | _LeftOut)), key=lambda f: isinstance(f, FittedNumber)
    ):
        columns += blocks([*run]) if is_numbers else run  # type: ignore[arg-type]
    remarks = [*_left_out(fitted, len(names)), *_said(fitted, wishes)]
    return tuple(columns), [f"{nodes.where}: {remark}" for remark in remarks]


def transform(
    columns: Sequence[Numbers | Category | MultiHot | Text | Matrix],
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


def here(
    columns: Sequence[Numbers | Category | MultiHot | Text | Matrix], nodes: Table, rows: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    """The numbers that are ranked inside each graph, ``[nodes, columns]``, NaN where missing."""
    count = len(nodes.frame) if rows is None else int(rows.sum())
    found = [values_here(spec, nodes, rows) for spec in columns if isinstance(spec, Numbers) and spec.how == "rank here"]
    return np.concatenate(found, axis=1) if found else np.zeros((count, 0))


def width(columns: Sequence[Numbers | Category | MultiHot | Text | Matrix]) -> int:
    """How many features :func:`transform` makes of the columns."""
    return sum(len(spec.features) for spec in columns)


def feature_names(columns: Sequence[Numbers | Category | MultiHot | Text | Matrix]) -> list[str]:
    """A name for every feature: those of :func:`transform`, then those of :func:`here`."""
    ranked = [
        f"{name} rank"
        for spec in columns
        if isinstance(spec, Numbers) and spec.how == "rank here"
        for name in spec.names
    ]
    return [name for spec in columns for name in spec.features] + ranked


def _fit_all(
    nodes: Table, names: Sequence[str], rows: NDArray[np.bool_], wishes: Wishes, *, chosen: bool
) -> Iterator[_Fitted]:
    special = wishes.special
    for is_special, group in groupby(names, key=lambda name: name in special):
        runs = ([name] for name in group) if is_special else together(nodes, [*group], _FEATURES)
        for run in runs:
            column = nodes.column(run[0], _FEATURES)
            if is_special or not is_plain(column.dtype):
                yield _fit_one(nodes, column, rows, wishes, chosen=chosen)
                continue
            values = as_array(nodes, run, rows)
            if values.dtype.kind == "f" and np.isinf(values).any():
                name = run[int(np.isinf(values).any(axis=1).argmax())]
                refuse(nodes, nodes.frame[name], np.isinf(nodes.frame[name].to_numpy()) & rows)
            yield from fit_numbers(nodes, run, values, [wishes.of_number(name) for name in run])


def _fit_one(
    nodes: Table, column: pd.Series, rows: NDArray[np.bool_], wishes: Wishes, *, chosen: bool
) -> _Fitted:
    """One column that may be words, dates or text that holds numbers; its training cells decide."""
    name, train = str(column.name), column[rows]
    if name in wishes.text:
        return fit_text(train, wishes.text[name]) or _LeftOut(f"left out column {name!r}: no word is in two texts.")
    if name in wishes.multi_hot:
        return fit_multi_hot(nodes, train, wishes.multi_hot[name]) or _LeftOut(f"left out column {name!r}: all lists are the same.")
    form = wishes.dates[name] if name in wishes.dates else None
    if name not in wishes.special:
        form = date_format(train)
    if form is not None:
        values, bad = loose_dates(train, form)
        if bad.any():
            raise GraphshiftError(
                f"{nodes.cell(train, int(bad.argmax()))} is not a date {f'as {form!r} says' if form else 'as in 2024-05-31'}"
                f' ({int(bad.sum())} such rows); correct it, or say its format, as in dates = {{{name} = "%d.%m.%Y"}}.'
            )
        return fit_numbers(nodes, [name], values[None], [wishes.of_number(name)], dates=form)[0]
    if name not in wishes.categorical and (is_number(train) or digits(train)):
        return fit_numbers(nodes, [name], numbers(nodes, train)[None], [wishes.of_number(name)])[0]
    if wishes.per_environment not in (True, False) and name in wishes.per_environment or (
        isinstance(wishes.scale, Mapping) and name in wishes.scale
    ):
        raise GraphshiftError(f"{nodes.where}: column {name!r} holds words; only numbers can be scaled or ranked.")
    if name not in wishes.categorical:
        check_slips(nodes, train)
        separator = list_separator(train)
        if separator is not None and (found := fit_multi_hot(nodes, train, separator)) is not None:
            return found
    fitted = fit_category(nodes, train, chosen=chosen or name in wishes.categorical)
    return fitted if isinstance(fitted, Category) else _LeftOut(fitted)


def _left_out(fitted: Sequence[_Fitted], total: int) -> Iterator[str]:
    yield from (str(f) for f in fitted if isinstance(f, _LeftOut))
    constant = [f for f in fitted if isinstance(f, Constant)]
    if len(constant) == 1:
        value = constant[0].value
        found = "is empty" if np.isnan(value) else f"is always {shown(value)}"
        yield f"left out column {constant[0].name!r}: it {found} in training, so it says nothing."
    elif constant:
        first = ", ".join(f.name for f in constant[:3]) + (" …" if len(constant) > 3 else "")
        yield f"{len(constant):,} of {total:,} columns are constant in training and left out: {first}."
    flags = [f for f in fitted if isinstance(f, FittedNumber) and f.how == "flag"]
    if len(flags) == 1:
        found = f"column {flags[0].name!r} is {flags[0].mean:g} or missing in training"
        yield f"{found}; only whether it is missing is used."
    elif flags:
        names = [f.name for f in flags]
        yield f"{listed(names)} are one number or missing in training; only whether they are missing is used."


def _said(fitted: Sequence[_Fitted], wishes: Wishes) -> Iterator[str]:
    """One line on what was decided by itself and is not the usual."""
    asked = wishes.special | (set(wishes.scale) if isinstance(wishes.scale, Mapping) else set())
    auto = [f for f in fitted if isinstance(f, FittedNumber) and f.name not in asked and f.how != "flag"]
    plain = isinstance(wishes.scale, Mapping) or wishes.scale == "auto"
    kinds = {
        "of 0/1 as they are": [f.name for f in auto if f.zero_one and plain],
        "of mostly zeros as they are": [f.name for f in auto if f.instead and f.how == "none" and plain],
        "of small counts as log(1 + x)": [f.name for f in auto if f.instead and f.how == "log" and plain],
        "of skewed numbers as logarithms, scaled": [
            f.name for f in auto if not f.instead and f.how == "log" and plain
        ],
        "of dates as years since 2000-01-01": [f.name for f in auto if f.dates is not None],
        "of lists as 0/1 features for each word": [
            f.name for f in fitted if isinstance(f, MultiHot) and f.name not in asked
        ],
    }
    said = [f"{listed(names)} {kind}" for kind, names in kinds.items() if names]
    if said:
        yield f"took {'; '.join(said)}. The options scale, categorical, dates and multi_hot change this."


def _parts(
    spec: Numbers | Category | MultiHot | Text | Matrix,
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


def _surely_dense(columns: Sequence[Numbers | Category | MultiHot | Text | Matrix], features: int) -> bool:
    """Whether no table can make the features sparse, so that they can be filled in as they come."""
    filled = sum(len(spec.names) for spec in columns if isinstance(spec, Numbers) and spec.scale)
    return features < _SPARSE_WIDTH or filled >= _SPARSE_SHARE * features


def _csc(part: Part) -> scipy.sparse.csc_array:
    return scipy.sparse.csc_array(part) if isinstance(part, np.ndarray) else part


def _torch(csr: scipy.sparse.csr_array) -> Tensor:
    indptr, indices = (torch.from_numpy(part.astype(np.int64)) for part in (csr.indptr, csr.indices))
    return torch.sparse_csr_tensor(indptr, indices, torch.from_numpy(csr.data), csr.shape, check_invariants=False)
