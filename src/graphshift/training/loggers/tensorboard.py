"""TensorBoard: event files in a folder, read by ``tensorboard --logdir FOLDER``."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphshift.training.loggers.base import LOGGERS, Logger


@LOGGERS.register("tensorboard")
class TensorBoard(Logger):
    """A curve for every number of an epoch, and a row of the HParams page with settings and scores.

    A run gets a folder of its own below ``place``, called after ``name``; one that is there is left alone.

    Args:
        place: the folder that ``tensorboard --logdir`` is given.
        group: not used; TensorBoard groups by folder.
        name: of the run.
    """

    package, place_is, place_needed = "tensorboard", "a folder", True

    def open(self, settings: Mapping[str, Any]) -> None:
        """Makes the run's folder."""
        from torch.utils.tensorboard import SummaryWriter

        self._settings, self._scores = dict(settings), dict[str, float]()
        self._writer = SummaryWriter(str(self._new_folder()))

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """A point of each curve for each epoch."""
        for row in rows:
            for name, value in row.items():
                if name != "epoch":
                    self._writer.add_scalar(name, value, row["epoch"])
        self._writer.flush()

    def write_scores(self, scores: Mapping[str, float]) -> None:
        """Points at step 0; the HParams page takes them when the run ends."""
        for name, value in scores.items():
            self._writer.add_scalar(name, value, 0)
        self._scores |= scores

    def end(self, *, finished: bool) -> None:
        """Writes what the HParams page shows."""
        from torch.utils.tensorboard.summary import hparams

        for summary in hparams(self._settings, self._scores):
            self._writer._get_file_writer().add_summary(summary)
        self._writer.close()

    def check(self) -> None:
        """Makes the folder."""
        assert self.place is not None
        Path(self.place).mkdir(parents=True, exist_ok=True)

    def _new_folder(self) -> Path:
        assert self.place is not None
        parts = [part.strip(". ") for part in (self.name or "run").split("/")]
        base = Path(self.place, *(re.sub(r"[^\w. =+-]", "_", part) or "_" for part in parts))
        base.parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 10_000):
            folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder
        raise OSError(f"{base}: ten thousand runs of this name are there")
