"""Where and with what something was measured: enough to judge a number, nothing that names a person or a host."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from graphshift._version import __version__
from graphshift.graph import kernels

_PACKAGES = ("torch", "torch_geometric", "numpy")


def about(threads: int) -> dict[str, Any]:
    """The machine, the versions, the commit and the date."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "memory_gb": _memory_gb(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "threads": threads,
        "native": kernels.available(),
        "versions": {
            "graphshift": __version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in _PACKAGES},
        },
        **_commit(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)
    except (AttributeError, OSError, ValueError):  # Windows
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> dict[str, Any]:
    """The commit of this package's source, if it is run from a git checkout of its own, and whether it was changed."""
    package = Path(__file__).resolve().parents[2]
    # An installed package may lie inside a checkout of something else: only a file that git knows counts.
    if _git(package, "ls-files", "--error-unmatch", "_version.py") is None:
        return {"commit": None, "dirty": None}
    return {"commit": _git(package, "rev-parse", "HEAD"), "dirty": bool(_git(package, "status", "--porcelain", "."))}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
