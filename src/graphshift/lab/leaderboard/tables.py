"""Tables of many methods on many datasets: all at a glance, what validation would choose, and each dataset alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from graphshift.data.metrics import METRICS
from graphshift.lab.paper.reproducing import Finished
from graphshift.report.study_tables import (
    StudyTable,
    adapting_note,
    rule_label,
    show_budget,
    show_difference,
    show_limit,
    show_settings,
    show_spread,
)
from graphshift.report.tables import show_score
from graphshift.studies.statistics import Difference, compare, share_a_pair
from graphshift.studies.summary import ArmSummary

#: Beside a score whose difference from ERM is significant (95 %).
_AHEAD, _BEHIND = " ▲", " ▼"


def leaderboard_tables(studies: Sequence[Finished]) -> list[StudyTable]:
    """Methods against datasets, and the choice of validation on each."""
    return [_overview(studies), _choices(studies)]


def dataset_tables(study: Finished) -> list[StudyTable]:
    """One dataset: methods; ensembles and the tests in use; every test; chosen settings."""
    variants = [_variants(study)] if any(arm.is_variant for arm in study.summary.arms) else []
    tuned = [_settings(study)] if study.summary.tuning else []
    return [_methods(study), *variants, _environments(study), *tuned]


def rule_tables(studies: Sequence[Finished]) -> list[StudyTable]:
    """The rules that chose epoch and setting: the tests' scores by each at a glance, and every dataset alone."""
    return [_rules_overview(studies), *map(_rules, studies)]


def own_arms(study: Finished) -> list[ArmSummary]:
    """What the summary says of arms as they are: neither ensembles nor with the tests in use."""
    return [arm for arm in study.summary.arms if not arm.is_variant]


def _overview(studies: Sequence[Finished]) -> StudyTable:
    cells: dict[str, dict[str, str]] = {}
    for study in studies:
        metric = study.summary.metric
        for arm in own_arms(study):
            name = arm.arm.removesuffix(f", {study.experiment.backbone}")
            cells.setdefault(name, {})[study.experiment.name] = show_score(arm.mean_test.mean, metric) + _mark(
                arm.difference.mean_test
            )
        limit = study.summary.limits.get(study.experiment.backbone)
        if limit:
            cells.setdefault("in-domain limit", {})[study.experiment.name] = show_score(limit.mean, metric)
        if study.summary.majority:
            share = fmean(study.summary.majority.values())
            cells.setdefault("largest class (%)", {})[study.experiment.name] = show_score(share, "accuracy")
    last = ("in-domain limit", "largest class (%)")
    names = [name for name in cells if name not in last] + [name for name in last if name in cells]
    columns = [study.experiment.name for study in studies]
    rows = [[name, *(cells[name].get(column, "–") for column in columns)] for name in names]
    note = (
        f"Mean over tests and runs: {_metrics(studies)}.{_AHEAD} ahead of,{_BEHIND} behind ERM with the same backbone "
        "significantly (paired 95 % interval, not corrected for the number of comparisons). Epoch and setting chosen "
        "on validation."
    )
    note += "".join(f" {study.experiment.name}, {remark}." for study in studies for remark in study.remarks)
    return StudyTable("mean test score of every method", ["arm", *columns], rows, note)


def _metrics(studies: Sequence[Finished]) -> str:
    return ", ".join(f"{study.experiment.name} {METRICS.find(study.summary.metric).title}" for study in studies)


def _mark(difference: Difference | None) -> str:
    if difference is None or not difference.decided:
        return ""
    return _AHEAD if difference.mean > 0 else _BEHIND


def _choices(studies: Sequence[Finished]) -> StudyTable:
    """The arm with the best validation score, and its scores on the tests."""
    rows = []
    for study in studies:
        metric, arms = study.summary.metric, study.summary.arms
        kinds = {
            "one model": [arm for arm in arms if not arm.is_variant],
            "ensembles too": [arm for arm in arms if not arm.adapt],
            "unlabelled tests too": list(arms),
        }
        for i, (kind, allowed) in enumerate(kinds.items()):
            scored = [(arm.val.mean, arm) for arm in allowed if arm.val.mean is not None]
            if not scored or (i and len(allowed) == len(list(kinds.values())[i - 1])):
                continue
            sign = 1 if METRICS[metric].higher_is_better else -1
            _, best = max(scored, key=lambda both: sign * both[0])
            rows.append(
                [
                    study.experiment.name,
                    kind,
                    best.arm,
                    show_spread(best.val, metric),
                    show_spread(best.mean_test, metric),
                    show_spread(best.worst_test, metric),
                    _against_first(study, best.arm),
                ]
            )
    columns = [
        "experiment",
        "of",
        "best on validation",
        "validation",
        "mean test",
        "worst test",
        "mean test against its ERM (95 %)",
    ]
    note = "Its ERM: one model with the experiment's own backbone. Test labels were not used."
    if any("prior" in (arm.adapt or "") for study in studies for arm in study.summary.arms):
        note += " The validation score of + prior is a little optimistic: the temperature was fitted there."
    return StudyTable("what validation chooses", columns, rows, note)


def _against_first(study: Finished, arm: str) -> str:
    first = study.arms[0]
    if arm == first or not share_a_pair(study.rows, arm, first):
        return "–"
    return show_difference(compare(study.rows, arm, first), study.summary.metric)[0]


def _methods(study: Finished) -> StudyTable:
    metric = study.summary.metric
    rows = []
    for arm in own_arms(study):
        mean, worst = (show_difference(d, metric)[0] for d in (arm.difference.mean_test, arm.difference.worst_test))
        rows.append(
            [
                arm.arm,
                *(show_spread(scores, metric) for scores in (arm.val, arm.mean_test, arm.worst_test)),
                mean,
                worst,
                arm.gap_closed.text if arm.gap_closed else "–",
                "–" if arm.variance is None else f"{arm.variance:.1e}",
            ]
        )
    for backbone, limit in study.summary.limits.items():
        rows.append([f"in-domain limit, {backbone}", "–", show_score(limit.mean, metric), *"–––––"])
    columns = [
        "arm",
        "validation",
        "mean test",
        "worst test",
        "mean against ERM (95 %)",
        "worst against ERM (95 %)",
        "gap closed",
        "variance of risks",
    ]
    return StudyTable(f"{study.experiment.name}: {METRICS.find(metric).title}", columns, rows, _note(study))


def _note(study: Finished) -> str:
    summary = study.summary
    drawn = f"{len(summary.data_seeds)} data seeds" if summary.data_seeds else f"{len(summary.seeds)} seeds"
    tuned = show_budget(summary) if summary.tuning else "nothing tuned"
    remarks = "".join(f" {remark[:1].upper()}{remark[1:]}." for remark in study.remarks)
    note = f"± standard deviation over {drawn}; {tuned}; paired t intervals.{remarks}"
    if not summary.limits:
        return note
    return (
        f"{note} In-domain limit: ERM cross-validated on each test graph's own labels (5 folds); gap closed: of the "
        "way from ERM to it."
    )


def _variants(study: Finished) -> StudyTable:
    """Mean test scores of ensembles and with the unlabelled tests in use, beside the arm as it is."""
    metric = study.summary.metric
    found: dict[str, dict[str, str]] = {}
    for arm in study.summary.arms:
        members, way = arm.ensemble, arm.adapt
        column = " ".join([*([f"× {members}"] if members > 1 else []), *([f"+ {way}"] if way else [])]) or "one model"
        base = arm.arm.removesuffix(f", + {way}" if way else "").removesuffix(f", × {members}" if members > 1 else "")
        found.setdefault(base, {})[column] = show_spread(arm.mean_test, metric)
    columns = list(dict.fromkeys(column for cells in found.values() for column in cells))
    rows = [[name, *(cells.get(column, "–") for column in columns)] for name, cells in found.items()]
    label = METRICS.find(metric).title
    title = f"{study.experiment.name}: mean test {label} of ensembles and with the unlabelled tests in use"
    note = (
        "×: the mean of so many models that differ in their seed."
        if max(a.ensemble for a in study.summary.arms) > 1
        else ""
    )
    return StudyTable(title, ["arm", *columns], rows, (note + adapting_note(study.summary, study.summary.arms)).strip())


def _environments(study: Finished) -> StudyTable:
    metric, tests = study.summary.metric, study.summary.tests
    rows = [[a.arm, *(show_spread(a.environments[t], metric) for t in tests)] for a in own_arms(study)]
    for backbone, limit in study.summary.limits.items():
        rows.append([f"in-domain limit, {backbone}", *show_limit(limit, study.summary)])
    if study.summary.majority:
        shares = study.summary.majority
        rows.append(["largest class (%)", *(show_score(shares.get(t), "accuracy") for t in tests)])
    return StudyTable(f"{study.experiment.name}: {METRICS.find(metric).title} by test", ["arm", *tests], rows)


def _settings(study: Finished) -> StudyTable:
    rows = [[a.arm, "every trial failed" if a.chosen is None else show_settings(a.chosen)] for a in own_arms(study)]
    return StudyTable(f"{study.experiment.name}: settings chosen on validation", ["arm", "chosen"], rows)


def _rules_overview(studies: Sequence[Finished]) -> StudyTable:
    rules = [entry.rule for entry in studies[0].summary.selections]
    rows = []
    for study in studies:
        metric = study.summary.metric
        by_place = {(arm.arm, arm.selection): arm.mean_test for arm in study.summary.arms}
        for name in dict.fromkeys(arm.arm for arm in study.summary.arms):
            # The rules take the place of arms; their runs have the same seeds.
            runs = [replace(row, arm=rule) for rule in rules for row in study.by_rule[rule] if row.arm == name]
            gains = [
                show_difference(compare(runs, "explored", "val", key), metric)[0]
                if share_a_pair(runs, "explored", "val")
                else "–"
                for key in ("mean", "worst")
            ]
            scores = [show_spread(by_place[name, rule], metric) for rule in rules]
            rows.append([study.experiment.name, name, *scores, *gains])
    labels = [rule_label(studies[0].summary, rule) for rule in rules]
    columns = ["experiment", "arm", *labels, "explored against val (95 %)", "the same, worst test (95 %)"]
    note = f"± standard deviation over runs; differences paired, not corrected for their number. {_metrics(studies)}."
    return StudyTable("mean test score by the rule that chose epoch and setting", columns, rows, note)


def _rules(study: Finished) -> StudyTable:
    summary, metric = study.summary, study.summary.metric
    by_place = {(arm.arm, arm.selection): arm for arm in summary.arms}
    rows = []
    for name in dict.fromkeys(arm.arm for arm in summary.arms):
        for entry in summary.selections:
            arm = by_place[name, entry.rule]
            rows.append(
                [
                    name,
                    rule_label(summary, entry.rule),
                    *(show_spread(scores, metric) for scores in (arm.val, arm.mean_test, arm.worst_test)),
                    *(show_difference(d, metric)[0] for d in (arm.difference.mean_test, arm.difference.worst_test)),
                    _against_random(study, arm),
                    "–" if arm.variance is None else f"{arm.variance:.1e}",
                    show_settings(arm.chosen) if arm.chosen else "–",
                ]
            )
    columns = [
        "arm",
        "chosen by",
        "validation",
        "mean test",
        "worst test",
        "mean against ERM (95 %)",
        "worst against ERM (95 %)",
        "worst against random edits (95 %)",
        "variance of risks",
        "chosen",
    ]
    drawn = f"{len(summary.data_seeds)} data seeds" if summary.data_seeds else f"{len(summary.seeds)} seeds"
    note = f"± standard deviation over {drawn}; {show_budget(summary)}. Differences: paired, by the same rule."
    return StudyTable(f"{study.experiment.name}: {METRICS.find(metric).title} by selection rule", columns, rows, note)


def _against_random(study: Finished, arm: ArmSummary) -> str:
    """The worst test of other explorers beside that of as many random edits."""
    rows = study.by_rule[arm.selection]
    like = (arm.backbone, "random")
    random = next((a.arm for a in study.summary.arms if (a.backbone, a.explorer) == like), None)
    if random is None or arm.explorer in (None, "random") or not share_a_pair(rows, arm.arm, random):
        return "–"
    return show_difference(compare(rows, arm.arm, random, "worst"), study.summary.metric)[0]
