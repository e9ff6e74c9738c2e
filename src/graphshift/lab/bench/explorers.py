"""Every explorer: what a step with it costs beside one with random edits."""

from __future__ import annotations

from graphshift.explorers import EXPLORERS
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.outcome import show
from graphshift.lab.bench.workload import new_method, planted_environment, stepping


def run(bench: Bench) -> None:
    """Measures all explorers in turns, so that a busy machine slows them alike."""
    names = ["random", *(name for name in EXPLORERS if name != "random")]
    for nodes in bench.sizes.floor:
        rows = bench.table(
            f"Every explorer, {nodes:,} nodes (EERM with GCN, K = 3, s = 5)", ("explorer", "step (ms)", "÷ random")
        )
        with bench.stage(f"every explorer, {nodes:,} nodes"):
            environment = planted_environment(nodes)
            methods = [new_method(environment, name) for name in names]
            times = dict(zip(names, bench.time(*(stepping(m, environment) for m in methods)), strict=True))
            bench.outcome.data[f"{nodes}"] = times
            rows += [[name, f"{1e3 * t:,.1f}", show(t / times["random"])] for name, t in times.items()]
