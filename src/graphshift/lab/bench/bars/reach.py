"""How far batches reach: tables of 100 million edges into parts, then EERM and prediction on ten million nodes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from graphshift.core.extras import require_extra
from graphshift.lab.bench import memory
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.community_tables import write_tables
from graphshift.lab.bench.exponents import exponent
from graphshift.lab.bench.outcome import show

_PART, _IN_BATCH, _LARGE = 5_000, 4, 10_000_000
_DIVIDING, _TRAINING = 6e9, 4e9  # bytes: bars at the largest size
_TIME, _MEMORY = 1.05, 0.3  # bars of the exponents
_TABLES = ("nodes", "lines", "partition (s)", "its peak (GB)", "wc -l (s)", "pyarrow reads (s)", "partition ÷ pyarrow")
_EPOCHS = (
    "nodes",
    "edges",
    "epoch (s)",
    "processor time (s)",
    "nodes in batches ÷ nodes",
    "edges in batches ÷ edges",
    "µs of processor an edge",
    "prediction (s)",
    "peak (GB)",
)


def run(bench: Bench) -> None:
    """Each size in fresh processes: a partition of tables; then, with 64 features, an epoch and prediction."""
    require_extra("pyarrow", "writing and reading large tables")
    note = "Every edge is two lines of the CSV; the node table has four features; streaming partitioner"
    tables = bench.table("Partitions of tables", _TABLES, note)
    note = f"EERM random, K = 3, s = 5, 64 features; {_IN_BATCH} parts of {_PART:,} nodes in a batch, halo of one hop"
    epochs = bench.table("Training on parts, and prediction of all nodes", _EPOCHS, note)
    points: list[dict[str, Any]] = bench.outcome.data.setdefault("reach", [])
    for nodes in bench.sizes.reach:
        folder = bench.folder / f"reach-{nodes}"
        try:
            with bench.stage(f"tables of {nodes:,} nodes"):
                point = {"nodes": nodes} | _divide(bench, nodes, folder)
                points.append(point)
                tables.append(_row(point))
            shutil.rmtree(folder, ignore_errors=True)
            with bench.stage(f"training on {nodes:,} nodes"):
                point = points[-1] if points and points[-1]["nodes"] == nodes else {"nodes": nodes}
                trained = _train(bench, nodes, folder)
                point["trained"] = trained
                epochs.append(_epoch_row(nodes, trained))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    _bars(bench, points)


def _divide(bench: Bench, nodes: int, folder: Path) -> dict[str, Any]:
    """A partition of tables, in a process of its own, beside what only reads the edges."""
    from pyarrow import csv

    node_table, edge_table = write_tables(folder, nodes)
    wc = shutil.which("wc")
    lines = [0]

    def read() -> None:
        lines[0] = sum(batch.num_rows for batch in csv.open_csv(edge_table))

    counted = (
        bench.time_once(lambda: subprocess.run([wc, "-l", edge_table], check=True, capture_output=True))
        if wc
        else [0.0]
    )
    (plain,) = bench.time_once(read)
    task = {"divide": [str(node_table), str(edge_table), str(folder / "parts")], "parts": max(nodes // _PART, 2)}
    found = memory.run_child({**task, "threads": bench.threads}, bench.threads)
    return {"lines": lines[0], "wc": counted[0], "plain": plain, "divided": found}


def _train(bench: Bench, nodes: int, folder: Path) -> dict[str, int]:
    parts = folder / "parts-64"
    how = {"threads": bench.threads}
    memory.run_child(
        {**how, "communities": nodes, "folder": str(parts), "parts": max(nodes // _PART, 2)}, bench.threads
    )
    task = {"partition": str(parts), "parts": _IN_BATCH, "batched": True, "epochs": 1}
    return memory.run_child({**how, **task}, bench.threads)


def _row(point: dict[str, Any]) -> list[str]:
    seconds = 1e-6 * point["divided"]["divide"]
    shown = [f"{seconds:.1f}", f"{point['divided']['peak'] / 1e9:.2f}", f"{point['wc']:.1f}", f"{point['plain']:.1f}"]
    return [f"{point['nodes']:,}", f"{point['lines']:,}", *shown, show(seconds / point["plain"])]


def _epoch_row(nodes: int, found: dict[str, int]) -> list[str]:
    busy = 1e-6 * found["busy"]
    shown = [
        f"{1e-6 * found['epoch']:.1f}",
        f"{busy:.1f}",
        show(found["nodes"] / nodes),
        show(found["seen"] / found["edges"]),
    ]
    more = [f"{1e6 * busy / found['edges']:.2f}", f"{1e-6 * found['predict']:.1f}", f"{found['peak'] / 1e9:.2f}"]
    return [f"{nodes:,}", f"{found['edges']:,}", *shown, *more]


def _bars(bench: Bench, points: list[dict[str, Any]]) -> None:
    divided, trained = ([p for p in points if name in p] for name in ("divided", "trained"))
    for own, key, bar, what in (
        (divided, "divided", _DIVIDING, "a partition of tables"),
        (trained, "trained", _TRAINING, "EERM on batches and prediction"),
    ):
        if own:
            last = own[-1]
            bench.measured(
                f"reach-peak-{key}-{last['nodes']}",
                f"peak memory of {what}, {last['nodes']:,} nodes",
                last[key]["peak"] / 1e9,
                unit="GB",
                bar=bar / 1e9 if last["nodes"] >= _LARGE else None,
            )
    sizes = [p["nodes"] for p in trained]
    for what, key, limit in (
        ("time of an epoch", "epoch", _TIME),
        ("processor time of an epoch", "busy", None),
        ("peak memory", "peak", _MEMORY),
    ):
        found = exponent(sizes, [p["trained"][key] for p in trained])
        if found is not None:
            text = f"exponent in N of the {what} on batches, {sizes[0]:,} to {sizes[-1]:,} nodes"
            bench.measured(f"reach-exponent-{key}", text, found, unit="", bar=limit)
