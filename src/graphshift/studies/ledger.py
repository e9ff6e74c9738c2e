"""The ledger: one line of JSON for each fit that is done, only ever added to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError


class Ledger:
    """What is done, by id; the last line of an id counts.

    Only the study's own process writes, a line at a time and through to the disk. A kill can therefore tear the last
    line alone: it is dropped, and its fit is run again.

    Args:
        path: of the file, which is made when the first line is added; None keeps everything in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.records: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self._read(path)

    def add(self, record: Mapping[str, Any]) -> None:
        """Adds a line and waits until the disk has it."""
        line = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        if self.path is not None:
            try:
                with self.path.open("ab") as file:
                    file.write(line.encode())
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise GraphshiftError(f"{self.path}: cannot be written: {error.strerror}.") from None
        self.records[record["id"]] = dict(record)

    def forget_failed(self) -> None:
        """Has failed fits run again; their lines stay, and new ones will count."""
        self.records = {id_: record for id_, record in self.records.items() if record["status"] != "failed"}

    def _read(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise GraphshiftError(f"{path}: cannot be read: {error.strerror}.") from None
        *lines, torn = content.split(b"\n")
        whole = len(content) - len(torn)
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                _ = record["status"], record["kind"], record["selections"]
                self.records[record["id"]] = record
            except (ValueError, KeyError, TypeError):
                if number == len(lines):  # torn as well: its end came to the disk before the rest
                    whole -= len(line) + 1
                    break
                raise GraphshiftError(
                    f"{path}: line {number} is not a record of a study; the file is damaged. Remove that line (its "
                    "fit is run again), or start anew with --force."
                ) from None
        if whole < len(content):
            with path.open("rb+") as file:
                file.truncate(whole)
