"""Reliability diagrams and risk–coverage curves of every test, a panel for each dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphshift.report.figures import can_draw, save_both
from graphshift.report.reliability_figures import reliability_figure, risk_figure
from graphshift.shift.reliability import Curves

_SHOWN = ("raw", "moved")  # before and after


def draw_trust(records: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Draws ``trust-reliability`` and ``trust-risk``."""
    if not records or not can_draw():
        return []
    panels: dict[str, dict[str, list[Curves]]] = {}
    for record in records:
        own = panels.setdefault(record["dataset"], {kind: [] for kind in _SHOWN})
        for test in record["tests"].values():
            for kind in _SHOWN:
                own[kind].append(Curves.from_json(test[kind]))
    folder.mkdir(parents=True, exist_ok=True)
    made = save_both(reliability_figure(panels), folder / "trust-reliability")
    return made + save_both(risk_figure(panels), folder / "trust-risk")
