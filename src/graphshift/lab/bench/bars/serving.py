"""What HTTP adds to a prediction: requests to a service on this machine, beside the bare model call."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np

from graphshift.core.extras import missing_extra
from graphshift.data.environment import Environment
from graphshift.estimators.predictor import Predictor
from graphshift.lab.bench.bench import Bench
from graphshift.lab.bench.workload import planted_environment
from graphshift.methods.erm import ERM

_CLIENTS, _SMALL = 4, 100


def run(bench: Bench) -> None:
    """Measures small graphs that are sent whole, and changed nodes of a large one."""
    if (why := missing_extra("fastapi", "serving") or missing_extra("uvicorn", "serving")) is not None:
        bench.measured("serve-small-over-bare", "a request over the bare model call", None, reason=why)
        return
    nodes = bench.sizes.serve_nodes
    base, small = planted_environment(nodes), planted_environment(min(_SMALL, nodes))
    model = ERM(epochs=2, selection="last").fit(base)
    changed = {"nodes": _body(base)["nodes"][:10]}
    rows = bench.table(
        "Requests to `graphshift serve` on loopback (GCN)",
        ["request", "model call (ms)", "request, median (ms)", "p99 (ms)", "request ÷ call", "requests a second"],
        f"p99 and throughput with {_CLIENTS} clients at the same time; predictions are made one after another",
    )
    with bench.stage("requests to a service"), _served(model, base) as port:
        _measure(bench, rows, port, "small", "/predict", _body(small), small, model, f"{small.num_nodes} nodes, whole")
        _measure(bench, rows, port, "changed", "/predict/changed", changed, base, model, f"10 changed of {nodes:,}")


def _measure(
    bench: Bench,
    rows: list[list[str]],
    port: int,
    id: str,
    path: str,
    body: dict[str, Any],
    graph: Environment,
    model: Predictor,
    what: str,
) -> None:
    content, count = json.dumps(body).encode(), bench.sizes.serve_requests
    bench.say(what)
    bare = [_seconds(lambda: model.predict_frame(graph)) for _ in range(max(count // 4, 3))]
    alone = _requests(port, path, content, count)
    started = time.perf_counter()
    with ThreadPoolExecutor(_CLIENTS) as clients:
        shares = [clients.submit(_requests, port, path, content, count // _CLIENTS) for _ in range(_CLIENTS)]
        together = [seconds for share in shares for seconds in share.result()]
    throughput = len(together) / (time.perf_counter() - started)
    call, request, p99 = median(bare), median(alone), float(np.quantile(together, 0.99))
    bench.outcome.data[id] = {"bare": call, "alone": alone, "together": together}
    bench.measured(f"serve-{id}-over-bare", f"a request ({what}) over the bare model call", request / call)
    bench.measured(f"serve-{id}-p99", f"99 of 100 requests ({what}), {_CLIENTS} clients", 1000 * p99, unit="ms")
    name = f"requests a second ({what}), {_CLIENTS} clients"
    bench.measured(f"serve-{id}-throughput", name, throughput, unit="", higher_is_better=True)
    numbers = [f"{1000 * call:.1f}", f"{1000 * request:.1f}", f"{1000 * p99:.1f}", f"{request / call:.2f}"]
    rows.append([what, *numbers, f"{throughput:.0f}"])


def _requests(port: int, path: str, content: bytes, count: int) -> list[float]:
    """Seconds of each request of one client, one after another on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask() -> None:
        connection.request("POST", path, content, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {text[:200]!r}")

    ask()
    found = [_seconds(ask) for _ in range(count)]
    connection.close()
    return found


def _seconds(do: Callable[[], object]) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def _body(graph: Environment) -> dict[str, Any]:
    nodes = [{"id": i, "x": row} for i, row in enumerate(graph.x.to_dense().tolist())]
    return {"nodes": nodes, "edges": [{"source": a, "target": b} for a, b in graph.graph.edge_index.t().tolist()]}


@contextmanager
def _served(model: Predictor, base: Environment) -> Iterator[int]:
    """A service on a free port, in a thread."""
    import socket

    import uvicorn

    from graphshift.serving.app import create_app
    from graphshift.serving.service import Service

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        server = uvicorn.Server(uvicorn.Config(create_app(Service(model, base)), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(30)
