"""Paired statistics: differences between arms over the same seeds, with intervals, p values and a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from scipy import stats

from graphshift.studies.records import Row
from graphshift.studies.resampling import nodes_error

#: Fewer pairs than these have no interval: two that happen to agree would give one of width zero.
FEWEST = 3

#: Differences that spread less are all alike, but for rounding.
_ALIKE = 1e-12


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over runs; None where there is none: one value has no standard deviation."""

    mean: float | None
    std: float | None


def spread(values: Sequence[float | None]) -> Spread:
    """Mean and standard deviation of the values that are there."""
    found = [value for value in values if value is not None]
    return Spread(fmean(found) if found else None, stdev(found) if len(found) > 1 else None)


@dataclass(frozen=True)
class ArmMeans:
    """An arm's means over runs, and standard deviations (``_std``) of some of them."""

    arm: str
    seeds: int
    val: float | None
    val_std: float | None
    mean: float | None
    mean_std: float | None
    worst: float | None
    worst_std: float | None
    seconds_per_epoch: float | None
    seconds_per_epoch_std: float | None
    variance: float | None


def summarise(rows: Sequence[Row]) -> list[ArmMeans]:
    """For each arm, in order: mean and standard deviation over seeds of the mean and the worst test score."""
    found = []
    for arm in dict.fromkeys(row.arm for row in rows):
        own = [row for row in rows if row.arm == arm]
        numbers: dict[str, Any] = {"arm": arm, "seeds": len(own)}
        for name in ("val", "mean", "worst", "seconds_per_epoch"):
            both = spread([getattr(row.record if name == "seconds_per_epoch" else row, name) for row in own])
            numbers |= {name: both.mean, f"{name}_std": both.std}
        found.append(ArmMeans(**numbers, variance=spread([row.record.variance for row in own]).mean))
    return found


@dataclass(frozen=True)
class Difference:
    """How much one arm is ahead of another over the same seeds, with a 95 % confidence interval (paired t).

    Attributes:
        arm, baseline: which is compared with which.
        key: the score, an attribute of a row: ``"mean"`` or ``"worst"`` (of the tests) and so on.
        mean: of the differences; positive where the arm is better.
        low, high: the interval's ends; None below three pairs, and where all differences are the same.
        seeds: how many independent pairs the interval rests on.
        unit: what these are: ``"seeds"``, or ``"data seeds"`` where several runs share the data.
        p: of the two-sided paired t test; None without an interval.
        wins, losses, ties: over all pairs.
        nodes_error: the standard error over resampled nodes, which the interval covers too; None if none were drawn.
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
    nodes_error: float | None = None

    @property
    def decided(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def sentence(self, scale: float = 100.0, unit: str = "points") -> str:
        """What the comparison shows, in words."""
        size = f"{abs(scale * self.mean):.{_digits(scale)}f}" + (f" {unit}" if unit else "")
        word, score = "ahead of" if self.mean > 0 else "behind", _SCORES.get(self.key, f"{self.key} test score")
        if self.low is None or self.high is None:
            if not self.mean and not self.wins and not self.losses:
                return f"{self.arm} and {self.baseline} have the same {score} in every run ({self.runs})."
            return f"{self.arm} is {word} {self.baseline} by {size} in the {score} ({self.runs}: {self.no_interval})."
        ends = [f"{scale * end:+.{_digits(scale)}f}" for end in (self.low, self.high)]
        interval = f"95 % interval {ends[0]} to {ends[1]}, {self.seeds} {self.unit}"
        if not self.decided:
            differ = f"and {self.baseline} do not differ significantly"
        else:
            differ = f"is {word} {self.baseline} by {size}"
        return f"{self.arm} {differ} in the {score} ({interval})."

    @property
    def runs(self) -> str:
        """How many pairs, in words."""
        return f"{self.seeds} {self.unit if self.seeds != 1 else self.unit.removesuffix('s')}"

    @property
    def no_interval(self) -> str:
        """Why there is no interval, in words; empty if there is one."""
        if self.low is not None:
            return ""
        return "too few for an interval" if self.seeds < FEWEST else "all differ alike, so there is no interval"


def compare(rows: Sequence[Row], arm: str, baseline: str, key: str = "mean") -> Difference:
    """The paired difference of two arms; positive where the arm scores better.

    Arms are paired by data seed and seed. Runs on the same data are not independent draws of the data: with several
    data seeds, each with several seeds, the differences are averaged within a data seed first, and the interval is
    over data seeds.

    Args:
        rows: of :func:`~graphshift.studies.records.rows_of`; both arms must share at least one pair of seeds.
        arm: whose advantage is asked for.
        baseline: the arm to compare with.
        key: ``"mean"`` or ``"worst"`` test score, or another score of a row.
    """
    both = {name: {row.seeds: row for row in rows if row.arm == name} for name in (arm, baseline)}
    scores = {name: {pair: getattr(row, key) for pair, row in own.items()} for name, own in both.items()}
    known = [{pair for pair, score in own.items() if score is not None} for own in scores.values()]
    pairs = [pair for pair in scores[arm] if all(pair in own for own in known)]
    sign = 1 if rows[0].higher_is_better else -1  # a gain is a better score, whichever way
    gains = {pair: sign * (scores[arm][pair] - scores[baseline][pair]) for pair in pairs}
    data_seeds = list(dict.fromkeys(data_seed for data_seed, _ in pairs))
    clustered = 1 < len(data_seeds) < len(pairs)
    units, unit = list(gains.values()), "seeds"
    won, lost = sum(gain > 0 for gain in units), sum(gain < 0 for gain in units)
    if clustered:
        units = [fmean(gain for (own, _), gain in gains.items() if own == data_seed) for data_seed in data_seeds]
        unit = "data seeds"
    drawn = _DRAWN.get(key, key)
    error = nodes_error(*([own[pair].resampled.get(drawn, []) for pair in pairs] for own in both.values()))
    low, high, p = paired_t(units, error or 0.0)
    pairs_won = {"wins": won, "losses": lost, "ties": len(gains) - won - lost}
    return Difference(arm, baseline, key, fmean(units), low, high, len(units), unit, p, **pairs_won, nodes_error=error)


def share_a_pair(rows: Sequence[Row], arm: str, baseline: str, key: str = "mean") -> bool:
    """Whether two arms have a run with the same seeds and the score, so that :func:`compare` has something to do."""
    scored = [row for row in rows if getattr(row, key) is not None]
    ours, theirs = ({row.seeds for row in scored if row.arm == name} for name in (arm, baseline))
    return bool(ours & theirs)


def paired_t(gains: Sequence[float], nodes: float = 0.0) -> tuple[float | None, float | None, float | None]:
    """Ends of the 95 % interval and the p value of a t test that the mean is 0; ``nodes``: a further standard error."""
    if len(gains) < FEWEST or (spread := stdev(gains)) < _ALIKE:
        return None, None, None
    mean, error = fmean(gains), (spread**2 / len(gains) + nodes**2) ** 0.5
    margin = float(stats.t.ppf(0.975, len(gains) - 1)) * error
    return mean - margin, mean + margin, float(2 * stats.t.sf(abs(mean / error), len(gains) - 1))


#: How a score is called in a sentence; the others are of tests.
_SCORES = {"val": "validation score", "choosing": "choosing score"}

#: Which draws of nodes go with a score; of the worst test there are none.
_DRAWN = {"choosing": "val"}


def _digits(scale: float) -> int:
    return 1 if scale == 100 else 4
