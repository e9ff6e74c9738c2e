"""MATLAB 5 files: numbers and sparse matrices, nothing else. Every length is checked before it is followed.

``scipy.io.loadmat`` reads far more, and a damaged file can crash it and the process with it (scipy 1.17). The layout
is MathWorks' "MAT-File Format", version 5.
"""

import math
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError

_HEADER = 128  # bytes
_LIMIT = 1 << 30  # bytes that a compressed variable may unpack to; the largest school needs 40 million
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {1: "a cell array", 2: "a struct", 3: "an object", 4: "text", 16: "a function", 17: "an object"}
_SPARSE, _FIRST_NUMERIC, _LAST_NUMERIC = 5, 6, 15


class _DamagedError(Exception):
    """What does not fit, in words."""


def read_mat5(path: Path, names: Collection[str]) -> dict[str, Any]:
    """Reads the named variables of a MATLAB 5 file, all real numbers: arrays as numpy's, sparse ones as scipy's CSC."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise GraphshiftError(f"{path}: cannot be read: {error.strerror}.") from None
    found: dict[str, Any] = {}
    variable = "its header"
    try:
        order = _byte_order(content)
        variable = "its first variable"
        for kind, body in _elements(memoryview(content)[_HEADER:], order):
            if kind == _COMPRESSED:
                kind, body = next(_elements(memoryview(_unpacked(body)), order), (0, body))
            if kind != _MATRIX:
                raise _DamagedError(f"found an element of type {kind}; expected a matrix")
            parts = _elements(body, order)
            flags = int(_whole(parts, order)[0])
            array_class = flags & 0xFF
            if array_class > _LAST_NUMERIC:
                continue  # functions and objects, whose layout is another
            shape = tuple(_whole(parts, order).tolist())
            name = bytes(_next(parts)[1]).decode("latin-1")
            variable = f"`{name}`"
            if name in names:
                found[name] = _array(array_class, bool(flags >> 8 & 8), shape, parts, order)
            variable = f"what follows `{name}`"
    except _DamagedError as error:
        raise GraphshiftError(
            f"{path}: {variable} cannot be read: {error}; the file is damaged or a different file; download it again."
        ) from None
    missing = [name for name in names if name not in found]
    if missing:
        raise GraphshiftError(f"{path}: there is no variable {' and no '.join(f'`{name}`' for name in missing)}.")
    return found


def _byte_order(content: bytes) -> str:
    mark, version = content[126:128], content[124:126]
    if content[:4] == b"\x89HDF" or (mark in (b"IM", b"MI") and 2 in version):
        raise _DamagedError("this is a MATLAB 7.3 file; expected version 5 (save it with -v7)")
    if mark not in (b"IM", b"MI"):
        raise _DamagedError("this is not a MATLAB 5 file")
    return "<" if mark == b"IM" else ">"


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """The type and the bytes of every element."""
    place = 0
    while place < len(data):
        if place + 8 > len(data):
            raise _DamagedError(f"{len(data) - place} bytes are left where an element should begin")
        kind, size = np.frombuffer(data, f"{order}u4", 2, place).tolist()
        start = place + 8
        if kind >> 16:  # a small element: its size shares a word with its type, and its bytes follow at once
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
            if size > 4:
                raise _DamagedError(f"a small element claims {size} bytes; expected 4 at most")
        if start + size > len(data):
            raise _DamagedError(f"an element claims {size} bytes and {len(data) - start} are left")
        yield kind, data[start : start + size]
        if start == place + 4:
            place += 8
        else:  # elements begin at multiples of 8 bytes, except behind a compressed one
            place = start + size + (-size % 8 if kind != _COMPRESSED else 0)


def _next(parts: Iterator[tuple[int, memoryview]]) -> tuple[int, memoryview]:
    part = next(parts, None)
    if part is None:
        raise _DamagedError("it ends too early")
    return part


def _unpacked(data: memoryview) -> bytes:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data, _LIMIT)
    except zlib.error as error:
        raise _DamagedError(f"the compression is damaged ({error})") from None
    if stream.unconsumed_tail:
        raise _DamagedError(f"it unpacks to more than {_LIMIT:,} bytes")
    if not stream.eof:
        raise _DamagedError("the compressed bytes end too early")
    return content


def _numbers(kind: int, data: memoryview, order: str) -> NDArray[Any]:
    if kind not in _NUMBERS:
        raise _DamagedError(f"found an element of type {kind}; expected numbers")
    dtype = np.dtype(order + _NUMBERS[kind])
    if len(data) % dtype.itemsize:
        raise _DamagedError(f"{len(data)} bytes are not a whole number of {dtype.name}")
    return np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))


def _whole(parts: Iterator[tuple[int, memoryview]], order: str) -> NDArray[Any]:
    """The next element, which is one or more whole numbers."""
    numbers = _numbers(*_next(parts), order)
    if numbers.dtype.kind == "f" or not numbers.size:
        raise _DamagedError(f"found {numbers.size} numbers of {numbers.dtype.name}; expected whole ones")
    return numbers


def _array(
    array_class: int, is_complex: bool, shape: tuple[int, ...], parts: Iterator[tuple[int, memoryview]], order: str
) -> Any:
    if is_complex or not _SPARSE <= array_class <= _LAST_NUMERIC:
        what = "complex" if is_complex else _CLASSES.get(array_class, f"of the unknown class {array_class}")
        raise _DamagedError(f"it is {what}; expected real numbers")
    if len(shape) != 2 or min(shape) < 0:
        raise _DamagedError(f"its shape is {list(shape)}; expected rows and columns")
    if array_class >= _FIRST_NUMERIC:
        values = _numbers(*_next(parts), order)
        if values.size != math.prod(shape):
            raise _DamagedError(f"it has {values.size} values; expected {shape[0]} × {shape[1]}")
        return values.reshape(shape, order="F")
    rows, starts, values = _whole(parts, order), _whole(parts, order), _numbers(*_next(parts), order)
    if starts.size != shape[1] + 1:
        raise _DamagedError(f"it has {starts.size} column starts; expected {shape[1] + 1}")
    count = int(starts[-1])  # MATLAB allocates more than it uses
    if not 0 <= count <= min(rows.size, values.size):
        raise _DamagedError(f"it announces {count} entries and has {min(rows.size, values.size)}")
    try:
        matrix = scipy.sparse.csc_matrix((values[:count], rows[:count], starts), shape=shape)
        matrix.check_format(full_check=True)  # before anything follows an index out of the arrays
    except ValueError as error:
        raise _DamagedError(f"it is not a valid sparse matrix ({error})") from None
    return matrix
