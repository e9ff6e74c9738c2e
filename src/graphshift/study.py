"""Many fits: arms × seeds on one dataset, and what their differences are worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from scipy import stats

from graphshift.datasets import load
from graphshift.fitting import complete_settings, fit, result_of
from graphshift.metrics import METRICS

__all__ = ["Arm", "Difference", "compare", "run_study", "summarise"]


@dataclass(frozen=True)
class Arm:
    """One of the things compared: a name and the settings in which it differs."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


def run_study(
    dataset: str,
    arms: Sequence[Arm],
    seeds: Sequence[int],
    *,
    options: Mapping[str, Any] | None = None,
    common: Mapping[str, Any] | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Fits every arm with every seed. A seed draws the data and the training alike, so arms are paired.

    Args:
        dataset: a dataset's name; it must take a ``seed``.
        arms: what to compare.
        seeds: the repetitions.
        options: of the dataset.
        common: settings that all arms share.
        report: called with each record.

    Returns:
        One record for each fit: the fit's result with ``arm``, and its ``mean`` and ``worst`` test score.
    """
    records = []
    for seed in seeds:
        data = load(dataset, seed=seed, **(options or {}))
        for arm in arms:
            settings = complete_settings({**(common or {}), **arm.settings, "seed": seed}, data.defaults)
            model = fit(data, settings)
            result = result_of(model, data, settings)
            scores = list(result["tests"].values())
            worst = min(scores) if data.task.scorer.higher_is_better else max(scores)
            variances = [row["variance"] for row in model.history_ if "variance" in row]
            record = {
                "arm": arm.name,
                "mean": fmean(scores),
                "worst": worst,
                "settings": settings.model_dump(),
                **result,
            }
            record["variance"] = fmean(variances) if variances else None
            records.append(record)
            if report:
                report(record)
    return records


def summarise(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each arm, in order: mean and standard deviation over seeds of the mean and the worst test score."""
    arms = list(dict.fromkeys(record["arm"] for record in records))
    rows = []
    for arm in arms:
        own = [record for record in records if record["arm"] == arm]
        row: dict[str, Any] = {"arm": arm, "seeds": len(own)}
        for key in ("val", "mean", "worst", "seconds_per_epoch"):
            values = [record[key] for record in own if record[key] is not None]  # no validation: no score
            row[key] = fmean(values) if values else None
            row[f"{key}_std"] = stdev(values) if len(values) > 1 else 0.0
        variances = [record["variance"] for record in own if record["variance"] is not None]
        row["variance"] = fmean(variances) if variances else None
        rows.append(row)
    return rows


@dataclass(frozen=True)
class Difference:
    """How much one arm is ahead of another over the same seeds, with a 95 % confidence interval (paired t)."""

    arm: str
    baseline: str
    key: str
    mean: float
    low: float
    high: float
    seeds: int

    @property
    def decided(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0

    def sentence(self, scale: float = 100.0, unit: str = "points") -> str:
        """What the comparison shows, in words."""
        interval = f"95 % interval {scale * self.low:+.1f} to {scale * self.high:+.1f}, {self.seeds} seeds"
        size = f"{abs(scale * self.mean):.1f} {unit}"
        if not self.decided:
            return (
                f"{self.arm} and {self.baseline} do not differ beyond chance in the {self.key} test score ({interval})."
            )
        word = "ahead of" if self.mean > 0 else "behind"
        return f"{self.arm} is {word} {self.baseline} by {size} in the {self.key} test score ({interval})."


def compare(records: Sequence[Mapping[str, Any]], arm: str, baseline: str, key: str = "mean") -> Difference:
    """The paired difference of two arms over their seeds; positive where the arm scores better.

    Args:
        records: of :func:`run_study`, at least two seeds.
        arm: whose advantage is asked for.
        baseline: against whom.
        key: ``"mean"`` or ``"worst"`` test score.
    """
    by_seed = {name: {r["seed"]: r[key] for r in records if r["arm"] == name} for name in (arm, baseline)}
    seeds = sorted(by_seed[arm].keys() & by_seed[baseline].keys())
    sign = 1 if METRICS[records[0]["metric"]].higher_is_better else -1  # a gain is a better score, whichever way
    gains = [sign * (by_seed[arm][seed] - by_seed[baseline][seed]) for seed in seeds]
    mean = fmean(gains)
    margin = float(stats.t.ppf(0.975, len(gains) - 1)) * stdev(gains) / len(gains) ** 0.5
    return Difference(arm, baseline, key, mean, mean - margin, mean + margin, len(gains))
