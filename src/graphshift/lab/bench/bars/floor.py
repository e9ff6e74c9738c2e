"""EERM's step over the floor: all that drawing, editing, learning and optimising add to K passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.outcome import show
from graphshift.lab.bench.workload import Floor, new_method, planted_environment, stepping

_RANDOM, _REINFORCE = 1.25, 1.6
_COLUMNS = ("nodes", "explorer", "step (ms)", "floor (ms)", "step ÷ floor", "floor, one stem (ms)", "step ÷ that")


def run(bench: Bench) -> None:
    """Measures ``random`` and ``reinforce``, the latter in its first steps and after many."""
    rows = bench.table(
        "One EERM step and the floor (GCN, K = 3, s = 5)",
        _COLUMNS,
        "floor: K forward and backward passes on K fixed graphs of the edited size; one stem: with the part that needs "
        "no edges computed once for the K passes",
    )
    records: list[dict[str, Any]] = bench.outcome.data.setdefault("steps", [])
    epochs = bench.sizes.epochs

    def keep(id: str, label: str, bar: float, job: Callable[[], None], floor: Floor) -> None:
        nodes = floor.environment.num_nodes
        free, strict, step = bench.time(floor.passes, floor.passes_from_one_stem, job)
        what = f"EERM step, {label}, {nodes:,} nodes, over the floor"
        bench.measured(f"{id}-over-floor-{nodes}", what, step / free, bar=bar)
        records.append({"nodes": nodes, "step": label, "seconds": step, "floor": free, "floor_one_stem": strict})
        times = [f"{1e3 * seconds:,.1f}" for seconds in (step, free, strict)]
        rows.append([f"{nodes:,}", label, times[0], times[1], show(step / free), times[2], show(step / strict)])

    for nodes in bench.sizes.floor:
        with bench.stage(f"{nodes:,} nodes"):
            environment = planted_environment(nodes)
            floor = Floor(environment)
            random = stepping(new_method(environment, "random"), environment)
            keep("random", "random", _RANDOM, random, floor)
            learned = new_method(environment, "reinforce")
            reinforce = stepping(learned, environment)
            keep("reinforce-early", "reinforce, first steps", _REINFORCE, reinforce, floor)
            bench.say(f"{nodes:,} nodes, {epochs} epochs of reinforce")
            stepping(learned, environment, epochs)()
            keep(f"reinforce-after-{epochs}", f"reinforce, after {epochs} epochs", _REINFORCE, reinforce, floor)
