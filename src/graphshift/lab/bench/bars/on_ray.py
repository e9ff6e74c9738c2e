"""What Ray costs and gains: a study on two nodes of a cluster beside two local workers, one training by two workers."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphshift.core.cluster import connect
from graphshift.core.extras import missing_extra
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets.partitions import partition
from graphshift.fitting.fit import FitRequest
from graphshift.fitting.on_ray import fit_on_ray
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.outcome import show
from graphshift.lab.bench.workload import community_environment
from graphshift.studies import Arm, Engine, Plan, run_study

_STUDY, _TRAINING = 1.2, 0.65  # bars
_WORKERS = 2
_STUDIES = "seconds of a study on two nodes of Ray over two local workers"
_PART, _IN_BATCH = 5_000, 4  # nodes of a part, parts of a batch
_EERM: dict[str, Any] = {"method": "eerm", "explorer": "random", "views": 3, "edits_per_node": 5}


def run(bench: Bench) -> None:
    """On a cluster of two nodes with one processor each, which this machine plays."""
    few = f"needs {_WORKERS} processors" if (os.cpu_count() or 1) < _WORKERS else None
    if (why := missing_extra("ray", "running fits on a cluster") or few) is not None:
        bench.measured("ray-study-over-local", _STUDIES, None, reason=why)
        return
    with _cluster() as address:
        with bench.stage("a study on two workers, here and on Ray"):
            _study(bench, address)
        with bench.stage("one training by one and by two workers of Ray"):
            _training(bench, address)


def _study(bench: Bench, address: str) -> None:
    """The same fits, one thread each; the cluster is there, its workers are not yet started, as here."""
    size = bench.sizes
    arms = [Arm("ERM", {"method": "erm", "epochs": size.ray_epochs}), Arm("EERM", {**_EERM, "epochs": size.ray_epochs})]
    plan = Plan(
        "planted-structure", arms, range(size.ray_seeds), {"nodes": size.ray_study_nodes}, trials=0, in_domain=False
    )
    engines: list[Callable[[], object]] = [
        lambda: run_study(plan, workers=_WORKERS, threads=1),
        lambda: run_study(plan, workers=_WORKERS, threads=1, engine=Engine("ray", address)),
    ]
    local, there = bench.time_once(*engines)
    rows = bench.table(
        "A study on two workers", ["fits", "two local workers (s)", "two nodes of Ray (s)", "Ray ÷ local"],
        f"ERM and EERM random on planted-structure, {size.ray_study_nodes:,} nodes, {size.ray_epochs} epochs",
    )  # fmt: skip
    rows.append([str(2 * size.ray_seeds), f"{local:.1f}", f"{there:.1f}", show(there / local)])
    bench.measured("ray-study-over-local", _STUDIES, there / local, bar=_STUDY)


def _training(bench: Bench, address: str) -> None:
    """Seconds of an epoch of EERM on batches of parts, after the first epoch."""
    nodes, folder = bench.sizes.ray_nodes, bench.folder / "ray-parts"
    partition(ShiftDataset("communities", [community_environment(nodes)]), folder, parts=max(nodes // _PART, 4))
    given = {**_EERM, "batch_parts": _IN_BATCH, "epochs": 4, "selection": "last", "variance": "within"}
    request = FitRequest("partition", {"folder": folder}, given)
    taken = []
    for workers in (1, _WORKERS):
        bench.say(f"{workers} of Ray's workers")
        out = bench.folder / f"ray-run-{workers}"
        fit_on_ray(request, out, workers=workers, address=address)
        taken.append(_seconds_of_an_epoch(out))
    rows = bench.table(
        "One training on Ray", ["nodes", "1 worker (s an epoch)", "2 workers (s an epoch)", "2 ÷ 1"],
        f"EERM random, K = 3, s = 5, 64 features; {_IN_BATCH} parts of {_PART:,} nodes in a worker's batch",
    )  # fmt: skip
    rows.append([f"{nodes:,}", *(f"{one:.2f}" for one in taken), show(taken[1] / taken[0])])
    bench.measured(
        f"ray-two-over-one-{nodes}", "seconds of an epoch with two workers of Ray over one", taken[1] / taken[0],
        bar=_TRAINING,
    )  # fmt: skip


def _seconds_of_an_epoch(folder: Path) -> float:
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    return float((rows[-1]["seconds"] - rows[0]["seconds"]) / (len(rows) - 1))


@contextmanager
def _cluster() -> Iterator[str]:
    """The address of a head without processors and two nodes with one each."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(_WORKERS):
            found.add_node(num_cpus=1)
        logging.getLogger("ray").setLevel(logging.ERROR)
        connect(found.address)
        yield found.address
    finally:
        ray.shutdown()
        found.shutdown()
