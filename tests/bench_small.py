"""What the tests of the speed suite share: sizes that take no time, and results to read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphshift.lab.bench.outcome import Measurement
from graphshift.lab.bench.sizes import BASE, SIZES

TINY = replace(
    SIZES["quick"],
    floor=(60,),
    epochs=2,
    exponent=(60, 120),
    million=60,
    million_steps=1,
    batched=(600,),
    reach=(600,),
    ray_study_nodes=60,
    ray_nodes=400,
    policy_epochs=2,
    dense=60,
    dense_steps=2,
    pyg=60,
    table=120,
    starts=1,
    serve_nodes=60,
    serve_requests=8,
    base={**BASE, "nodes": 60},
    axes={"nodes": (60, 120), "views": (2, 3), "features": (8, 64)},
    memory_axes=("nodes", "views"),
    dense_limit=60,
    backbones=("gcn", "mlp"),
    backbone_nodes=60,
    rounds=2,
    least=0.0,
    budget=1.0,
)

ABOUT = {
    "date": "2026-11-15 12:00 UTC",
    "threads": 2,
    "commit": "0123456789abcdef",
    "dirty": False,
    "native": True,
    "machine": {"cpu": "A CPU", "cores": 2, "memory_gb": 16.0, "system": "Linux x86_64"},
    "versions": {"graphshift": "1", "python": "2", "torch": "3", "torch_geometric": "4", "numpy": "5"},
}


def results_with(*measurements: Measurement, part: str = "floor", **changes: Any) -> dict[str, Any]:
    """The content of a results.json with these measurements in one part."""
    content = {
        "measurements": [one.as_json() for one in measurements],
        "tables": [],
        "data": {},
        "failures": [],
        "seconds": 1.0,
    } | changes
    return {"format": 1, "about": ABOUT, "size": "full", "sizes": {}, "stopped": None, "parts": {part: content}}
