"""Peak memory: of a fresh process that does nothing but train, so that nothing else is counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import write_tensors
from graphshift.data.environment import Environment

_MODULE = "graphshift.lab.bench.child"


def save_environment(environment: Environment, path: Path) -> Path:
    """Writes a planted environment for a child process: making it must not count to the child's peak."""

    tensors = {"x": environment.data.x, "edge_index": environment.graph.edge_index.int(), "y": environment.data.y}
    write_tensors(path, tensors, {"kind": environment.task.kind, "num_classes": environment.task.num_classes})
    return path


def peak_of(data: Path, kind: str, *, steps: int, threads: int, **options: Any) -> dict[str, int]:
    """Trains in a process of its own and tells what it held.

    Args:
        data: a file of :func:`save_environment`.
        kind: a name from ``workload.METHODS``.
        steps: how many.
        threads: of the process.
        options: of ``workload.new_method``.

    Returns:
        Bytes: ``peak`` of the whole process; ``before``, its peak after the imports and the same steps on a tiny graph;
        ``explorers``, what the policies hold at the end.
    """
    task = {"data": str(data), "kind": kind, "steps": steps, "threads": threads, "options": options}
    return run_child(task, threads)


def run_child(task: dict[str, Any], threads: int) -> dict[str, int]:
    """Gives a task to a process of its own and takes its answer."""
    command = [sys.executable, "-m", _MODULE, json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, env=child_environment(threads), check=False)
    if done.returncode:
        raise GraphshiftError(f"a process that measures memory {_ending(done)}.")
    return {name: int(value) for name, value in json.loads(done.stdout.splitlines()[-1]).items()}


def child_environment(threads: int) -> dict[str, str]:
    """The environment variables of a process that is measured."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}


def _ending(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return f"was ended by {name}" + (", as the system does when memory runs out" if name == "SIGKILL" else "")
    lines = done.stderr.strip().splitlines() or ["it said nothing"]
    return f"failed: {lines[-1]}"
