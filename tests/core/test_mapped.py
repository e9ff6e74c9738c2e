"""Scattered rows of a mapped array are those of the array, and its pages are given back while they are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphshift.core import mapped
from graphshift.core.mapped import release, taken


def held(path: Path) -> int:
    """The bytes of a file that count as this process's memory (Linux)."""
    smaps = Path("/proc/self/smaps")
    if not smaps.is_file():
        pytest.skip("only Linux says what a process holds of a file")
    inside, found = False, 0
    for line in smaps.read_text().splitlines():
        if line[:1].islower() or line[:1].isdigit():
            inside = line.endswith(str(path)) if "kB" not in line else inside
        if inside and line.startswith("Rss:"):
            found += 1024 * int(line.split()[1])
    return found


def test_rows_are_those_of_the_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "_AT_ONCE", 4)
    generator = np.random.default_rng(0)
    for values in (generator.random((30, 3)), generator.integers(0, 9, 30), np.zeros((30, 0), dtype=np.float32)):
        for rows in (generator.integers(0, 30, 11), np.arange(8), np.arange(0)):
            given_back: list[int] = []
            found = taken(values, rows, lambda: given_back.append(1))  # noqa: B023 (called at once)
            assert found.dtype == values.dtype
            assert np.array_equal(found, values[rows])
            assert len(given_back) == -(-len(rows) // 4)


def test_pages_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    np.arange(2**21, dtype=np.float32).tofile(path)  # 8 MB, 2,048 pages
    values = np.memmap(path, dtype=np.float32, mode="c", shape=(2**11, 2**10))
    rows = np.arange(0, 2**11, 2)
    assert values[rows].sum() > 0
    assert held(path) >= 2**22
    release(values)
    assert held(path) == 0
    found = taken(values, rows, lambda: release(values))
    assert held(path) == 0
    assert np.array_equal(found[:, 0], rows * 2.0**10)


def test_what_was_written_stays(tmp_path: Path) -> None:
    values = np.memmap(tmp_path / "h.bin", dtype=np.float32, mode="w+", shape=(5, 2))
    values[:] = 3.0
    values.flush()
    release(values)
    assert float(values.sum()) == 30.0
    release(np.ones(3))  # of memory: nothing to give back
