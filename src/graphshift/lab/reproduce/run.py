"""Runs items: their studies, each in its own folder, then their tables and figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.lab.leaderboard.running import run_leaderboard, wanted_experiments, wanted_methods
from graphshift.lab.paper import EXPERIMENTS, ITEMS, SETTINGS, Item, find
from graphshift.lab.paper.reproducing import absent, finished, run_experiment, settings_of
from graphshift.lab.reproduce import report
from graphshift.lab.reproduce.ledgers import LEDGERS, run_ledger
from graphshift.lab.reproduce.request import Request, command, not_here, note, resumable
from graphshift.report import study_report
from graphshift.report.study_tables import StudyTable
from graphshift.report.tables import print_table

#: Of a request what studies take.
_STUDY = ("data_dir", "workers", "threads", "engine", "force", "retry_failed")


def run_items(name: str, request: Request) -> None:
    """Runs one item, or ``all``; prints their tables.

    Args:
        name: of an item or an experiment.
        request: how.
    """
    chosen = request.chosen
    wanted = list(ITEMS.values()) if name == "all" else [find(name)]
    if request.methods and name != "leaderboard":
        raise GraphshiftError(f"--methods chooses cells of the leaderboard; {name} has none.")
    if request.experiments and name not in ("leaderboard", "strangers"):
        raise GraphshiftError(f"--experiments chooses of the leaderboard, or of strangers; {name} has none to choose.")
    if request.budget and name != "strangers":
        raise GraphshiftError(f"--budget is the time of each recommendation of strangers; {name} has none.")
    if not sum(len(_run(item, request, chosen)) for item in wanted):
        raise GraphshiftError(f"{name}: nothing of it can be shown here; see the notes above.")


def list_items(data_dir: Path | None) -> None:
    """Prints all items, and which data are not on this machine."""
    rows = []
    for item in ITEMS.values():
        experiments = [EXPERIMENTS[name] for name in item.experiments]
        datasets = list(dict.fromkeys([*(e.dataset for e in experiments), *(name for name, _ in item.data)]))
        gone = [name for name in datasets if absent(name, data_dir)]
        settings = [s for s in item.settings if any(s in e.settings for e in experiments)]
        rows.append([item.name, item.title, ", ".join(settings) or "–", ", ".join(gone) or "–"])
    print_table("items", ["item", "what", "settings", "missing data"], rows)
    print("\n".join(f"{name}: {text}" for name, text in SETTINGS.items()))


def _run(item: Item, request: Request, chosen: list[str] | None) -> list[StudyTable]:
    if item.data:
        tables = _data(item, request)
    elif item.name == "leaderboard" and chosen is None:
        tables = _leaderboard(item, request)
    elif item.name in LEDGERS or item.experiments:
        tables = run_ledger(item, request) if item.name in LEDGERS else []
        tables += _studies(item, request, chosen) if item.experiments else []
    elif request.show:
        return _shown(item, request)
    else:
        tables = report.write_toy(item, request.folder, quick=request.quick)
    for table in tables:
        print_table(table.title, table.columns, table.rows, note=table.note)
    if tables:
        print(f"{item.name}: tables and figures in {request.folder / item.name}")
    return tables


def _shown(item: Item, request: Request) -> list[StudyTable]:
    """What an item without studies left when it was run."""
    file = request.folder / item.name / "table.txt"
    if not file.is_file():
        note(f"{item.name}: not in {request.folder}; run it without --show.")
        return []
    print(file.read_text(encoding="utf-8"))
    return [StudyTable(item.title, [], [])]


def _data(item: Item, request: Request) -> list[StudyTable]:
    missing = not_here(item, (name for name, _ in item.data), request)
    there = [name for name, _ in item.data if name not in missing]
    return report.write_data_item(item, there, request.folder, request.data_dir) if there else []


def _studies(item: Item, request: Request, chosen: list[str] | None) -> list[StudyTable]:
    wanted = settings_of(item, chosen)
    missing = set() if request.show else not_here(item, (experiment.dataset for experiment, _ in wanted), request)
    studies = []
    for experiment, setting in wanted:
        if experiment.dataset in missing:
            continue
        label = f"{item.name}: {experiment.name}, {setting}"
        if request.show:
            found = finished(experiment, setting, request.folder)
            if found is None:
                note(f"{label}: not finished in {request.folder}; run it without --show.")
                continue
        else:
            print(label, file=sys.stderr)
            with resumable():
                how: dict[str, Any] = {name: getattr(request, name) for name in _STUDY}
                how |= {"command": command(), "report": study_report.write_report}
                found = run_experiment(experiment, setting, request.folder, request.size, **how)
        studies.append(found)
    if studies and item.claim:
        print(f"The paper: {item.claim}")
    return report.write_item(item, studies, request.folder) if studies else []


def _leaderboard(item: Item, request: Request) -> list[StudyTable]:
    known = [EXPERIMENTS[name] for name in item.experiments]
    experiments = wanted_experiments(request.experiments, known)
    methods = wanted_methods(request.methods)
    if not request.show:
        missing = not_here(item, (experiment.dataset for experiment in experiments), request)
        there = [experiment for experiment in experiments if experiment.dataset not in missing]
        how: dict[str, Any] = {name: getattr(request, name) for name in _STUDY}
        with resumable():
            how |= {"command": command(), "said": lambda text: print(text, file=sys.stderr)}
            run_leaderboard(request.folder, there, methods, request.size, **how)
    return report.write_leaderboard(item, known, request.folder)
