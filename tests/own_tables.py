"""Tables as users have them, and what the tests of these tables share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import torch

from graphshift.core.errors import GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.datasets.tables.preparation import Preparation
from graphshift.graph.sparse import Sparse

ROLES: dict[str, Any] = {"environments": "country", "train": "DE", "val": "FR", "tests": "ES"}


def people(count: int = 90, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Nodes of three countries with a column of every kind; edges inside countries."""
    rng = np.random.default_rng(seed)
    nodes = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(count)],
            "label": rng.choice(["no", "yes"], count),
            "country": np.repeat(["DE", "FR", "ES"], count // 3),
            "age": rng.normal(40, 5, count),
            "member": rng.integers(0, 2, count),
            "friends": np.floor(rng.pareto(1.0, count) * 5),
            "job": rng.choice(["cook", "nurse", "smith"], count),
            "born": pd.to_datetime("1980-01-01") + pd.to_timedelta(rng.integers(0, 9999, count), unit="D"),
            "tags": [";".join(rng.choice(list("abcdef"), 3, replace=False)) for _ in range(count)],
            "about": [" ".join(rng.choice(["cats", "dogs", "trees", "cars"], 3)) for _ in range(count)],
        }
    )
    nodes["born"] = nodes["born"].dt.strftime("%Y-%m-%d")
    nodes.loc[::7, "age"] = None
    ends = rng.integers(0, count // 3, (2, 4 * count)) + rng.integers(0, 3, 4 * count) * (count // 3)
    ends = np.unique(np.sort(ends[:, ends[0] != ends[1]], axis=0), axis=1)
    edges = pd.DataFrame({"source": nodes["id"].to_numpy()[ends[0]], "target": nodes["id"].to_numpy()[ends[1]]})
    return nodes, edges


COUNTRIES: dict[str, Any] = {"environments": "country", "train": ["DE", "AT"], "val": "FR", "tests": ["ES"]}


def countries_and_years(count: int = 60, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Nodes of four countries and eight years with a number and a word; edges that cross all borders."""
    rng = np.random.default_rng(seed)
    nodes = pd.DataFrame(
        {
            "id": rng.permutation([f"n{i:03}" for i in range(count)]),
            "label": rng.choice(["a", "b", "c"], count),
            "age": rng.normal(size=count),
            "job": rng.choice(["cook", "nurse"], count),
        }
    )
    nodes["country"] = np.resize(["DE", "FR", "ES", "AT"], count)
    nodes["year"] = np.resize(np.arange(2008, 2016), count)
    graph = nx.gnm_random_graph(count, 6 * count, seed=seed)
    ends = np.array(graph.edges).T
    edges = pd.DataFrame({end: nodes["id"].to_numpy()[ends[i]] for i, end in enumerate(("source", "target"))})
    edges["weight"] = rng.random(len(edges)) + 0.5
    return nodes, edges


def quietly(make: Callable[..., ShiftDataset], *given: Any, **options: Any) -> ShiftDataset:
    """What ``make`` makes, without its remarks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        return make(*given, **options)


def again(preparation: Preparation, *tables: Any, **options: Any) -> Environment:
    """New tables, prepared as those of training were."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        return preparation.environment(*tables, **options)[0]


def dense(x: Any) -> torch.Tensor:
    """Features as a matrix."""
    return x.to_dense() if isinstance(x, Sparse) else x
