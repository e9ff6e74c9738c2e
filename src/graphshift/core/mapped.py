"""Arrays in memory-mapped files: their pages are given back, and scattered rows are read without holding the file.

Where one page is touched, Linux also maps those around it that are in its cache, up to 64 kB, and all of them count as
the process's memory. Some ten thousand rows anywhere in a file are then the whole file. So scattered rows are read some
at a time, and pages are given back in between; this is no slower, since fewer pages are held.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1_000  # rows: at most 64 MB of pages


def release(array: NDArray[Any]) -> None:
    """Gives the pages of a mapped array back to the system: what was written stays in its file."""
    held = getattr(array, "_mmap", None)
    if held is not None and hasattr(mmap, "MADV_DONTNEED"):
        held.madvise(mmap.MADV_DONTNEED)


def taken(values: NDArray[Any], rows: NDArray[np.integer], give_back: Callable[[], None]) -> NDArray[Any]:
    """``values[rows]`` of a mapped array.

    Args:
        values: the array, or a view of it.
        rows: which; increasing ones are faster.
        give_back: releases its pages.
    """
    found = np.empty((len(rows), *values.shape[1:]), dtype=values.dtype)
    for first in range(0, len(rows), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        found[some] = values[rows[some]]
        give_back()
    return found
