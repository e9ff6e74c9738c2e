"""A ledger: one line of JSON for each thing that is done, such as a fit; lines are only added."""

import json
import os
from pathlib import Path
from typing import Generic, TypeVar

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import NotJSONError, parse_json, read_bytes
from graphshift.core.stored import Entry

E = TypeVar("E", bound=Entry)

_MOST = 512 * 1024**2  # bytes: some hundred thousand fits


class Ledger(Generic[E]):
    """What is done, by id; the last line of an id counts.

    Only one process writes, a line at a time and through to the disk. A kill can therefore tear the last line alone: it
    is dropped, and what it was of is done again.

    Args:
        kind: the class of its entries, as :class:`~graphshift.studies.records.Record`.
        path: of the file, which is made when the first line is added; None keeps everything in memory.
    """

    def __init__(self, kind: type[E], path: Path | None = None) -> None:
        self.path = path
        self.records: dict[str, E] = {}
        if path is not None and path.exists():
            self._read(path, kind)

    def add(self, record: E) -> None:
        """Adds a line and waits until the disk has it."""
        line = json.dumps(record.to_json(), ensure_ascii=False, allow_nan=False) + "\n"
        if self.path is not None:
            try:
                with self.path.open("ab") as file:
                    file.write(line.encode())
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise GraphshiftError(f"{self.path}: cannot be written: {error.strerror}.") from None
        self.records[record.id] = record

    def forget_failed(self) -> None:
        """Has failed fits run again; their lines stay, and new ones will count."""
        self.records = {id_: record for id_, record in self.records.items() if record.status != "failed"}

    def _read(self, path: Path, kind: type[E]) -> None:
        content = read_bytes(path, _MOST)
        *lines, torn = content.split(b"\n")
        whole = len(content) - len(torn)
        for number, line in enumerate(lines, 1):
            try:
                record = kind.from_json(parse_json(line, where="the line"))
            except GraphshiftError as error:
                is_json = not isinstance(error, NotJSONError)
                if number == len(lines) and not is_json:  # torn as well: its end came to the disk before the rest
                    whole -= len(line) + 1
                    break
                what = error if is_json else "it is not JSON."
                raise GraphshiftError(
                    f"{path}: line {number} is damaged: {what} Remove that line (its fit is run again), or start anew "
                    "with --force."
                ) from None
            self.records[record.id] = record
        if whole < len(content):
            try:
                with path.open("rb+") as file:
                    file.truncate(whole)
            except OSError as error:
                raise GraphshiftError(f"{path}: cannot be written: {error.strerror}.") from None
