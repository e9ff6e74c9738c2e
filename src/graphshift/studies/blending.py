"""The blend that ``recommend`` tries last: the best model without a GNN and the best GNN of a comparison, averaged."""

from typing import Any

from graphshift.studies.choosing import Candidate, ranked, rule_of
from graphshift.studies.plan import Arm, Plan
from graphshift.studies.running import Study

#: The methods that it may take: one that learns from the nodes' columns, and one that trains a GNN.
TABLES = ("logistic", "forest", "boosting")
NETWORKS = ("erm", "eerm")


def blend_plan(study: Study) -> Plan | str:
    """One more arm with the seeds and the left-out environments of a finished comparison; or why there is none.

    Each member has the settings that tuning chose for it. Which two it joins, the choosing score says.
    """
    plan, rule = study.plan, rule_of(study, "val")
    found = ranked(study, "val")
    table, network = (_best(study, found, methods) for methods in (TABLES, NETWORKS))
    if table is None or network is None:
        return f"no {'model without a GNN' if table is None else 'GNN'} finished that could be blended"
    members = [chosen_settings(study, one.arm, rule) for one in (table, network)]
    arm = Arm(f"Blend ({table.arm} with {network.arm})", {"method": "blend", "members": members})
    dataset: Any = plan.dataset if plan.data is None else plan.data
    scored: dict[str, Any] = {"selections": (rule,), "adapt": plan.adapt, "resample": plan.resample}
    return Plan(dataset, [arm], plan.seeds, plan.options, trials=0, leave_out=plan.leave_out, **scored)


def chosen_settings(study: Study, arm: str, rule: str) -> dict[str, Any]:
    """The settings of an arm and those that tuning chose by a rule."""
    entry = next(one for one in study.summary.arms if (one.arm, one.selection) == (arm, rule))
    return {**study.plan.arm(arm).settings, **(entry.chosen or {})}


def _best(study: Study, found: list[Candidate], methods: tuple[str, ...]) -> Candidate | None:
    plan = study.plan
    return next((one for one in found if plan.settings(plan.arm(one.arm))["method"] in methods), None)
