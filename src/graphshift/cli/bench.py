"""``graphshift bench``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphshift.cli.options import DataDir, Force, Json, refuse_existing
from graphshift.core.errors import GraphshiftError
from graphshift.lab.bench.parts import CHECKED, PARTS, SECTIONS, chosen_parts

if TYPE_CHECKING:
    from graphshift.lab.bench.check import Check

_NAMES = "|".join(dict.fromkeys([*SECTIONS, *PARTS]))
_DEFAULT_OUT = Path("bench-output")


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="small sizes: a minute or two instead of twenty")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar=_NAMES, help="run this section or part alone; may be repeated")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="where to write tables and plots", show_default=str(_DEFAULT_OUT)),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", min=1, help="for torch", show_default="as torch takes")
    ] = None,
    data_dir: DataDir = None,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check",
            metavar="results.json",
            help="run the bars of up to 100,000 nodes and compare; status 1 if one is over 25 % worse; keeps nothing "
            "without --out",
        ),
    ] = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Measure speed and memory on this machine, beside the work that cannot be avoided, a dense explorer and PyG."""
    names = chosen_parts(only, default=CHECKED if check else tuple(PARTS))
    folder = out if check or out else _DEFAULT_OUT
    if folder is not None:
        refuse_existing(folder, force)
    if data_dir is not None and not data_dir.is_dir():
        raise GraphshiftError(f"{data_dir}: there is no such folder; --data-dir names that of the raw files.")

    from graphshift.lab.bench.check import compare, read_results
    from graphshift.lab.bench.plots import draw_curves
    from graphshift.lab.bench.suite import run_suite
    from graphshift.lab.bench.writing import write_tables

    committed = read_results(check) if check else None

    def save(results: dict[str, Any]) -> None:
        if folder is not None:
            write_tables(results, folder)

    with _made(folder):
        results = run_suite(names, "quick" if quick else "full", threads=threads, data_dir=data_dir, save=save)
        written = [] if folder is None or not results["parts"] else ["results.json", "results.md"]
        if folder is not None and written and draw_curves(results, folder):
            written.append("plots")
    if results["stopped"]:
        kept = f"what was measured before is written to {folder}." if written else "nothing was written."
        raise KeyboardInterrupt(f"stopped in part {results['stopped']}; {kept}")
    found = compare(committed, results) if committed else None
    if json_:
        print(json.dumps(results if found is None else found.as_json(), indent=2, ensure_ascii=False))
    else:
        _show(results)
        if written:
            print(f"{', '.join(written)} written to {folder}")
        if found is not None and committed is not None:
            _show_check(found, committed, results)
    if found is not None and not found.pairs:
        raise GraphshiftError(f"{check}: has no measurement in common with this run; nothing was compared.")
    if found is not None and not found.passed:
        raise typer.Exit(1)


@contextmanager
def _made(folder: Path | None) -> Iterator[None]:
    """Makes the folder before anything is measured: what cannot be written must be said now, not in twenty minutes."""
    made = folder is not None and not folder.exists()
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GraphshiftError(f"{folder}: cannot be made: {error.strerror}.") from None
    try:
        yield
    finally:
        if made and folder is not None and not any(folder.iterdir()):  # it came to nothing: leave nothing
            folder.rmdir()


def _show(results: dict[str, Any]) -> None:
    from graphshift.lab.bench.tables import head, tables_of
    from graphshift.report.tables import print_table

    for table in tables_of(results):
        print_table(table.title, table.columns, table.rows, note=table.note)
    print(head(results))


def _show_check(found: Check, committed: dict[str, Any], results: dict[str, Any]) -> None:
    from graphshift.report.tables import print_table

    print_table("Committed and new", ["what", "committed", "new", "change", "verdict"], found.rows())
    for what, reason in found.not_compared:
        print(f"not compared: {what} ({reason})")
    there, here = committed["about"], results["about"]
    if (there["machine"]["cpu"], there["threads"]) != (here["machine"]["cpu"], here["threads"]):
        print("the committed results are of another CPU or number of threads; ratios may differ for that alone.")
    worse = sum(pair.worse for pair in found.pairs)
    print(f"{worse} of {len(found.pairs)} are over 25 % worse." if worse else "nothing is over 25 % worse.")
