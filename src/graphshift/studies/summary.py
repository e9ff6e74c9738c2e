"""All that a study found, as plain values: tables, figures and pages are made from this and from the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from statistics import fmean
from typing import Any

from graphshift._version import __version__
from graphshift.data.metrics import METRICS
from graphshift.studies.facts import Facts
from graphshift.studies.gap import closed, limits_of
from graphshift.studies.jobs import Agenda, Records
from graphshift.studies.plan import NOT_ALLOWED, Arm, Plan
from graphshift.studies.statistics import Difference, compare, flat, share_a_pair, spread, variant_name
from graphshift.studies.tuning import tried


def make_summary(
    plan: Plan, facts: Facts, agenda: Agenda, records: Records, sessions: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Summarises a study whose jobs are all done.

    Args:
        plan: what was to do.
        facts: of the dataset.
        agenda: the plan's jobs.
        records: of the ledger; those of no job are left aside.
        sessions: where the results come from.
    """
    jobs = agenda.jobs(records)
    own = [records[job.id] for job in jobs]
    limits = limits_of(own)
    arms, findings = [], []
    for selection in plan.selections:
        rows = flat(own, selection)
        for arm in plan.arms:
            for members, way in product(dict.fromkeys((1, plan.ensemble)), (None, *plan.adapt)):
                if way is not None and not any(row["arm"] == variant_name(arm.name, members, way) for row in rows):
                    continue  # its backbone has no means for it
                entry = _arm(plan, facts, agenda, records, arm, selection, rows, members, way)
                entry["gap_closed"] = _gap(entry, rows, limits, facts) if plan.in_domain else None
                arms.append(entry)
                findings += _sentences(entry, facts, plan)
    return {
        "format": 1,
        "version": __version__,
        "dataset": plan.dataset,
        "options": plan.public_options(),
        "metric": facts.metric,
        "higher_is_better": facts.higher_is_better,
        "tests": facts.tests,
        "seeds": list(plan.seeds),
        "data_seeds": list(plan.data_seeds) if plan.data_seeds else None,
        "tuning_seeds": sorted({t.seed for trials in agenda.trials.values() for t in trials}),
        "trials": plan.trials,
        "repeats": plan.repeats,
        "selections": [
            {"rule": rule, "allowed": rule != "oracle", "note": NOT_ALLOWED if rule == "oracle" else None}
            for rule in plan.selections
        ],
        "counts": _counts(own),
        "arms": arms,
        "limits": limits,
        "majority": _majority(own, facts),
        "tuning": _tuning(plan, agenda, records),
        "findings": findings,
        "failed": [{key: r[key] for key in ("id", "kind", "arm", "reason")} for r in own if r["status"] == "failed"],
        "provenance": list(sessions),
    }


def _arm(
    plan: Plan,
    facts: Facts,
    agenda: Agenda,
    records: Records,
    arm: Arm,
    selection: str,
    rows: Sequence[Mapping[str, Any]],
    members: int,
    way: str | None,
) -> dict[str, Any]:
    settings, baseline, name = facts.settings(arm), facts.baseline(plan, arm), variant_name(arm.name, members, way)
    # Like is held against like; ERM's own ensembles, and ERM with the tests in use, against ERM as it is.
    there = {row["arm"] for row in rows}
    against = None if baseline is None else baseline.name
    if baseline is not None and (alike := variant_name(baseline.name, members, way)) in there:
        against = alike
    elif baseline is None and name != arm.name:
        against = arm.name
    own = [row for row in rows if row["arm"] == name]
    chosen = agenda.chosen(arm, selection, records)
    differences: dict[str, Difference | None] = {"mean": None, "worst": None}
    if against is not None and share_a_pair(rows, name, against):
        differences = {key: compare(rows, name, against, key) for key in differences}
    return {
        "arm": name,
        "ensemble": members,
        "adapt": way,
        "refused": sum(len(row["refused"]) for row in own),
        "method": settings.method,
        "backbone": settings.backbone,
        "explorer": settings.explorer if settings.method == "eerm" else None,
        "selection": selection,
        "allowed": selection != "oracle",
        "baseline": against,
        "runs": len(own),
        "failed": len(plan.draws) - len(own),
        "val": spread([row["val"] for row in own]),
        "mean_test": spread([row["mean"] for row in own]),
        "worst_test": spread([row["worst"] for row in own]),
        "environments": {name: spread([row["tests"][name] for row in own]) for name in facts.tests},
        "difference": {f"{k}_test": None if d is None else asdict(d) for k, d in differences.items()},
        "chosen": None if chosen is None else dict(chosen.settings),
        "chosen_score": None if chosen is None else chosen.score,
        "chosen_trials": None if chosen is None else chosen.trials,
        "trials": len(agenda.trials[arm.name]),
        "best_epoch": spread([row["best_epoch"] for row in own])["mean"],
        "seconds_per_epoch": spread([row["seconds_per_epoch"] for row in own])["mean"],
        "peak_rss_mb": max((row["peak_rss_mb"] for row in own if row["peak_rss_mb"] is not None), default=None),
        "variance": spread([row["variance"] for row in own])["mean"],
    }


def _gap(
    entry: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], limits: Mapping[str, Any], facts: Facts
) -> dict[str, Any] | None:
    """The share of the distance from the baseline to the in-domain limit; the baseline itself has none."""
    if entry["baseline"] is None or entry["mean_test"]["mean"] is None or entry["backbone"] not in limits:
        return None
    limit = limits[entry["backbone"]]
    if set(limit["environments"]) != set(facts.tests):  # some of its fits failed
        return None
    theirs = [row["mean"] for row in rows if row["arm"] == entry["baseline"]]
    if not theirs:
        return None
    return closed(
        entry["mean_test"]["mean"], theirs, limit["mean"], limit["error"], higher_is_better=facts.higher_is_better
    )


def _sentences(entry: Mapping[str, Any], facts: Facts, plan: Plan) -> list[dict[str, Any]]:
    """Who is ahead, in words, for both scores."""
    metric = METRICS.find(facts.metric)
    rule = entry["selection"] + ("" if entry["allowed"] else f" ({NOT_ALLOWED})")
    prefix = "" if plan.selections == ("val",) else f"By {rule}: "
    found = []
    for difference in entry["difference"].values():
        if difference is not None:
            text = Difference(**difference).sentence(metric.scale, metric.unit)
            found.append({"arm": entry["arm"], "selection": entry["selection"], "text": prefix + text})
    return found


def _counts(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    counts = {kind: {"done": 0, "failed": 0} for kind in ("trial", "run", "limit")}
    for record in records:
        counts[record["kind"]]["done" if record["status"] == "ok" else "failed"] += 1
    return counts


def _majority(records: Sequence[Mapping[str, Any]], facts: Facts) -> dict[str, float]:
    """The share of the largest class in each test environment, over the data seeds."""
    found: dict[str, dict[Any, float]] = {}
    for record in records:
        for name, share in record["majority"].items():
            found.setdefault(name, {})[record["data_seed"]] = share
    return {name: fmean(found[name].values()) for name in facts.tests if name in found}


def _tuning(plan: Plan, agenda: Agenda, records: Records) -> list[dict[str, Any]]:
    """Every setting that was tried, with its mean score by each rule, and whether it was chosen."""
    found = []
    for arm in plan.arms:
        for selection in plan.selections:
            scores = agenda.scores(arm, selection, records)
            chosen = agenda.chosen(arm, selection, records)
            for trials in tried(agenda.trials[arm.name]):
                got = [score for trial in trials if (score := scores[trial.number]) is not None]
                found.append(
                    {
                        "arm": arm.name,
                        "selection": selection,
                        "settings": dict(trials[0].settings),
                        "score": fmean(got) if got else None,
                        "scores": got,
                        "trials": len(trials),
                        "failed": len(trials) - len(got),
                        "chosen": chosen is not None and dict(chosen.settings) == dict(trials[0].settings),
                    }
                )
    return found
