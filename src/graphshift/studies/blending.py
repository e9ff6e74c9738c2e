"""The blends that ``recommend`` tries last: the mean of a linear model, of trees, and of what looks at neighbours."""

from collections.abc import Mapping
from typing import Any

from graphshift.methods.columns import WITHOUT_EDGES
from graphshift.studies.choosing import Candidate, ranked, rule_of
from graphshift.studies.plan import Arm, Plan
from graphshift.studies.running import Study

#: The best of each is a member. They err in different places.
FAMILIES = ("linear", "trees", "others")


def family_of(settings: Mapping[str, Any]) -> str | None:
    """The family of a candidate; None for one that is in no blend."""
    method, plain = settings["method"], settings.get("columns", "plain") in WITHOUT_EDGES
    known = {"logistic": "linear", "forest": "trees", "boosting": "trees"}
    if method in known:
        return known[method] if plain else "others"
    return "others" if method in ("erm", "eerm") else None


def blend_plan(study: Study) -> Plan | str:
    """One more arm or two, in the places of a finished comparison; or why there is none.

    An arm joins the best of each of :data:`FAMILIES`, each with the settings that tuning chose for it; another those of
    them that learn from a node's own columns alone.
    """
    plan, rule = study.plan, rule_of(study, "val")
    found = ranked(study, "val")
    joined = [one for family in FAMILIES if (one := _best(study, found, family)) is not None]
    if len(joined) < 2:
        return "fewer than two models finished that could be blended"
    groups = [joined, *([joined[:-1]] if len(joined) == len(FAMILIES) else [])]
    arms = [
        Arm(
            f"Blend ({' with '.join(one.arm for one in group)})",
            {"method": "blend", "members": [chosen_settings(study, one.arm, rule) for one in group]},
        )
        for group in groups
    ]
    dataset: Any = plan.dataset if plan.data is None else plan.data
    scored: dict[str, Any] = {
        "selections": (rule,),
        "adapt": plan.adapt,
        "resample": plan.resample,
        "expect": plan.expect,
    }
    return Plan(dataset, arms, plan.seeds, plan.options, trials=0, leave_out=plan.leave_out, **scored)


def chosen_settings(study: Study, arm: str, rule: str) -> dict[str, Any]:
    """The settings of an arm and those that tuning chose by a rule."""
    entry = next(one for one in study.summary.arms if (one.arm, one.selection) == (arm, rule))
    return {**study.plan.arm(arm).settings, **(entry.chosen or {})}


def _best(study: Study, found: list[Candidate], family: str) -> Candidate | None:
    plan = study.plan
    return next((one for one in found if family_of(plan.arm(one.arm).settings) == family), None)
