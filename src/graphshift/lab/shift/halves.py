"""Two random halves of one real graph, by communities: nothing has moved between them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.communities import communities
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets import load
from graphshift.datasets.cora import SOURCES as CORA
from graphshift.datasets.reading.amazon import photo_graph
from graphshift.datasets.reading.files import Folder
from graphshift.datasets.reading.planetoid import planetoid_graph
from graphshift.datasets.reading.raw_graph import RawGraph
from graphshift.datasets.temporal import subgraph

#: Communities that are dealt to the two halves; more and smaller ones than the test exchanges.
COMMUNITIES = 100
_SCHOOLS = "Amherst41 Berkeley13 Bingham82 Brandeis99 Brown11 Caltech36 Carnegie49 Columbia2 Cornell5 Duke14"
_SCHOOLS += "|Johns Hopkins55|Princeton12 Reed98 Virginia63 WashU32 Yale4"


def real_graphs(data_dir: Path | None) -> Iterator[tuple[str, Callable[[], Environment]]]:
    """The name of every real graph and how to read it; datasets whose files are not there are left out."""
    yield "cora", lambda: _whole("cora", planetoid_graph("cora", "cora", CORA, data_dir)[0], 7)
    yield "photo", lambda: _whole("photo", photo_graph(data_dir), 8)
    yield "pubmed", lambda: _all_of(load("pubmed-temporal", data_dir=data_dir).tests[-1])
    for region in ("DE", "ENGB", "ES", "FR", "PTBR", "RU", "TW"):
        yield f"twitch {region}", lambda region=region: _named("twitch", region, data_dir)  # type: ignore[misc]
    for database in ("acm", "citation", "dblp"):
        yield database, lambda database=database: _database(database, data_dir)  # type: ignore[misc]
    for school in _schools():
        yield school, lambda school=school: _school(school, data_dir)  # type: ignore[misc]


def _schools() -> list[str]:
    left, middle, right = _SCHOOLS.split("|")
    return [*left.split(), middle, *right.split()]


def _whole(name: str, raw: RawGraph, classes: int) -> Environment:
    data = Data(x=raw.x, edge_index=raw.edge_index, y=raw.y, mask=raw.y >= 0)
    return Environment(name, data, Task("multiclass", classes))


def _all_of(last: Environment) -> Environment:
    return last.replace(mask=torch.ones_like(last.mask), known_y=None)


def _named(dataset: str, name: str, data_dir: Folder) -> Environment:
    return next(e for e in load(dataset, data_dir=data_dir).environments if e.name == name)


def _database(name: str, data_dir: Folder) -> Environment:
    other = "dblp" if name != "dblp" else "acm"
    return load("citation", source=other, target=name, data_dir=data_dir).tests[0]


def _school(name: str, data_dir: Folder) -> Environment:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        return load("facebook100", training=[name], val=[], tests=[], data_dir=data_dir).train[0]


def halves(whole: Environment, seed: int) -> tuple[Environment, Environment]:
    """Deals the communities of a graph at random until one half of the nodes is given away."""
    part = communities(whole.graph, COMMUNITIES, seed=1000 + seed)
    generator = np.random.default_rng([seed, 7])
    order = generator.permutation(int(part.max()) + 1)
    given = np.cumsum(np.bincount(part)[order]) <= whole.num_nodes / 2
    first = torch.from_numpy(np.isin(part, order[given]))
    if not 0 < int(first.sum()) < whole.num_nodes:
        raise GraphshiftError(f"{whole.name}: too small to halve.")
    return subgraph(whole, first, "one half"), subgraph(whole, ~first, "other half")
