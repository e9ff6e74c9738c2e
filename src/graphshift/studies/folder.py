"""A study's folder: the plan that it holds, and who may write there."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphshift._version import __version__
from graphshift.core import folders
from graphshift.core.errors import GraphshiftError
from graphshift.core.folders import OwnedFolder
from graphshift.core.parsing import checked_note
from graphshift.estimators import recorded_estimator
from graphshift.studies.jobs import Schedule
from graphshift.studies.notes import PlanNote

#: Version of the files of a study.
FORMAT = 1

#: All that a study writes beside ``plan.json``; anything else in its folder is left alone.
_TABLES = ("table.txt", "table.md", "table.tex", "table.csv")
_FILES = ("results.jsonl", "provenance.json", "summary.json", "recommendation.json", *_TABLES, "figures", "report.html")

#: The folder inside a recommendation's that holds the study of its blend.
BLEND = "blend"


def study_folder(path: Path) -> OwnedFolder:
    """The folder of a study."""
    return OwnedFolder(path, "plan.json", _FILES, members=BLEND)


def plan_json(schedule: Schedule) -> dict[str, Any]:
    """The plan with everything that follows from it: complete settings, every trial, every seed."""
    plan, arms = schedule.plan, []
    for arm in plan.arms:
        baseline, trials = plan.baseline(arm), schedule.trials[arm.name]
        space = {name: list(values) for name, values in (arm.space or {}).items()}
        own: dict[str, Any] = {"name": arm.name, "settings": dict(arm.settings), "space": space}
        own |= {"baseline": baseline and baseline.name, "complete": _without_draws(plan.settings(arm))}
        own |= {"joins": True} if arm.joins else {}
        own["trials"] = [{"trial": t.number, "seed": t.seed, "settings": dict(t.settings)} for t in trials]
        arms.append(own)
    content = {"format": FORMAT, "version": __version__, "dataset": plan.dataset, "options": plan.public_options()}
    content["data"] = {"metric": plan.metric, "data_seed": plan.own_data_seed, **plan.shapes}
    content["arms"] = arms
    same = ("seeds", "data_seeds", "crossed", "trials", "selections", "in_domain")
    content |= {name: getattr(plan, name) for name in same}
    # Not in the plans of earlier versions, which knew no other than the default.
    later = {"repeats": 1, "adapt": (), "ensemble": 1, "leave_out": 0, "resample": False, "expect": False}
    content |= {name: getattr(plan, name) for name, default in later.items() if getattr(plan, name) != default}
    as_read_back: dict[str, Any] = json.loads(json.dumps(content, default=str))
    return as_read_back


def _without_draws(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that differ between an arm's runs."""
    return {name: value for name, value in settings.items() if name not in ("seed", "selection")}


def open_folder(folder: OwnedFolder, plan: Mapping[str, Any], *, force: bool) -> None:
    """Makes the folder ready for a plan: the same plan is resumed, another is refused or, if forced, replaced."""
    if not folder.is_occupied() or force:
        folder.replace(plan)
        return
    if (there := folder.read()) is None:
        raise GraphshiftError(
            f"{folder.path}: exists, is not empty and holds no study; nothing was changed. Choose another --out, or "
            "add a study to what is there (--force)."
        )
    checked_note(PlanNote, there, where=str(folder.path / folder.configuration))
    if differing := differences(there, plan):
        raise GraphshiftError(
            f"{folder.path}: holds another study: {'; '.join(differing)}. Give the same options to resume it, replace "
            "it (--force), or choose another --out."
        )
    folder.remove_leftovers()


def differences(there: Any, here: Mapping[str, Any]) -> list[str]:
    """Which fields of two plans differ, and how. Fields that earlier versions did not write are left aside."""
    if not isinstance(there, dict):
        return ["its plan.json is damaged"]
    found = []
    for name in here:
        old, new = there.get(name), here[name]
        if name == "arms" and isinstance(old, list):
            found += _arm_differences(old, new)
        elif name == "data":
            found += [] if _same(old, new) else ["the data are not the same (plan.json, field `data`)"]
        else:
            found += folders.differences({name: old}, {name: new}, where="its plan.json")
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


def _arm_differences(there: list[Any], here: list[dict[str, Any]]) -> list[str]:
    names = [arm.get("name") for arm in there if isinstance(arm, dict)], [arm["name"] for arm in here]
    if names[0] != names[1]:
        return [f"its arms are {names[0]} and here they are {names[1]}"]
    found = []
    for old, new in zip(there, here, strict=True):
        if isinstance(old.get("complete"), dict):  # earlier versions wrote down the settings of all methods
            old = {**old, "complete": _without_draws(recorded_estimator(old["complete"]).settings())}
        fields = [field for field in new if old.get(field) != new[field]]
        if fields:
            field = fields[0]
            changed = f"arm {new['name']!r} has another {field}"
            if isinstance(new[field], dict) and isinstance(old.get(field), dict):
                keys = [k for k in {**old[field], **new[field]} if old[field].get(k) != new[field].get(k)]
                changed += f" ({keys[0]} is {old[field].get(keys[0])!r} there and {new[field].get(keys[0])!r} here)"
            found.append(changed)
    return found
