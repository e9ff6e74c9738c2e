"""What all experiment trackers share: when to open, what to write, and that a tracker's failure never ends a fit."""

from __future__ import annotations

import json
import re
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.extras import require_extra
from graphshift.core.registry import Registry
from graphshift.training.callbacks import Callback

if TYPE_CHECKING:
    from graphshift.training.loop import TrainingResult

#: Seconds between writes: a tracker takes longer to write than a small graph takes for an epoch.
_EVERY = 2.0


class Logger(Callback):
    """Writes settings, the numbers of every epoch, and scores to an experiment tracker.

    It opens when the settings are known, before training changes anything: what cannot be opened is a
    :class:`~graphshift.core.errors.GraphshiftError`. Later failures are one warning, and training goes on.

    Args:
        place: where the tracker keeps its runs; None for its own default.
        group: what the runs of one dataset or study share.
        name: of this run; None lets the tracker choose.
    """

    #: The package that it needs, and what the part after the colon of ``--log NAME:PLACE`` is.
    package: ClassVar[str]
    place_is: ClassVar[str]
    place_needed: ClassVar[bool] = False

    def __init__(self, place: str | None = None, *, group: str = "graphshift", name: str | None = None) -> None:
        if self.place_needed and not place:
            raise GraphshiftError(f"{type(self).__name__}: {self.place_is} is missing.")
        self.place, self.group, self.name = place, group, name
        self.held = False  # whether somebody will close it, when scores are known
        self.strict = True  # whether what cannot be opened is an error; else it is a warning
        self._rows: list[dict[str, Any]] = []
        self._written = 0.0
        self._is_open = False

    @abstractmethod
    def open(self, settings: Mapping[str, Any]) -> None:
        """Begins a run with these settings, plain values by name."""

    @abstractmethod
    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Writes the numbers of some epochs; ``epoch`` is in each row."""

    @abstractmethod
    def write_scores(self, scores: Mapping[str, float]) -> None:
        """Writes what is known when training is over."""

    @abstractmethod
    def end(self, *, finished: bool) -> None:
        """Ends the run."""

    def check(self) -> None:
        """Refuses, before a study starts, a place that cannot be written to."""

    def on_settings(self, settings: Mapping[str, Any]) -> None:
        """Opens."""
        require_extra(self.package, f"logging to {type(self).__name__}")
        self._is_open, self._written = True, time.monotonic()
        plain = {name: _plain(value) for name, value in settings.items()}
        if not self.strict:
            self._try(lambda: self.open(plain))
            return
        try:
            self.open(plain)
        except Exception as error:  # whatever a tracker raises: there is no common class
            self._is_open = False
            raise GraphshiftError(f"{self.where}: cannot be opened: {_reason(error)}") from error

    def on_epoch(self, row: Mapping[str, Any]) -> None:
        """Keeps the row, and writes what is kept every two seconds."""
        self._rows.append({name: value for name, value in row.items() if value is not None})
        if time.monotonic() - self._written > _EVERY:
            self._flush()

    def on_end(self, result: TrainingResult | None) -> None:
        """Writes the rest; closes, unless scores are still to come."""
        self._flush()
        if result is not None:
            self.scores({"best_epoch": result.best.epoch, "selection_score": result.best.score})
        if not self.held:
            self.close(finished=result is not None)

    def scores(self, scores: Mapping[str, Any]) -> None:
        """Writes those that are numbers, a mapping's as ``tests/NAME``."""
        found: dict[str, float] = {}
        for name, value in scores.items():
            for key, one in value.items() if isinstance(value, Mapping) else [(None, value)]:
                if isinstance(one, float) or type(one) is int:
                    found[_safe(name) if key is None else f"{_safe(name)}/{_safe(key)}"] = float(one)
        self._try(lambda: self.write_scores(found))

    def close(self, *, finished: bool = True) -> None:
        """Ends the run, once."""
        self._try(lambda: self.end(finished=finished))
        self._is_open = False

    @property
    def where(self) -> str:
        """For messages."""
        return type(self).__name__ + (f" ({self.place})" if self.place else "")

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._try(lambda: self.write(rows))
        self._written = time.monotonic()

    def _try(self, do: Callable[[], None]) -> None:
        if not self._is_open:
            return
        try:
            do()
        except Exception as error:
            self._is_open = False
            message = f"{self.where}: logging stopped, training goes on: {_reason(error)}"
            warnings.warn(message, GraphshiftWarning, stacklevel=4)


#: Every experiment tracker by name.
LOGGERS: Registry[type[Logger]] = Registry("logger", "graphshift.training.loggers")


def make_logger(wanted: str, *, group: str = "graphshift", name: str | None = None) -> Logger:
    """The logger of ``NAME`` or ``NAME:PLACE``, as ``--log`` gives it.

    >>> make_logger("tensorboard:logs").place
    'logs'
    """
    kind, colon, place = wanted.partition(":")
    logger = LOGGERS.find(kind, where=f"log {wanted!r}: ")
    if (colon and not place) or (logger.place_needed and not place):
        raise GraphshiftError(f"log is {wanted!r}; expected {kind}:PLACE, where PLACE is {logger.place_is}.")
    return logger(place or None, group=group, name=name)


def check_log(wanted: Sequence[str], *, group: str) -> None:
    """Refuses what cannot be logged to, before a study starts."""
    for one in wanted:
        logger = make_logger(one, group=group)
        require_extra(logger.package, f"--log {one}")
        try:
            logger.check()
        except Exception as error:
            raise GraphshiftError(f"{logger.where}: cannot be opened: {_reason(error)}") from error


@contextmanager
def opened_loggers(wanted: Sequence[str], *, group: str, name: str, strict: bool = True) -> Iterator[list[Logger]]:
    """Loggers that stay open after training, so that scores can be written; closed at the end of the block.

    Args:
        wanted: each ``NAME`` or ``NAME:PLACE``.
        group, name: as in :class:`Logger`.
        strict: what cannot be opened is an error; else a warning, and the rest goes on.
    """
    loggers = [make_logger(one, group=group, name=name) for one in wanted]
    for logger in loggers:
        logger.held, logger.strict = True, strict
    finished = False
    try:
        yield loggers
        finished = True
    finally:
        for logger in loggers:
            logger.close(finished=finished)


def _plain(value: Any) -> Any:
    """A number, text, or JSON."""
    return value if isinstance(value, bool | int | float | str) else json.dumps(value, default=str)


def _safe(name: Any) -> str:
    """A name that every tracker takes: an environment may be called anything."""
    return re.sub(r"[^\w.-]", "_", str(name)).strip(".") or "_"


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
    return f"{text}."
