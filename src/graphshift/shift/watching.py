"""Watching a model over time: for each snapshot what has moved and what the model will score, and when to alarm.

A snapshot alarms if a block has moved *and* the model is expected to lose, or nothing can be said of its score. The
first half is the test of :func:`~graphshift.shift.comparing.compare.compare_graphs`: where nothing has moved it names a
block with a chance of at most ``level``. So of the snapshots in which nothing has moved at most this share alarms,
whatever the estimates say; of n such snapshots at most n · level on average. The second half keeps shifts quiet that do
no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.ledger import Ledger
from graphshift.core.stored import Entry
from graphshift.data.environment import Environment
from graphshift.data.metrics import METRICS, Metric
from graphshift.estimators.estimating import Estimate
from graphshift.estimators.predictor import Predictor
from graphshift.shift.comparing.compare import FEWEST_NODES, LEVEL, Comparison, compare_graphs
from graphshift.shift.estimating import estimate_score

DROP = 0.05  # below the held-out score: an expected loss that alarms

#: What is said of a snapshot, and what it means.
STATUSES = {
    "steady": "nothing has moved as far as can be seen",
    "moved": "something has moved, and the score is expected to hold",
    "alarm": "something has moved, and the score is expected to fall, or cannot be estimated",
    "unseen": "too few nodes to say anything",
}


@dataclass(frozen=True, kw_only=True)
class Snapshot(Entry):
    """What was seen in one snapshot: a line of the log.

    Attributes:
        id: its name.
        status: of :data:`STATUSES`.
        digest: of snapshot, model, source and rule; another digest under one name is looked at anew.
        at: when it was looked at, UTC.
        nodes: that count.
        moved: blocks that moved, the one with most evidence first.
        p: of each block, corrected for their number; None where nothing can be said.
        effect: of each block.
        expected, low, high: the expected score and its interval; None where it was refused or not estimated.
        refused: why there is no expected score.
        held_out: the score on held-out nodes that it is compared with.
        metric: of the scores.
        level, drop: of the alarm rule.
        score: the true score where labels are known and were asked for; it decides nothing.
        why: the status in words.
    """

    id: str
    status: str
    digest: str
    at: str
    nodes: int
    moved: list[str] = field(default_factory=list)
    p: dict[str, float | None] = field(default_factory=dict)
    effect: dict[str, float | None] = field(default_factory=dict)
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    refused: str = ""
    held_out: float | None = None
    metric: str
    level: float
    drop: float
    score: float | None = None
    why: str = ""

    @property
    def alarms(self) -> bool:
        """Whether somebody should act."""
        return self.status == "alarm"

    @property
    def was_right(self) -> bool | None:
        """Whether the true score fell by ``drop`` if it alarmed, and did not if it was silent; None if not known."""
        if self.score is None or self.held_out is None or self.status == "unseen":
            return None
        return self.alarms == (METRICS.find(self.metric).sign * (self.held_out - self.score) >= self.drop)


def watch(
    model: Predictor,
    source: Environment | Sequence[Environment],
    snapshots: Iterable[Environment],
    *,
    validation: Sequence[Environment] = (),
    log: Path | str | None = None,
    level: float = LEVEL,
    drop: float = DROP,
    check: bool = False,
    adapt: str | None = None,
    seed: int = 0,
    report: Callable[[Snapshot], None] | None = None,
) -> list[Snapshot]:
    """Looks at snapshots in their order; those that the log has already are not looked at again.

    Args:
        model: fitted with validation graphs, or calibrated.
        source: the graph that it was trained on, or several.
        snapshots: with names of their own. Labels are not looked at.
        validation: labelled graphs that the model was not trained on, to make shifted copies of; without them the
            estimate is plainer.
        log: a file of JSON lines that goes on being appended; None keeps nothing.
        level: the share of snapshots that may alarm where nothing has moved.
        drop: how far below the held-out score the expected one has to be.
        check: also keep the true score where a snapshot has labels, to see afterwards whether alarms were right.
        adapt: as the model is used: ``"norm"`` or None.
        seed: of communities, exchanges and copies.
        report: called with each snapshot that was looked at.

    >>> import graphshift as gs
    >>> data = gs.load("planted-structure", nodes=600)
    >>> model = gs.ERM("gcn", epochs=30).fit(data)
    >>> [one.status for one in gs.watch(model, data.train[0], data.tests[7:], validation=data.val)]
    ['alarm']
    """
    _check_rule(level, drop)
    named: dict[str, Environment] = {}
    for one in snapshots:
        if one.name in named:
            raise GraphshiftError(f"two snapshots are called {one.name!r}; names must differ.")
        named[one.name] = one
    if not named:
        raise GraphshiftError("watch: there is no snapshot; give at least one.")
    about = METRICS.find(model.task_.metric)
    trained = [source] if isinstance(source, Environment) else list(source)
    rule = f"{_fingerprint(model)} {' '.join(one.fingerprint() for one in trained)} {level} {drop} {adapt} {seed}"
    digests = {name: f"{one.replace(y=None).fingerprint()} {rule}" for name, one in named.items()}
    ledger = Ledger(Snapshot, None if log is None else Path(log))
    fresh = [
        one.replace(y=None)
        for name, one in named.items()
        if name not in ledger.records
        or ledger.records[name].digest != digests[name]
        or (check and ledger.records[name].score is None and one.y is not None)
    ]
    large = [one for one in fresh if int(one.mask.sum()) >= FEWEST_NODES]
    estimates = _estimates(model, large, validation, adapt, seed)
    for one in fresh:
        common: dict[str, Any] = {"id": one.name, "digest": digests[one.name], "nodes": int(one.mask.sum())}
        common |= {"at": datetime.now(UTC).isoformat(timespec="seconds")}
        common |= {"level": level}
        if one.name in estimates:
            comparison = compare_graphs(trained, one, level=level, seed=seed)
            truth = named[one.name]
            score = model.score(truth, adapt=adapt) if check and truth.y is not None else None
            found = judged(comparison, estimates[one.name], about, drop, score=score, **common)
        else:
            why = f"{common['nodes']} nodes count, and fewer than {FEWEST_NODES} do not show what has moved"
            found = Snapshot(status="unseen", why=why, metric=about.name, drop=drop, **common)
        ledger.add(found)
        if report is not None:
            report(found)
    return [ledger.records[name] for name in named]


def judged(comparison: Comparison, estimate: Estimate, metric: Metric, drop: float, **known: Any) -> Snapshot:
    """The alarm rule.

    Args:
        comparison: of source and snapshot.
        estimate: of the score on the snapshot.
        metric: of the score.
        drop: that alarms.
        known: the other fields of the record.
    """
    moved = [block.name for block in comparison.moved]
    fall = None if estimate.expected is None else metric.sign * (estimate.held_out - estimate.expected)
    status = "steady" if not moved else "alarm" if fall is None or fall >= drop else "moved"
    why = comparison.verdict.removesuffix(".")
    if fall is None:
        why += f"; the score cannot be estimated: {estimate.refused}"
    else:
        unit = f" {metric.unit}" if metric.unit else ""
        much = f"{metric.scale * abs(fall):.{metric.digits}f}{unit}"
        why += f"; expected {metric.show(estimate.expected)}, {much} {'below' if fall >= 0 else 'above'} held-out nodes"
    sure = estimate.expected is not None
    return Snapshot(
        status=status,
        why=why,
        moved=moved,
        p={block.name: block.corrected for block in comparison.blocks},
        effect={block.name: block.effect for block in comparison.blocks},
        expected=estimate.expected,
        low=estimate.low if sure else None,
        high=estimate.high if sure else None,
        refused=estimate.refused,
        held_out=estimate.held_out,
        metric=metric.name,
        drop=drop,
        **known,
    )


def _estimates(
    model: Predictor, graphs: Sequence[Environment], validation: Sequence[Environment], adapt: str | None, seed: int
) -> dict[str, Estimate]:
    if not graphs:
        return {}
    if validation:
        found = estimate_score(model, graphs, validation, adapt=adapt, seed=seed)
    else:
        found = model.estimate_score(graphs, adapt=adapt)
    assert isinstance(found, dict)  # of several graphs
    return found


def _fingerprint(model: Predictor) -> str:
    """Tells a model from another by what it shows of its held-out nodes."""
    held = getattr(model, "held_out_", {}).get("")
    return "" if held is None else f"{float(held.signals.log_p.clamp(min=-100).square().sum()):.12g}"


def _check_rule(level: float, drop: float) -> None:
    if not 0 < level < 1:
        raise GraphshiftError(f"watch: level is {level}; expected a share of false alarms between 0 and 1, as 0.05.")
    if drop < 0:
        raise GraphshiftError(f"watch: drop is {drop}; expected how far the score may fall, as 0.05 or 0.")
