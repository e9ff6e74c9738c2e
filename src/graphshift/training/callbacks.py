"""Callbacks: what happens at the start, after each epoch and at the end of training."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from graphshift.core.progress import progress_bar

if TYPE_CHECKING:
    from graphshift.training.loop import TrainingResult


class Callback:
    """Override what you need and pass an instance to ``fit(..., callbacks=[...])``.

    >>> class Print(Callback):
    ...     def on_epoch(self, row):
    ...         print(row["epoch"], row["loss"])
    """

    def on_settings(self, settings: Mapping[str, Any]) -> None:
        """Settings and data were checked, and nothing is changed yet.

        Args:
            settings: the method's name and every hyper-parameter of the fit.
        """

    def on_start(self, epochs: int) -> None:
        """Training starts, or continues after a resume; there will be at most so many epochs."""

    def on_epoch(self, row: Mapping[str, Any]) -> None:
        """An epoch is over. A resumed run reports the epochs that were done before, too.

        Args:
            row: the epoch's numbers: ``epoch``, ``loss``, ``seconds``, the method's own, and each rule's score.
        """

    def on_end(self, result: TrainingResult | None) -> None:
        """Training is over; the result is None if it was interrupted or failed."""


class History(Callback):
    """Collects the rows of all epochs in ``rows``."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def on_epoch(self, row: Mapping[str, Any]) -> None:
        """Adds the row."""
        self.rows.append(dict(row))


class ProgressBar(Callback):
    """A progress bar on standard error, with loss, variance and validation score.

    Args:
        title: what is being trained.
    """

    def __init__(self, title: str) -> None:
        self.title, self._stack = title, ExitStack()

    def on_start(self, epochs: int) -> None:
        """Shows the bar."""
        self._report = self._stack.enter_context(progress_bar(self.title, epochs))

    def on_epoch(self, row: Mapping[str, Any]) -> None:
        """Moves it on."""
        self._report(row)

    def on_end(self, result: TrainingResult | None) -> None:
        """Removes it."""
        self._stack.close()
