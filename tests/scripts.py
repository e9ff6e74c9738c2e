"""Runs a script in a process of its own."""

import os
import subprocess
import sys


def run(arguments, folder):
    """Its output; it must succeed."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GRAPHSHIFT_CACHE": str(folder)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
