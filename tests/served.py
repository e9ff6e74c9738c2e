"""A service in this process, tables of people, and bodies of requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from graphshift.serving.service import Service


def client(service: Service, **how: Any) -> Any:
    """A client of a service; without fastapi and httpx the test is skipped."""
    pytest.importorskip("fastapi", reason="pip install 'graphshift[serve]'")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    from graphshift.serving.app import create_app

    return TestClient(create_app(service, **how), base_url="http://localhost", raise_server_exceptions=False)


def tables(nodes: int = 60, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """People of three towns, a third of them in each."""
    drawn = np.random.default_rng(seed)
    table = pd.DataFrame({"id": [f"n{i:03}" for i in range(nodes)], "income": drawn.normal(50, 10, nodes).round(3)})
    table["job"] = drawn.choice(["nurse", "cook"], nodes)
    table["town"] = np.where(np.arange(nodes) < nodes // 3, "a", np.where(np.arange(nodes) < 2 * nodes // 3, "b", "c"))
    table["fraud"] = np.where(table["income"] + drawn.normal(0, 3, nodes) > 50, "yes", "no")
    ends = drawn.integers(0, nodes, (2, 3 * nodes))
    ends = ends[:, ends[0] != ends[1]]
    return table, pd.DataFrame({"source": table["id"][ends[0]].values, "target": table["id"][ends[1]].values})


def body_of(environment: Any) -> dict[str, Any]:
    """A request for a graph."""
    nodes = [{"id": i, "x": row} for i, row in enumerate(environment.x.tolist())]
    edges = [{"source": a, "target": b} for a, b in environment.graph.edge_index.t().tolist()]
    return {"nodes": nodes, "edges": edges}
