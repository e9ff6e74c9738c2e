"""Runs the cases that a folder lacks, and gives all records."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_json, write_text
from graphshift.lab.theory import extrapolation, invariance
from graphshift.lab.theory.cases import BETAS, CASES, definition, measured
from graphshift.lab.theory.statement import Statement


def run_theory(
    file: Path,
    betas: Sequence[float] = BETAS,
    *,
    force: bool = False,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """All records: ``{"cases": […], "statements": […]}``. A case whose definition has not changed is not run again.

    Args:
        file: the JSON that keeps them.
        betas: β of the paths.
        force: run every case again.
        report: called with the number of cases done, as ``{"epoch": 3}``.
    """
    kept = {} if force or not file.is_file() else {record["case"]: record for record in shown_theory(file)["cases"]}
    file.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"cases": [], "statements": []}
    for done, case in enumerate(CASES.values()):
        if report is not None:
            report({"epoch": done})
        record = kept.get(case.name)
        if record is None or record["definition"] != _rounded(definition(case, betas)):
            record = _rounded(measured(case, betas))
        found["cases"].append(record)
        waiting = [kept[name] for name in list(CASES)[done + 1 :] if name in kept]
        _write(file, {**found, "cases": found["cases"] + waiting})
    found["statements"] = [_row(statement) for statement in statements()]
    _write(file, found)
    return found


def statements() -> list[Statement]:
    """Every statement of Section 4, computed."""
    return [compute() for compute in (*invariance.STATEMENTS, *extrapolation.STATEMENTS)]


def shown_theory(file: Path) -> dict[str, Any]:
    """What a folder has."""
    found = read_json(file)
    if not isinstance(found, dict) or not all(isinstance(found.get(name), list) for name in ("cases", "statements")):
        raise GraphshiftError(f"{file} is not a result of `graphshift reproduce theory`; remove it and run it again.")
    return found


def _row(statement: Statement) -> dict[str, Any]:
    evidence, needs = statement.shown
    row = {"place": statement.place, "says": statement.says, "verdict": statement.verdict, "found": evidence}
    return {**row, "needs": needs, "numbers": _rounded(statement.numbers)}


def _rounded(content: Any) -> Any:
    """Ten digits: what a minimiser found is not exact beyond that, and files stay small."""
    if isinstance(content, dict):
        return {name: _rounded(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_rounded(value) for value in content]
    return round(content, 10) if isinstance(content, float) else content


def _write(file: Path, found: dict[str, Any]) -> None:
    """One line for each case and statement."""
    parts = [
        f'"{name}": [\n' + ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows) + "\n]"
        for name, rows in found.items()
    ]
    write_text(file, "{" + ",\n".join(parts) + "}\n")
