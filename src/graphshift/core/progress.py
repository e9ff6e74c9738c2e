"""Progress bars on standard error: shown on a terminal, silent elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def error_console() -> Console:
    """Standard error for progress bars. Off a terminal it is quiet: Rich would leave empty lines there."""
    from rich.console import Console

    console = Console(stderr=True)
    console.quiet = not console.is_terminal
    return console


@contextmanager
def progress_bar(title: str, total: int, *, unit: str = "epochs") -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A bar; yields the function that takes each epoch's row. A row's ``epoch`` is how many units are done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    done = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    columns = (*done, TimeRemainingColumn(), TextColumn("{task.fields[numbers]}"))
    with Progress(*columns, console=error_console(), transient=True) as progress:
        task = progress.add_task(title, total=total, numbers="")

        def report(row: Mapping[str, Any]) -> None:
            shown = [f"{name} {row[name]:.4g}" for name in ("loss", "variance", "val") if name in row]
            progress.update(task, completed=row["epoch"], numbers="  ".join(shown))

        yield report
