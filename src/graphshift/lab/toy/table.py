"""The motivating example as a table: what was learned beside the closed forms and the paper's claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphshift.lab.toy.toy import ToyResult

#: Columns that only the long table has.
_LONG = ("start", "std. error")


def toy_table(result: ToyResult, *, long: bool = True) -> tuple[list[str], list[list[str]]]:
    """Columns and rows.

    Args:
        result: of :func:`~graphshift.lab.toy.toy.run_toy`.
        long: with starting points and standard errors.
    """
    found = [_cells(row) for row in result.rows()]
    columns = [name for name in found[0] if long or name not in _LONG]
    return columns, [[cells[name] for name in columns] for cells in found]


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "reading": row["reading"] + (f", E[x¹²] ± {row['spread']:g}" if row["spread"] else ""),
        "σ": f"{row['sigma']:g}",
        "objective": row["objective"] + (f" β={row['beta']:g}" if row["beta"] else ""),
        "start": _theta(row, "start_") if row["objective"] == "variance" else "",
        "learned θ1, θ2": _theta(row, ""),
        "std. error": f"{row['se_theta1']:.3f}, {row['se_theta2']:.3f}",
        "closed form": _theta(row, "closed_"),
        "paper claims": _theta(row, "paper_"),
    }


def _theta(row: Mapping[str, Any], prefix: str) -> str:
    one, two = row[f"{prefix}theta1"], row[f"{prefix}theta2"]
    return "any, 0" if one is None and two == 0 else "–" if two is None else f"{one:.3f}, {two:.3f}"
