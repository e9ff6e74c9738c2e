"""The gap that a shift opens, and how much of it an arm closes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

#: What is said where the in-domain limit is not above the baseline beyond noise: a share of nothing means nothing.
NO_GAP = "no gap"


def limits_of(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The in-domain limit of each backbone, from its records.

    Returns:
        For each backbone ``environments`` (mean and standard deviation over folds and data seeds), the ``mean`` over
        environments and its standard ``error``, which takes folds as independent.
    """
    found: dict[str, dict[str, Any]] = {}
    done = [r for r in records if r["kind"] == "limit" and r["status"] == "ok"]
    for backbone in dict.fromkeys(record["backbone"] for record in done):
        own = [record for record in done if record["backbone"] == backbone]
        names = list(dict.fromkeys(record["environment"] for record in own))
        environments = {}
        for name in names:
            folds = [score for record in own if record["environment"] == name for score in record["folds"]]
            environments[name] = {"mean": fmean(folds), "std": stdev(folds)}
        errors = [stdev(record["folds"]) / len(record["folds"]) ** 0.5 for record in own]
        found[backbone] = {
            "settings": own[0]["settings"],
            "tuned": own[0]["tuned"],
            "environments": environments,
            "mean": fmean(entry["mean"] for entry in environments.values()),
            "error": sum(error**2 for error in errors) ** 0.5 / len(errors),
        }
    return found


def closed(
    arm: float, baseline: Sequence[float], limit: float, limit_error: float, *, higher_is_better: bool
) -> dict[str, Any]:
    """(arm − baseline) / (limit − baseline), unless the gap is not above twice its standard error.

    Args:
        arm: its mean test score.
        baseline: the baseline's, run by run.
        limit: the in-domain limit.
        limit_error: its standard error.
        higher_is_better: which way the metric goes.

    Returns:
        ``share`` (None without a gap), the ``gap``, its ``error``, and ``text`` for tables.
    """
    sign = 1 if higher_is_better else -1
    gap = sign * (limit - fmean(baseline))
    own_error = stdev(baseline) / len(baseline) ** 0.5 if len(baseline) > 1 else 0.0
    error = (own_error**2 + limit_error**2) ** 0.5
    if gap <= 2 * error or gap <= 0:
        return {"share": None, "gap": gap, "error": error, "text": NO_GAP}
    share = sign * (arm - fmean(baseline)) / gap
    return {"share": share, "gap": gap, "error": error, "text": f"{100 * share:.0f} %"}
