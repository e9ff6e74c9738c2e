"""Node and edge tables as users have them (CSV, Parquet, pandas), read without silent guesses.

Ids and names of environments stay text in a CSV, so ``007`` is not ``7``; ``NA`` is missing among numbers and a word
among words (a country code, say). Rows are counted from 1 below the header, in every message.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from graphshift.core.errors import GraphshiftError
from graphshift.core.unpacking import check_parquet, check_table_file, repeated_words

#: What a table may be: a path to CSV (``.csv``, ``.csv.gz``) or Parquet (``.parquet``, ``.pq``), or a frame.
Source: TypeAlias = str | PathLike[str] | pd.DataFrame

#: Words that mean "missing" in a column of numbers.
NA_WORDS = frozenset({"", "NA", "N/A", "#N/A", "n/a", "na", "nan", "NaN", "-nan", "null", "NULL", "None", "<NA>"})

_OTHER_FORMATS = {b"PAR1": "Parquet", b"PK\x03\x04": "zip or Excel", b"\x1f\x8b": "gzip", b"\x89HDF": "HDF5"}


@dataclass(frozen=True)
class Table:
    """A table and what to call it in messages. The frame's index is the row number, from 0."""

    where: str
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)

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
        return Table(self.where, self.frame[rows])


def read_table(
    source: Source,
    role: str,
    *,
    ids: Collection[str] = (),
    text: Collection[str] = (),
    missing: Collection[str] = (),
    separator: str = ",",
) -> Table:
    """Reads a table; whatever is wrong with the file is a ``GraphshiftError`` that names it.

    Args:
        source: a path or a frame; ``role``, ``"node"`` or ``"edge"``, and ``separator`` are for messages and CSV.
        ids: columns of ids: text in a CSV, and no word in them means missing.
        text: columns to keep as text, also if all values look like numbers.
        missing: further words that mean missing, outside ``ids``.
    """
    if isinstance(source, pd.DataFrame):
        table = _from_frame(source, f"the {role} table")
    elif isinstance(source, str | PathLike):
        table = _from_path(Path(source), {*ids, *text}, separator)
    else:
        raise GraphshiftError(
            f"the {role} table is {type(source).__name__}; expected a path to CSV or Parquet, or a pandas DataFrame."
        )
    if not len(table.frame) and role == "node":
        raise GraphshiftError(f"{table.where}: there is no row below the header; expected one for each {role}.")
    if missing:
        frame = table.frame
        table = Table(table.where, frame.assign(**{c: _without(frame[c], missing) for c in frame if c not in ids}))
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
    if is_number(column):
        return column.mask(column.isin([float(w) for w in words if re.fullmatch(r"-?\d+(\.\d+)?", w)]))
    return column.mask(column.isin(list(words)))


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


def _from_path(path: Path, text: Collection[str], separator: str) -> Table:
    if path.is_dir():
        raise GraphshiftError(f"{path}: this is a folder; expected a CSV or Parquet file.")
    if not path.exists():
        raise GraphshiftError(f"{path}: there is no such file.")
    check_table_file(path)
    if path.suffix in (".parquet", ".pq"):
        return _plain(_read_parquet(path), str(path))
    if path.suffix not in (".csv", ".tsv", ".txt") and path.suffixes[-2:] != [".csv", ".gz"]:
        raise GraphshiftError(f"{path}: expected a file that ends in .csv, .csv.gz, .tsv, .txt, .parquet or .pq.")
    return _read_csv(path, text, "\t" if path.suffix == ".tsv" and separator == "," else separator)


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise GraphshiftError(f"{path}: reading Parquet needs pyarrow: pip install graphshift[parquet].") from None
    try:
        # pandas' own notes in the file would turn an id column into an index; only the columns matter.
        with parquet.ParquetFile(path) as file:
            check_parquet(file, path)
            words = repeated_words(file)
        frame = parquet.read_table(path, read_dictionary=words).to_pandas(ignore_metadata=True)
    except GraphshiftError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
        raise GraphshiftError(f"{path}: this is not a whole Parquet file ({_one_line(error)}).") from None
    return frame.loc[:, [not re.fullmatch(r"__index_level_\d+__", str(name)) for name in frame.columns]]


def _read_csv(path: Path, text: Collection[str], separator: str) -> Table:
    with _explained(path):
        raw = _header(path, separator)
        names = [name.strip() for name in raw]
        repeated = {name for name in names if name and names.count(name) > 1}
        if repeated:
            raise GraphshiftError(f"{path}: two columns are called {min(repeated)!r}; names must differ.")
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            layout: dict[str, Any] = {"header": 0, "names": range(len(names)), "index_col": False}
            layout |= {"compression": "gzip" if path.suffix == ".gz" else None, "sep": separator, "encoding": "utf-8"}
            layout |= {"dtype": {i: str for i, name in enumerate(names) if name in text}}
            missing: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
            frame = pd.read_csv(path, **layout, **missing, low_memory=False, engine="c")
        if len(frame) and frame[len(names) - 1].isna().any():
            _check_fields(path, separator, len(names))  # pandas pads short rows in silence
    frame.columns = pd.Index(names)
    frame = frame.loc[:, [bool(name) for name in names]]  # a nameless column is an index that pandas wrote
    changed = {name: numbers_or_text(frame[name]) for name in frame.columns if name not in text}
    return Table(str(path), frame.assign(**changed))


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


def _open(path: Path) -> Any:
    """The file's bytes, unpacked."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV with the line at which each ends."""
    with io.TextIOWrapper(_open(path), encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        yield from ((reader.line_num, fields) for fields in reader if fields)


def _header(path: Path, separator: str) -> list[str]:
    with _open(path) as file:
        start = file.read(4096)
    if not start.strip():
        raise GraphshiftError(f"{path}: the file is empty; expected a header with the columns' names.")
    other = next((name for magic, name in _OTHER_FORMATS.items() if start.startswith(magic)), None)
    if other or b"\0" in start:
        raise GraphshiftError(
            f"{path}: this is {other + ' data' if other else 'binary or UTF-16 data'}, not CSV; save the table as CSV "
            "in UTF-8, or give a Parquet file its ending .parquet."
        )
    header = next((fields for _, fields in _rows(path, separator)), [])
    for mark, word in ((";", "semicolons"), ("\t", "tabs"), (",", "commas"), ("|", "bars")):
        if len(header) == 1 and mark in header[0]:
            raise GraphshiftError(
                f"{path}: the header is one field, {header[0][:80]!r}: its fields seem to be separated by {word}; "
                f"say separator={mark!r}."
            )
    return header


def _check_fields(path: Path, separator: str, expected: int) -> None:
    for line, fields in _rows(path, separator):
        if len(fields) != expected:
            raise GraphshiftError(
                f"{path}: line {line} has {len(fields)} fields and the header has {expected}; the line is cut off or "
                "a separator is missing."
            )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turns what readers raise on damaged files into one clear line."""
    try:
        yield
    except GraphshiftError:
        raise
    except UnicodeDecodeError:
        raise GraphshiftError(
            f"{path}: {_undecodable(path)} is not UTF-8; save the file as UTF-8 (it may be Latin-1, as older "
            "spreadsheets write it)."
        ) from None
    except pd.errors.ParserWarning:
        raise GraphshiftError(f"{path}: rows have more fields than the header has names.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        found = _one_line(error).removeprefix("Error tokenizing data. C error: ")
        raise GraphshiftError(f"{path}: this is not a whole CSV file: {found}; correct that line.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise GraphshiftError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _undecodable(path: Path) -> str:
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return f"line {number}, byte {error.start + 1} ({line[error.start : error.end]!r})"
    return "some byte"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200].rstrip(".")
