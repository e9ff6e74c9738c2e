"""Where results come from: versions, command, commit, date, threads and hardware; never the host's or user's name."""

import datetime
import importlib.metadata
import os
import platform
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import graphshift
from graphshift._version import __version__
from graphshift.studies.pool import cores

_PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "scikit-learn", "optuna")


def session(command: Sequence[str], workers: int, threads: int, engine: str = "local") -> dict[str, Any]:
    """One session of a study; the command has no words where it was started from Python."""
    versions = {"graphshift": __version__, "python": platform.python_version()}
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": public_command(command),
        "workers": workers,
        "threads_per_worker": threads,
        **({} if engine == "local" else {"engine": engine}),
        "versions": versions | {package: _version(package) for package in _PACKAGES},
        "git": _git(),
        "hardware": _hardware(),
    }


def public_command(command: Sequence[str]) -> str | None:
    """The command as it can be shown to others: of a path that starts at the root or at home, the last name."""
    if not command:
        return None

    def shorten(word: str) -> str:
        name, sign, value = word.partition("=")
        if sign:
            return name + sign + shorten(value)
        return Path(word).name if Path(word).is_absolute() or word.startswith("~") else word

    return shlex.join([shorten(word) for word in command])


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git() -> dict[str, Any] | None:
    """The commit of graphshift itself, where it runs from its repository."""
    package = Path(graphshift.__file__).parent

    def ask(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", *words], cwd=package, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if ask("ls-files", "--error-unmatch", "_version.py") is None:  # installed inside some other repository
        return None
    commit = ask("rev-parse", "HEAD")
    return None if commit is None else {"commit": commit, "changed": bool(ask("status", "--porcelain", "."))}


def _hardware() -> dict[str, Any]:
    processor = platform.processor() or None
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    try:
        memory: float | None = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3, 1)
    except (AttributeError, ValueError, OSError):
        memory = None
    system = {"system": platform.system(), "machine": platform.machine()}
    return system | {"processor": processor, "cores": cores(), "memory_gb": memory}
