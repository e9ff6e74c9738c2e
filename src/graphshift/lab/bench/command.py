"""One run of the suite from beginning to end: measure, write, draw, show, and compare with committed results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.lab.bench.check import Check, compare, read_results
from graphshift.lab.bench.plots import draw_curves
from graphshift.lab.bench.suite import run_suite
from graphshift.lab.bench.tables import head, tables_of
from graphshift.lab.bench.writing import write_tables
from graphshift.report.tables import print_table


def run_bench(
    names: Sequence[str],
    size: str,
    folder: Path | None,
    *,
    check: Path | None = None,
    threads: int | None = None,
    data_dir: Path | None = None,
    as_json: bool = False,
) -> bool:
    """Measures, writes and prints.

    Args:
        names: of parts.
        size: ``"full"`` or ``"quick"``.
        folder: where tables and plots go; None writes nothing.
        check: a ``results.json`` to compare with.
        threads: of torch; None for torch's own number.
        data_dir: where the raw files of datasets are.
        as_json: print JSON instead of tables.

    Returns:
        False if something is over 25 % worse than in ``check``.
    """
    committed = read_results(check) if check else None

    def save(results: dict[str, Any]) -> None:
        if folder is not None:
            write_tables(results, folder)

    with _made(folder):
        results = run_suite(names, size, threads=threads, data_dir=data_dir, save=save)
        written = [] if folder is None or not results["parts"] else ["results.json", "results.md"]
        if folder is not None and written and draw_curves(results, folder):
            written.append("plots")
    if results["stopped"]:
        kept = f"what was measured before is written to {folder}." if written else "nothing was written."
        raise KeyboardInterrupt(f"stopped in part {results['stopped']}; {kept}")
    found = compare(committed, results) if committed else None
    if as_json:
        print(json.dumps(results if found is None else found.as_json(), indent=2, ensure_ascii=False))
    else:
        _show(results)
        if written:
            print(f"{', '.join(written)} written to {folder}")
        if found is not None and committed is not None:
            _show_check(found, committed, results)
    if found is not None and not found.pairs:
        raise GraphshiftError(f"{check}: has no measurement in common with this run; nothing was compared.")
    return found is None or found.passed


@contextmanager
def _made(folder: Path | None) -> Iterator[None]:
    """Makes the folder first: if it cannot be written, the user must know now and not in twenty minutes."""
    made = folder is not None and not folder.exists()
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GraphshiftError(f"{folder}: cannot be made: {error.strerror}.") from None
    try:
        yield
    finally:
        if made and folder is not None and not any(folder.iterdir()):  # nothing was measured
            folder.rmdir()


def _show(results: Mapping[str, Any]) -> None:
    for table in tables_of(results):
        print_table(table.title, table.columns, table.rows, note=table.note)
    print(head(results))


def _show_check(found: Check, committed: Mapping[str, Any], results: Mapping[str, Any]) -> None:
    print_table("Committed and new", ["what", "committed", "new", "change", "verdict"], found.rows())
    for what, reason in found.not_compared:
        print(f"not compared: {what} ({reason})")
    there, here = committed["about"], results["about"]
    if (there["machine"]["cpu"], there["threads"]) != (here["machine"]["cpu"], here["threads"]):
        print("the committed results are of another CPU or number of threads; ratios may differ for that alone.")
    worse = sum(pair.worse for pair in found.pairs)
    print(f"{worse} of {len(found.pairs)} are over 25 % worse." if worse else "nothing is over 25 % worse.")
