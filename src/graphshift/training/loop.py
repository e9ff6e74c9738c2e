"""The one training loop: epochs, selection of the best, history, checkpoints, resume."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import rng_state, set_rng_state
from graphshift.core.storage import read_tensors, write_tensors, write_text
from graphshift.data.environment import Environment
from graphshift.methods import Method
from graphshift.training.selection import explored_score, mean_score


class Interrupted(KeyboardInterrupt):
    """Training was stopped by Ctrl-C after an epoch was finished and saved."""


@dataclass(frozen=True)
class Choice:
    """What one more rule chose in the same training: the epoch, its score, and the backbone's state there."""

    epoch: int
    score: float | None
    weights: dict[str, Tensor]


@dataclass(frozen=True)
class TrainingResult:
    """What training found.

    Attributes:
        best_epoch: the selected epoch, from 1.
        best_score: the selection score there; None with selection ``"last"``.
        weights: the backbone's state at that epoch.
        history: one dict of numbers for each epoch.
        seconds: spent in training and validation, over all sessions of a resumed run.
        also: what further rules chose, by name.
    """

    best_epoch: int
    best_score: float | None
    weights: dict[str, Tensor]
    history: list[dict[str, Any]]
    seconds: float
    also: dict[str, Choice] = field(default_factory=dict)


@dataclass
class Run:
    """A folder that a run can be resumed from: ``history.jsonl`` and ``checkpoint.safetensors``.

    Args:
        folder: made if need be.
        every: seconds between checkpoints; 0 saves after every epoch.
        begin: called when all was checked and training begins; what it makes ready is not touched before.
    """

    folder: Path
    every: float = 30.0
    begin: Callable[[], None] | None = None
    _saved: float = field(default_factory=time.monotonic, init=False)

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)

    @property
    def checkpoint(self) -> Path:
        """The latest state of training."""
        return self.folder / "checkpoint.safetensors"

    @property
    def history(self) -> Path:
        """One line of JSON for each epoch."""
        return self.folder / "history.jsonl"

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any], list[dict[str, Any]]] | None:
        """The state, the note and the history of the latest checkpoint; None if there is none."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GraphshiftError(f"{self.folder}: cannot be made: {error.strerror}.") from None
        if self.begin is not None:
            self.begin()
        if not self.checkpoint.exists():
            write_text(self.history, "")
            return None
        tensors, note = read_tensors(self.checkpoint)
        if not isinstance(note, dict) or "epoch" not in note:
            raise GraphshiftError(f"{self.checkpoint}: this is not a graphshift checkpoint; remove it to start anew.")
        try:
            lines = self.history.read_text(encoding="utf-8").splitlines(keepends=True)[: note["epoch"]]
            rows = [json.loads(line) for line in lines]
        except (OSError, ValueError) as error:
            raise GraphshiftError(f"{self.history}: does not fit its checkpoint ({error}); start anew.") from None
        epochs = [row.get("epoch") if isinstance(row, dict) else None for row in rows]
        if epochs != list(range(1, note["epoch"] + 1)):
            raise GraphshiftError(
                f"{self.history}: does not hold the epochs 1 to {note['epoch']} of its checkpoint; start anew."
            )
        # Epochs after the checkpoint will be run again: drop their lines.
        write_text(self.history, "".join(lines))  # at once: a kill while it is rewritten must not lose it
        return tensors, note, rows

    def record(self, row: dict[str, Any]) -> None:
        """Adds an epoch to the history."""
        try:
            with self.history.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise GraphshiftError(f"{self.history}: cannot be written: {error.strerror}.") from None

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self._saved >= self.every

    def save(self, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
        """Writes a checkpoint; the history reaches the disk before it."""
        with self.history.open("rb") as file:
            os.fsync(file.fileno())
        write_tensors(self.checkpoint, tensors, note)
        self._saved = time.monotonic()


def train(
    method: Method,
    environments: Sequence[Environment],
    select_by: Sequence[Environment],
    *,
    epochs: int,
    patience: int | None = None,
    run: Run | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
    settings: Mapping[str, Any] | None = None,
    also: Mapping[str, Sequence[Environment]] | None = None,
    explored: bool = False,
) -> TrainingResult:
    """Trains a method and keeps the best epoch's weights.

    Choosing an epoch changes nothing in training, so one training can serve several rules; each finds what it would
    find alone.

    Args:
        method: what to train.
        environments: the training environments.
        select_by: the environments whose mean score chooses the epoch; empty keeps the last.
        epochs: how many steps of the method.
        patience: stop after this many epochs without a better score; None never stops early.
        run: where to keep history and checkpoints; a checkpoint that is there is resumed.
        report: called with every epoch's row.
        settings: what tells this training from another; a checkpoint of another is refused.
        also: further rules that each keep an epoch of their own: a name, and the environments to choose by.
        explored: choose by the score under explored views, as the further rule ``"explored"`` does.
    """
    settings = json.loads(json.dumps(settings, default=str))
    device = environments[0].mask.device
    best = _Best(select_by, method, explored)
    others = {rule: _Best(chosen, method, rule == "explored") for rule, chosen in (also or {}).items()}
    history: list[dict[str, Any]] = []
    seconds = 0.0
    loaded = run.load() if run else None
    if loaded:
        tensors, note, history = loaded
        assert run is not None
        if note.get("settings") != settings:
            raise GraphshiftError(
                f"{run.checkpoint}: is of a run with other settings or other data; give the same, or another folder."
            )
        try:
            method.load_state(_part(tensors, "method."))
            best.load(_part(tensors, "best."), note)
            for rule, other in others.items():
                other.load(_part(tensors, f"also.{rule}."), note["also"][rule])
            set_rng_state(_part(tensors, "rng."), device)
            seconds = note["seconds"]
        except (KeyError, IndexError, RuntimeError) as error:
            raise GraphshiftError(
                f"{run.checkpoint}: does not fit this model ({' '.join(str(error).split())}); remove it to start anew."
            ) from None
        for row in history:
            if report:
                report(row)
    with _deferred_interrupt(enabled=run is not None) as interrupted:
        started = time.perf_counter() - seconds
        for epoch in range(len(history) + 1, epochs + 1):
            waiting = [b for b in (best, *others.values()) if not b.gave_up(epoch, patience)]
            if not waiting:
                break
            row = {"epoch": epoch} | method.step(environments, (epoch - 1) / max(epochs - 1, 1))
            if not math.isfinite(row["loss"]):
                raise _diverged(f"the loss became {row['loss']}", epoch)
            if not select_by:
                best.keep(epoch, None)
            elif best in waiting:
                row["val"] = best.offer(epoch)
            row |= {rule: other.offer(epoch) for rule, other in others.items() if other in waiting}
            seconds = time.perf_counter() - started
            row["seconds"] = seconds
            history.append(row)
            stop = interrupted.is_set()
            if run:
                run.record(row)
                if run.is_due() or stop:
                    state = {f"method.{k}": v for k, v in method.state().items()}
                    state |= {f"best.{k}": v for k, v in best.weights.items()}
                    state |= {f"also.{r}.{k}": v for r, other in others.items() for k, v in other.weights.items()}
                    state |= {f"rng.{k}": v for k, v in rng_state(device).items()}
                    note = {"epoch": epoch, "seconds": seconds, "settings": settings} | best.note()
                    run.save(state, note | ({"also": {r: o.note() for r, o in others.items()}} if others else {}))
                    del state  # what explorers gave for it would stay until the next
            if report:
                report(row)
            if stop:
                raise Interrupted(f"stopped after epoch {epoch} of {epochs}; its state is saved.")
    chosen = {rule: Choice(other.epoch, other.score, other.weights) for rule, other in others.items()}
    return TrainingResult(best.epoch, best.score, best.weights, history, seconds, chosen)


class _Best:
    """The best epoch so far and its weights."""

    def __init__(self, select_by: Sequence[Environment], method: Method, explored: bool) -> None:
        self.select_by, self.method, self.explored = select_by, method, explored
        self.epoch, self.score = 0, None if not select_by else -math.inf
        self.weights: dict[str, Tensor] = {}

    def gave_up(self, epoch: int, patience: int | None) -> bool:
        """Whether, before this epoch, it has waited for a better score as long as patience lasts."""
        return patience is not None and self.epoch > 0 and epoch - 1 - self.epoch >= patience

    def offer(self, epoch: int) -> float:
        """Scores the present weights and keeps them if they are better; the first of equals stays."""
        score = (explored_score if self.explored else mean_score)(self.method, self.select_by, epoch)
        if score is None:
            raise _diverged("predictions for the validation environments became NaN or infinite", epoch)
        sign = 1 if self.select_by[0].task.scorer.higher_is_better else -1
        if not self.epoch or (self.score is not None and sign * score > sign * self.score):
            self.keep(epoch, score)
        return score

    def keep(self, epoch: int, score: float | None) -> None:
        """Keeps the present weights."""
        self.epoch, self.score = epoch, score
        self.weights = {name: t.detach().clone() for name, t in self.method.backbone.state_dict().items()}
        if not all(bool(torch.isfinite(t).all()) for t in self.weights.values()):
            raise _diverged("the weights became NaN or infinite", epoch)

    def note(self) -> dict[str, Any]:
        return {"best_epoch": self.epoch, "best_score": self.score}

    def load(self, weights: dict[str, Tensor], note: dict[str, Any]) -> None:
        self.epoch, self.score, self.weights = note["best_epoch"], note["best_score"], weights


def _diverged(what: str, epoch: int) -> GraphshiftError:
    return GraphshiftError(
        f"{what} at epoch {epoch}; training was stopped. Usual causes: a learning rate that is too high (try a tenth), "
        "or features of very different sizes (scale the columns of `x`). Clipping gradients (clip=1.0) helps against "
        "rare spikes."
    )


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


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
