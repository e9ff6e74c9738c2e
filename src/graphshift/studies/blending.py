"""The blends that ``recommend`` tries last: the models of a comparison that are close to the best, averaged."""

from typing import Any

from graphshift.studies.choosing import Candidate, may_join, ranked, rule_of
from graphshift.studies.plan import Arm, Plan
from graphshift.studies.running import Study

#: The methods that it may take: those that learn from the nodes' columns, and those that train a GNN.
TABLES = ("logistic", "forest", "boosting")
NETWORKS = ("erm", "eerm")

#: Of each the best may be a member.
FAMILIES = (*((method,) for method in TABLES), NETWORKS)


def blend_plan(study: Study) -> Plan | str:
    """One more arm or two, in the places of a finished comparison; or why there is none.

    An arm joins the best of each of :data:`FAMILIES` that is close to the best of all, or, if there is one alone, the
    best model without a GNN and the best GNN: these err in different places. If several of them have no GNN, another
    arm joins these. Each has the settings that tuning chose for it.
    """
    plan, rule = study.plan, rule_of(study, "val")
    found = ranked(study, "val")
    best = [one for methods in FAMILIES if (one := _best(study, found, methods)) is not None]
    joined = [one for one in best if may_join(one.behind, one.behind_error or 0.0, plan.metric)]
    if len(joined) < 2:
        table, network = (_best(study, found, methods) for methods in (TABLES, NETWORKS))
        if table is None or network is None:
            return f"no {'model without a GNN' if table is None else 'GNN'} finished that could be blended"
        joined = [table, network]
    tables = [one for one in joined if plan.settings(plan.arm(one.arm))["method"] in TABLES]
    groups = [joined, *([tables] if 1 < len(tables) < len(joined) else [])]
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


def _best(study: Study, found: list[Candidate], methods: tuple[str, ...]) -> Candidate | None:
    plan = study.plan
    return next((one for one in found if plan.settings(plan.arm(one.arm))["method"] in methods), None)
