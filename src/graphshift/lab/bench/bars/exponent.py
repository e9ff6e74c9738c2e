"""How the time of a step grows with the number of nodes, EERM beside ERM."""

from __future__ import annotations

from typing import Any

from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.exponents import exponent
from graphshift.lab.bench.outcome import show
from graphshift.lab.bench.workload import Floor, new_method, planted_environment, stepping

_BAR = 0.05
_COLUMNS = ("nodes", "ERM (ms)", "EERM random (ms)", "floor (ms)", "EERM ÷ ERM", "EERM ÷ floor")


def run(bench: Bench) -> None:
    """Measures EERM with ``random`` and ERM in the same run, and fits both; the floor tells where a difference lies."""
    rows = bench.table("A step's time against nodes", _COLUMNS)
    points: list[dict[str, Any]] = bench.outcome.data.setdefault("steps", [])
    for nodes in bench.sizes.exponent:
        with bench.stage(f"{nodes:,} nodes"):
            environment = planted_environment(nodes)
            methods = [new_method(environment, kind) for kind in ("erm", "random")]
            floor = Floor(environment)
            erm, eerm, free = bench.time(*(stepping(method, environment) for method in methods), floor.passes)
            points.append({"nodes": nodes, "erm": erm, "eerm": eerm, "floor": free})
            times = [f"{1e3 * seconds:,.1f}" for seconds in (erm, eerm, free)]
            rows.append([f"{nodes:,}", *times, show(eerm / erm), show(eerm / free)])
            del environment, methods, floor
    sizes = [point["nodes"] for point in points]
    fitted = {kind: exponent(sizes, [point[kind] for point in points]) for kind in ("erm", "eerm", "floor")}
    bench.outcome.data["exponents"] = fitted
    if (plain := fitted["erm"]) is None or (explored := fitted["eerm"]) is None:
        return
    rows.append(["fitted exponent", *(f"{one:.3f}" for one in fitted.values()), "", ""])
    bench.measured(
        f"exponent-difference-{sizes[0]}-{sizes[-1]}",
        f"exponent of the step's time in N, EERM random less ERM, {sizes[0]:,} to {sizes[-1]:,} nodes",
        explored - plain,
        unit="",
        bar=_BAR,
    )
