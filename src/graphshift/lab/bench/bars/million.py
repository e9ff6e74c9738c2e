"""Peak memory of training at a million nodes and ten million edges."""

from __future__ import annotations

from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.memory import peak_of, save_environment
from graphshift.lab.bench.workload import planted_environment

_BARS = {False: 4.5, True: 2.5}  # GB, without and with low_memory


def run(bench: Bench) -> None:
    """Trains EERM with ``random`` in fresh processes, normal and in low-memory mode."""
    nodes, steps = bench.sizes.million, bench.sizes.million_steps
    file = bench.folder / "million.safetensors"
    with bench.stage(f"making {nodes:,} nodes"):
        environment = planted_environment(nodes)
        edges = environment.graph.num_edges
        save_environment(environment, file)
        del environment
    if not file.exists():
        return
    for low_memory, bar in _BARS.items():
        mode = ", low memory" if low_memory else ""
        with bench.stage(f"{steps} steps on {nodes:,} nodes{mode}"):
            held = peak_of(file, "random", steps=steps, threads=bench.threads, low_memory=low_memory)
            bench.outcome.data["low_memory" if low_memory else "normal"] = held
            bench.measured(
                f"peak-random-{nodes}" + "-low-memory" * low_memory,
                f"peak memory of {steps} EERM steps, random{mode}, {nodes:,} nodes, {edges:,} edges",
                held["peak"] / 1e9,
                unit="GB",
                bar=bar,
            )
