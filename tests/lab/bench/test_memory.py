"""Peaks are of a process of its own, and not of the one that started it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphshift.core.errors import GraphshiftError
from graphshift.lab.bench import child, memory
from graphshift.lab.bench.workload import planted_environment

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").is_file(), reason="Linux alone tells a process's own peak"
)


@needs_proc
def test_a_child_tells_its_own_peak_and_not_its_parents(tmp_path: Path) -> None:
    file = memory.save_environment(planted_environment(60), tmp_path / "data.safetensors")
    parent = torch.ones(250_000_000)  # a gigabyte that the child never sees
    assert child.peak_bytes() > 1e9
    held = memory.peak_of(file, "reinforce", steps=1, threads=1, views=2, edits=1)
    assert parent.sum() > 0
    assert 1e8 < held["before"] <= held["peak"] < 1e9
    assert held["explorers"] > 0


@needs_proc
def test_the_peak_is_a_high_water_mark() -> None:
    before = child.peak_bytes()
    mark = before // 4 + 50_000_000  # float32: more than was ever held
    torch.ones(mark)
    assert child.peak_bytes() >= 4 * mark


def test_the_child_trains_on_the_same_environment(tmp_path: Path) -> None:
    environment = planted_environment(80, degree=5, features=12)
    file = memory.save_environment(environment, tmp_path / "data.safetensors")
    read = child._environment(file)
    assert torch.equal(read.x, environment.x)  # type: ignore[arg-type]
    assert torch.equal(read.graph.edge_index, environment.graph.edge_index)
    assert torch.equal(read.labels, environment.labels)
    assert read.task == environment.task


def test_a_child_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MODULE", "graphshift.no_such_module")
    with pytest.raises(GraphshiftError, match=r"measures memory failed: .*No module named graphshift.no_such_module"):
        memory.peak_of(tmp_path, "erm", steps=1, threads=1)


def test_a_child_that_is_killed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killer = tmp_path / "killer.py"
    killer.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr(memory, "_MODULE", "killer")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(GraphshiftError, match="was ended by SIGKILL, as the system does when memory runs out"):
        memory.peak_of(tmp_path, "erm", steps=1, threads=1)


def test_children_get_their_threads() -> None:
    given = memory.child_environment(3)
    assert (given["OMP_NUM_THREADS"], given["OMP_WAIT_POLICY"]) == ("3", "PASSIVE")
