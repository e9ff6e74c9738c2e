"""Tables as people have them: ids and codes with letters, gaps, words for missing, dates, constants, unknown ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

#: How :func:`write_tables`' tables are read.
OPTIONS: dict[str, Any] = {
    "id": "account",
    "label": "fraud",
    "environments": "country",
    "train": ["DE", "FR"],
    "val": ["ES"],
    "tests": ["IT", "PL"],
    "source": "from",
    "target": "to",
    "unknown_ids": "drop",
}


def write_tables(folder: Path, nodes: int, edges: int) -> tuple[Path, Path]:
    """Writes ``nodes.csv`` with 18 columns and ``edges.csv``; nearly all edges stay inside a country."""
    rng = np.random.default_rng(0)
    ids = np.array([f"A{i:07d}" for i in range(nodes)])
    country = rng.choice(["DE", "FR", "ES", "IT", "PL", ""], nodes, p=[0.4, 0.2, 0.15, 0.15, 0.09, 0.01])
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, nodes), unit="D")
    table = pd.DataFrame({"account": ids, "country": country})
    table["fraud"] = rng.choice(["yes", "no", ""], nodes, p=[0.2, 0.7, 0.1])
    table["age"] = np.where(rng.random(nodes) < 0.05, "NA", rng.integers(18, 90, nodes).astype(str))
    table["balance"] = np.where(rng.random(nodes) < 0.03, "", rng.lognormal(5, 2, nodes).round(2).astype(str))
    table["job"] = rng.choice([*(f"job {i}" for i in range(80)), "NA", ""], nodes)
    table["zip"] = [f"{code:05}" for code in rng.integers(1000, 9999, nodes)]
    table["opened"] = days.strftime("%Y-%m-%d")
    table["name"] = [f"Person {i} of somewhere" for i in range(nodes)]
    for k in range(8):
        table[f"score_{k}"] = rng.normal(size=nodes).round(4)
    table["constant"] = 1
    order = np.argsort(country, kind="stable")
    place = np.empty(nodes, dtype=np.int64)
    place[order] = np.arange(nodes)
    one = rng.integers(0, nodes, edges)
    step = max(2, nodes // 150)
    other = order[np.clip(place[one] + rng.integers(-step, step, edges), 0, nodes - 1)]
    joined = pd.DataFrame({"from": ids[one], "to": ids[other], "amount": rng.lognormal(2, 1, edges).round(2)})
    joined.loc[: edges // 30_000, "to"] = "nobody"
    paths = folder / "nodes.csv", folder / "edges.csv"
    table.to_csv(paths[0], index=False)
    joined.to_csv(paths[1], index=False)
    return paths
