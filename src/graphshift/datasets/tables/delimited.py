"""CSV files of any encoding, separator and width, read without silent guesses; what was guessed is remarked on."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
import warnings
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError

_OTHER_FORMATS = {b"PAR1": "Parquet", b"PK\x03\x04": "zip or Excel", b"\x1f\x8b": "gzip", b"\x89HDF": "HDF5"}
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_WIDE = 500  # columns; from here on a file is read in parts
_MOST_COMMENTS = 1_000  # lines
_LOOKED_AT = 1_000  # rows below a header that may be none
_PART = 8_000_000  # fields that are parsed at a time


#: What was found out about a file: for each option the value that was taken, and a remark.
Found: TypeAlias = dict[str, tuple[str, str]]


class _Layout(NamedTuple):
    encoding: str
    separator: str
    names: list[str]  # of the columns, "" for one without a name
    header: bool = True  # whether the first row holds them
    comments: int = 0  # lines to pass over before it


def read_csv(
    path: Path,
    text: Collection[str] = (),
    *,
    separator: str = ",",
    encoding: str | None = None,
    rows: int | None = None,
    columns: Collection[str] | None = None,
    unnamed: Sequence[str] = (),
) -> tuple[pd.DataFrame, Found]:
    """Reads a CSV file.

    Args:
        path: the file; ``.gz`` is unpacked.
        text: columns that stay text, also where all values look like numbers.
        separator: between fields. If it does not split the header and another one splits header and rows alike, that
            one is taken.
        encoding: None for what a byte order mark says, else UTF-8, else cp1252 or Latin-1.
        rows: read so many from the start; None for all.
        columns: read these; None for all.
        unnamed: what to call the first columns of a file whose first row has numbers or ids instead of names; without
            it, such a row is taken as names, with a remark.

    Returns:
        The table, and what was guessed.
    """

    def read(encoding: str) -> tuple[pd.DataFrame, Found]:
        layout, found = _layout(path, separator, encoding, unnamed)
        return _read(path, layout, text, rows, columns), found

    with _explained(path, encoding):
        if encoding is not None:
            return read(_known(encoding))
        marked = _marked(path)
        if marked is not None:
            return read(marked)
        try:
            return read("utf-8")
        except UnicodeDecodeError:
            place = _undecodable(path, "utf-8")
        for other in ("cp1252", "latin-1"):
            try:
                frame, found = read(other)
            except UnicodeDecodeError:
                continue
            remark = f"{path}: {place} is not UTF-8; read as {other}. If letters are wrong, give the option encoding."
            return frame, {**found, "encoding": (other, remark)}
    raise AssertionError("Latin-1 has all bytes")


def _read(
    path: Path, layout: _Layout, text: Collection[str], rows: int | None, columns: Collection[str] | None
) -> pd.DataFrame:
    names = layout.names
    # A nameless column is an index that pandas wrote.
    wanted = [i for i, name in enumerate(names) if name and (columns is None or name in columns)]
    if rows is None and len(names) >= _WIDE:
        frame = _read_parts(path, layout, wanted)
    else:
        frame = _parsed(path, layout, wanted, nrows=rows)
    last = len(names) - 1
    if rows is None and last in frame and frame[last].isna().any():
        _check_fields(path, layout)  # pandas pads short rows in silence
    # Asking pandas for text is ten times slower than letting it find out; only 007 is lost that way.
    numeric = [i for i in wanted if names[i] in text and frame[i].dtype.kind in "iufb"]
    if numeric:
        for i, column in _as_text(path, layout, numeric, len(frame), rows).items():
            frame[i] = column
    return frame.set_axis([names[i] for i in frame.columns], axis=1)


def _parsed(path: Path, layout: _Layout, columns: Sequence[int], **options: Any) -> Any:
    """What pandas makes of some columns; only an empty field is missing. The columns are called by their numbers."""
    missing: dict[str, Any] = {"keep_default_na": False, "na_values": [""], "low_memory": False, "engine": "c"}
    file: dict[str, Any] = {"compression": "gzip" if path.suffix == ".gz" else None, "sep": layout.separator}
    file |= {"names": range(len(layout.names)), "index_col": False, "encoding": layout.encoding}
    file |= {"header": 0 if layout.header else None, "skiprows": layout.comments}
    chosen = {} if len(columns) == len(layout.names) else {"usecols": list(columns)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(path, **file, **missing, **chosen, **options)


def _read_parts(path: Path, layout: _Layout, columns: Sequence[int]) -> pd.DataFrame:
    """The same in parts, with whole numbers in as few bytes as they need: a wide table would not fit otherwise."""
    parts: list[pd.DataFrame] = []
    kinds: list[set[str]] = [set() for _ in columns]
    with _parsed(path, layout, columns, chunksize=max(1, _PART // len(layout.names))) as reader:
        for part in reader:
            for kind, dtype in zip(kinds, part.dtypes, strict=True):
                kind.add(dtype.kind)
            parts.append(_narrowed(part))
    if not parts:
        return _parsed(path, layout, columns)
    frame = pd.concat(parts, ignore_index=True)[list(columns)]
    # Numbers in one part and words in another: such a column is words, and only a second look has all of them.
    mixed = [i for i, kind in zip(columns, kinds, strict=True) if len(kind) > 1 and kind != {"i", "f"}]
    if mixed:
        frame[mixed] = _parsed(path, layout, mixed)
    return frame


def _narrowed(part: pd.DataFrame) -> pd.DataFrame:
    whole = part.columns[[dtype == np.int64 for dtype in part.dtypes]]
    values: NDArray[np.int64] = part[whole].to_numpy()
    low, high = values.min(axis=0), values.max(axis=0)
    blocks = [part.drop(columns=whole)]
    before = np.zeros(len(whole), dtype=bool)
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        fits = (low >= np.iinfo(dtype).min) & (high <= np.iinfo(dtype).max) & ~before
        before |= fits
        if fits.any():
            chosen = values if fits.all() else values[:, fits]
            blocks.append(pd.DataFrame(chosen.astype(dtype), index=part.index, columns=whole[fits]))
    return pd.concat(blocks, axis=1)


def _as_text(path: Path, layout: _Layout, columns: Sequence[int], count: int, rows: int | None) -> dict[int, pd.Series]:
    """Columns as the file has them, letter for letter."""
    if rows is None and count:
        try:
            found = _arrow_text(path, layout, columns)
            if all(len(column) == count for column in found.values()):
                return found
        except ImportError:
            pass
    frame = _parsed(path, layout, columns, nrows=rows, dtype=str)
    return {i: frame[i] for i in columns}


def _arrow_text(path: Path, layout: _Layout, columns: Sequence[int]) -> dict[int, pd.Series]:
    """The same by pyarrow, ten times as fast; nothing if it does not like the file, which pandas has read."""
    arrow, reader = import_module("pyarrow"), import_module("pyarrow.csv")
    names = [f"f{i}" for i in columns]  # pyarrow's names for columns without a header: ours is the first row
    options = {
        "read_options": reader.ReadOptions(
            autogenerate_column_names=True, encoding=layout.encoding, skip_rows=layout.comments
        ),
        "parse_options": reader.ParseOptions(delimiter=layout.separator, newlines_in_values=True),
        "convert_options": reader.ConvertOptions(
            include_columns=names,
            column_types=dict.fromkeys(names, arrow.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    }
    try:
        table = reader.read_csv(str(path), **options).slice(int(layout.header))
    except (arrow.ArrowException, LookupError):
        return {columns[0]: pd.Series()}
    return {i: table.column(k).to_pandas() for k, i in enumerate(columns)}


def _layout(path: Path, separator: str, encoding: str, unnamed: Sequence[str]) -> tuple[_Layout, Found]:
    with _open(path) as file:
        start = file.read(4096)
    if not start.strip():
        raise GraphshiftError(f"{path}: the file is empty; expected a header with the columns' names.")
    other = next((name for magic, name in _OTHER_FORMATS.items() if start.startswith(magic)), None)
    if other or (b"\0" in start and not encoding.lower().startswith(("utf-16", "utf-32"))):
        raise GraphshiftError(
            f"{path}: this is {other or 'binary'} data, not CSV; save the table as CSV in UTF-8, or give a Parquet "
            "file its ending .parquet."
        )
    found: Found = {}
    comments = _comments(path, encoding) if unnamed else 0
    header = _start(path, separator, encoding, 1, comments)[0]
    if len(header) == 1:
        taken = _other_separator(path, separator, encoding, comments)
        if taken is not None:
            header, separator = _start(path, taken, encoding, 1, comments)[0], taken
            found["separator"] = (taken, f"{path}: the fields are separated by {_SEPARATORS[taken]}; read so.")
    names = [name.strip() for name in header]
    if _values(names) or (unnamed and _are_ids(names[:2], _start(path, separator, encoding, _LOOKED_AT, comments)[1:])):
        if unnamed and (separator != "," or names != [str(i) for i in range(len(names))]):  # pandas' own are 0,1,2
            names = [*unnamed, *(f"column{i}" for i in range(len(unnamed) + 1, len(names) + 1))][: len(names)]
            found["header"] = (
                "none",
                f"{path}: the first row has no names; the columns are called {', '.join(names)}.",
            )
            return _Layout(encoding, separator, names, header=False, comments=comments), found
        remark = "taken as the columns' names. If it is a row of the table, write a line with names above it"
        found["header"] = ("first", f"{path}: the first row looks like values ({', '.join(names[:3])}); {remark}.")
    repeated = {name for name in names if name and names.count(name) > 1} if len(set(names)) < len(names) else set()
    if repeated:
        raise GraphshiftError(f"{path}: two columns are called {min(repeated)!r}; names must differ.")
    return _Layout(encoding, separator, names, comments=comments), found


def _values(names: Sequence[str]) -> bool:
    """Whether a header looks like a row of the table: numbers alone, or some that are not whole."""
    numeric = [name for name in names if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", name, re.IGNORECASE)]
    return len(numeric) == len(names) or any(not name.lstrip("+-").isdigit() for name in numeric)


def _are_ids(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the two fields of a header are ids as the rows below have them, not the names of their columns.

    They are if each is among the ids below, or looks as all in its column do but for its digits, as u17 and u4. Fields
    such as node1 and node2 are names.
    """
    if len(names) < 2 or not rows or min(map(len, rows)) < 2:
        return False
    if [re.sub(r"[01]$", "", names[0]), re.sub(r"[12]$", "", names[1])] == [names[0][:-1]] * 2:
        return False
    ends = {field.strip() for row in rows for field in row[:2]}
    shapes = [{re.sub(r"\d+", "0", row[i].strip()) for row in rows} for i in (0, 1)]
    alike = [re.search(r"\d", name) and {re.sub(r"\d+", "0", name)} == shapes[i] for i, name in enumerate(names)]
    return all(name in ends or alike[i] for i, name in enumerate(names))


def _comments(path: Path, encoding: str) -> int:
    """Lines at the start that begin with ``#`` or ``%``, as lists of edges often have, if a row of numbers follows."""
    with io.TextIOWrapper(_open(path), encoding="utf-8-sig" if encoding == "utf-8" else encoding) as file:
        for count, line in enumerate(itertools.islice(file, _MOST_COMMENTS)):
            if not line.startswith(("#", "%")):
                return count if _values([field for field in re.split(r"[,;|\s]+", line.strip()) if field]) else 0
    return 0


def _other_separator(path: Path, separator: str, encoding: str, comments: int = 0) -> str | None:
    """What splits the header, which the given separator does not, if it splits the first rows alike."""
    for mark in _SEPARATORS:
        widths = {len(fields) for fields in _start(path, mark, encoding, 20, comments)} if mark != separator else {1}
        if len(widths) == 1 and min(widths) > 1:
            return mark
    return None


def _start(path: Path, separator: str, encoding: str, count: int, comments: int = 0) -> list[list[str]]:
    """The fields of the first rows below the comments; at least one row."""
    rows = _rows(path, separator, encoding, comments)
    return [fields for _, (_, fields) in zip(range(count), rows, strict=False)] or [[]]


def _marked(path: Path) -> str | None:
    """The encoding that the first bytes show: a byte order mark, or every second byte 0 as in UTF-16."""
    with _open(path) as file:
        start = file.read(4096)
    for mark, name in _MARKS.items():
        if start.startswith(mark):
            return name
    zeros = [start[first::2].count(0) / max(1, len(start) // 2) for first in (0, 1)]
    if max(zeros) > 0.5 > 10 * min(zeros):
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    return None


def _known(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise GraphshiftError(
            f"encoding is {encoding!r}, which Python does not know; expected one such as utf-8, latin-1 or utf-16."
        ) from None


def _open(path: Path) -> Any:
    """The file's bytes, unpacked."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _rows(path: Path, separator: str, encoding: str, comments: int = 0) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV below the comments, with the line at which each ends."""
    if encoding == "utf-8":
        encoding = "utf-8-sig"
    with io.TextIOWrapper(_open(path), encoding=encoding, newline="") as file:
        reader = csv.reader(itertools.islice(file, comments, None), delimiter=separator)
        yield from ((comments + reader.line_num, fields) for fields in reader if fields)


def _check_fields(path: Path, layout: _Layout) -> None:
    expected, first = len(layout.names), "header" if layout.header else "first row"
    for line, fields in _rows(path, layout.separator, layout.encoding, layout.comments):
        if len(fields) != expected:
            raise GraphshiftError(
                f"{path}: line {line} has {len(fields)} fields and the {first} has {expected}; the line is cut off or "
                "a separator is missing."
            )


@contextmanager
def _explained(path: Path, encoding: str | None) -> Iterator[None]:
    """Turns what readers raise on damaged files into one clear line."""
    try:
        yield
    except GraphshiftError:
        raise
    except UnicodeError:
        wanted = encoding or _marked(path) or "utf-8"
        raise GraphshiftError(
            f"{path}: {_undecodable(path, wanted)} is not {wanted}; leave the option encoding out, or give another one."
        ) from None
    except pd.errors.ParserWarning:
        raise GraphshiftError(f"{path}: rows have more fields than the header has names.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        found = one_line(error).removeprefix("Error tokenizing data. C error: ")
        raise GraphshiftError(f"{path}: this is not a whole CSV file: {found}; correct that line.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise GraphshiftError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _undecodable(path: Path, encoding: str) -> str:
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as error:
                return f"line {number}, byte {error.start + 1} ({line[error.start : error.end]!r})"
    return "some byte"


def one_line(error: BaseException) -> str:
    """An exception's message on one line, cut."""
    return " ".join(str(error).split())[:200].rstrip(".")
