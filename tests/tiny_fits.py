"""Fits in a folder that take a second, and what a folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphshift.fitting.fit import FitRequest

TINY = {"epochs": 2, "hidden_channels": 4}


def request(**given: Any) -> FitRequest:
    return FitRequest("planted", {"nodes": 60}, TINY | {"method": "erm"} | given)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
