"""Runs items: their studies, each in its own folder, then their tables and figures."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.progress import progress_bar
from graphshift.core.registry import expected_one_of
from graphshift.lab.choosing.running import cases as choosing_cases
from graphshift.lab.choosing.running import run_choosing, shown_choosing
from graphshift.lab.estimate.cases import cases as estimate_cases
from graphshift.lab.estimate.running import run_estimate, shown_estimate
from graphshift.lab.estimate.running import wanted as estimate_wanted
from graphshift.lab.leaderboard.running import run_leaderboard, wanted_experiments, wanted_methods
from graphshift.lab.paper import EXPERIMENTS, ITEMS, SETTINGS, Item, Size, find
from graphshift.lab.paper import exploring as explorers
from graphshift.lab.paper.reproducing import absent, finished, run_experiment, settings_of
from graphshift.lab.reproduce import report
from graphshift.lab.shift.running import DRAWS, HALVINGS, run_shift, shown_shift
from graphshift.lab.shift.running import cases as shift_cases
from graphshift.lab.strangers.running import cases as stranger_cases
from graphshift.lab.strangers.running import run_strangers, shown_strangers
from graphshift.lab.theory.cases import BETAS, CASES, QUICK_BETAS
from graphshift.lab.theory.running import run_theory, shown_theory
from graphshift.lab.trust.running import cases as trust_cases
from graphshift.lab.trust.running import run_trust, shown_trust
from graphshift.report import study_report
from graphshift.report.study_tables import StudyTable
from graphshift.report.tables import print_table
from graphshift.studies.engines import LOCAL, Engine
from graphshift.training.loop import Interrupted

_EXPLORER_STEPS = 200


@dataclass(frozen=True)
class Request:
    """What was asked for.

    Attributes:
        out: the folder of studies and items.
        settings: names with commas between; None for all.
        seeds, data_seeds, trials: how much; None leaves it to the experiment.
        quick: small, in a folder ``quick`` of its own.
        show: run nothing, show what the folder has.
        data_dir: where the raw files of datasets are.
        methods, experiments: of the leaderboard; names with commas between; None for all.
        workers, threads, engine, retry_failed, force: what :func:`graphshift.studies.run_study` takes.
    """

    out: Path
    settings: str | None = None
    seeds: int | None = None
    data_seeds: int | None = None
    trials: int | None = None
    quick: bool = False
    show: bool = False
    data_dir: Path | None = None
    methods: str | None = None
    experiments: str | None = None
    workers: int | None = 1
    threads: int | None = None
    engine: Engine = LOCAL
    retry_failed: bool = False
    force: bool = False

    @property
    def folder(self) -> Path:
        """Where everything is kept."""
        return self.out / "quick" if self.quick else self.out

    @property
    def size(self) -> Size:
        """How much to run."""
        size = Size.quick() if self.quick else Size()
        return Size(
            self.seeds or size.seeds, self.data_seeds or size.data_seeds, self.trials or size.trials, size.epochs
        )

    @property
    def chosen(self) -> list[str] | None:
        """The names of settings, checked."""
        if self.settings is None:
            return None
        names = [name.strip() for name in self.settings.split(",") if name.strip()]
        for name in names:
            if name not in SETTINGS:
                raise GraphshiftError(f"--settings has {name!r}; {expected_one_of(name, list(SETTINGS))}")
        return names


def run_items(name: str, request: Request) -> None:
    """Runs one item, or ``all``; prints their tables.

    Args:
        name: of an item or an experiment.
        request: how.
    """
    chosen = request.chosen
    wanted = list(ITEMS.values()) if name == "all" else [find(name)]
    if (request.methods or request.experiments) and name != "leaderboard":
        raise GraphshiftError(f"--methods and --experiments choose cells of the leaderboard; {name} has none.")
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
    of_ours = ("theory", "shift", "trust", "estimate", "choosing", "strangers")
    if request.show and not item.experiments and item.name not in of_ours:
        return _shown(item, request)
    if item.data:
        tables = _data(item, request)
    elif item.name == "theory":
        tables = _theory(item, request)
    elif item.name == "shift":
        tables = _shift(item, request)
    elif item.name == "trust":
        tables = _trust(item, request)
    elif item.name == "estimate":
        tables = _estimate(item, request)
    elif item.name == "choosing":
        tables = _choosing(item, request)
    elif item.name == "strangers":
        tables = _strangers(item, request)
    elif item.name == "leaderboard" and chosen is None:
        tables = _leaderboard(item, request)
    elif not item.experiments:
        tables = report.write_toy(item, request.folder, quick=request.quick)
    else:
        tables = _exploring(item, request) if item.name == "exploring" else []
        tables += _studies(item, request, chosen)
    for table in tables:
        print_table(table.title, table.columns, table.rows, note=table.note)
    if tables:
        print(f"{item.name}: tables and figures in {request.folder / item.name}")
    return tables


def _shown(item: Item, request: Request) -> list[StudyTable]:
    """What an item without studies left when it was run."""
    file = request.folder / item.name / "table.txt"
    if not file.is_file():
        _note(f"{item.name}: not in {request.folder}; run it without --show.")
        return []
    print(file.read_text(encoding="utf-8"))
    return [StudyTable(item.title, [], [])]


def _data(item: Item, request: Request) -> list[StudyTable]:
    missing = _missing(item, (name for name, _ in item.data), request)
    there = [name for name, _ in item.data if name not in missing]
    return report.write_data_item(item, there, request.folder, request.data_dir) if there else []


def _studies(item: Item, request: Request, chosen: list[str] | None) -> list[StudyTable]:
    wanted = settings_of(item, chosen)
    missing = set() if request.show else _missing(item, (experiment.dataset for experiment, _ in wanted), request)
    studies = []
    for experiment, setting in wanted:
        if experiment.dataset in missing:
            continue
        label = f"{item.name}: {experiment.name}, {setting}"
        if request.show:
            found = finished(experiment, setting, request.folder)
            if found is None:
                _note(f"{label}: not finished in {request.folder}; run it without --show.")
                continue
        else:
            print(label, file=sys.stderr)
            with _resumable():
                found = run_experiment(
                    experiment,
                    setting,
                    request.folder,
                    request.size,
                    data_dir=request.data_dir,
                    workers=request.workers,
                    threads=request.threads,
                    engine=request.engine,
                    force=request.force,
                    retry_failed=request.retry_failed,
                    command=_command(),
                    report=study_report.write_report,
                )
        studies.append(found)
    if studies and item.claim:
        print(f"The paper: {item.claim}")
    return report.write_item(item, studies, request.folder) if studies else []


def _leaderboard(item: Item, request: Request) -> list[StudyTable]:
    known = [EXPERIMENTS[name] for name in item.experiments]
    experiments = wanted_experiments(request.experiments, known)
    methods = wanted_methods(request.methods)
    if not request.show:
        missing = _missing(item, (experiment.dataset for experiment in experiments), request)
        there = [experiment for experiment in experiments if experiment.dataset not in missing]
        how: dict[str, Any] = {name: getattr(request, name) for name in _STUDY}
        with _resumable():
            how |= {"command": _command(), "said": lambda text: print(text, file=sys.stderr)}
            run_leaderboard(request.folder, there, methods, request.size, **how)
    return report.write_leaderboard(item, known, request.folder)


#: Of a request what studies take.
_STUDY = ("data_dir", "workers", "threads", "engine", "force", "retry_failed")


def _exploring(item: Item, request: Request) -> list[StudyTable]:
    file = request.folder / item.name / "results.jsonl"
    if request.show:
        records = explorers.explored(file)
    else:
        missing = _missing(item, explorers.DATASETS, request)
        seeds, steps = (1, 10) if request.quick else (request.seeds or 3, _EXPLORER_STEPS)
        there = [name for name in explorers.DATASETS if name not in missing]
        wanted = explorers.cases(there, seeds, steps)
        wanted += explorers.long_cases(there, seeds, 20 if request.quick else explorers.LONG)
        with _resumable(), progress_bar("exploring", len(wanted), unit="cases") as told:
            records = explorers.explore_all(wanted, file, request.data_dir, told)
    return report.write_exploring(item, records, request.folder) if records else []


def _theory(item: Item, request: Request) -> list[StudyTable]:
    file = request.folder / item.name / "results.json"
    if request.show:
        if not file.is_file():
            _note(f"{item.name}: not in {request.folder}; run it without --show.")
            return []
        return report.write_theory(item, shown_theory(file), request.folder)
    betas = QUICK_BETAS if request.quick else BETAS
    with _resumable(), progress_bar("theory", len(CASES), unit="cases") as told:
        records = run_theory(file, betas, force=request.force, report=told)
    return report.write_theory(item, records, request.folder)


def _shift(item: Item, request: Request) -> list[StudyTable]:
    file = request.folder / item.name / "results.jsonl"
    if request.show:
        if not file.is_file():
            _note(f"{item.name}: not in {request.folder}; run it without --show.")
            return []
        return report.write_shift(item, shown_shift(file), request.folder)
    draws, halvings = (1, 0) if request.quick else (request.data_seeds or DRAWS, HALVINGS)
    total = sum(1 for _ in shift_cases(request.data_dir, draws=draws, halvings=halvings))
    with _resumable(), progress_bar("shift", total, unit="comparisons") as told:
        size = {"draws": draws, "halvings": halvings}
        records = run_shift(file, request.data_dir, **size, force=request.force, report=told)
    return report.write_shift(item, records, request.folder)


def _choosing(item: Item, request: Request) -> list[StudyTable]:
    file = request.folder / item.name / "results.jsonl"
    if request.show:
        if not file.is_file():
            _note(f"{item.name}: not in {request.folder}; run it without --show.")
            return []
        return report.write_choosing(item, shown_choosing(file), request.folder)
    wanted = choosing_cases(request.data_seeds or 1, quick=request.quick)
    with _resumable(), progress_bar("choosing", len(wanted), unit="cases") as told:
        records = run_choosing(file, wanted, request.data_dir, force=request.force, report=told)
    return report.write_choosing(item, records, request.folder)


def _strangers(item: Item, request: Request) -> list[StudyTable]:
    file = request.folder / item.name / "results.jsonl"
    if request.show:
        if not file.is_file():
            _note(f"{item.name}: not in {request.folder}; run it without --show.")
            return []
        return report.write_strangers(item, shown_strangers(file), request.folder)
    wanted = stranger_cases(request.data_seeds or 1, quick=request.quick)
    workers = 1 if request.workers is None else request.workers
    with _resumable(), progress_bar("strangers", len(wanted), unit="cases") as told:
        how: dict[str, Any] = {"workers": workers, "force": request.force, "report": told}
        records = run_strangers(file, wanted, request.data_dir, **how)
    return report.write_strangers(item, records, request.folder)


def _trust(item: Item, request: Request) -> list[StudyTable]:
    file = request.folder / item.name / "results.jsonl"
    if request.show:
        if not file.is_file():
            _note(f"{item.name}: not in {request.folder}; run it without --show.")
            return []
        return report.write_trust(item, shown_trust(file), request.folder)
    wanted = trust_cases(request.data_dir, draws=request.data_seeds or 3, nodes=None)
    how: dict[str, Any] = {}
    if request.quick:
        wanted, how = trust_cases(None, draws=1, nodes=200), {"epochs": 5, "flipped": 2}
    with _resumable(), progress_bar("trust", len(wanted), unit="fits") as told:
        records = run_trust(file, wanted, **how, force=request.force, report=told)
    return report.write_trust(item, records, request.folder)


def _estimate(item: Item, request: Request) -> list[StudyTable]:
    folder = request.folder / item.name
    if request.show:
        if not (folder / "results.jsonl").is_file():
            _note(f"{item.name}: not in {request.folder}; run it without --show.")
            return []
        return report.write_estimate(item, shown_estimate(folder / "results.jsonl"), request.folder)
    _missing(item, dict.fromkeys(case.dataset for case in estimate_cases(quick=request.quick)), request)
    total = sum(1 for _ in estimate_wanted(request.data_dir, quick=request.quick))
    with _resumable(), progress_bar("estimate", total, unit="cases") as told:
        how: dict[str, Any] = {"quick": request.quick, "force": request.force, "report": told}
        records = run_estimate(folder, request.data_dir, **how)
    return report.write_estimate(item, records, request.folder)


def _missing(item: Item, datasets: Iterable[str], request: Request) -> set[str]:
    """The datasets that are not on this machine; a note for each."""
    missing = {name: why for name in dict.fromkeys(datasets) if (why := absent(name, request.data_dir))}
    for why in missing.values():
        _note(f"{item.name}: skipped: {why}.")
    return set(missing)


def _command() -> list[str]:
    return ["graphshift", *sys.argv[1:]]


@contextmanager
def _resumable() -> Iterator[None]:
    """Ctrl-C says how to continue."""
    try:
        yield
    except KeyboardInterrupt as error:
        again = shlex.join(word for word in _command() if word != "--force")  # which would start anew
        raise Interrupted(f"{str(error) or 'stopped; what is done is kept.'} Continue with: {again}") from None


def _note(text: str) -> None:
    print(f"graphshift: note: {text}", file=sys.stderr)
