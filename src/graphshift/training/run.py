"""The folder of a training run: history, checkpoints, resume."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import checked_note, parse_json, read_bytes
from graphshift.core.storage import read_tensors, write_tensors, write_text

#: Of the checkpoint's note; another one is refused.
FORMAT = 2

_MOST = 1024**3  # bytes of a history


class _BestNote(BaseModel, strict=True, allow_inf_nan=False):
    epoch: int = Field(ge=0)
    score: float | None


class _Note(BaseModel, strict=True, allow_inf_nan=False):
    """The types of what a checkpoint says beside its tensors."""

    format: int
    epoch: int = Field(ge=1, le=10**9)
    seconds: float = Field(ge=0)
    identity: Any
    best: dict[str, _BestNote]


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
        found = self.read()
        # Epochs after the checkpoint will be run again: drop their lines.
        lines = [] if found is None else self._lines()[: found[1]["epoch"]]
        write_text(self.history, "".join(lines))  # at once: a kill while it is rewritten must not lose it
        return found

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any], list[dict[str, Any]]] | None:
        """The same, and nothing in the folder changes."""
        if not self.checkpoint.exists():
            return None
        tensors, note = read_tensors(self.checkpoint)
        if not isinstance(note, dict) or "format" not in note:
            raise GraphshiftError(f"{self.checkpoint}: this is not a graphshift checkpoint; remove it to start again.")
        if note.get("format") != FORMAT:
            raise GraphshiftError(
                f"{self.checkpoint}: the checkpoint's format is {note.get('format')} and this version of graphshift "
                f"reads {FORMAT}; finish the run with the version that started it, or remove it to start again."
            )
        checked_note(_Note, note, where=str(self.checkpoint))
        try:
            lines = self._lines()[: note["epoch"]]
            rows = [parse_json(line, where=str(self.history), nan=True) for line in lines]
        except GraphshiftError as error:
            why = str(error).removeprefix(f"{self.history}: ").rstrip(".")
            raise GraphshiftError(f"{self.history}: does not fit its checkpoint ({why}); start again.") from None
        epochs = [row.get("epoch") if isinstance(row, dict) else None for row in rows]
        if epochs != list(range(1, note["epoch"] + 1)):
            missing = f"does not hold the epochs 1 to {note['epoch']} of its checkpoint; start again."
            raise GraphshiftError(f"{self.history}: {missing}")
        return tensors, note, rows

    def mend(self) -> None:
        """Brings the whole history to the disk, without a last line that was torn: others may read it now."""
        if not self.history.is_file():
            return
        lines = self._lines()
        while lines and not _is_whole(lines[-1]):
            lines.pop()
        write_text(self.history, "".join(lines))

    def _lines(self) -> list[str]:
        return read_bytes(self.history, _MOST).decode("utf-8", errors="replace").splitlines(keepends=True)

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
        try:
            with self.history.open("rb") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise GraphshiftError(f"{self.history}: cannot be written: {error.strerror}.") from None
        write_tensors(self.checkpoint, tensors, {"format": FORMAT, **note})
        self._saved = time.monotonic()


def _is_whole(line: str) -> bool:
    try:
        return line.endswith("\n") and isinstance(parse_json(line, where="", nan=True), dict)
    except GraphshiftError:
        return False
