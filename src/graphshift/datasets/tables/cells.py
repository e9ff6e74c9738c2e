"""Cells of a table as numbers, many columns at once, and remarks on those that do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.files import NA_WORDS, Table, is_number, shown

#: What a CSV calls yes and no, as pandas reads it.
YES_NO = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}

#: Dates become years since then.
ORIGIN, _YEAR = pd.Timestamp("2000-01-01", tz="UTC"), 365.2425 * 86_400

_TOGETHER = 256  # columns that are worked on at once: fast, and small beside the table
_LINES = 5  # more columns than this share one line of the report


def is_plain(column_type: Any) -> bool:
    """Whether columns of this type can be taken as one numpy array."""
    return isinstance(column_type, np.dtype) and column_type.kind in "biuf"


def together(nodes: Table, names: Sequence[str], meaning: str) -> Iterator[list[str]]:
    """Runs of columns that can be read as one array; a column that cannot comes alone."""
    types = dict(zip(nodes.frame.columns, nodes.frame.dtypes, strict=True))
    run: list[str] = []
    for name in names:
        if name not in types:
            nodes.column(name, meaning)  # says what is there
        fits = is_plain(types[name]) and (not run or (types[name].kind == "b") == (types[run[0]].kind == "b"))
        if run and not (fits and is_plain(types[run[0]]) and len(run) < _TOGETHER):
            yield run
            run = []
        run.append(name)
    if run:
        yield run


def as_array(nodes: Table, names: list[str], rows: NDArray[np.bool_] | None) -> NDArray[Any]:
    """Some rows of columns that :func:`is_plain`, ``[columns, rows]``."""
    values = nodes.frame[names].to_numpy().T
    return values if rows is None or rows.all() else values[:, rows]


def some_rows(column: pd.Series, rows: NDArray[np.bool_] | None) -> pd.Series:
    """Some rows of a column, which keep their numbers."""
    return column if rows is None or rows.all() else column[rows]


def numbers(nodes: Table, column: pd.Series) -> NDArray[np.float64]:
    """A column of finite numbers, NaN where missing; anything else is an error that names its row."""
    values, bad = loose_numbers(column)
    refuse(nodes, column, bad)
    return values


def refuse(nodes: Table, column: pd.Series, bad: NDArray[np.bool_]) -> None:
    """Stops at the first cell that is no number."""
    if bad.any():
        raise GraphshiftError(
            f"{nodes.cell(column, int(bad.argmax()))} is not a finite number ({int(bad.sum())} such rows); correct it "
            "or leave the field empty."
        )


def loose_numbers(column: pd.Series) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A column as numbers, NaN where it is missing or no finite number; and where it is no finite number."""
    missing = column.isna().to_numpy()
    if is_number(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        missing = missing | column.isin(NA_WORDS).to_numpy()
        found = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        yes_no = np.isnan(found) & column.isin(YES_NO).to_numpy()
        values = found.copy()
        values[yes_no] = column[yes_no].map(YES_NO).to_numpy(dtype=np.float64)
    bad = ~missing & ~np.isfinite(values)
    return np.where(bad, np.nan, values), bad


def loose_dates(column: pd.Series, form: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Dates as years since :data:`ORIGIN`, NaN where missing or no date; and where it is no date.

    ``form`` is the format as ``strptime`` has it; empty for dates as in 2024-05-31.
    """
    missing = (column.isna() | column.isin(NA_WORDS)).to_numpy()
    kept = column.mask(missing)
    if isinstance(column.dtype, pd.PeriodDtype):
        kept = kept.dt.to_timestamp()
    elif kept.dtype == object and pd.api.types.infer_dtype(kept, skipna=True) == "period":
        kept = kept.map(lambda period: period.to_timestamp(), na_action="ignore")
    try:
        if pd.api.types.is_datetime64_any_dtype(kept.dtype):
            dates = pd.to_datetime(kept, utc=True)
        else:
            dates = pd.to_datetime(kept.astype(object), format=form or "ISO8601", errors="coerce", utc=True)
    except (TypeError, ValueError):
        dates = pd.Series(pd.NaT, index=column.index).dt.tz_localize("UTC")
    values = ((dates - ORIGIN).dt.total_seconds() / _YEAR).to_numpy(dtype=np.float64, na_value=np.nan)
    return values, np.isnan(values) & ~missing


class _Found(NamedTuple):
    name: str
    cells: int
    row: int
    example: str


class Findings:
    """What was found in the cells of a table, told by column, or in one line where it is the same in many columns."""

    def __init__(self, nodes: Table, rows: NDArray[np.bool_] | None = None) -> None:
        self._where = nodes.where
        self._frame = nodes.frame
        self._rows = None if rows is None or rows.all() else np.flatnonzero(rows)
        self._found: dict[str, list[_Found]] = {}

    def add(self, name: str, what: str, cells: NDArray[np.bool_]) -> None:
        """Counts the cells of a column that are so, in the rows that are read."""
        if not cells.any():
            return
        place = int(cells.argmax())
        row = place if self._rows is None else int(self._rows[place])
        value = self._frame[name].iloc[row]
        example = "" if pd.isna(value) else f", {shown(value)}"
        found = _Found(name, int(cells.sum()), int(self._frame.index[row]) + 1, example)
        self._found.setdefault(what, []).append(found)

    def remarks(self) -> list[str]:
        """The lines of the report."""
        lines = []
        for what, found in self._found.items():
            if len(found) <= _LINES:
                lines += [
                    f"{self._where}: column {f.name!r}: {f.cells} {what} (first row {f.row}{f.example})." for f in found
                ]
            else:
                total = sum(f.cells for f in found)
                lines.append(f"{self._where}: {listed([f.name for f in found])}: {total:,} {what}.")
        return lines


def listed(names: Sequence[str], most: int = 3) -> str:
    """Columns for a message: how many, and the first of them."""
    first = ", ".join(map(repr, names[:most])) + (" …" if len(names) > most else "")
    return f"column {first}" if len(names) == 1 else f"{len(names):,} columns ({first})"
