"""What is known of one fit: the same object from worker to ledger to statistics to tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field

from graphshift.core.stored import Entry, adapter
from graphshift.data.metrics import METRICS
from graphshift.estimators.estimating import Estimate

Kind: TypeAlias = Literal["trial", "run", "limit", "left_out"]


@dataclass(frozen=True, kw_only=True)
class Adapted:
    """Scores of a model that used the unlabelled test graphs in one way."""

    val: float | None  #: the mean score on the validation environments; None without any
    tests: dict[str, float]  #: the score on each test environment
    refused: dict[str, str]  #: by test environment, why the way was not used there
    held_out: float | None = None  #: the score on held-out training nodes, where the rule chooses by these
    expected: dict[str, Estimate] = field(default_factory=dict)  #: as in :class:`Scores`
    resampled: dict[str, list[float]] = field(default_factory=dict)  #: as in :class:`Scores`


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of a model or an ensemble."""

    val: float | None  #: the mean score on the validation environments; None without any
    tests: dict[str, float]  #: the score on each test environment; empty for a trial
    adapted: dict[str, Adapted] = field(default_factory=dict)  #: with the tests in use, by way
    #: scores of resampled nodes, draw by draw: ``"val"`` of what the rule chooses by, ``"mean"`` of the tests
    resampled: dict[str, list[float]] = field(default_factory=dict)
    #: by unlabelled graph what the model is expected to score there; empty if nobody asked, or it cannot be told
    expected: dict[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EnsembleScores(Scores):
    """Scores of a deep ensemble of ``members`` models, the first of which is the run's own."""

    members: int


@dataclass(frozen=True, kw_only=True)
class Selected(Scores):
    """The epoch that one selection rule chose, and the scores of its weights."""

    epoch: int | float  #: of an in-domain limit, the mean over its folds
    score: float | None  #: by which the rule chose it; None if it scores nothing
    #: the mean score on the validation environments after adversarial edits; None for a trial
    adversarial_val: Annotated[float | None, Field(alias="misled")] = None
    train: float | None = None  #: the mean score on the training environments; None for a trial
    train_without_spurious: float | None = None  #: the same without the columns that the dataset knows to be spurious
    ensemble: EnsembleScores | None = None  #: of the run's model and others that differ in their seed


def _known(metric: str | None) -> str | None:
    if metric is not None and metric not in METRICS:
        raise ValueError(f"there is no metric {metric!r} here; is its plug-in missing?")
    return metric


@dataclass(frozen=True, kw_only=True)
class Record(Entry):
    """One fit: a ``"trial"`` of tuning, a final ``"run"``, an in-domain ``"limit"`` on one test environment, or one
    without one training environment, which is scored there (``"left_out"``).
    """

    kind: Kind
    id: str  #: the same for the same fit in every session
    dataset: str
    arm: str
    method: str
    backbone: str | None  #: None for a method without
    explorer: str | None  #: None for a method without
    data_seed: int | None  #: that the data are made from; None if they are not made
    seed: int
    trial: int | None  #: its number, for trials
    tuned: dict[str, Any]  #: the tuned part of the settings
    environment: str | None  #: the test environment of a limit, the training environment that was left out
    settings: dict[str, Any]  #: all of them
    status: Literal["ok", "failed"]
    reason: str | None = None  #: why it failed
    metric: Annotated[str | None, AfterValidator(_known)] = None  #: of the dataset; None if the fit failed
    selections: dict[str, Selected]  #: by selection rule what it chose; empty if the fit failed
    majority: dict[str, float] = field(default_factory=dict)  #: the share of the largest class in each test environment
    seconds: float | None = None  #: that training took
    seconds_per_epoch: float | None = None
    peak_rss_mb: float | None = None  #: the most memory that the process held
    variance: float | None = None  #: of the risks, the mean over epochs; None for a method without
    curve: dict[str, list[float]] | None = None  #: epoch, mean and variance of the risks at about twenty epochs
    threads: int  #: that it computed with
    version: str  #: of graphshift
    folds: list[float] = field(default_factory=list)  #: the scores of a limit's folds
    trained_with: list[str] = field(default_factory=list)  #: the unlabelled graphs that its training saw

    @property
    def ok(self) -> bool:
        """Whether it finished."""
        return self.status == "ok"

    def to_json(self) -> dict[str, Any]:
        """As plain values. What only some kinds of fits have is there if they have it."""
        content, short = super().to_json(), adapter(Selected)
        for rule, one in self.selections.items():
            content["selections"][rule] = short.dump_python(one, by_alias=True, exclude_defaults=True)
        optional = {name for name in ("folds", "trained_with") if not getattr(self, name)}
        return {name: value for name, value in content.items() if name not in optional}


def _of_selected(name: str) -> Any:
    """A property of a row: a field of what the rule chose; None for an ensemble, whose members have their own."""
    return property(lambda row: getattr(row.selected, name, None))


@dataclass(frozen=True, kw_only=True)
class Row:
    """A final run as one selection rule sees it: as it is, as an ensemble, or with the unlabelled tests in use."""

    record: Record
    rule: str  #: the selection rule
    arm: str  #: the name in tables; that of the record's arm and of what differs from it
    ensemble: int = 1  #: members; 1 for a single model
    adapt: str | None = None  #: the way of using the tests; None for none
    val: float | None  #: the mean validation score
    choosing: float | None = None  #: the score on what the rule chooses by: held-out nodes, or validation graphs
    tests: dict[str, float]  #: the score on each test environment
    refused: dict[str, str] = field(default_factory=dict)  #: by test environment, why ``adapt`` was not used there
    resampled: dict[str, list[float]] = field(default_factory=dict)  #: as in :class:`Scores`
    expected: dict[str, Estimate] = field(default_factory=dict)  #: as in :class:`Scores`
    selected: Selected | None = None  #: what the rule chose; None for an ensemble

    best_epoch = _of_selected("epoch")
    selection_score = _of_selected("score")
    adversarial_val = _of_selected("adversarial_val")
    train = _of_selected("train")
    train_without_spurious = _of_selected("train_without_spurious")

    @property
    def mean(self) -> float | None:
        """The mean test score; None without tests."""
        return fmean(self.tests.values()) if self.tests else None

    @property
    def worst(self) -> float | None:
        """The worst test score; None without tests."""
        if not self.tests:
            return None
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
    """
    rows = []
    for record in records:
        if record.kind == "run" and record.ok and rule in record.selections:
            own = record.selections[rule]
            rows += _variants(record, rule, own, 1, own)
            if own.ensemble is not None:
                rows += _variants(record, rule, own.ensemble, own.ensemble.members, None)
    return rows


def _variants(record: Record, rule: str, scores: Scores, members: int, selected: Selected | None) -> list[Row]:
    """A row for the scores as they are, and one for each way of using the tests."""
    shared: dict[str, Any] = {"record": record, "rule": rule, "ensemble": members, "selected": selected}
    by_nodes = record.kind == "run" and rule == "id_val"
    choosing = selected.score if selected is not None and by_nodes else scores.val
    plain: dict[str, Any] = {
        "val": scores.val,
        "choosing": choosing,
        "tests": scores.tests,
        "resampled": scores.resampled,
        "expected": scores.expected,
    }
    rows = [Row(arm=variant_name(record.arm, members, None), **plain, **shared)]
    for way, found in scores.adapted.items():
        name, own = variant_name(record.arm, members, way), shared | {"adapt": way, "refused": found.refused}
        own |= {"choosing": found.held_out if by_nodes else found.val, "expected": found.expected}
        rows.append(Row(arm=name, val=found.val, tests=found.tests, resampled=found.resampled, **own))
    return rows
