"""Our explorer beside a dense N × N one, which draws and learns the same."""

from __future__ import annotations

from collections.abc import Callable

from graphshift.data.environment import Environment
from graphshift.explorers import Explorer, Reinforce
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.dense import DenseReinforce
from graphshift.lab.bench.memory import peak_of, save_environment
from graphshift.lab.bench.outcome import show
from graphshift.lab.bench.workload import new_method, planted_environment, stepping

_FASTER, _SMALLER = 100.0, 10.0
_DENSE_STEPS = 3  # after two, its memory has stopped growing
_LEAST = 1e6  # bytes: what two processes differ by for no reason


def run(bench: Bench) -> None:
    """Measures an explorer alone, the whole step, what the explorers hold, and the peaks of whole processes."""
    nodes, steps = bench.sizes.dense, bench.sizes.dense_steps
    environment = planted_environment(nodes)
    with bench.stage(f"explorers alone, {nodes:,} nodes"):
        ours, theirs = bench.time(working(Reinforce(5), environment, steps), working(DenseReinforce(5), environment))
        bench.outcome.data["explorer_seconds"] = {"ours": ours, "dense": theirs}
        bench.measured(
            f"dense-explorer-time-{nodes}",
            f"explorer alone (propose and learn), {nodes:,} nodes: dense N × N over ours",
            theirs / ours,
            bar=_FASTER,
            higher_is_better=True,
        )
    with bench.stage(f"whole steps, {nodes:,} nodes"):
        methods = [new_method(environment, kind) for kind in ("reinforce", "dense")]
        ours, theirs = bench.time(*(stepping(method, environment) for method in methods))
        del methods
        bench.outcome.data["step_seconds"] = {"ours": ours, "dense": theirs}
        bench.measured(
            f"dense-step-time-{nodes}",
            f"whole EERM step, {nodes:,} nodes: dense N × N over ours",
            theirs / ours,
            higher_is_better=True,
        )
    with bench.stage(f"memory, {nodes:,} nodes"):
        _memory(bench, environment)


def working(explorer: Explorer, environment: Environment, before: int = 0) -> Callable[[], None]:
    """A job for a clock: an explorer proposes a view and learns from a reward; it has done so ``before`` times."""

    def work() -> None:
        explorer.learn(explorer.propose(environment.graph), 1e-3)

    for _ in range(before):
        work()
    return work


def _memory(bench: Bench, environment: Environment) -> None:
    nodes, steps = bench.sizes.dense, bench.sizes.dense_steps
    file = save_environment(environment, bench.folder / "dense.safetensors")
    held = {}
    for kind, count in (("erm", _DENSE_STEPS), ("reinforce", steps), ("dense", _DENSE_STEPS)):
        bench.say(f"memory of {kind}, {nodes:,} nodes")
        held[kind] = peak_of(file, kind, steps=count, threads=bench.threads)
    bench.outcome.data["memory"] = held
    erm, ours, dense = (held[kind] for kind in ("erm", "reinforce", "dense"))
    above = [max(one["peak"] - erm["peak"], _LEAST) for one in (ours, dense)]
    what = f"{nodes:,} nodes, 3 explorers: dense N × N over ours"
    bench.measured(
        f"dense-explorer-bytes-{nodes}",
        f"memory that the policies hold, {what}",
        dense["explorers"] / ours["explorers"],
        bar=_SMALLER,
        higher_is_better=True,
    )
    bench.measured(
        f"dense-peak-{nodes}",
        f"peak memory of the process above ERM's, {what}",
        above[1] / above[0],
        bar=_SMALLER,
        higher_is_better=True,
    )
    columns = ("explorers", "steps", "policies (MB)", "peak of the process (MB)", "above ERM (MB)")
    rows = bench.table(f"Memory of explorers, {nodes:,} nodes, K = 3, s = 5", columns)
    for name, count, one in (("ERM", _DENSE_STEPS, erm), ("ours", steps, ours), ("dense", _DENSE_STEPS, dense)):
        megabytes = [amount / 1e6 for amount in (one["explorers"], one["peak"], one["peak"] - erm["peak"])]
        rows.append([name, str(count), *map(show, megabytes)])
