"""From a reader's arrays to environments, without checking or sorting again what was checked when it was parsed."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from graphshift.data.checks import checked_graph
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.reading.fixed_csv import Table
from graphshift.graph.graph import Graph


def binary_features(row: NDArray[Any], column: NDArray[Any], shape: tuple[int, int]) -> Tensor:
    """A ``torch.sparse_csr`` matrix, float32, with ones at the given places; a place given twice is one."""
    rows, columns = shape
    keys = np.sort(row.astype(np.int64) * columns + column)
    keys = keys[np.diff(keys, prepend=-1) > 0]  # np.unique hashes, which takes ten times as long
    crow = np.searchsorted(keys, np.arange(rows + 1, dtype=np.int64) * columns)
    csr = (torch.from_numpy(crow), torch.from_numpy(keys % columns), torch.ones(keys.size))
    return torch.sparse_csr_tensor(*csr, shape, check_invariants=True)


def numbered_edges(table: Table, columns: tuple[str, str], nodes: int, *, one_way: bool) -> Graph:
    """The graph of a table of edges, source and target, between nodes numbered from 0; both ways unless ``one_way``."""
    ends = []
    for name in columns:
        end = table.column(name)
        table.refuse((end < 0) | (end >= nodes), name, f"a node from 0 to {nodes - 1}")
        ends.append(torch.tensor(end))
    edge_index = torch.stack(ends)
    if not one_way:
        edge_index = to_undirected(edge_index, num_nodes=nodes)
    return checked_graph(table.path.name, Data(edge_index=edge_index), nodes)


Role: TypeAlias = Sequence[Environment]


def by_place(environments: Sequence[Environment]) -> tuple[Role, Role, Role]:
    """The usual split of an order of environments: the first trains, the second validates, the others test."""
    return environments[:1], environments[1:2], environments[2:]


def environment(name: str, x: Tensor, y: Tensor, graph: Graph, task: Task, mask: Tensor | None = None) -> Environment:
    """An environment around a graph whose keys are known to be right; everything else is checked as usual.

    Sorting the edges of all Facebook schools anew takes seconds, reading their sorted keys a fraction of one.
    """
    no_edges = torch.empty(2, 0, dtype=torch.int64)
    return Environment(name, Data(x=x, edge_index=no_edges, y=y, mask=mask), task).replace(graph=graph)
