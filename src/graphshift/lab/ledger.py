"""A file of JSON lines, one for each case of an experiment: what it has is not measured again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import write_text


class Keyed(Protocol):
    """A case of an experiment."""

    @property
    def key(self) -> str:
        """Its name in the file."""


Case = TypeVar("Case", bound=Keyed)


def run_cases(
    ledger: Path,
    item: str,
    cases: Iterable[Case],
    measure: Callable[[Case], dict[str, Any] | None],
    *,
    force: bool = False,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """The records of all cases, each with its ``case``; those that the file has are not made again.

    Args:
        ledger: the file.
        item: of ``graphshift reproduce``, for messages.
        cases: in order.
        measure: makes the record of a case; None if its data are not there.
        force: begin a new file.
        report: called with the number of cases done, as ``{"epoch": 3}``.
    """
    ledger.parent.mkdir(parents=True, exist_ok=True)
    if force:
        ledger.unlink(missing_ok=True)
    known = {record["case"]: record for record in records_of(ledger, item)} if ledger.is_file() else {}
    if ledger.is_file():  # without a last line that was torn
        write_text(ledger, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in known.values()))
    found = []
    for done, case in enumerate(cases):
        if report is not None:
            report({"epoch": done})
        if case.key not in known:
            record = measure(case)
            if record is None:
                continue
            known[case.key] = record
            with open(ledger, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        found.append(known[case.key])
    return found


def records_of(ledger: Path, item: str) -> list[dict[str, Any]]:
    """The records of a file; a last line that was torn by a stop is left aside."""
    try:
        *whole, _ = ledger.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in whole]
    except (OSError, ValueError) as error:
        raise GraphshiftError(
            f"{ledger}: cannot be read ({error}); remove it and run `reproduce {item}` again."
        ) from None
