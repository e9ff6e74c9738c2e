"""What tests compare with: seeded random graphs, and dense matrices made with loops and no graphshift code."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.graph.graph import Graph

KINDS: dict[str, dict[str, Any]] = {
    "undirected": {},
    "directed": {"directed": True},
    "weighted": {"weighted": True},
    "directed-weighted": {"directed": True, "weighted": True},
}


def random_data(
    num_nodes: int = 9,
    *,
    directed: bool = False,
    weighted: bool = False,
    features: int = 5,
    classes: int = 2,
    density: float = 0.4,
    seed: int = 0,
) -> Data:
    """A random graph with edges in random order; its last node is isolated. All classes occur."""
    generator = torch.Generator().manual_seed(seed)
    matrix = (torch.rand(num_nodes, num_nodes, generator=generator) < density).double()
    matrix *= 0.2 + 2 * torch.rand(num_nodes, num_nodes, generator=generator) if weighted else 1.0
    matrix.fill_diagonal_(0)
    matrix[-1] = matrix[:, -1] = 0
    if not directed:
        matrix = matrix.triu() + matrix.triu().t()
    target, source = matrix.nonzero().t()
    order = torch.randperm(target.numel(), generator=generator)
    data = Data(
        x=torch.randn(num_nodes, features, generator=generator),
        edge_index=torch.stack([source, target])[:, order],
        y=torch.randperm(num_nodes, generator=generator) % classes,
    )
    if weighted:
        data.edge_weight = matrix[target, source][order].to(torch.get_default_dtype())
    return data


def dense_adjacency(edge_index: Tensor, num_nodes: int, weight: Tensor | None = None) -> Tensor:
    """A[target, source] = weight, filled edge by edge, float64."""
    matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    for edge, (source, target) in enumerate(edge_index.t().tolist()):
        matrix[target, source] = 1.0 if weight is None else float(weight[edge])
    return matrix


def dense_of(data: Data) -> Tensor:
    """The dense adjacency matrix of a PyG ``Data``."""
    return dense_adjacency(data.edge_index, data.num_nodes, data.edge_weight if "edge_weight" in data else None)


def dense_normalised(adjacency: Tensor) -> Tensor:
    """D^-1/2 (A + I) D^-1/2 by matrix products."""
    looped = adjacency + torch.eye(adjacency.shape[0], dtype=adjacency.dtype)
    root = torch.diag(looped.sum(dim=1) ** -0.5)
    return root @ looped @ root


def graph_of(data: Data) -> Graph:
    """The graph of a PyG ``Data`` whose edges are known to be fine."""
    return Graph.from_edge_index(data.edge_index, data.num_nodes, data.edge_weight if "edge_weight" in data else None)


def same_tensors(left: Data, right: Data) -> bool:
    """Whether two ``Data`` hold the same keys and equal tensors."""
    return set(left.keys()) == set(right.keys()) and all(
        torch.equal(left[k], right[k]) if isinstance(left[k], Tensor) else left[k] == right[k]
        for k in left.keys()  # noqa: SIM118
    )
