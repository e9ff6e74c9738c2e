"""Runs items: their studies, each in its own folder, and what needs no training. What cannot be run says why."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from graphshift.core.errors import GraphshiftWarning
from graphshift.core.ledger import Ledger
from graphshift.core.storage import read_json
from graphshift.datasets import DATASETS
from graphshift.datasets.reading.files import data_directory
from graphshift.lab.paper.experiments import EXPERIMENTS, Experiment
from graphshift.lab.paper.items import Item
from graphshift.lab.paper.settings import Size, plan_of
from graphshift.studies import Record, Row, Summary, rows_of, run_study


@dataclass(frozen=True)
class Tried:
    """What tuning tried for an arm.

    Attributes:
        scores: on validation, of each setting that did not fail, the mean over tuning seeds.
        sizes: how many values each tuned setting has.
    """

    scores: list[float]
    sizes: list[int]


@dataclass(frozen=True)
class Finished:
    """A study of an experiment that was run to its end, as its folder holds it.

    Attributes:
        experiment: of which.
        setting: in which.
        summary: of the study.
        by_rule: its final runs by rule.
        tried: the trials of tuning, by arm.
        remarks: in what the folder's plan is not today's, and where explorers have a bounded policy.
    """

    experiment: Experiment
    setting: str
    summary: Summary
    by_rule: Mapping[str, list[Row]] = field(repr=False)
    remarks: tuple[str, ...] = ()
    tried: Mapping[str, Tried] = field(repr=False, default_factory=dict)

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
    progress: bool = True,
    report: Callable[[Any, Path], Any] | None = None,
    **how: Any,
) -> Finished:
    """Runs an experiment in a setting, or what is left of it.

    Args:
        experiment, setting, size, data_dir: what :func:`plan_of` takes.
        folder: the study's folder will be ``folder/EXPERIMENT/SETTING``.
        report: called with the study and its folder.
        progress, how: what :func:`~graphshift.studies.run_study` takes.
    """
    place = folder / experiment.name / setting
    with quiet():
        study = run_study(plan_of(experiment, setting, size, data_dir), place, progress=progress, **how)
    if report is not None:
        report(study, place)
    rules = [entry.rule for entry in study.summary.selections]
    by_rule = {rule: study.rows(rule) for rule in rules}
    remarks, tried = _remarks(experiment, setting, place), _tried(study.records, place)
    return Finished(experiment, setting, study.summary, by_rule, remarks, tried)


def finished(experiment: Experiment, setting: str, folder: Path) -> Finished | None:
    """What an earlier run left; None where there is none, or where it did not come to its end."""
    place = folder / experiment.name / setting
    read = read_study(place)
    if read is None:
        return None
    summary, by_rule, records = read
    return Finished(experiment, setting, summary, by_rule, _remarks(experiment, setting, place), _tried(records, place))


def read_study(place: Path) -> tuple[Summary, dict[str, list[Row]], list[Record]] | None:
    """A study's summary, its final runs by rule, and all its records; None where it did not come to its end."""
    if not (place / "summary.json").is_file():
        return None
    summary = Summary.from_json(read_json(place / "summary.json"), where=f"{place / 'summary.json'}: ")
    records = list(Ledger(Record, place / "results.jsonl").records.values())
    by_rule = {}
    for rule in (entry.rule for entry in summary.selections):
        chosen = {arm.arm: arm.chosen or {} for arm in summary.arms if arm.selection == rule}
        # The ledger also has runs of what tuning chose before failed trials were run again: no part of the study.
        by_rule[rule] = rows_of([r for r in records if r.kind == "run" and r.tuned == chosen.get(r.arm)], rule)
    return summary, by_rule, records


def _tried(records: Iterable[Record], place: Path) -> dict[str, Tried]:
    spaces = {arm["name"]: arm.get("space") or {} for arm in read_json(place / "plan.json")["arms"]}
    scores: dict[str, dict[str, list[float]]] = {}
    for record in records:
        score = record.selections["val"].score if record.ok and "val" in record.selections else None
        if record.kind == "trial" and score is not None:
            scores.setdefault(record.arm, {}).setdefault(repr(sorted(record.tuned.items())), []).append(score)
    return {
        arm: Tried([fmean(each) for each in own.values()], [len(values) for values in spaces[arm].values()])
        for arm, own in scores.items()
        if arm in spaces
    }


def _remarks(experiment: Experiment, setting: str, place: Path) -> tuple[str, ...]:
    """What a reader has to know of a folder's plan: an approximation, and what has changed since it was run."""
    there, today = read_json(place / "plan.json"), plan_of(experiment, setting, Size())
    arms = {arm["name"]: dict(arm["settings"]) for arm in there["arms"]}
    found = []
    bounded = [name for name, own in arms.items() if _is_bounded(own)]
    if bounded:
        found.append(
            f"{_names(bounded)}: explorers remember 64 columns of a node, an approximation of the paper's policy"
        )
    spaces = {arm["name"]: _listed(arm.get("space")) for arm in there["arms"]}
    changed = {arm.name: _changed(arms[arm.name], arm.settings) for arm in today.arms if arm.name in arms}
    for arm in today.arms:
        if arm.name in arms:
            changed[arm.name] += [f"a search of {c}" for c in _changed(spaces[arm.name], _listed(arm.space))]
    by_change: dict[str, list[str]] = {}
    for name, changes in changed.items():
        for change in changes:
            by_change.setdefault(change, []).append(name)
    for change, names in by_change.items():
        who = "every arm" if len(names) == len(arms) else _names(names)
        found.append(f"{who}: run before the setting had {change}")
    data = _changed(there["options"], today.options)
    return (*found, *(f"run before the data had {change}" for change in data))


def _is_bounded(settings: Mapping[str, Any]) -> bool:
    """Whether an arm's explorers learn by a policy that forgets; one that is reset at every epoch is never full."""
    learns = settings["method"] == "eerm" and settings.get("explorer", "reinforce") == "reinforce"
    kept = settings.get("explorer_options", {}).get("entries_per_node", 64)
    return learns and not settings.get("reset_explorers") and kept is not None


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    old = _FORMER | {_RENAMED.get(name, name): value for name, value in old.items()}
    return [f"{name}={value}" for name, value in new.items() if old.get(name) != value and name != "explorer_options"]


def _listed(space: Mapping[str, Any] | None) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in (space or {}).items()}


def _names(arms: Sequence[str]) -> str:
    return " and ".join(arms)


#: What was done before there was a choice.
_FORMER: dict[str, Any] = {"version": 1, "reward_variance": "pooled"}

#: Settings that had another name when committed results were made.
_RENAMED = {"explorers": "views"}


@contextmanager
def quiet() -> Iterator[None]:
    """Draws that are degenerate are part of the experiment; they are counted, not warned of one by one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        yield
