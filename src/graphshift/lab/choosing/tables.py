"""What each rule chose, and how far that is behind the best arm, which only the test labels know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from graphshift.data.metrics import METRICS
from graphshift.estimators.estimating import Estimate
from graphshift.lab.choosing.running import COMMITTEE
from graphshift.report.study_tables import StudyTable
from graphshift.shift.choosing import Evidence, choose

Records = Sequence[Mapping[str, Any]]

#: The rules by name: between arms and for the epoch of each, and whether the committee may be chosen too.
RULES = {
    "val": ("val", "val", False),
    "target": ("target", "val", False),
    "target, epochs too": ("target", "target", False),
    "target, with the committee": ("target", "val", True),
}


def choosing_tables(records: Records) -> list[StudyTable]:
    """The loss of each rule by dataset, then what was chosen."""
    return [loss_table(records), chosen_table(records)]


def chosen_by(record: Mapping[str, Any], rule: str) -> tuple[str, float]:
    """The arm that a rule chooses in a case, and its mean test score."""
    between, epoch, committee = RULES[rule]
    arms = {n: one[epoch] for n, one in record["arms"].items() if epoch in one and (committee or n != COMMITTEE)}
    sign = METRICS[record["metric"]].sign
    plain = {n: one["val"]["validation"] for n, one in record["arms"].items() if n != COMMITTEE}
    name = max(plain, key=lambda n: sign * plain[n])  # what validation prefers
    if between == "target":
        name = choose({n: _evidence(one, record["metric"]) for n, one in arms.items()}, record["metric"], name)
    return name, fmean(arms[name]["tests"].values())


def best_of(record: Mapping[str, Any]) -> tuple[str, float]:
    """The arm with the best mean test score, its epoch by either rule; a committee is none of the arms."""
    sign = METRICS[record["metric"]].sign
    scores = {
        name: max((fmean(one[rule]["tests"].values()) for rule in ("val", "target")), key=lambda score: sign * score)
        for name, one in record["arms"].items()
        if name != COMMITTEE
    }
    best = max(scores, key=lambda name: sign * scores[name])
    return best, scores[best]


def losses(record: Mapping[str, Any]) -> dict[str, float]:
    """By rule, how far its choice is behind the best arm; below 0 where a committee is ahead of every arm."""
    sign, best = METRICS[record["metric"]].sign, best_of(record)[1]
    return {rule: sign * (best - chosen_by(record, rule)[1]) for rule in RULES}


def loss_table(records: Records) -> StudyTable:
    """One row for each dataset and one for their mean."""
    by_experiment: dict[str, list[dict[str, float]]] = {}
    for record in records:
        by_experiment.setdefault(record["experiment"], []).append(losses(record))
    means = {name: {rule: fmean(one[rule] for one in own) for rule in RULES} for name, own in by_experiment.items()}
    rows = [
        [name, str(len(by_experiment[name])), *(f"{100 * own[r]:.1f}" for r in RULES)] for name, own in means.items()
    ]
    overall = {rule: fmean(own[rule] for own in means.values()) for rule in RULES}
    rows.append(["mean", str(len(records)), *(f"{100 * overall[rule]:.1f}" for rule in RULES)])
    ratio = [f"{overall[rule] / overall['val']:.2f}" if overall["val"] > 0 else "–" for rule in RULES]
    rows.append(["÷ val", "", *ratio])
    note = (
        "Points of the metric (accuracy, ROC-AUC, Micro-F1) behind the arm that is best on the tests, mean over tests; "
        "test labels judge the rules and choose nothing. target looked at the unlabelled tests; epochs by validation."
    )
    return StudyTable("loss against the best arm", ["experiment", "draws", *RULES], rows, note)


def chosen_table(records: Records) -> StudyTable:
    """Which arm each rule chose, beside the best."""
    rows = []
    for record in records:
        metric = METRICS[record["metric"]]
        found = [chosen_by(record, rule) for rule in RULES]
        cells = [f"{name} ({metric.show(score)})" for name, score in (*found, best_of(record))]
        rows.append([f"{record['experiment']}, draw {record['draw']}", *cells])
    return StudyTable("chosen arms, with their mean test score", ["case", *RULES, "best"], rows)


def _evidence(found: Mapping[str, Any], metric: str) -> Evidence:
    """What the rule sees: every estimate, put together by the present weights."""
    made = [Estimate(metric, None, 0.0, 1.0, one["held_out"], one["by"]) for one in found["estimates"].values()]
    return Evidence(found["validation"], made)
