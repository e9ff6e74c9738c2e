"""Tables of a user's own for the tests of commands: people of four countries, whom they know and how they vote."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

#: A file for ``graphshift fit``: ES is the test.
VOTES = """method = "erm"
epochs = 3
hidden = 4
[data]
nodes = "nodes.csv"
edges = "edges.csv"
label = "vote"
positive = "south"
environments = "country"
train = ["DE", "AT"]
val = ["FR"]
tests = ["ES"]
"""


def write_tables(folder: Path) -> tuple[Path, Path]:
    """``nodes.csv`` and ``edges.csv``."""
    countries = ["DE", "AT", "FR", "ES"]
    people = [(f"{c}{i}", c, 20 + 7 * i % 50, "north" if i % 3 else "south") for c in countries for i in range(15)]
    pd.DataFrame(people, columns=["id", "country", "age", "vote"]).to_csv(folder / "nodes.csv", index=False)
    friends = [(f"{c}{i}", f"{c}{(i + step) % 15}") for c in countries for i in range(15) for step in (1, 4)]
    pd.DataFrame(friends, columns=["source", "target"]).to_csv(folder / "edges.csv", index=False)
    return folder / "nodes.csv", folder / "edges.csv"


def write_spain(folder: Path) -> tuple[Path, Path]:
    """New tables: the nodes and edges of ES alone, out of those that :func:`write_tables` wrote there."""
    nodes, edges = pd.read_csv(folder / "nodes.csv"), pd.read_csv(folder / "edges.csv")
    nodes.query("country == 'ES'").to_csv(folder / "es.csv", index=False)
    edges.query("source.str.startswith('ES')").to_csv(folder / "es_edges.csv", index=False)
    return folder / "es.csv", folder / "es_edges.csv"
