"""What has moved between two graphs of a million nodes and ten million edges: time and peak memory."""

from __future__ import annotations

from graphshift.lab.bench import memory
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.memory import save_environment
from graphshift.lab.bench.workload import community_environment

_SECONDS, _GIGABYTES = 60, 4.0  # on two cores
_DEGREE = 20


def run(bench: Bench) -> None:
    """Compares two graphs with communities, of which the second has other features, in a fresh process."""
    nodes = bench.sizes.million
    files = [bench.folder / f"{name}.safetensors" for name in ("source", "target")]
    for seed, file in enumerate(files):
        with bench.stage(f"making {nodes:,} nodes"):
            made = community_environment(nodes, degree=_DEGREE, seed=seed, moved=0.2 * seed)
            edges = made.graph.num_edges // 2
            save_environment(made, file)
            del made
    if not all(file.exists() for file in files):
        return
    what = f"two graphs of {nodes:,} nodes and {edges:,} edges each"
    with bench.stage(f"comparing {what}"):
        found = memory.run_child({"compare": [str(file) for file in files], "threads": bench.threads}, bench.threads)
        bench.outcome.data["comparison"] = found
        bench.measured(f"shift-{nodes}", f"comparing {what}", found["compare"] / 1e6, unit="s", bar=_SECONDS)
        bench.measured(
            f"peak-shift-{nodes}", f"peak memory of comparing {what}", found["peak"] / 1e9, unit="GB", bar=_GIGABYTES
        )
