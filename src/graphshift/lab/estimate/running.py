"""Fits the models of every case, and asks each what it will score on every test: one JSON line for each model."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftWarning
from graphshift.core.storage import write_text
from graphshift.data.dataset import ShiftDataset
from graphshift.estimators.base import Estimator
from graphshift.estimators.loading import load_model
from graphshift.lab.estimate.cases import Case, cases
from graphshift.lab.ledger import records_of
from graphshift.lab.paper.reproducing import absent
from graphshift.shift.estimating import estimate_score

Record = dict[str, Any]


def wanted(data_dir: Path | None, *, quick: bool = False) -> Iterator[Case]:
    """The cases whose files are on this machine."""
    return (case for case in cases(quick=quick) if absent(case.dataset, data_dir) is None)


def run_estimate(
    folder: Path,
    data_dir: Path | None,
    *,
    quick: bool = False,
    force: bool = False,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> list[Record]:
    """The records of all models; those that the ledger has are not made again.

    Args:
        folder: of the ledger ``results.jsonl``; models are kept in ``models`` and not fitted again either.
        data_dir: where the raw files of datasets are; datasets that are not there are left out.
        quick: one small case.
        force: begin a new ledger; models stay.
        report: called with the number of cases done, as ``{"epoch": 3}``.
    """
    ledger = folder / "results.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    if force:
        ledger.unlink(missing_ok=True)
    known = {(r["case"], r["arm"]): r for r in shown_estimate(ledger)} if ledger.is_file() else {}
    if ledger.is_file():  # without a last line that was torn
        write_text(ledger, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in known.values()))
    found = []
    for done, case in enumerate(wanted(data_dir, quick=quick)):
        if report is not None:
            report({"epoch": done})
        missing = [arm for arm in case.arms if (case.name, arm) not in known]
        if missing:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GraphshiftWarning)
                for record in _measured(case, missing, folder / "models", data_dir):
                    known[case.name, record["arm"]] = record
                    with open(ledger, "a", encoding="utf-8") as stream:
                        stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        found += [known[case.name, arm] for arm in case.arms]
    return found


def shown_estimate(ledger: Path) -> list[Record]:
    """The records of a ledger."""
    return records_of(ledger, "estimate")


def _measured(case: Case, missing: Sequence[str], folder: Path, data_dir: Path | None) -> Iterator[Record]:
    data = case.load(data_dir)
    models = {arm: _fitted(case, arm, data, folder / f"{case.name}, {arm}") for arm in case.arms}
    for arm in missing:
        model = models[arm]
        others = [other for name, other in models.items() if name != arm]
        truth: dict[str, float] = {e.name: model.score(e) for e in data.tests}
        found = estimate_score(model, data.tests, data.val, committee=others)
        assert isinstance(found, dict)  # of several graphs
        tests = []
        for e in data.tests:
            one = found[e.name]
            by = {name: round(value, 5) for name, value in one.by.items()}
            about = {"test": e.name, "nodes": e.counted.numel(), "truth": round(truth[e.name], 5)}
            tests.append(about | {"by": by, "reach": round(one.reach, 4), "untold": round(one.untold, 4)})
        held = round(next(iter(found.values())).held_out, 5)
        yield {
            "case": case.name, "dataset": case.dataset, "arm": arm, "metric": model.task_.metric, "held_out": held,
            "tests": tests,
        }  # fmt: skip


def _fitted(case: Case, arm: str, data: ShiftDataset, folder: Path) -> Estimator:
    """The model of an arm: from its folder, or fitted and put there."""
    if (folder / "model.json").is_file():
        model = load_model(folder)
        assert isinstance(model, Estimator)
        return model
    made = case.model(arm).fit(data)
    made.save(folder)
    return made


def pairs_of(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One record for each model and test, with the facts of both."""
    return [
        {**{name: value for name, value in record.items() if name != "tests"}, **test}
        for record in records
        for test in record["tests"]
    ]
