"""``python -m graphshift.lab.bench.child JSON``: trains a little and prints what the process held at most."""

from __future__ import annotations

import gc
import json
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.storage import read_tensors
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.partition.reading import read_partition
from graphshift.data.pieces import piece
from graphshift.data.tasks import Task
from graphshift.datasets.own import from_tables
from graphshift.datasets.partitions import partition, partition_tables
from graphshift.graph.graph import Graph
from graphshift.lab.bench.workload import community_environment, explorer_bytes, new_method, planted_environment
from graphshift.methods import Method
from graphshift.methods.erm import ERM
from graphshift.shift.comparing.compare import compare_graphs
from graphshift.training.batches import Batches, NodeBatches, PartBatches, parse_fanout

_TINY = 60  # nodes


def peak_bytes() -> int:
    """The most memory that this process has held.

    Linux hands the peak of ``getrusage`` down from the process that started this one, so the kernel's own mark for
    this program is read instead.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:
        raise GraphshiftError("this system does not tell how much memory a process holds.") from None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else 1024 * peak


def measure(task: dict[str, Any]) -> dict[str, int]:
    """Trains as the task says; see :func:`graphshift.lab.bench.memory.peak_of` and :func:`_from_tables`."""
    if "tables" in task:
        return _from_tables(task["tables"])
    if "partition" in task:
        return _on_parts(task)
    if "divide" in task:
        return _divide(task)
    if "compare" in task:
        return _compare([Path(path) for path in task["compare"]])
    if "communities" in task:
        data = ShiftDataset("communities", [community_environment(task["communities"])])
        partition(data, task["folder"], parts=task["parts"], by="streaming")
        return {}
    _train(planted_environment(_TINY), task)  # what libraries make ready at their first use is not the data's
    before = peak_bytes()
    environment = _environment(Path(task["data"]))  # explorers live as long as their environment
    method = _train(environment, task)
    return {"before": before, "peak": peak_bytes(), "explorers": explorer_bytes(method)}


def _from_tables(task: dict[str, Any]) -> dict[str, int]:
    """Loads tables and fits ERM, then reads the files by pandas: microseconds of each, and the peak before pandas."""
    before, started = peak_bytes(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        data = from_tables(task["nodes"], task["edges"], **task["options"])
    loaded = time.perf_counter()
    ERM(epochs=task["epochs"]).fit(data)
    fitted, peak = time.perf_counter(), peak_bytes()
    for path in (task["nodes"], task["edges"]):
        pd.read_csv(path)
    times = {"load": loaded - started, "fit": fitted - loaded, "pandas": time.perf_counter() - fitted}
    return {"before": before, "peak": peak, **{name: round(1e6 * value) for name, value in times.items()}}


def _divide(task: dict[str, Any]) -> dict[str, int]:
    """Tables into parts, by streaming: microseconds and the peak."""
    nodes, edges, folder = task["divide"]
    before, started = peak_bytes(), time.perf_counter()
    folds: dict[str, Any] = {"environments": "fold", "train": "train", "tests": "test"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        partition_tables(nodes, edges, folder, parts=task["parts"], by="streaming", **folds)
    return {"before": before, "peak": peak_bytes(), "divide": round(1e6 * (time.perf_counter() - started))}


def _compare(paths: list[Path]) -> dict[str, int]:
    """What has moved between two graphs: microseconds, how many blocks were named, and the peak."""
    source, target = (_environment(path) for path in paths)
    started = time.perf_counter()
    found = compare_graphs(source, target)
    taken = time.perf_counter() - started
    return {"peak": peak_bytes(), "compare": round(1e6 * taken), "moved": len(found.moved)}


def _on_parts(task: dict[str, Any]) -> dict[str, int]:
    """EERM on a partition folder: microseconds of the last epoch, of making its batches, of prediction; the peak."""
    _train(planted_environment(_TINY), {"kind": "random", "options": {}, "steps": 1})
    (environment,) = read_partition(task["partition"], check=False).train
    method = new_method(environment, "random")
    if "sampled" in task:
        batches: Batches = NodeBatches(task["sampled"], parse_fanout(task["neighbours"]))
    elif task["batched"]:
        batches = PartBatches(task["parts"])
    else:
        whole = piece(environment, np.arange(environment.num_nodes), environment.graph, np.ones(1, dtype=bool))
        assert environment.stored is not None
        environment.stored.release()  # the piece is a copy
        batches = lambda *_: [[whole]]  # noqa: E731
    seen = nodes = 0
    for epoch in range(1, task["epochs"] + 1):
        started, busy, stepped, seen, nodes = time.perf_counter(), time.process_time(), 0.0, 0, 0
        for batch in batches([environment], epoch):
            begun = time.perf_counter()
            method.step(batch, 0.0)
            stepped += time.perf_counter() - begun
            seen, nodes = seen + batch[0].graph.num_edges, nodes + batch[0].num_nodes
        taken, busy = time.perf_counter() - started, time.process_time() - busy
    started = time.perf_counter()
    if task["batched"]:
        method.predict(environment)
    predicted = time.perf_counter() - started
    found = {"epoch": taken, "busy": busy, "making": taken - stepped, "predict": predicted}
    times = {name: round(1e6 * value) for name, value in found.items()}
    sizes = {"edges": environment.graph.num_edges, "seen": seen, "nodes": nodes}
    return {**sizes, "peak": peak_bytes(), **times}


def _train(environment: Environment, task: dict[str, Any]) -> Method:
    method = new_method(environment, task["kind"], **task["options"])
    for _ in range(task["steps"]):
        method.step([environment], 0.0)
    return method


def _environment(path: Path) -> Environment:
    tensors, note = read_tensors(path)
    nodes = tensors["x"].shape[0]
    graph = Graph.from_edge_index(tensors.pop("edge_index").long(), nodes, undirected=True)
    # The tensors are windows on one file, whose pages count as long as one of them is there: copy, and let it go.
    x, y = tensors.pop("x").clone(), tensors.pop("y").clone()
    gc.collect()
    no_edges = torch.empty(2, 0, dtype=torch.int64)
    made = Environment("train", Data(x=x, edge_index=no_edges, y=y), Task(note["kind"], note["num_classes"]))
    return made.replace(graph=graph)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    torch.set_num_threads(given["threads"])
    print(json.dumps(measure(given)))
