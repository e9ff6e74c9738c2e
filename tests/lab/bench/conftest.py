"""A bench of tiny sizes whose processes run in this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench_small import TINY
from graphshift.lab.bench import memory
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.child import measure


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children run in this process: their numbers mean nothing, and they take no seconds to start."""

    def run(task: dict[str, Any], threads: int) -> dict[str, int]:
        assert task["threads"] == threads
        answer = measure(task)
        return {**answer, "peak": answer.get("before", 0) + 1_000_000}

    monkeypatch.setattr(memory, "run_child", run)


@pytest.fixture
def bench(tmp_path: Path, in_process: None) -> Bench:
    return Bench(TINY, tmp_path, threads=1, data_dir=tmp_path)
