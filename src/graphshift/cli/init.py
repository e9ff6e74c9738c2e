"""``graphshift init`` starts with tables of your own."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from graphshift.cli.options import Force, refuse_existing


def init(
    nodes: Annotated[Path, Argument(metavar="NODES", help="your table of nodes, CSV or Parquet")],
    edges: Annotated[Path, Argument(metavar="EDGES", help="your table of edges, CSV or Parquet")],
    graphs: Annotated[
        Path | None, Argument(metavar="[GRAPHS]", help="where graphs have labels: your table of them, one row for each")
    ] = None,
    out: Annotated[Path, Option(metavar="FILE.toml", help="the file to write")] = Path("my.toml"),
    label: Annotated[str | None, Option(metavar="COLUMN", help="what to predict", show_default="guessed")] = None,
    environments: Annotated[
        str | None, Option(metavar="COLUMN", help="its values are environments, as countries", show_default="guessed")
    ] = None,
    time: Annotated[
        str | None, Option(metavar="COLUMN", help="split by time instead, as by year", show_default="guessed")
    ] = None,
    positive: Annotated[
        str | None, Option(metavar="LABEL", help="class 1 of two classes", show_default="guessed")
    ] = None,
    separator: Annotated[str, Option(metavar="C", help="between the fields of a CSV file")] = ",",
    encoding: Annotated[
        str | None, Option(metavar="NAME", help="of the CSV files, as latin-1", show_default="guessed")
    ] = None,
    force: Force = False,
) -> None:
    """Guess the columns of your tables and write a commented TOML file for the other commands."""
    from graphshift.core.storage import write_text
    from graphshift.datasets.tables.describe import describe_tables

    refuse_existing(out, force)
    asked = {"label": label, "environments": environments, "time": time, "positive": positive}
    text = describe_tables(nodes, edges, graphs, base=out.parent, separator=separator, encoding=encoding, **asked)
    write_text(out, text)
    lacking = []
    if "\nlabel = " not in text:
        lacking.append("no column looks like the label: name it by --label COLUMN")
    if "\nenvironments = " not in text and "\ntime = " not in text:
        lacking.append("no column looks like environments or a time: name one by --environments or --time COLUMN")
    for line in lacking:
        print(f"{line}, or in {out}.")
    print(f"written to {out}: check it, then run: graphshift {'fit' if lacking else 'recommend'} {out}")
