"""Node and edge tables as users have them (CSV, Parquet, pandas), read without silent guesses.

Ids and names of environments stay text in a CSV, so ``007`` is not ``7``; ``NA`` is missing among numbers and a word
among words (a country code, say). Rows are counted from 1 below the header, in every message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from graphshift.core.errors import GraphshiftError
from graphshift.core.unpacking import check_parquet, check_table_file, check_words, repeated_words
from graphshift.datasets.tables.delimited import Found, one_line, read_csv

#: What a table may be: a path to CSV (``.csv``, ``.csv.gz``) or Parquet (``.parquet``, ``.pq``), or a frame.
Source: TypeAlias = str | PathLike[str] | pd.DataFrame

#: Words that mean "missing" in a column of numbers.
NA_WORDS = frozenset({"", "NA", "N/A", "#N/A", "n/a", "na", "nan", "NaN", "-nan", "null", "NULL", "None", "<NA>"})


@dataclass(frozen=True)
class Table:
    """A table, what to call it in messages, and what was guessed in reading. The index is the row number, from 0."""

    where: str
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    found: Found = field(default_factory=dict)

    @property
    def remarks(self) -> list[str]:
        """On what was guessed."""
        return [remark for _, remark in self.found.values()]

    def column(self, name: str, meaning: str, hint: str = "") -> pd.Series:
        """A column that must be there; ``meaning`` says what for."""
        if name not in self.frame.columns:
            known = ", ".join(map(repr, self.frame.columns[:30]))
            raise GraphshiftError(
                f"{self.where}: there is no column {name!r} for {meaning}; the columns are {known}. {hint}".rstrip()
            )
        return self.frame[name]

    def cell(self, column: pd.Series, place: int) -> str:
        """Names the field of a column for a message: file, row, column and what is there."""
        row = int(column.index[place]) + 1
        return f"{self.where}: row {row}, column {column.name!r}: {shown(column.iloc[place])}"

    def take(self, rows: Any) -> Table:
        """The same table with some rows only; they keep their numbers."""
        return self if np.all(rows) else Table(self.where, self.frame[rows], self.found)


def read_table(
    source: Source,
    role: str,
    *,
    ids: Collection[str] = (),
    text: Collection[str] = (),
    missing: Collection[str] = (),
    separator: str = ",",
    encoding: str | None = None,
    rows: int | None = None,
    columns: Collection[str] | None = None,
) -> Table:
    """Reads a table; whatever is wrong with the file is a ``GraphshiftError`` that names it.

    Args:
        source: a path or a frame; ``role``, ``"node"`` or ``"edge"``, and ``separator`` are for messages and CSV.
        ids: columns of ids: text in a CSV, and no word in them means missing.
        text: columns to keep as text, also if all values look like numbers.
        missing: further words that mean missing, outside ``ids``.
        encoding: of a CSV; None finds out.
        rows, columns: read only so many rows, and only these columns; None for all.
    """
    if isinstance(source, pd.DataFrame):
        table = _from_frame(source, f"the {role} table")
    elif isinstance(source, str | PathLike):
        part: dict[str, Any] = {"rows": rows, "columns": columns}
        part["unnamed"] = ("source", "target") if role == "edge" else ()
        table = _from_path(Path(source), {*ids, *text}, separator=separator, encoding=encoding, **part)
    else:
        raise GraphshiftError(
            f"the {role} table is {type(source).__name__}; expected a path to CSV or Parquet, or a pandas DataFrame."
        )
    if not len(table.frame) and role == "node":
        raise GraphshiftError(f"{table.where}: there is no row below the header; expected one for each {role}.")
    if missing:
        frame = table.frame
        columns = [name for name in frame.columns if name not in ids]
        changed = _changed(frame, columns, lambda column: _without(column, missing))
        table = Table(table.where, changed, table.found)
    return table


def is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers (or yes and no, which count as 1 and 0)."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return not pd.api.types.is_complex_dtype(column.dtype)
    kinds = ("integer", "floating", "boolean", "decimal", "mixed-integer-float")
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in kinds


def plain_text(value: Any) -> str:
    """A value as text, the same for 7, 7.0 and ``"7"``."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def shown(value: Any) -> str:
    """A value for a message: text in quotes, long values cut."""
    text = str(value) if len(str(value)) <= 80 else str(value)[:77] + "…"
    return repr(text) if isinstance(value, str) else text


def _without(column: pd.Series, words: Collection[str]) -> pd.Series:
    numeric = [float(w) for w in words if re.fullmatch(r"-?\d+(\.\d+)?", w)]
    found = column.isin(numeric if is_number(column) else list(words))
    return column.mask(found) if found.any() else column


def _changed(frame: pd.DataFrame, names: Iterable[str], change: Callable[[pd.Series], pd.Series]) -> pd.DataFrame:
    """The frame with some columns changed; a wide one is not taken apart for columns that stay as they are."""
    new = {}
    for name in names:
        column = frame[name]
        made = change(column)
        if made is not column:
            new[name] = made
    return frame.assign(**new) if new else frame


def _from_frame(frame: pd.DataFrame, where: str) -> Table:
    named = [name for name in frame.index.names if name is not None]
    frame = frame.reset_index() if named and not set(named) & set(frame.columns) else frame.reset_index(drop=True)
    return _plain(frame, where)


def _plain(frame: pd.DataFrame, where: str) -> Table:
    """Unique text names; categoricals become the values that they stand for."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise GraphshiftError(f"{where}: two columns are called {repeated[0]!r}; names must differ.")
    grouped = [name for name, column in frame.items() if isinstance(column.dtype, pd.CategoricalDtype)]
    changed = {name: frame[name].astype(frame[name].cat.categories.dtype) for name in grouped}
    return Table(where, frame.assign(**changed) if changed else frame)


def _from_path(path: Path, text: Collection[str], *, separator: str, **options: Any) -> Table:
    if path.is_dir():
        raise GraphshiftError(f"{path}: this is a folder; expected a CSV or Parquet file.")
    if not path.exists():
        raise GraphshiftError(f"{path}: there is no such file.")
    check_table_file(path)
    if path.suffix in (".parquet", ".pq"):
        return _plain(_read_parquet(path, options["rows"], options["columns"]), str(path))
    if path.suffix not in (".csv", ".tsv", ".txt") and path.suffixes[-2:] != [".csv", ".gz"]:
        raise GraphshiftError(f"{path}: expected a file that ends in .csv, .csv.gz, .tsv, .txt, .parquet or .pq.")
    separator = "\t" if path.suffix == ".tsv" and separator == "," else separator
    frame, found = read_csv(path, text, separator=separator, **options)
    words = [name for name, dtype in frame.dtypes.items() if dtype.kind not in "iufb" and name not in text]
    return Table(str(path), _changed(frame, words, numbers_or_text), found)


def _read_parquet(path: Path, rows: int | None = None, columns: Collection[str] | None = None) -> pd.DataFrame:
    try:
        pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise GraphshiftError(f"{path}: reading Parquet needs pyarrow: pip install graphshift[parquet].") from None
    try:
        # pandas' own notes in the file would turn an id column into an index; only the columns matter.
        with parquet.ParquetFile(path) as file:
            check_parquet(file, path)
            words = repeated_words(file)
        chosen = None if columns is None else list(columns)
        table = parquet.read_table(path, columns=chosen, read_dictionary=words)
        check_words(table, path)
        frame = table.slice(0, rows).to_pandas(ignore_metadata=True)
    except GraphshiftError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
        raise GraphshiftError(f"{path}: this is not a whole Parquet file ({one_line(error)}).") from None
    return frame.loc[:, [not re.fullmatch(r"__index_level_\d+__", str(name)) for name in frame.columns]]


def numbers_or_text(column: pd.Series) -> pd.Series:
    """A column that is text only because of words such as NA becomes numbers; ``01`` stays text."""
    if is_number(column) or column.isna().all():
        return column
    start = column.dropna().iloc[:100]
    if bool((pd.to_numeric(start, errors="coerce").isna() & ~start.isin(NA_WORDS)).any()):
        return column  # most text shows itself at once
    missing = column.isna() | column.isin(NA_WORDS)
    numbers = pd.to_numeric(column.mask(missing), errors="coerce")
    if missing.all() or bool((numbers.isna() & ~missing).any()):
        return column
    return column if bool(column[~missing].astype(str).str.match(r"-?0\d").any()) else numbers
