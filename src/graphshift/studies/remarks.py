"""What a reader of a study must not miss: a GNN that is below a simple model, an arm that is its own baseline."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from typing import TYPE_CHECKING

from graphshift.data.metrics import METRICS
from graphshift.estimators.base import METHODS
from graphshift.studies.records import Record
from graphshift.studies.resolved import ResolvedPlan
from graphshift.training.selection import SELECTIONS

if TYPE_CHECKING:
    from graphshift.studies.summary import ArmSummary

#: What people call the score that a rule chooses by.
CHOOSES_BY = {"id_val": "held-out training nodes", "oracle": "the tests"}


def main_rule(rules: Sequence[str]) -> str:
    """The first rule that is allowed, or the first if none is."""
    return next((rule for rule in rules if not SELECTIONS[rule].uses_tests), rules[0])


def notes_on(plan: ResolvedPlan, arms: Sequence[ArmSummary], records: Sequence[Record]) -> list[str]:
    """Sentences about the arms by the main rule."""
    rule = main_rule(plan.selections)
    own = [arm for arm in arms if arm.selection == rule]
    below = below_simple(plan, own)
    return [*below, *(plan.notes if below else ()), *_same_as_baseline(own, records)]


def below_simple(plan: ResolvedPlan, arms: Sequence[ArmSummary]) -> list[str]:
    """Says so if the GNN that would be chosen is below a model without one, or below the largest class."""
    metric = METRICS[plan.metric]
    plain = [arm for arm in arms if not arm.is_variant and arm.choosing is not None and arm.choosing.mean is not None]
    networks = [arm for arm in plain if METHODS[arm.method].uses_backbone]
    tables = [arm for arm in plain if not METHODS[arm.method].uses_backbone and arm.method != "blend"]
    if not networks:
        return []
    best = max(networks, key=lambda arm: metric.sign * _choosing(arm))
    place = CHOOSES_BY.get(best.selection, "validation")
    found = []
    above = [arm for arm in tables if metric.better(_choosing(arm), _choosing(best))]
    if above:
        top = max(above, key=lambda arm: metric.sign * _choosing(arm))
        found.append(
            f"The best GNN on {place}, {best.arm} ({metric.show(_choosing(best))}), is below {top.arm} "
            f"({metric.show(_choosing(top))}), which uses no GNN."
        )
    beaten = [
        f"{arm.arm} ({metric.show(arm.mean_test.mean)})"
        for arm in tables
        if arm.mean_test.mean is not None
        and best.mean_test.mean is not None
        and metric.better(arm.mean_test.mean, best.mean_test.mean)
    ]
    if beaten:
        found.append(f"On the tests {best.arm} ({metric.show(best.mean_test.mean)}) is below {', '.join(beaten)}.")
    return found + _below_largest_class(plan, best)


def _below_largest_class(plan: ResolvedPlan, best: ArmSummary) -> list[str]:
    if plan.metric != "accuracy":
        return []
    found = []
    scores = {name: one.mean for name, one in best.environments.items()}
    for shape in plan.shapes["tests"]:
        score, share = scores.get(shape["name"]), shape.get("majority")
        if score is not None and share is not None and score < share:
            found.append(f"{shape['name']} ({100 * score:.1f} where the largest class has {100 * share:.1f})")
    if not found:
        return []
    return [f"{best.arm} is below the largest class in {', '.join(found)}: there it is worse than no model."]


def _same_as_baseline(arms: Sequence[ArmSummary], records: Sequence[Record]) -> list[str]:
    """Arms with the very scores of their baseline in every run, and why; a sentence for each reason."""
    found: dict[tuple[str | None, str], list[str]] = {}
    for arm in arms:
        difference = arm.difference.main
        if difference is None or difference.mean or difference.wins or difference.losses or arm.is_variant:
            continue
        runs = [r for r in records if r.kind == "run" and r.ok and r.arm == arm.arm and arm.selection in r.selections]
        if why := _why_same(runs, arm.selection):
            found.setdefault((arm.baseline, why), []).append(arm.arm)
    return [
        f"{' and '.join(names)} {'has' if len(names) == 1 else 'have'} the very scores of {baseline}: {why}."
        for (baseline, why), names in found.items()
    ]


def _why_same(runs: Sequence[Record], rule: str) -> str:
    """In words; empty if there is no telling."""
    if runs and all(run.metric == "accuracy" and _says_the_largest_class(run, rule) for run in runs):
        return "those of always saying the largest class"
    if not all(METHODS[run.method].uses_backbone for run in runs):
        return ""
    last = [run.settings.get("anneal", 0.0) * max(run.settings.get("epochs", 1) - 1, 1) for run in runs]
    if any(last) and all(run.selections[rule].epoch - 1 < end for run, end in zip(runs, last, strict=True)):
        return "its penalty counts only after the epochs that were chosen (`anneal`), so that until then it is ERM"
    if runs and all(run.settings.get("penalty") == 0 for run in runs):
        return "the weight of its penalty is 0"
    return "what it adds to the risk is zero on these data, as where there is one group of nodes, or nothing to edit"


def _says_the_largest_class(run: Record, rule: str) -> bool:
    tests = run.selections[rule].tests
    return bool(tests) and all(
        isclose(score, run.majority.get(name, -1), abs_tol=1e-6) for name, score in tests.items()
    )


def _choosing(arm: ArmSummary) -> float:
    assert arm.choosing is not None and arm.choosing.mean is not None  # noqa: PT018 (callers have looked)
    return arm.choosing.mean
