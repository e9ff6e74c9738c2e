"""A step with explorers that follow the gradient beside one with random ones."""

from __future__ import annotations

from typing import Any

from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.outcome import show
from graphshift.lab.bench.workload import new_method, planted_environment, stepping

_BAR = 2.0
_COLUMNS = ("nodes", "EERM gradient (ms)", "EERM random (ms)", "gradient ÷ random")


def run(bench: Bench) -> None:
    """Measures both in the same run: a further pass, scores of pairs and a choice among them."""
    rows = bench.table("One EERM step with gradient and with random explorers (GCN, K = 3, s = 5)", _COLUMNS)
    records: list[dict[str, Any]] = bench.outcome.data.setdefault("steps", [])
    for nodes in bench.sizes.floor:
        with bench.stage(f"{nodes:,} nodes"):
            environment = planted_environment(nodes)
            methods = [new_method(environment, kind) for kind in ("gradient", "random")]
            gradient, random = bench.time(*(stepping(method, environment) for method in methods))
            records.append({"nodes": nodes, "gradient": gradient, "random": random})
            what = f"EERM step, gradient over random, {nodes:,} nodes"
            bench.measured(f"gradient-over-random-{nodes}", what, gradient / random, bar=_BAR)
            times = [f"{1e3 * seconds:,.1f}" for seconds in (gradient, random)]
            rows.append([f"{nodes:,}", *times, show(gradient / random)])
