"""CSV files of a fixed layout, read by pandas' C parser; only what does not fit is read again, slowly, to say where."""

import csv
import gzip
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.core.unpacking import check_table_file

_KINDS = {"int64": "a whole number", "float32": "a number", "str": "text"}
_DAMAGED = "the file is damaged or a different file; download it again."


@dataclass(frozen=True)
class Table:
    """The rows of one file, and what is needed to name one of them; ``header``: whether its first line is one."""

    path: Path
    frame: pd.DataFrame
    header: bool

    def __len__(self) -> int:
        return len(self.frame)

    def column(self, name: str) -> NDArray[Any]:
        """One column."""
        return cast(NDArray[Any], self.frame[name].to_numpy())

    def refuse(self, bad: NDArray[np.bool_], name: str, expected: str) -> None:
        """Raises an error that names the first bad row of a column, if there is one, and what was expected."""
        if bad.any():
            row = int(bad.argmax())
            value = self.frame[name].iloc[row]
            found = repr(value) if isinstance(value, str) else str(value)
            count = f" ({int(bad.sum())} such rows)" if bad.sum() > 1 else ""
            where = f"{self.path}: line {row + 1 + self.header}, column {name!r}"
            raise GraphshiftError(f"{where}: found {found}{count}; expected {expected}.")


def read_table(path: Path, columns: Mapping[str, str], *, header: bool = True) -> Table:
    """Reads a CSV file (``.gz``: compressed) whose columns are known. Every value is there and every number finite.

    Args:
        path: the file.
        columns: the kind of each column: ``"int64"``, ``"float32"`` or ``"str"``. With a header these must be among
            the file's columns and the others are skipped; without, they are all the columns, in order.
        header: whether the first line names the columns.
    """
    problem: str | None = None
    try:
        check_table_file(path)
        names = _first_line(path, columns, header)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # fields that belong to no column
            warnings.simplefilter("ignore", RuntimeWarning)  # beyond float32; found below
            # No `usecols`: with it, pandas takes rows of any length.
            layout: dict[str, Any] = {"header": 0 if header else None, "names": names, "dtype": dict(columns)}
            how: dict[str, Any] = {"encoding": "utf-8-sig", "engine": "c", "compression": _compression(path)}
            frame = pd.read_csv(path, index_col=False, **layout, **how)
        if _complete(frame, columns):
            return Table(path, frame[list(columns)] if header else frame, header)
    except (ValueError, ArithmeticError, EOFError, OSError, zlib.error, csv.Error, pd.errors.ParserWarning) as error:
        if isinstance(error, GraphshiftError):
            raise
        problem = " ".join(str(error).split())
    raise GraphshiftError(f"{path}: {_diagnosis(path, columns, header) or problem}; {_DAMAGED}")


def _compression(path: Path) -> str | None:
    return "gzip" if path.suffix == ".gz" else None


def _open(path: Path) -> IO[str]:
    if _compression(path):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def _first_line(path: Path, columns: Mapping[str, str], header: bool) -> list[str]:
    with _open(path) as stream:
        first = next(csv.reader(stream), None)
    if first is None:
        raise GraphshiftError(f"{path}: the file is empty; download it again.")
    if not header:
        if len(first) != len(columns):
            raise GraphshiftError(f"{path}: line 1 has {len(first)} fields; expected {len(columns)}; {_DAMAGED}")
        return list(columns)
    missing = [name for name in columns if name not in first]
    if missing:
        raise GraphshiftError(
            f"{path}: the first line is {_shortened(','.join(first))}; expected a header with the "
            f"{'column' if len(missing) == 1 else 'columns'} {', '.join(missing)}; {_DAMAGED}"
        )
    return first


def _complete(frame: pd.DataFrame, columns: Mapping[str, str]) -> bool:
    numbers = [name for name, kind in columns.items() if kind == "float32"]
    words = [name for name, kind in columns.items() if kind == "str"]
    return all(np.isfinite(frame[n].to_numpy()).all() for n in numbers) and not frame[words].isna().any(axis=None)


def _diagnosis(path: Path, columns: Mapping[str, str], header: bool) -> str | None:
    """What is wrong in the first line that does not fit."""
    try:
        with _open(path) as stream:
            reader = csv.reader(stream)
            names = next(reader) if header else list(columns)
            for fields in reader:
                if not fields:
                    continue
                line = f"line {reader.line_num}"
                if len(fields) != len(names):
                    return f"{line} has {len(fields)} fields; expected {len(names)}"
                for name, value in zip(names, fields, strict=True):
                    kind = columns.get(name)
                    if kind is not None and not _fits(value, kind):
                        return f"{line}, column {name!r}: found {_shortened(value)}; expected {_KINDS[kind]}"
    except UnicodeDecodeError as error:
        return f"byte {error.start} is {error.object[error.start]:#x}; expected UTF-8 text"
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return f"this is not a whole gzip file ({error})"
    except csv.Error as error:
        return f"line {reader.line_num} is not CSV ({error})"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return None


def _fits(value: str, kind: str) -> bool:
    if kind == "str":
        return value not in ("", "nan", "NA", "N/A", "null", "None")
    try:
        number = float(value)
    except ValueError:
        return False
    if kind == "float32":
        return abs(number) <= float(np.finfo(np.float32).max)
    return number.is_integer() and abs(number) < 2**63


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
