"""The training loop: epochs, batches, selection of the best epoch, callbacks, checkpoints, resume.

It knows a method by ``step`` and ``predict``, a selection rule by its score, and nothing else of either.
"""

import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import rng_state, set_rng_state
from graphshift.data.environment import Environment
from graphshift.data.remarks import too_large
from graphshift.training.batches import Batches, full_batch
from graphshift.training.callbacks import Callback, History
from graphshift.training.method import Method, with_prefix
from graphshift.training.run import Run


class Interrupted(KeyboardInterrupt):
    """Training was stopped by Ctrl-C after an epoch was finished and saved."""


@dataclass(frozen=True)
class Selection:
    """How an epoch is chosen: the best score on some environments.

    Args:
        environments: that the model of an epoch is scored on; empty keeps the last epoch.
        score: ``score(method, environments, epoch)``; None where the model's predictions are not finite.
    """

    environments: Sequence[Environment]
    score: Callable[[Method, Sequence[Environment], int], float | None]


@dataclass(frozen=True)
class Choice:
    """What a selection rule chose.

    Attributes:
        epoch: from 1.
        score: the rule's score there; None if it has none.
        weights: the backbone's state there.
    """

    epoch: int
    score: float | None
    weights: dict[str, Tensor]


@dataclass(frozen=True)
class TrainingResult:
    """What training found.

    Attributes:
        best: what the selection rule chose.
        also: what further rules chose in the same training, by name.
        history: one dict of numbers for each epoch.
        seconds: spent in training and validation, over all sessions of a resumed run.
    """

    best: Choice
    also: dict[str, Choice]
    history: list[dict[str, Any]]
    seconds: float


def train(
    method: Method,
    environments: Sequence[Environment],
    selection: Selection,
    *,
    epochs: int,
    patience: int | None = None,
    batches: Batches = full_batch,
    callbacks: Iterable[Callback] = (),
    also: Mapping[str, Selection] | None = None,
    run: Run | None = None,
    identity: Mapping[str, Any] | None = None,
) -> TrainingResult:
    """Trains a method and keeps the best epoch's weights.

    Selecting an epoch changes nothing in training, so one training can serve several rules. Each finds what it would
    find alone.

    Args:
        method: what to train.
        environments: the training environments.
        selection: the rule that chooses the epoch.
        epochs: how often to go through the batches.
        patience: stop after this many epochs without a better score; None never stops early.
        batches: what each step sees; see :mod:`graphshift.training.batches`.
        callbacks: see :class:`~graphshift.training.callbacks.Callback`.
        also: further rules that each keep an epoch of their own, by name.
        run: where to keep history and checkpoints; a checkpoint that is there is resumed.
        identity: what tells this training from another; a checkpoint of another is refused.
    """
    identity = json.loads(json.dumps(identity, default=str))
    device = environments[0].mask.device
    history = History()
    listeners = [history, *callbacks]
    rules = {"": selection} | dict(also or {})
    trackers = {name: _Best(rule, method, environments) for name, rule in rules.items()}
    best, seconds = trackers[""], 0.0
    method.meet(environments)
    rows: list[dict[str, Any]] = []
    if run is not None and (loaded := run.load()) is not None:
        tensors, note, rows = loaded
        if note.get("identity") != identity:
            other = "belongs to a run with other settings or other data; give the same, or another folder."
            raise GraphshiftError(f"{run.checkpoint}: {other}")
        try:
            method.load_state(with_prefix(tensors, "method."))
            for name, tracker in trackers.items():
                tracker.load(with_prefix(tensors, f"best.{name}."), note["best"][name])
            set_rng_state(with_prefix(tensors, "rng."), device)
            seconds = note["seconds"]
        except _MISFITS as error:
            raise _misfit(run, error) from None
    result: TrainingResult | None = None
    for listener in listeners:
        listener.on_start(epochs)
    try:
        for row in rows:
            for listener in listeners:
                listener.on_epoch(row)
        with _deferred_interrupt(enabled=run is not None) as interrupted:
            started = time.perf_counter() - seconds
            for epoch in range(len(rows) + 1, epochs + 1):
                waiting = {name: t for name, t in trackers.items() if not t.gave_up(epoch, patience)}
                if not waiting:
                    break
                progress = (epoch - 1) / max(epochs - 1, 1)
                try:
                    method.begin(epoch)
                    steps, seen = _steps(method, batches(environments, epoch), progress)
                except _MISFITS as error:
                    if run is None or not rows or epoch > len(rows) + 1 or isinstance(error, GraphshiftError):
                        raise
                    raise _misfit(run, error) from error  # what the checkpoint held has other shapes than it needs
                row = {"epoch": epoch} | _mean(steps) | seen
                if not math.isfinite(row["loss"]):
                    raise _diverged(f"the loss became {row['loss']}", epoch, environments)
                for name, tracker in waiting.items() if method.settled or epoch == epochs else ():
                    score = tracker.offer(epoch)
                    row |= {} if score is None else {name or "val": score}
                row["seconds"] = seconds = time.perf_counter() - started
                stop = interrupted.is_set()
                if run is not None:
                    run.record(row)
                    if run.is_due() or stop:
                        state = {f"method.{k}": v for k, v in method.state().items()}
                        state |= {f"best.{n}.{k}": v for n, t in trackers.items() for k, v in t.weights.items()}
                        state |= {f"rng.{k}": v for k, v in rng_state(device).items()}
                        found = {name: tracker.note() for name, tracker in trackers.items()}
                        run.save(state, {"epoch": epoch, "seconds": seconds, "identity": identity, "best": found})
                        del state  # what explorers gave for it would stay until the next
                for listener in listeners:
                    listener.on_epoch(row)
                if stop:
                    raise Interrupted(f"stopped after epoch {epoch} of {epochs}; its state is saved.")
        others = {name: tracker.choice() for name, tracker in trackers.items() if name}
        result = TrainingResult(best.choice(), others, history.rows, seconds)
    finally:
        for listener in listeners:
            listener.on_end(result)
    return result


class _Best:
    """The best epoch so far by one rule, and its weights."""

    def __init__(self, rule: Selection, method: Method, train: Sequence[Environment]) -> None:
        self.rule, self.method, self.train = rule, method, train
        self.epoch, self.score = 0, None if not rule.environments else -math.inf
        self.weights: dict[str, Tensor] = {}

    def gave_up(self, epoch: int, patience: int | None) -> bool:
        """Whether, before this epoch, there was no better score for as long as patience lasts."""
        return patience is not None and self.epoch > 0 and epoch - 1 - self.epoch >= patience

    def offer(self, epoch: int) -> float | None:
        """Scores the present weights and keeps them if they are better; the first of equals stays."""
        if not self.rule.environments:
            self.keep(epoch, None)
            return None
        score = self.rule.score(self.method, self.rule.environments, epoch)
        if score is None:
            found = "predictions for the validation environments became NaN or infinite"
            raise _diverged(found, epoch, self.rule.environments)
        sign = 1 if self.rule.environments[0].task.scorer.higher_is_better else -1
        if not self.epoch or (self.score is not None and sign * score > sign * self.score):
            self.keep(epoch, score)
        return score

    def keep(self, epoch: int, score: float | None) -> None:
        """Keeps the present weights."""
        self.epoch, self.score = epoch, score
        self.weights = {name: t.detach().clone() for name, t in self.method.backbone.state_dict().items()}
        if not all(bool(torch.isfinite(t).all()) for t in self.weights.values()):
            raise _diverged("the weights became NaN or infinite", epoch, self.train)

    def choice(self) -> Choice:
        return Choice(self.epoch, self.score, self.weights)

    def note(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "score": self.score if self.epoch else None}

    def load(self, weights: dict[str, Tensor], note: dict[str, Any]) -> None:
        if not note["epoch"] and not weights and not self.method.settled:
            return  # nothing was to be chosen yet
        own = {name: t.shape for name, t in self.method.backbone.state_dict().items()}
        if {name: t.shape for name, t in weights.items()} != own:
            raise GraphshiftError("the best epoch's weights have other names or shapes")
        if not all(bool(torch.isfinite(t).all()) for t in weights.values()):
            raise GraphshiftError("the best epoch's weights are not finite")
        self.epoch, self.score, self.weights = note["epoch"], note["score"], weights


#: What methods and torch raise where a state has the wrong names, shapes or types.
_MISFITS = (KeyError, IndexError, RuntimeError, ValueError, TypeError, AttributeError, ArithmeticError)


def _misfit(run: Run, error: Exception) -> GraphshiftError:
    why = " ".join(str(error).split()).rstrip(".")[:300]
    return GraphshiftError(f"{run.checkpoint}: does not fit this model ({why}); remove it to start again.")


def _steps(
    method: Method, batches: Iterable[Sequence[Environment]], progress: float
) -> tuple[Sequence[dict[str, float]], dict[str, int]]:
    """The numbers of each step; and, where batches are pieces of graphs, how many there were and what they saw."""
    steps: Sequence[dict[str, float]] = []
    nodes, pieces = 0, False
    for batch in batches:
        steps = [*steps, method.step(batch, progress)]
        nodes += sum(environment.counted.numel() for environment in batch)
        pieces = pieces or any(environment.whole is not None for environment in batch)
    steps, nodes = method.end(steps, nodes)
    return steps, {"batches": len(steps), "nodes": nodes} if pieces else {}


def _mean(steps: Sequence[dict[str, float]]) -> dict[str, float]:
    """The numbers of an epoch: the step's own, or the mean over its steps."""
    if not steps:
        raise GraphshiftError("batches gave nothing for an epoch; expected at least one list of environments.")
    return steps[0] if len(steps) == 1 else {name: fmean(step[name] for step in steps) for name in steps[0]}


def _diverged(what: str, epoch: int, environments: Sequence[Environment]) -> GraphshiftError:
    if where := too_large(environments):
        return GraphshiftError(
            f"{what} at epoch {epoch}; training was stopped: features are too large, and products of them overflow: "
            f"{where}. Scale the columns, as x = (x - x.mean(0)) / x.std(0), with the mean and deviation of training; "
            'in tables, scale = "auto" does.'
        )
    return GraphshiftError(
        f"{what} at epoch {epoch}; training was stopped. Usual causes: a learning rate that is too high (try a tenth), "
        "or features of very different sizes (scale the columns of `x`). Clipping gradients (clip=1.0) helps against "
        "rare spikes."
    )


@contextmanager
def _deferred_interrupt(*, enabled: bool) -> Iterator[threading.Event]:
    """Turns the first Ctrl-C or SIGTERM into a flag: the epoch is finished and saved. The second acts at once."""
    flag = threading.Event()
    if not enabled or threading.current_thread() is not threading.main_thread():
        yield flag
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def handle(number: int, frame: Any) -> None:
        flag.set()
        restore()

    for number in previous:
        signal.signal(number, handle)
    try:
        yield flag
    finally:
        restore()
