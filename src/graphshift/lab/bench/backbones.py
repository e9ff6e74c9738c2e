"""Every backbone: what a step costs beside its floor, and what it holds, normal and in low-memory mode."""

from __future__ import annotations

from pathlib import Path

from graphshift.backbones import BACKBONES
from graphshift.data.environment import Environment
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.memory import peak_of, save_environment
from graphshift.lab.bench.outcome import show
from graphshift.lab.bench.workload import Floor, new_method, planted_environment, stepping

_STEPS = 3
_COLUMNS = (
    "backbone",
    "ERM (ms)",
    "EERM (ms)",
    "EERM ÷ floor",
    "low memory (ms)",
    "low memory ÷ floor",
    "EERM peak (MB)",
    "low memory peak (MB)",
)


def run(bench: Bench) -> None:
    """Measures ERM and EERM with ``random`` for each backbone on one graph."""
    nodes = bench.sizes.backbone_nodes
    environment = planted_environment(nodes)
    file = save_environment(environment, bench.folder / "backbones.safetensors")
    rows = bench.table(
        f"Every backbone, {nodes:,} nodes (EERM with random, K = 3, s = 5)",
        _COLUMNS,
        f"peaks are of whole fresh processes, imports and data included, after {_STEPS} steps",
    )
    for name in bench.sizes.backbones or tuple(BACKBONES):
        with bench.stage(f"{name}, {nodes:,} nodes"):
            rows.append(_row(bench, name, environment, file))


def _row(bench: Bench, name: str, environment: Environment, file: Path) -> list[str]:
    floor = Floor(environment, backbone=name)
    methods = [
        new_method(environment, kind, backbone=name, low_memory=low_memory)
        for kind, low_memory in (("erm", False), ("random", False), ("random", True))
    ]
    free, erm, eerm, lean = bench.time(floor.passes, *(stepping(m, environment) for m in methods))
    del floor, methods
    peaks = []
    for low_memory in (False, True):
        bench.say(f"{name}, memory" + ", low-memory mode" * low_memory)
        options = {"backbone": name, "low_memory": low_memory}
        peaks.append(peak_of(file, "random", steps=_STEPS, threads=bench.threads, **options))
    bench.outcome.data[name] = {
        "floor": free,
        "erm": erm,
        "eerm": eerm,
        "eerm_low_memory": lean,
        "memory": peaks[0],
        "memory_low_memory": peaks[1],
    }
    times = [f"{1e3 * seconds:,.1f}" for seconds in (erm, eerm, lean)]
    held = [show(one["peak"] / 1e6) for one in peaks]
    return [name, times[0], times[1], show(eerm / free), times[2], show(lean / free), *held]
