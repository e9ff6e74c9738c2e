"""Rows that are read from a file are those of the array, and pages of a mapped one are given back."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from graphshift.core import mapped
from graphshift.core.errors import GraphshiftError
from graphshift.core.mapped import READS, read_rows, release, reserve

reads = pytest.mark.skipif(not READS, reason="this system does not read at a place of a file")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    found = os.open(tmp_path / "x.bin", os.O_RDWR | os.O_CREAT)
    yield found
    os.close(found)


def held(path: Path) -> int:
    """The bytes of a file that count as this process's memory (Linux)."""
    smaps = Path("/proc/self/smaps")
    if not smaps.is_file():
        pytest.skip("only Linux says what a process holds of a file")
    inside, found = False, 0
    for line in smaps.read_text().splitlines():
        name, _, value = line.partition(":")
        if " " in name:  # a mapping begins
            inside = line.endswith(str(path))
        elif inside and name == "Rss":
            found += 1024 * int(value.split()[0])
    return found


@reads
@pytest.mark.parametrize("shape", [(30, 3), (30,), (30, 0), (30, 2, 2)])
def test_rows_are_those_of_the_array(file: int, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    for values in (generator.random(shape), generator.integers(0, 9, shape), generator.random(shape).astype("f4")):
        os.ftruncate(file, 0)
        os.pwrite(file, b"header" + values.tobytes(), 0)
        several = [generator.integers(0, 30, 11), np.arange(8), np.arange(0), np.array([29]), np.array([4, 3, 3, 4, 5])]
        for rows in several:
            found = read_rows(file, rows, values.shape[1:], values.dtype, 6)
            assert found.dtype == values.dtype
            assert np.array_equal(found, values[rows])


@reads
@pytest.mark.parametrize("block", [1, 100, 10**6])
def test_rows_that_are_close_are_read_through(file: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "_BLOCK", block)
    values, calls, whole = np.random.default_rng(0).random((200, 3)), [], os.preadv
    os.pwrite(file, b"head" + values.tobytes(), 0)
    monkeypatch.setattr(os, "preadv", lambda *given: calls.append(1) or whole(*given))
    rows = np.array([3, 4, 5, 9, 60, 61, 199])
    assert np.array_equal(read_rows(file, rows, (3,), values.dtype, 4), values[rows])
    assert len(calls) == {1: 7, 100: 4, 10**6: 1}[block]  # blocks of one row, of four rows, of all
    calls.clear()
    monkeypatch.setattr(mapped, "_GAP", 100)  # bytes: the rows are too far from each other
    assert np.array_equal(read_rows(file, rows, (3,), values.dtype, 4), values[rows])
    assert len(calls) == 4
    assert np.array_equal(read_rows(file, rows[::-1].copy(), (3,), values.dtype, 4), values[rows[::-1]])


@reads
def test_a_call_that_gives_less_is_followed_by_another(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux gives 2 GB at most in one call."""
    values = np.random.default_rng(0).random((30, 3))
    os.pwrite(file, values.tobytes(), 0)
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, into, place: whole(file, [into[0][:50]], place))
    rows = np.array([2, 3, 4, 5, 9, 29])
    assert np.array_equal(read_rows(file, rows, (3,), values.dtype), values[rows])


@reads
def test_a_file_that_was_cut(file: int) -> None:
    os.pwrite(file, np.arange(10.0).tobytes(), 0)
    with pytest.raises(GraphshiftError, match=r"8 bytes from byte 80 of a file are not there: it was cut"):
        read_rows(file, np.array([1, 9, 10]), (), np.dtype(float))


@reads
def test_reading_holds_nothing_of_the_file(tmp_path: Path, file: int) -> None:
    path = tmp_path / "x.bin"
    np.arange(2**21, dtype=np.float32).tofile(path)  # 8 MB
    values = np.memmap(path, dtype=np.float32, mode="c", shape=(2**11, 2**10))
    rows = np.arange(0, 2**11, 2)
    read = read_rows(file, rows, (2**10,), np.dtype(np.float32))
    assert held(path) == 0
    assert np.array_equal(read, values[rows])
    assert held(path) >= 2**22
    release(values)
    assert held(path) == 0


def test_what_was_written_stays(tmp_path: Path) -> None:
    values = np.memmap(tmp_path / "h.bin", dtype=np.float32, mode="w+", shape=(5, 2))
    values[:] = 3.0
    values.flush()
    release(values)
    assert float(values.sum()) == 30.0
    release(np.ones(3))  # of memory: nothing to give back


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system does not reserve room")
def test_room_is_taken_before_a_file_is_mapped(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve(file, 0)
    reserve(file, 5000)
    found = os.fstat(file)
    assert found.st_size == 5000
    assert 512 * found.st_blocks >= 5000

    def fails(number: int) -> None:
        def allocate(*_: int) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "posix_fallocate", allocate)

    fails(errno.EOPNOTSUPP)  # a file system that does not know how
    reserve(file, 5000)
    fails(errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        reserve(file, 5000)
