"""Limits on tables that grow when they are read: a few MB of gzip or Parquet can stand for terabytes.

A table may have 50 times the bytes of its file, and 256 MB in any case. ``GRAPHSHIFT_MAX_UNPACKED=20GB`` allows more.
"""

import gzip
import os
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import check_regular

#: Columns of a table.
MOST_COLUMNS = 20_000

_VARIABLE = "GRAPHSHIFT_MAX_UNPACKED"
_LEAST, _RATIO, _PART = 256 * 1024**2, 50, 1024**2
_LONGEST = 64 * 1024**2  # bytes of a header
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def check_table_file(path: Path) -> None:
    """Refuses, before anything is read, a table that is no file, or grows too much, or has too many columns."""
    check_regular(path)
    limit = unpacked_limit(path)
    packed = path.suffix == ".gz"
    total = separators = 0
    in_header = path.suffix not in (".parquet", ".pq")
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            while (packed or in_header) and (part := file.read(_PART)):
                if in_header:
                    header, end, _ = part.partition(b"\n")
                    separators += max(header.count(mark) for mark in (b",", b";", b"\t", b"|"))
                    in_header = not end
                    check_columns(separators + 1, path)
                total += len(part)
                if in_header and total > _LONGEST:
                    raise GraphshiftError(f"{path}: the first line has more than 64 MB; expected the columns' names.")
                if packed and total > limit:
                    raise too_large(path, limit)
    except (OSError, EOFError, zlib.error):
        return  # whoever reads it says what is wrong


def check_parquet(file: Any, path: Path) -> None:
    """The same for a :class:`pyarrow.parquet.ParquetFile`, by its own description; reading it checks the rest."""
    about, limit = file.metadata, unpacked_limit(path)
    check_columns(about.num_columns, path)
    needed = 0
    for i in range(about.num_row_groups):
        group = about.row_group(i)
        for j in range(group.num_columns):
            column = group.column(j)
            needed += max(8 * column.num_values, column.total_uncompressed_size)
        if needed > limit:
            raise too_large(path, limit)


def check_columns(count: int, path: Path) -> None:
    """Refuses a table of more columns than can be worked on."""
    if count > MOST_COLUMNS:
        raise GraphshiftError(
            f"{path}: has {count:,} columns or more; expected at most {MOST_COLUMNS:,}. Leave columns out, or give "
            "sparse features with gs.from_pyg."
        )


def unpacked_limit(path: Path) -> int:
    """How many bytes a table may have when it is unpacked."""
    given = os.environ.get(_VARIABLE)
    if given is None:
        return max(_LEAST, _RATIO * path.stat().st_size)
    found = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)B?", given.strip(), re.IGNORECASE)
    if not found:
        raise GraphshiftError(f"{_VARIABLE} is {given!r}; expected a size, as 20GB.")
    return int(found[1]) * _UNITS[found[2].upper()]


def too_large(path: Path, limit: int) -> GraphshiftError:
    """What to say of a table that grows too much."""
    return GraphshiftError(
        f"{path}: has more than {limit / 1024**2:,.0f} MB when it is unpacked, which is far more than the file has. If "
        f"you trust it, allow more: {_VARIABLE}=20GB."
    )


def repeated_words(file: Any) -> list[str]:
    """The columns of a Parquet file that hold each word once: read so, a long one is not copied to every row."""
    about, found = file.metadata, set()
    for i in range(about.num_row_groups):
        for j in range(about.row_group(i).num_columns):
            column = about.row_group(i).column(j)
            short = column.total_uncompressed_size < 8 * column.num_values
            if column.physical_type == "BYTE_ARRAY" and short and "." not in column.path_in_schema:
                found.add(column.path_in_schema)
    return sorted(found)


def check_words(table: Any, path: Path) -> None:
    """Refuses a :class:`pyarrow.Table` whose columns of :func:`repeated_words` would grow too much in full."""
    needed, limit = 0.0, unpacked_limit(path)
    for column in table.columns:
        for chunk in column.chunks if hasattr(column.type, "index_type") else ():
            lengths = chunk.dictionary.cast("large_binary").to_pylist()
            places = chunk.indices.drop_null().to_numpy(zero_copy_only=False)
            counts = np.bincount(places, minlength=len(lengths))
            needed += float(sum(count * len(word or b"") for count, word in zip(counts, lengths, strict=True)))
    if needed > limit:
        raise too_large(path, limit)


def check_zip(archive: Any, path: Path) -> None:
    """The same for a :class:`zipfile.ZipFile`, such as a NumPy archive; unzipping holds members to what they say."""
    if sum(member.file_size for member in archive.infolist()) > (limit := unpacked_limit(path)):
        raise too_large(path, limit)
