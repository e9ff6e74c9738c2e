"""The gap that a shift opens, and how much of it an arm closes."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from graphshift.studies.records import Record
from graphshift.studies.statistics import Spread

#: The text where the in-domain limit is not significantly above the baseline.
NO_GAP = "no gap"


@dataclass(frozen=True)
class Limit:
    """The in-domain limit of a backbone."""

    settings: dict[str, Any]  #: of its fits
    tuned: dict[str, Any]  #: the tuned part of them
    environments: dict[str, Spread]  #: over folds and data seeds, for each test environment
    mean: float  #: over environments
    error: float  #: the mean's standard error, which takes folds as independent


@dataclass(frozen=True)
class GapClosed:
    """The share of a gap that an arm closes."""

    share: float | None  #: None without a gap
    gap: float  #: from the baseline to the in-domain limit
    error: float  #: the gap's standard error
    text: str  #: for tables


def limits_of(records: Sequence[Record]) -> dict[str, Limit]:
    """The in-domain limit of each backbone, from its records."""
    found: dict[str, Limit] = {}
    done = [record for record in records if record.kind == "limit" and record.ok]
    for backbone in dict.fromkeys(record.backbone for record in done if record.backbone is not None):
        own = [record for record in done if record.backbone == backbone]
        environments = {}
        for name in dict.fromkeys(str(record.environment) for record in own):
            folds = [score for record in own if record.environment == name for score in record.folds]
            environments[name] = Spread(fmean(folds), stdev(folds))
        errors = [stdev(record.folds) / len(record.folds) ** 0.5 for record in own]
        mean = fmean(entry.mean or 0.0 for entry in environments.values())
        error = sum(error**2 for error in errors) ** 0.5 / len(errors)
        found[backbone] = Limit(own[0].settings, own[0].tuned, environments, mean, error)
    return found


def closed(
    arm: float, baseline: Sequence[float], limit: float, limit_error: float, *, higher_is_better: bool
) -> GapClosed:
    """(arm − baseline) / (limit − baseline), unless the gap is not above twice its standard error.

    Of the arm its mean test score, of the baseline the scores run by run.
    """
    sign = 1 if higher_is_better else -1
    gap = sign * (limit - fmean(baseline))
    own_error = stdev(baseline) / len(baseline) ** 0.5 if len(baseline) > 1 else 0.0
    error = (own_error**2 + limit_error**2) ** 0.5
    if gap <= 2 * error or gap <= 0:
        return GapClosed(None, gap, error, NO_GAP)
    share = sign * (arm - fmean(baseline)) / gap
    return GapClosed(share, gap, error, f"{100 * share:.0f} %")
