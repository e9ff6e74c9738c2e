"""Runs items: their studies, each in its own folder, and what needs no training. What cannot be run says why."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftWarning
from graphshift.core.storage import read_json
from graphshift.datasets import DATASETS
from graphshift.datasets.reading.files import data_directory
from graphshift.lab.paper.experiments import EXPERIMENTS, Experiment
from graphshift.lab.paper.items import Item
from graphshift.lab.paper.settings import Size, plan_of
from graphshift.studies import Record, Row, Summary, rows_of, run_study
from graphshift.studies.ledger import Ledger


@dataclass(frozen=True)
class Finished:
    """A study of an experiment that was run to its end, as its folder holds it.

    Attributes:
        experiment: of which.
        setting: in which.
        summary: of the study.
        by_rule: its final runs by rule.
    """

    experiment: Experiment
    setting: str
    summary: Summary
    by_rule: Mapping[str, list[Row]] = field(repr=False)

    @property
    def rows(self) -> list[Row]:
        """Its final runs, as the rule ``val`` sees them."""
        return self.by_rule["val"]

    @property
    def arms(self) -> list[str]:
        """The names of its arms, in order."""
        return [arm.arm for arm in self.summary.arms]

    def of(self, arm: str) -> list[Row]:
        """The final runs of an arm."""
        return [row for row in self.rows if row.arm == arm]


def settings_of(item: Item, chosen: Sequence[str] | None) -> list[tuple[Experiment, str]]:
    """The studies that an item shows: each of its experiments in each setting that was asked for and that it has."""
    found = [(EXPERIMENTS[e], s) for s in item.settings for e in item.experiments if s in EXPERIMENTS[e].settings]
    return [(e, s) for e, s in found if chosen is None or s in chosen]


def absent(dataset: str, data_dir: Path | None) -> str | None:
    """Why a dataset cannot be had on this machine; None if it can."""
    folder, about = data_directory(data_dir), DATASETS[dataset]
    needed = about.sources if about.needed is None else about.needed
    missing = [source.path for source in needed if not (folder / source.path).is_file()]
    if not missing:
        return None
    return (
        f"{len(missing)} of {len(needed)} files of {dataset} are not in {folder} "
        f"(as {missing[0]}); "
        f"`graphshift data fetch {dataset}` gets them or says where they are"
    )


def run_experiment(
    experiment: Experiment,
    setting: str,
    folder: Path,
    size: Size,
    *,
    data_dir: Path | None = None,
    workers: int = 1,
    threads: int | None = None,
    force: bool = False,
    retry_failed: bool = False,
    progress: bool = True,
    command: Sequence[str] = (),
    report: Callable[[Any, Path], Any] | None = None,
) -> Finished:
    """Runs an experiment in a setting, or what is left of it.

    Args:
        experiment, setting, size, data_dir: what :func:`plan_of` takes.
        folder: the study's folder will be ``folder/EXPERIMENT/SETTING``.
        workers, threads, force, retry_failed, progress, command: what :func:`~graphshift.studies.run_study` takes.
        report: called with the study and its folder.
    """
    place = folder / experiment.name / setting
    with quiet():
        study = run_study(
            plan_of(experiment, setting, size, data_dir),
            place,
            workers=workers,
            threads=threads,
            force=force,
            retry_failed=retry_failed,
            progress=progress,
            command=command,
        )
    if report is not None:
        report(study, place)
    rules = [entry.rule for entry in study.summary.selections]
    return Finished(experiment, setting, study.summary, {rule: study.rows(rule) for rule in rules})


def finished(experiment: Experiment, setting: str, folder: Path) -> Finished | None:
    """What an earlier run left; None where there is none, or where it did not come to its end."""
    place = folder / experiment.name / setting
    if not (place / "summary.json").is_file():
        return None
    summary = Summary.from_json(read_json(place / "summary.json"), where=f"{place / 'summary.json'}: ")
    records = Ledger(Record, place / "results.jsonl").records.values()
    by_rule = {}
    for rule in (entry.rule for entry in summary.selections):
        chosen = {arm.arm: arm.chosen or {} for arm in summary.arms if arm.selection == rule}
        # The ledger also has runs of what tuning chose before failed trials were run again: no part of the study.
        by_rule[rule] = rows_of([r for r in records if r.kind == "run" and r.tuned == chosen.get(r.arm)], rule)
    return Finished(experiment, setting, summary, by_rule)


@contextmanager
def quiet() -> Iterator[None]:
    """Draws that are degenerate are part of the experiment; they are counted, not warned of one by one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        yield
