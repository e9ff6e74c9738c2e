"""What is known of one fit: the same object from worker to ledger to statistics to tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError

from graphshift.core.errors import GraphshiftError
from graphshift.data.metrics import METRICS

_adapters: dict[type, TypeAdapter[Any]] = {}


def _adapter(kind: type) -> TypeAdapter[Any]:
    return _adapters[kind] if kind in _adapters else _adapters.setdefault(kind, TypeAdapter(kind))


class Stored:
    """A dataclass that is kept as JSON. Types are checked when it is read; fields of later versions are left aside."""

    @classmethod
    def from_json(cls, content: Any, *, where: str = "") -> Self:
        """Reads what :meth:`to_json` gave.

        Args:
            content: plain values.
            where: what to put before a message, such as the file's name.

        Raises:
            GraphshiftError: naming the first field that is missing or of another type.
        """
        try:
            found: Self = _adapter(cls).validate_json(json.dumps(content), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            what = "is missing" if first["type"] == "missing" else f"is {first['input']!r:.80}; {first['msg']}"
            raise GraphshiftError(f"{where}{f'field `{name}` ' if name else ''}{what}.") from None
        return found

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        found: dict[str, Any] = _adapter(type(self)).dump_python(self, by_alias=True)
        return found


class Entry(Stored):
    """A line of a ledger: of several with the same ``id`` the last counts, and ``"failed"`` ones can be run again."""

    id: str
    status: str


@dataclass(frozen=True, kw_only=True)
class Adapted:
    """Scores of a model that used the unlabelled test graphs in one way.

    Attributes:
        val: the mean score on the validation environments; None without any.
        tests: the score on each test environment.
        refused: by test environment, why the way was not used there.
    """

    val: float | None
    tests: dict[str, float]
    refused: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of a model or an ensemble.

    Attributes:
        val: the mean score on the validation environments; None without any.
        tests: the score on each test environment; empty for a trial.
        adapted: the same with the unlabelled test graphs in use, by way (``estimators.adaptation``).
    """

    val: float | None
    tests: dict[str, float]
    adapted: dict[str, Adapted] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EnsembleScores(Scores):
    """Scores of a deep ensemble whose first member is the run's own model.

    Attributes:
        members: how many.
    """

    members: int


@dataclass(frozen=True, kw_only=True)
class Selected(Scores):
    """The epoch that one selection rule chose, and the scores of its weights.

    Attributes:
        epoch: the epoch; of an in-domain limit, the mean over its folds.
        score: by which the rule chose it; None if it scores nothing.
        adversarial_val: the mean score on the validation environments after adversarial edits; None for a trial.
        train: the mean score on the training environments; None for a trial.
        train_without_spurious: the same without the columns that the dataset knows to be spurious.
        ensemble: of the run's model and others that differ in their seed.
    """

    epoch: int | float
    score: float | None
    adversarial_val: Annotated[float | None, Field(alias="misled")] = None
    train: float | None = None
    train_without_spurious: float | None = None
    ensemble: EnsembleScores | None = None


@dataclass(frozen=True, kw_only=True)
class Record(Entry):
    """One fit.

    Attributes:
        kind: ``"trial"`` (of tuning), ``"run"`` (a final one) or ``"limit"`` (in-domain, on one test environment).
        id: the same for the same fit in every session.
        dataset, arm, method, backbone: whose it is.
        explorer: of EERM; None for other methods.
        data_seed: that the data are made from; None if they are not made.
        seed: of the fit.
        trial: its number, for trials.
        tuned: the tuned part of the settings.
        environment: the test environment of a limit.
        settings: all of them.
        status: ``"ok"`` or ``"failed"``.
        reason: why it failed.
        metric: of the dataset; None if the fit failed.
        selections: by selection rule what it chose; empty if the fit failed.
        majority: the share of the largest class in each test environment.
        seconds, seconds_per_epoch: that training took.
        peak_rss_mb: the most memory that the process held.
        variance: of the risks, the mean over epochs; None for a method without.
        curve: epoch, mean and variance of the risks at about twenty epochs of a run.
        threads: that it computed with.
        version: of graphshift.
        folds: the scores of a limit's folds.
    """

    kind: Literal["trial", "run", "limit"]
    id: str
    dataset: str
    arm: str
    method: str
    backbone: str
    explorer: str | None
    data_seed: int | None
    seed: int
    trial: int | None
    tuned: dict[str, Any]
    environment: str | None
    settings: dict[str, Any]
    status: Literal["ok", "failed"]
    reason: str | None = None
    metric: str | None = None
    selections: dict[str, Selected]
    majority: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    seconds_per_epoch: float | None = None
    peak_rss_mb: float | None = None
    variance: float | None = None
    curve: dict[str, list[float]] | None = None
    threads: int
    version: str
    folds: list[float] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether it finished."""
        return self.status == "ok"

    def to_json(self) -> dict[str, Any]:
        """As plain values. What only some kinds of fits have is there if they have it."""
        content = super().to_json()
        short = {
            rule: _adapter(Selected).dump_python(one, by_alias=True, exclude_defaults=True)
            for rule, one in self.selections.items()
        }
        content |= {"selections": short}
        return content if self.folds else {name: value for name, value in content.items() if name != "folds"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A final run as one selection rule sees it: as it is, as an ensemble, or with the unlabelled tests in use.

    Attributes:
        record: of the run.
        rule: the selection rule.
        arm: the name in tables; that of the record's arm and of what differs from it.
        ensemble: members; 1 for a single model.
        adapt: the way of using the tests; None for none.
        val: the mean validation score.
        tests: the score on each test environment.
        refused: by test environment, why ``adapt`` was not used there.
        selected: what the rule chose; None for an ensemble, whose members have epochs of their own.
    """

    record: Record
    rule: str
    arm: str
    ensemble: int = 1
    adapt: str | None = None
    val: float | None
    tests: dict[str, float]
    refused: dict[str, str] = field(default_factory=dict)
    selected: Selected | None = None

    @property
    def mean(self) -> float:
        """The mean test score."""
        return fmean(self.tests.values())

    @property
    def worst(self) -> float:
        """The worst test score."""
        return min(self.tests.values()) if self.higher_is_better else max(self.tests.values())

    @property
    def higher_is_better(self) -> bool:
        """Which way the metric goes."""
        return METRICS[self.metric].higher_is_better

    @property
    def metric(self) -> str:
        """Its name."""
        assert self.record.metric is not None  # a run that finished has one
        return self.record.metric

    @property
    def seeds(self) -> tuple[int | None, int]:
        """Data seed and seed: by these, runs of different arms are paired."""
        return self.record.data_seed, self.record.seed

    @property
    def best_epoch(self) -> float | None:
        """The epoch that the rule chose; None for an ensemble."""
        return None if self.selected is None else self.selected.epoch

    @property
    def selection_score(self) -> float | None:
        """The score by which the rule chose it; None for an ensemble."""
        return None if self.selected is None else self.selected.score

    @property
    def adversarial_val(self) -> float | None:
        """The mean validation score after adversarial edits; None for an ensemble."""
        return None if self.selected is None else self.selected.adversarial_val

    @property
    def train_without_spurious(self) -> float | None:
        """The training score without spurious columns; None for an ensemble, and where none are known."""
        return None if self.selected is None else self.selected.train_without_spurious

    @property
    def train(self) -> float | None:
        """The training score; None for an ensemble."""
        return None if self.selected is None else self.selected.train

    @property
    def curve(self) -> dict[str, list[float]] | None:
        """Mean and variance of the risks during training; None for an ensemble, and for a method without."""
        return None if self.selected is None else self.record.curve


def variant_name(arm: str, members: int, way: str | None) -> str:
    """What an arm is called as an ensemble, and when it uses the unlabelled tests."""
    parts = [arm, *([f"× {members}"] if members > 1 else []), *([] if way is None else [f"+ {way}"])]
    return ", ".join(parts)


def rows_of(records: Sequence[Record], rule: str) -> list[Row]:
    """One row for each final run that finished, as one selection rule sees it.

    A run that was scored as an ensemble as well, or with the unlabelled tests in use, has a row for each of these,
    under an arm's name of its own.

    Args:
        records: of a study.
        rule: the selection rule.
    """
    rows = []
    for record in records:
        if record.kind == "run" and record.ok and rule in record.selections:
            own = record.selections[rule]
            rows += _variants(record, rule, own, own)
            if own.ensemble is not None:
                rows += _variants(record, rule, own.ensemble, None)
    return rows


def _variants(record: Record, rule: str, scores: Scores, selected: Selected | None) -> list[Row]:
    """A row for the scores as they are, and one for each way of using the tests."""
    members = scores.members if isinstance(scores, EnsembleScores) else 1
    ways: list[tuple[str | None, Scores | Adapted]] = [(None, scores), *scores.adapted.items()]
    return [
        Row(
            record=record,
            rule=rule,
            arm=variant_name(record.arm, members, way),
            ensemble=members,
            adapt=way,
            val=found.val,
            tests=found.tests,
            refused=found.refused if isinstance(found, Adapted) else {},
            selected=selected,
        )
        for way, found in ways
    ]
