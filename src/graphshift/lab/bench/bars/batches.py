"""Batches of parts: the cost of an epoch beside the full batch, and how time and memory grow with the graph."""

from __future__ import annotations

import shutil
from typing import Any

from graphshift.data.dataset import ShiftDataset
from graphshift.datasets.partitions import partition
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.exponents import exponent
from graphshift.lab.bench.memory import run_child
from graphshift.lab.bench.outcome import show
from graphshift.lab.bench.workload import community_environment

_PART, _IN_BATCH = 5_000, 4  # nodes of a part, parts of a batch
_NEIGHBOURS = "15,10"  # of the nodes of as large a batch without parts
_DEAREST, _TIME, _MEMORY = 1.5, 1.05, 0.3  # bars
_COLUMNS = (
    "nodes",
    "edges",
    "partition (s)",
    "full step (s)",
    "batched epoch (s)",
    "batched ÷ full",
    "edges in batches ÷ edges",
    "prediction (s)",
    "peak, full (GB)",
    "peak, batched (GB)",
)


def run(bench: Bench) -> None:
    """EERM with ``random``, K = 3, s = 5, in fresh processes: one full step, and one epoch and prediction on parts."""
    note = f"Parts of {_PART:,} nodes, {_IN_BATCH} in a batch, halo of one hop; every tenth edge leaves its community"
    rows = bench.table("Batches of parts, EERM random", _COLUMNS, note)
    made = bench.table("Making batches", ["nodes", "batches of", "making (s)", "steps on them (s)", "making ÷ steps"])
    points: list[dict[str, Any]] = bench.outcome.data.setdefault("batches", [])
    for nodes in bench.sizes.batched:
        folder = bench.folder / f"parts-{nodes}"
        with bench.stage(f"dividing {nodes:,} nodes"):
            (divided,) = bench.time_once(lambda: _write(nodes, folder))  # noqa: B023 (called at once)
        with bench.stage(f"an epoch on {nodes:,} nodes"):
            how = {"partition": str(folder), "parts": _IN_BATCH, "threads": bench.threads, "epochs": 2}
            full, parts = (run_child({**how, "batched": one}, bench.threads) for one in (False, True))
            point = {"nodes": nodes, "edges": parts["edges"], "full": full, "batched": parts}
            points.append(point)
            times = [1e-6 * full["epoch"], 1e-6 * parts["epoch"]]
            seen, predicted = parts["seen"] / parts["edges"], 1e-6 * parts["predict"]
            peaks = [f"{one['peak'] / 1e9:.2f}" for one in (full, parts)]
            shown = [f"{nodes:,}", f"{parts['edges']:,}", f"{divided:.1f}", *(f"{t:.2f}" for t in times)]
            rows.append([*shown, show(times[1] / times[0]), show(seen), f"{predicted:.1f}", *peaks])
            made.append(_making_row(nodes, "parts", parts))
            if len(points) == 1:  # of a larger graph each batch has nearly as many nodes, and there are more of them
                sampling = {"sampled": _PART * _IN_BATCH, "neighbours": _NEIGHBOURS, "batched": False}
                sampled = run_child({**how, **sampling}, bench.threads)
                made.append(_making_row(nodes, f"nodes, {_NEIGHBOURS} neighbours", sampled))
        shutil.rmtree(folder, ignore_errors=True)
    if not points:
        return
    last = points[-1]
    bench.measured(
        f"batched-over-full-{last['nodes']}",
        f"seconds of an epoch on batches of parts over those of a full-batch step, {last['nodes']:,} nodes",
        last["batched"]["epoch"] / last["full"]["epoch"],
        bar=_DEAREST,
    )
    sizes = [point["nodes"] for point in points]
    for what, key, bar in (("time of an epoch", "epoch", _TIME), ("peak memory", "peak", _MEMORY)):
        found = exponent(sizes, [point["batched"][key] for point in points])
        if found is not None:
            text = f"exponent in N of the {what} on batches, {sizes[0]:,} to {sizes[-1]:,} nodes"
            bench.measured(f"exponent-batched-{key}", text, found, unit="", bar=bar)


def _making_row(nodes: int, what: str, found: dict[str, int]) -> list[str]:
    making, steps = 1e-6 * found["making"], 1e-6 * (found["epoch"] - found["making"])
    return [f"{nodes:,}", what, f"{making:.2f}", f"{steps:.2f}", show(making / steps)]


def _write(nodes: int, folder: Any) -> None:
    data = ShiftDataset("communities", [community_environment(nodes)])
    partition(data, folder, parts=max(nodes // _PART, 2))
