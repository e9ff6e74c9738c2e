"""How things show themselves in Jupyter: small HTML tables that need nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_MOST = 50  # rows that are shown


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, note: str = "") -> str:
    """A titled table; every text is escaped, numbers stand to the right, and long tables are cut, which is said."""
    every = [list(row) for row in rows]
    head = "".join(f'<th style="text-align:left">{escape(str(name))}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in every[:_MOST])
    more = f"… and {len(every) - _MOST:,} more. " if len(every) > _MOST else ""
    below = f"<div><small>{escape(more + note)}</small></div>" if more or note else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if every else ""
    return f"<div><b>{escape(title)}</b>{table}{below}</div>"


def html_details(summary: str, inside: str) -> str:
    """What is folded away; ``inside`` is HTML."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def html_curve(values: Sequence[float], label: str, *, width: int = 260, height: int = 60) -> str:
    """A small curve as SVG, with its first and last value; empty for fewer than two."""
    if len(values) < 2:
        return ""
    step = max(1, len(values) // width)
    shown = [*values[::step], values[-1]] if (len(values) - 1) % step else list(values[::step])
    low, high = min(shown), max(shown)
    scale = (height - 4) / ((high - low) or 1.0)
    points = " ".join(
        f"{i * width / (len(shown) - 1):.1f},{2 + (high - value) * scale:.1f}" for i, value in enumerate(shown)
    )
    line = f'<polyline fill="none" stroke="#0072B2" stroke-width="1.5" points="{points}"/>'
    said = f"{label}: {values[0]:.4g} → {values[-1]:.4g}"
    return (
        f'<div><svg width="{width}" height="{height}" role="img" aria-label="{escape(said)}">{line}</svg>'
        f"<small> {escape(said)}</small></div>"
    )


def _cell(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = f"{value:,}" if isinstance(value, int) and number else f"{value:.4g}" if number else str(value)
    return f'<td style="text-align:{"right" if number else "left"}">{escape(text)}</td>'
