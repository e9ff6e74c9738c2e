"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["LABELS", "print_table", "show_score"]

#: What metrics are called in tables and figures, with their units.
LABELS = {
    "accuracy": "accuracy (%)", "roc_auc": "ROC-AUC (%)", "macro_f1": "macro-F1 (%)", "f1": "F1 (%)",
    "mse": "squared error", "r2": "R²",
}  # fmt: skip


def show_score(value: float | None, metric: str) -> str:
    """A score as people write it: shares as per cent."""
    if value is None:
        return "–"
    return f"{100 * value:.1f}" if "%" in LABELS[metric] else f"{value:.4g}"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, note: str = "") -> None:
    """Prints a table on standard output; numbers to the right, text to the left."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        numeric = any(_is_number(row[i]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width of its own: do not fold for one
        console = Console(width=160)
    console.print(table)
    if note:  # not the table's caption, which would be folded to the table's width
        console.print(note, style="italic", highlight=False, markup=False)


def _is_number(cell: Any) -> bool:
    return str(cell).lstrip("+−-").replace(",", "")[:1].isdigit()
