"""Tables on the terminal."""

from collections.abc import Sequence
from typing import IO, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from graphshift.data.metrics import METRICS


def show_score(value: float | None, metric: str) -> str:
    """A score as its metric shows it."""
    return METRICS.find(metric).show(value)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, note: str = "", file: IO[str] | None = None
) -> None:
    """Prints a table on standard output, or as wide as it is into a file; numbers to the right, text to the left."""
    # A table folds its title to its own width; a file has room for it.
    table = Table(title=title if file is None else None, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        numeric = any(_is_number(row[i]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))  # a cell like "[val]" is no markup
    console = Console() if file is None else Console(file=file, width=1000, force_terminal=False)
    if file is None and not console.is_terminal:  # a file or a pipe has no width of its own: do not fold for one
        console = Console(width=160)
    if file is not None:
        file.write(f"{title}\n")
    console.print(table)
    if note:  # not the table's caption, which would be folded to the table's width
        console.print(note, style="italic", highlight=False, markup=False)


def _is_number(cell: Any) -> bool:
    return str(cell).lstrip("+−-").replace(",", "")[:1].isdigit()
