"""Weights & Biases: a run of a project, on its server or, with ``WANDB_MODE=offline``, in a folder."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from graphshift.training.loggers.base import LOGGERS, Logger


@LOGGERS.register("wandb")
class WandB(Logger):
    """Settings as the run's configuration, the numbers of epochs as its history, scores as its summary.

    ``WANDB_MODE``, ``WANDB_DIR``, ``WANDB_ENTITY`` and the account are read by the library itself.

    Args:
        place: the project; None takes ``WANDB_PROJECT``, or ``graphshift``.
        group: of the run: the dataset or the study.
        name: of the run.
    """

    package, place_is = "wandb", "a project's name"

    def open(self, settings: Mapping[str, Any]) -> None:
        """Begins a run beside whatever runs the program has itself."""
        import wandb

        self._run = wandb.init(
            project=self.place or os.environ.get("WANDB_PROJECT", "graphshift"),
            name=self.name,
            group=self.group,
            config=dict(settings),
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """One step for each epoch."""
        for row in rows:
            self._run.log({name: value for name, value in row.items() if name != "epoch"}, step=row["epoch"])

    def write_scores(self, scores: Mapping[str, float]) -> None:
        """Into the summary."""
        self._run.summary.update(dict(scores))

    def end(self, *, finished: bool) -> None:
        """Waits until everything is written."""
        self._run.finish(exit_code=0 if finished else 1)
