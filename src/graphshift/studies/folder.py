"""A study's folder: the plan that it holds, and who may write there."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_json, write_json
from graphshift.estimators.settings import validated
from graphshift.studies.facts import Facts
from graphshift.studies.jobs import Agenda
from graphshift.studies.plan import Plan

#: Of the files of a study; a later one will be told apart by it.
FORMAT = 1

#: All that a study writes; anything else in its folder is left alone.
_OURS = (
    "plan.json",
    "results.jsonl",
    "provenance.json",
    "summary.json",
    "table.txt",
    "table.md",
    "table.tex",
    "table.csv",
    "figures",
    "report.html",
)


def plan_json(plan: Plan, facts: Facts, agenda: Agenda) -> dict[str, Any]:
    """The plan with everything that follows from it: complete settings, every trial, every seed."""
    arms = []
    for arm in plan.arms:
        baseline = facts.baseline(plan, arm)
        arms.append(
            {
                "name": arm.name,
                "settings": dict(arm.settings),
                "space": {name: list(values) for name, values in (arm.space or {}).items()},
                "baseline": None if baseline is None else baseline.name,
                "complete": facts.settings(arm).model_dump(exclude={"seed", "selection"}),
                "trials": [
                    {"trial": trial.number, "seed": trial.seed, "settings": dict(trial.settings)}
                    for trial in agenda.trials[arm.name]
                ],
            }
        )
    content = {
        "format": FORMAT,
        "version": __version__,
        "dataset": plan.dataset,
        "options": plan.public_options(),
        "data": {"metric": facts.metric, "data_seed": facts.data_seed} | dict(facts.shapes),
        "arms": arms,
        "seeds": list(plan.seeds),
        "data_seeds": None if plan.data_seeds is None else list(plan.data_seeds),
        "crossed": plan.crossed,
        "trials": plan.trials,
        "selections": list(plan.selections),
        "in_domain": plan.in_domain,
    }
    if plan.repeats != 1:  # not in the plans of earlier versions, which knew no other
        content["repeats"] = plan.repeats
    if plan.adapt:
        content["adapt"] = list(plan.adapt)
    if plan.ensemble != 1:
        content["ensemble"] = plan.ensemble
    as_read_back: dict[str, Any] = json.loads(json.dumps(content, default=str))
    return as_read_back


def open_folder(folder: Path, plan: Mapping[str, Any], *, force: bool) -> None:
    """Makes the folder ready for a plan: the same plan goes on, another is refused or, if forced, replaced."""
    try:
        there = list(folder.iterdir()) if folder.exists() else []
        for path in filter(_is_leftover, there):
            path.unlink()
        names = {path.name for path in there if not _is_leftover(path)}
    except OSError as error:
        raise GraphshiftError(f"{folder}: cannot be read: {error.strerror}.") from None
    if names and not force:
        if "plan.json" not in names:
            raise GraphshiftError(
                f"{folder}: exists, is not empty and holds no study; nothing was changed. Choose another --out, or add "
                "a study to what is there (--force)."
            )
        if differing := _differences(read_json(folder / "plan.json"), plan):
            raise GraphshiftError(
                f"{folder}: holds another study: {'; '.join(differing)}. Give the same options to go on with it, "
                "replace it (--force), or choose another --out."
            )
        return
    for name in _OURS:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    write_json(folder / "plan.json", plan)


def _is_leftover(path: Path) -> bool:
    """A half-written file that a killed study left (see ``storage``)."""
    return path.name.startswith(tuple(f".{name}." for name in _OURS)) and path.name.endswith(".tmp")


def _differences(there: Any, here: Mapping[str, Any]) -> list[str]:
    """Which fields differ, and how, where that can be said in a line."""
    if not isinstance(there, dict):
        return ["its plan.json is damaged"]
    found = []
    for name in here:
        old, new = there.get(name), here[name]
        if old == new:
            continue
        if name == "arms" and isinstance(old, list):
            found += _arm_differences(old, new)
        elif name == "data":
            found += [] if _same(old, new) else ["the data are not the same (plan.json, field `data`)"]
        else:
            found.append(f"{name} is {old!r} there and {new!r} here")
    return found


def _same(there: Any, here: Any) -> bool:
    """Whether data are the same, but for rounding; what an earlier version did not write down is left aside."""
    if isinstance(here, dict):
        return isinstance(there, dict) and all(_same(there[name], here[name]) for name in here if name in there)
    if isinstance(here, list):
        return isinstance(there, list) and len(there) == len(here) and all(map(_same, there, here))
    if isinstance(here, float) and isinstance(there, int | float):
        return math.isclose(there, here, rel_tol=1e-6)
    return bool(there == here)


def _defaults(names: Iterable[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of settings that are not known yet."""
    empty = validated({}).model_dump()
    return {name: empty[name] for name in names if name not in known}


def _arm_differences(there: list[Any], here: list[dict[str, Any]]) -> list[str]:
    names = [arm.get("name") for arm in there if isinstance(arm, dict)], [arm["name"] for arm in here]
    if names[0] != names[1]:
        return [f"its arms are {names[0]} and here they are {names[1]}"]
    found = []
    for old, new in zip(there, here, strict=True):
        if isinstance(old.get("complete"), dict):  # settings that graphshift has gained since then had no effect
            old = {**old, "complete": {**_defaults(new["complete"], old["complete"]), **old["complete"]}}
        fields = [field for field in new if old.get(field) != new[field]]
        if fields:
            field = fields[0]
            changed = f"arm {new['name']!r} has another {field}"
            if isinstance(new[field], dict) and isinstance(old.get(field), dict):
                keys = [k for k in {**old[field], **new[field]} if old[field].get(k) != new[field].get(k)]
                changed += f" ({keys[0]} is {old[field].get(keys[0])!r} there and {new[field].get(keys[0])!r} here)"
            found.append(changed)
    return found
