"""Runs Python in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import graphshift


def process(arguments: Sequence[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments in a folder, which also is its cache; what came of it, whatever its status."""
    about = {"OMP_NUM_THREADS": "1", "GRAPHSHIFT_CACHE": str(folder), "COLUMNS": "200"}
    about["PYTHONPATH"] = str(Path(graphshift.__file__).parents[1])
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=os.environ | about | environment, capture_output=True, text=True
    )


def run(arguments: Sequence[str], folder: Path, **environment: str) -> str:
    """Its output; it must succeed."""
    done = process(arguments, folder, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
