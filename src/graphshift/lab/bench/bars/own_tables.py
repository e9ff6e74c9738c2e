"""A user's messy tables: reading, preparing and a few epochs beside a mere ``pandas.read_csv`` of the same files."""

from __future__ import annotations

from graphshift.lab.bench import memory
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.messy import OPTIONS, write_tables

_SECONDS, _PEAK = 25.0, 1.2  # of an idle machine; GB
_EPOCHS = 20
_DEGREE = 10  # rows of the edge table for each node


def run(bench: Bench) -> None:
    """Loads and trains in a process of its own, which then times pandas."""
    nodes, edges = bench.sizes.table, _DEGREE * bench.sizes.table
    with bench.stage(f"writing tables of {nodes:,} nodes and {edges:,} edges"):
        paths = write_tables(bench.folder, nodes, edges)
    with bench.stage(f"loading them, and {_EPOCHS} epochs of ERM"):
        tables = {"nodes": str(paths[0]), "edges": str(paths[1]), "options": OPTIONS, "epochs": _EPOCHS}
        held = memory.run_child({"tables": tables, "threads": bench.threads}, bench.threads)
        bench.outcome.data |= held
        whole = (held["load"] + held["fit"]) / 1e6
        id, what = f"tables-{nodes}", f"tables of {nodes:,} nodes and {edges:,} edges"
        bench.measured(f"{id}-seconds", f"{what}: loading and {_EPOCHS} epochs", whole, unit="s", bar=_SECONDS)
        bench.measured(f"{id}-peak", f"{what}: peak memory of that", held["peak"] / 1e9, unit="GB", bar=_PEAK)
        ratio = held["load"] / held["pandas"]
        bench.measured(f"{id}-over-pandas", f"{what}: loading over `pandas.read_csv` of both", ratio)
