"""What differences between arms are worth: paired over the same seeds, with intervals, p values and plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from scipy import stats

from graphshift.data.metrics import METRICS


def variant_name(arm: str, members: int, way: str | None) -> str:
    """What an arm is called as an ensemble, and when it uses the unlabelled tests."""
    parts = [arm, *([f"× {members}"] if members > 1 else []), *([] if way is None else [f"+ {way}"])]
    return ", ".join(parts)


def flat(records: Sequence[Mapping[str, Any]], selection: str) -> list[dict[str, Any]]:
    """One row for each final run that finished, as one selection rule sees it, with ``mean`` and ``worst`` test score.

    A run that was scored as an ensemble as well, or with the unlabelled tests in use, has a row for each of these,
    under an arm's name of its own.

    Args:
        records: of a study.
        selection: the rule.
    """
    rows = []
    for record in records:
        if record["kind"] != "run" or record["status"] != "ok" or selection not in record["selections"]:
            continue
        chosen = record["selections"][selection]
        names = (
            "dataset",
            "method",
            "backbone",
            "explorer",
            "data_seed",
            "seed",
            "settings",
            "tuned",
            "metric",
            "majority",
            "seconds",
            "seconds_per_epoch",
            "peak_rss_mb",
            "variance",
            "version",
        )
        common = {name: record[name] for name in names} | {
            "selection": selection,
            "best_epoch": chosen["epoch"],
            "selection_score": chosen["score"],
            "val": chosen["val"],
            "misled": chosen.get("misled"),
            "train": chosen.get("train"),
            "train_without_spurious": chosen.get("train_without_spurious"),
            "curve": record.get("curve"),
        }
        rows += _variants(record, chosen, common)
        if together := chosen.get("ensemble"):  # of one model's weights the rest speaks
            of_one = ("best_epoch", "selection_score", "misled", "train", "train_without_spurious", "curve")
            rows += _variants(record, together, common | {"val": together["val"]} | dict.fromkeys(of_one))
    return rows


def _variants(record: Mapping[str, Any], scored: Mapping[str, Any], common: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for the tests' scores as they are, and one for each way of using the tests."""
    members, rows = scored.get("members", 1), []
    plain = {"val": common["val"], "tests": scored["tests"], "refused": {}}
    ways: dict[str | None, Any] = {None: plain} | scored.get("adapted", {})
    for way, found in ways.items():
        scores = list(found["tests"].values())
        worst = min(scores) if METRICS[record["metric"]].higher_is_better else max(scores)
        own = {"arm": variant_name(record["arm"], members, way), "ensemble": members, "adapt": way, "val": found["val"]}
        scored_as = {"tests": found["tests"], "mean": fmean(scores), "worst": worst, "refused": found["refused"]}
        rows.append({**common, **own, **scored_as})
    return rows


def spread(values: Sequence[float | None]) -> dict[str, float | None]:
    """Mean and standard deviation of the values that are there; one value has no deviation."""
    found = [value for value in values if value is not None]
    return {"mean": fmean(found) if found else None, "std": stdev(found) if len(found) > 1 else None}


def summarise(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each arm, in order: mean and standard deviation over seeds of the mean and the worst test score."""
    found = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == arm]
        line: dict[str, Any] = {"arm": arm, "seeds": len(own)}
        for key in ("val", "mean", "worst", "seconds_per_epoch"):
            both = spread([row[key] for row in own])
            line[key], line[f"{key}_std"] = both["mean"], both["std"]
        line["variance"] = spread([row["variance"] for row in own])["mean"]
        found.append(line)
    return found


@dataclass(frozen=True)
class Difference:
    """How much one arm is ahead of another over the same seeds, with a 95 % confidence interval (paired t).

    Attributes:
        arm, baseline: who is held against whom.
        key: ``"mean"`` or ``"worst"`` test score.
        mean: of the differences; positive where the arm is better.
        low, high: the interval's ends; None with one pair, which has none.
        seeds: how many independent pairs the interval rests on.
        unit: what these are: ``"seeds"``, or ``"data seeds"`` where several runs share the data.
        p: of the two-sided paired t test; None with one pair.
        wins, losses, ties: over all pairs.
    """

    arm: str
    baseline: str
    key: str
    mean: float
    low: float | None
    high: float | None
    seeds: int
    unit: str = "seeds"
    p: float | None = None
    wins: int = 0
    losses: int = 0
    ties: int = 0

    @property
    def decided(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def sentence(self, scale: float = 100.0, unit: str = "points") -> str:
        """What the comparison shows, in words."""
        size = f"{abs(scale * self.mean):.{_digits(scale)}f}" + (f" {unit}" if unit else "")
        word = "ahead of" if self.mean > 0 else "behind"
        if self.low is None or self.high is None:
            return (
                f"{self.arm} is {word} {self.baseline} by {size} in the {self.key} test score of one of the "
                f"{self.unit}, which shows nothing: take more."
            )
        ends = [f"{scale * end:+.{_digits(scale)}f}" for end in (self.low, self.high)]
        interval = f"95 % interval {ends[0]} to {ends[1]}, {self.seeds} {self.unit}"
        if not self.decided:
            return (
                f"{self.arm} and {self.baseline} do not differ beyond chance in the {self.key} test score ({interval})."
            )
        return f"{self.arm} is {word} {self.baseline} by {size} in the {self.key} test score ({interval})."


def compare(rows: Sequence[Mapping[str, Any]], arm: str, baseline: str, key: str = "mean") -> Difference:
    """The paired difference of two arms; positive where the arm scores better.

    Arms are paired by data seed and seed. Runs on the same data are not independent draws of the data: with several
    data seeds, each with several seeds, the differences are averaged within a data seed first, and the interval is
    over data seeds.

    Args:
        rows: of :func:`flat`; both arms must share at least one pair of seeds.
        arm: whose advantage is asked for.
        baseline: against whom.
        key: ``"mean"`` or ``"worst"`` test score.
    """
    scores = {
        name: {(row.get("data_seed"), row["seed"]): row[key] for row in rows if row["arm"] == name}
        for name in (arm, baseline)
    }
    pairs = [pair for pair in scores[arm] if pair in scores[baseline]]
    sign = 1 if METRICS[rows[0]["metric"]].higher_is_better else -1  # a gain is a better score, whichever way
    gains = {pair: sign * (scores[arm][pair] - scores[baseline][pair]) for pair in pairs}
    data_seeds = list(dict.fromkeys(data_seed for data_seed, _ in pairs))
    clustered = 1 < len(data_seeds) < len(pairs)
    units = (
        [fmean(gain for (own, _), gain in gains.items() if own == data_seed) for data_seed in data_seeds]
        if clustered
        else list(gains.values())
    )
    mean = fmean(units)
    low, high, p = _paired_t(units)
    won, lost = sum(gain > 0 for gain in gains.values()), sum(gain < 0 for gain in gains.values())
    return Difference(
        arm,
        baseline,
        key,
        mean,
        low,
        high,
        len(units),
        "data seeds" if clustered else "seeds",
        p,
        won,
        lost,
        len(gains) - won - lost,
    )


def share_a_pair(rows: Sequence[Mapping[str, Any]], arm: str, baseline: str) -> bool:
    """Whether two arms have a run with the same seeds, so that :func:`compare` has something to compare."""
    ours, theirs = ({(r.get("data_seed"), r["seed"]) for r in rows if r["arm"] == name} for name in (arm, baseline))
    return bool(ours & theirs)


def _paired_t(gains: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Ends of the 95 % interval and the p value of a t test that the mean is 0."""
    if len(gains) < 2:
        return None, None, None
    mean, error = fmean(gains), stdev(gains) / len(gains) ** 0.5
    if error == 0:  # all differences alike
        return mean, mean, 1.0 if mean == 0 else 0.0
    margin = float(stats.t.ppf(0.975, len(gains) - 1)) * error
    return mean - margin, mean + margin, float(2 * stats.t.sf(abs(mean / error), len(gains) - 1))


def _digits(scale: float) -> int:
    return 1 if scale == 100 else 4
