"""Runs the leaderboard's cells, or what is left of them; what is done is never done twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.core.storage import read_json
from graphshift.estimators.base import METHODS
from graphshift.lab.leaderboard.board import board
from graphshift.lab.leaderboard.cells import BASELINE, cells_of, place_of, plan_of_cell, run_cell
from graphshift.lab.paper.experiments import Experiment
from graphshift.lab.paper.settings import Size


def wanted_methods(names: str | None) -> list[str]:
    """The methods that were asked for, with commas between; None for all that the registry has."""
    if names is None:
        return list(METHODS)
    found = [name.strip() for name in names.split(",") if name.strip()]
    for name in found:
        METHODS.find(name, where="--methods: ")
    return found


def wanted_experiments(names: str | None, known: Sequence[Experiment]) -> list[Experiment]:
    """The leaderboard's experiments that were asked for, with commas between; None for all."""
    by_name = {experiment.name: experiment for experiment in known}
    found = list(by_name) if names is None else [name.strip() for name in names.split(",") if name.strip()]
    for name in found:
        if name not in by_name:
            raise GraphshiftError(f"--experiments has {name!r}; {expected_one_of(name, list(by_name))}")
    return [by_name[name] for name in found]


def run_leaderboard(
    folder: Path,
    experiments: Sequence[Experiment],
    methods: Sequence[str],
    size: Size,
    *,
    said: Callable[[str], Any] = print,
    **how: Any,
) -> None:
    """Runs every cell that is not done; ERM's too, where there is nothing yet to compare with.

    Args:
        folder: of all experiments.
        experiments, methods: which cells.
        size: how much of each.
        said: is told which cell is next, and which cannot be.
        how: what :func:`~graphshift.lab.leaderboard.cells.run_cell` takes.
    """
    for experiment, method in cells_of(experiments, [BASELINE, *methods]):
        if (
            method == BASELINE
            and BASELINE not in methods
            and any(one.is_baseline for one in board(folder, [experiment]))
        ):
            continue
        if not how.get("force") and not how.get("retry_failed") and _is_done(folder, experiment, method, size):
            continue
        said(f"leaderboard: {experiment.name}, {method}")
        if reason := run_cell(experiment, method, folder, size, **how):
            said(f"leaderboard: {experiment.name}: left out: {reason}")


def _is_done(folder: Path, experiment: Experiment, method: str, size: Size) -> bool:
    """Whether a cell of this size is finished; one of another size is left to the study, which refuses it."""
    place = place_of(folder, experiment, method)
    if not (place / "summary.json").is_file():
        return False
    there, wanted = read_json(place / "plan.json"), plan_of_cell(experiment, method, size)
    same = there["trials"] == wanted.trials and list(there["seeds"]) == list(wanted.seeds)
    return same and (there["data_seeds"] or []) == list(wanted.data_seeds or [])
