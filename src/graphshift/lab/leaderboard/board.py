"""The leaderboard's lines: what every finished study says of a method in an experiment, in one shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from graphshift.core.storage import read_json
from graphshift.datasets import DATASETS
from graphshift.estimators.base import METHODS
from graphshift.estimators.target import MARK
from graphshift.lab.leaderboard.cells import BASELINE, FOLDER
from graphshift.lab.leaderboard.claims import Claim, claim
from graphshift.lab.paper.experiments import Experiment
from graphshift.lab.paper.reproducing import read_study
from graphshift.studies import Difference, Row, Summary, compare
from graphshift.studies.statistics import share_a_pair
from graphshift.studies.summary import ArmSummary
from graphshift.training.selection import SELECTIONS

#: What a score may rest on, beside the training data. Only lines of one league are compared as if they were alike.
LEAGUES: Mapping[str, str] = {
    "no target": "nothing",
    "target at prediction": "the tests without labels, in choosing the epoch and settings or when they are predicted",
    "target in training": "the tests without labels, in every step of training",
}

#: Studies of earlier versions, by the setting's name. What they have is not taken from the cells again.
_EARLIER = ("methods", "simple")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line: an arm in an experiment by one rule, as it is or as a variant."""

    experiment: Experiment
    summary: ArmSummary
    trials: int  #: of tuning that every arm of its study had
    metric: str
    rows: Sequence[Row]
    difference: Difference | None = None  #: to ERM as it is, with the experiment's backbone, chosen on validation
    limit: float | None = None  #: the in-domain limit of its backbone
    published: Claim | None = None

    @property
    def method(self) -> str:
        """The method's name as people write it."""
        name = self.summary.method
        return METHODS[name].label if name in METHODS else name

    @property
    def name(self) -> str:
        """Everything that tells it from other lines of the experiment, but the rule."""
        one = self.summary
        aims = " to target" if one.trained_with and _may_see(one.method) else ""
        parts = [f"{self.method} {one.explorer}" if one.explorer else f"{self.method}{aims}"]
        parts += [one.backbone] if one.backbone else []
        parts += [f"× {one.ensemble}"] if one.ensemble > 1 else []
        parts += [f"+ {one.adapt}"] if one.adapt else []
        return ", ".join(parts) + (f" {MARK}" if one.trained_with else "")

    @property
    def league(self) -> str:
        """Of :data:`LEAGUES`."""
        if self.summary.trained_with:
            return "target in training"
        looks = self.summary.adapt is not None or SELECTIONS[self.summary.selection].uses_target
        return "target at prediction" if looks else "no target"

    @property
    def shift(self) -> str:
        """The kind of shift, as the catalogue of datasets has it."""
        return DATASETS[self.experiment.dataset].shift

    @property
    def seconds(self) -> float | None:
        """That a fit took, the mean over runs; of an ensemble that of its first member."""
        found = [row.record.seconds for row in self.rows if row.record.seconds is not None]
        return fmean(found) if found else None

    @property
    def is_baseline(self) -> bool:
        """Whether the other lines of the experiment are compared with it."""
        one = self.summary
        plain = one.method == BASELINE and one.backbone == self.experiment.backbone and not one.is_variant
        return plain and one.selection == "val" and not one.trained_with


def _may_see(method: str) -> bool:
    """Whether a method can be trained with and without a target, so that its name has to say which it was."""
    about: Any = METHODS.get(method)
    return bool(about is not None and about.uses_target and not about.needs_target)


def board(folder: Path, experiments: Sequence[Experiment]) -> list[Line]:
    """The lines of all studies that a folder has; each arm, rule and variant once, the earliest study's."""
    return [line for experiment in experiments for line in _lines(folder / experiment.name, experiment)]


def _lines(place: Path, experiment: Experiment) -> list[Line]:
    found: dict[tuple[Any, ...], Line] = {}
    limits: dict[str, float] = {}
    shapes: dict[int, Any] = {}
    for study in _studies(place):
        read = read_study(study)
        if read is None:
            continue
        summary, by_rule, _ = read
        limits = {name: one.mean for name, one in summary.limits.items()} | limits
        shape = _shape(study)
        for line in _of_study(experiment, summary, by_rule):
            one = line.summary
            kind = (one.method, one.explorer, one.backbone, one.selection, one.ensemble, one.adapt)
            if found.setdefault((*kind, bool(one.trained_with)), line) is line:
                shapes[id(line)] = shape
    lines = list(found.values())
    baseline = next((line for line in lines if line.is_baseline), None)
    return [
        replace(
            line,
            difference=_difference(line, baseline) if _alike(shapes[id(line)], shapes.get(id(baseline))) else None,
            limit=limits.get(line.summary.backbone or ""),
            published=_published(line),
        )
        for line in lines
    ]


def _studies(place: Path) -> list[Path]:
    cells = place / FOLDER
    return [*(place / name for name in _EARLIER), *(sorted(cells.iterdir()) if cells.is_dir() else ())]


def _of_study(experiment: Experiment, summary: Summary, by_rule: Mapping[str, Sequence[Row]]) -> list[Line]:
    about: dict[str, Any] = {"experiment": experiment, "metric": summary.metric, "trials": summary.trials}
    made = []
    for arm in summary.arms:
        kept = arm.allowed and arm.mean_test.mean is not None
        # By the rule that looks at the tests a line for each way would say the same thing twice.
        if kept and not (arm.adapt and SELECTIONS[arm.selection].uses_target):
            own = [row for row in by_rule[arm.selection] if row.arm == arm.arm]
            made.append(Line(summary=arm, rows=own, **about))
    return made


def _difference(line: Line, baseline: Line | None) -> Difference | None:
    """Paired by data seed and seed, also between studies: the same draws of the same data."""
    if baseline is None or line.is_baseline:
        return None
    rows = [replace(row, arm="this") for row in line.rows] + [replace(row, arm=BASELINE) for row in baseline.rows]
    return compare(rows, "this", BASELINE) if share_a_pair(rows, "this", BASELINE) else None


def _published(line: Line) -> Claim | None:
    one = line.summary
    is_plain = not one.is_variant and one.selection == "val"
    return claim(line.experiment.name, one.method, one.backbone) if is_plain else None


def _shape(study: Path) -> list[tuple[Any, ...]]:
    """Names, sizes and sums of contents of a study's test graphs."""
    tests = read_json(study / "plan.json")["data"]["tests"]
    return [(t["name"], t["nodes"], t["edges"], t["features"], t["counted"], *t.get("sums", ())) for t in tests]


def _alike(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]] | None) -> bool:
    """Whether two studies had the same data, up to rounding; sums are compared where both have them."""
    if other is None or len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        pairs = list(zip(a[1:], b[1:], strict=False))
        if a[0] != b[0] or any(abs(x - y) > 1e-6 * max(abs(x), abs(y)) for x, y in pairs):
            return False
    return True
