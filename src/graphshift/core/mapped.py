"""Arrays in files: scattered rows are read without mapping them, and the pages of mapped arrays are given back.

A page that is touched in a mapped file costs a fault, brings those around it that are in the cache, up to 64 kB, and
counts as the process's memory: some ten thousand rows anywhere in a file are the whole file. Reading them costs a call
for each run of rows, or where runs are close to each other for all between them, and holds nothing.
"""

from __future__ import annotations

import errno
import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError

#: Whether this system reads at a place of a file; otherwise scattered rows are those of the mapped array.
READS = hasattr(os, "preadv")

_GAP = 8192  # bytes that take as long to read as another call
_BLOCK = 2**22  # bytes that are read at a time, where rows are close to each other

#: The numbers of the errors of a disk that has no more room for a file.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def release(array: NDArray[Any]) -> None:
    """Gives the pages of a mapped array back to the system: what was written stays in its file."""
    held = getattr(array, "_mmap", None)
    if held is not None and hasattr(mmap, "MADV_DONTNEED"):
        held.madvise(mmap.MADV_DONTNEED)


def read_rows(
    file: int, rows: NDArray[np.integer], row: tuple[int, ...], dtype: np.dtype[Any], offset: int = 0
) -> NDArray[Any]:
    """Some rows of an array in a file, as ``array[rows]`` has them.

    Args:
        file: its descriptor.
        rows: which; runs of consecutive ones are read at once.
        row: the shape of one.
        dtype: of the numbers.
        offset: where the array begins, in bytes.
    """
    found = np.empty((len(rows), *row), dtype=dtype)
    size = dtype.itemsize * int(np.prod(row))
    if not found.size:
        return found
    steps = np.diff(rows, prepend=rows[0] - 2)
    begin = np.flatnonzero(steps != 1)
    between = size * (int(rows[-1]) - int(rows[0]) + 1) - found.nbytes
    if between < _GAP * (len(begin) - 1) and bool((steps > 0).all()):
        _read_through(file, rows, found, offset)
        return found
    end = np.append(begin[1:], len(rows))
    places = offset + size * rows[begin].astype(np.int64)
    into = _bytes(found)
    for first, last, place in zip((size * begin).tolist(), (size * end).tolist(), places.tolist(), strict=True):
        _read(file, into[first:last], place)
    return found


def _read_through(file: int, rows: NDArray[np.integer], found: NDArray[Any], offset: int) -> None:
    """Reads all from the first row to the last, a block at a time, and keeps those that are wanted."""
    size, first = found[:1].nbytes, 0
    block = np.empty((max(_BLOCK // size, 1), *found.shape[1:]), dtype=found.dtype)
    while first < len(rows):
        at = int(rows[first])
        last = int(np.searchsorted(rows, at + len(block)))
        count = int(rows[last - 1]) - at + 1
        _read(file, _bytes(block[:count]), offset + size * at)
        found[first:last] = block[rows[first:last] - at]
        first = last


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _read(file: int, into: memoryview, place: int) -> None:
    done = os.preadv(file, [into], place)
    while done < len(into):  # one call gives 2 GB at most
        got = os.preadv(file, [into[done:]], place + done)
        if not got:
            raise GraphshiftError(
                f"{len(into) - done:,} bytes from byte {place + done:,} of a file are not there: it was cut while it "
                "was read."
            )
        done += got


def reserve(file: int, size: int) -> None:
    """Takes the room that a file needs on its disk, before it is mapped.

    A file that grows by being mapped has holes. If the disk is full when one is written, the system ends the process
    without a word; here it is an ``OSError``.
    """
    if size and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            if error.errno in FULL:  # others: this file system does not know how
                raise
