"""Items whose results are one file of records: how many there are to make, how they are made, read and shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from graphshift.core.progress import progress_bar
from graphshift.lab.batches import running as batches
from graphshift.lab.choosing import running as choosing
from graphshift.lab.estimate import cases as estimated
from graphshift.lab.estimate import running as estimate
from graphshift.lab.ledger import Case, records_of, run_cases
from graphshift.lab.paper import Item, exploring
from graphshift.lab.reproduce import report
from graphshift.lab.reproduce.request import Request, not_here, note, resumable
from graphshift.lab.shift import running as shift
from graphshift.lab.strangers import running as strangers
from graphshift.lab.theory import running as theory
from graphshift.lab.theory.cases import BETAS, CASES, QUICK_BETAS
from graphshift.lab.trust import running as trust
from graphshift.report.study_tables import StudyTable

Told = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Work:
    """Records to make.

    Attributes:
        total: how many steps the progress bar has.
        run: makes those that the file lacks, tells each step, and returns all.
    """

    total: int
    run: Callable[[Told], Any]


@dataclass(frozen=True)
class LedgerItem:
    """An experiment with one file of records.

    Attributes:
        work: of the item, its file and the request what there is to do.
        write: tables and figures of the records.
        shown: the records of a file; None where it has a JSON line for each case.
        unit: of the progress bar.
        file: the name of the file.
    """

    work: Callable[[Item, Path, Request], Work]
    write: Callable[[Item, Any, Path], list[StudyTable]]
    shown: Callable[[Path], Any] | None = None
    unit: str = "cases"
    file: str = "results.jsonl"


def run_ledger(item: Item, request: Request) -> list[StudyTable]:
    """Makes the records that are missing, or with ``--show`` none; then the tables."""
    one = LEDGERS[item.name]
    file = request.folder / item.name / one.file
    if request.show:
        if not file.is_file():
            note(f"{item.name}: not in {request.folder}; run it without --show.")
            return []
        shown = records_of(file, item.name) if one.shown is None else one.shown(file)
        return one.write(item, shown, request.folder)
    work = one.work(item, file, request)
    with resumable(), progress_bar(item.name, work.total, unit=one.unit) as told:
        records = work.run(told)
    return one.write(item, records, request.folder) if records else []


def _exploring(item: Item, file: Path, request: Request) -> Work:
    gone = not_here(item, exploring.DATASETS, request)
    there = [name for name in exploring.DATASETS if name not in gone]
    seeds, steps = (1, 10) if request.quick else (request.seeds or 3, exploring.STEPS)
    wanted = exploring.cases(there, seeds, steps)
    wanted += exploring.long_cases(there, seeds, 20 if request.quick else exploring.LONG)
    return Work(len(wanted), lambda told: exploring.explore_all(wanted, file, request.data_dir, told))


def _theory(item: Item, file: Path, request: Request) -> Work:
    betas = QUICK_BETAS if request.quick else BETAS
    return Work(len(CASES), lambda told: theory.run_theory(file, betas, force=request.force, report=told))


def _cases(
    item: Item, file: Path, request: Request, wanted: Sequence[Case], measure: Callable[[Case], dict[str, Any] | None]
) -> Work:
    """A JSON line for each case."""
    how: dict[str, Any] = {"force": request.force}
    return Work(len(wanted), lambda told: run_cases(file, item.name, wanted, measure, **how, report=told))


def _shift(item: Item, file: Path, request: Request) -> Work:
    draws, halvings = (1, 0) if request.quick else (request.data_seeds or shift.DRAWS, shift.HALVINGS)
    wanted = list(shift.cases(request.data_dir, draws=draws, halvings=halvings))
    return _cases(item, file, request, wanted, shift.record_of)


def _choosing(item: Item, file: Path, request: Request) -> Work:
    wanted = choosing.cases(request.data_seeds or 1, quick=request.quick)
    return _cases(item, file, request, wanted, partial(choosing.record_of, data_dir=request.data_dir))


def _batches(item: Item, file: Path, request: Request) -> Work:
    wanted = batches.cases(request.seeds or (1 if request.quick else 5), quick=request.quick)
    return _cases(item, file, request, wanted, partial(batches.record_of, data_dir=request.data_dir))


def _strangers(item: Item, file: Path, request: Request) -> Work:
    some = {} if request.budget is None else {"budget": request.budget}
    wanted = strangers.cases(request.data_seeds or 1, names=request.experiments, quick=request.quick, **some)
    workers = 1 if request.workers is None else request.workers
    measure = partial(strangers.record_of, data_dir=request.data_dir, workers=workers)
    return _cases(item, file, request, wanted, measure)


def _trust(item: Item, file: Path, request: Request) -> Work:
    if request.quick:
        small = trust.cases(None, draws=1, nodes=200)
        return _cases(item, file, request, small, partial(trust.record_of, epochs=5, flipped=2))
    return _cases(item, file, request, trust.cases(request.data_dir, draws=request.data_seeds or 3), trust.record_of)


def _estimate(item: Item, file: Path, request: Request) -> Work:
    not_here(item, dict.fromkeys(case.dataset for case in estimated.cases(quick=request.quick)), request)
    total = sum(1 for _ in estimate.wanted(request.data_dir, quick=request.quick))
    how: dict[str, Any] = {"quick": request.quick, "force": request.force}
    return Work(total, lambda told: estimate.run_estimate(file.parent, request.data_dir, **how, report=told))


#: By the item's name.
LEDGERS = {
    "theory": LedgerItem(_theory, report.write_theory, theory.shown_theory, file="results.json"),
    "exploring": LedgerItem(_exploring, report.write_exploring, exploring.explored),
    "shift": LedgerItem(_shift, report.write_shift, unit="comparisons"),
    "estimate": LedgerItem(_estimate, report.write_estimate, estimate.shown_estimate),
    "batches": LedgerItem(_batches, report.write_batches, unit="fits"),
    "choosing": LedgerItem(_choosing, report.write_choosing),
    "trust": LedgerItem(_trust, report.write_trust, unit="fits"),
    "strangers": LedgerItem(_strangers, report.write_strangers),
}
