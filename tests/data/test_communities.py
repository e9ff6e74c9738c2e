from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from graphshift.data.communities import communities
from graphshift.graph.graph import Graph


def as_graph(made: nx.Graph) -> Graph:
    ends = torch.tensor(sorted(made.edges), dtype=torch.int64).reshape(-1, 2).t()
    return Graph.from_edge_index(torch.cat([ends, ends.flip(0)], dim=1), made.number_of_nodes())


def test_planted_groups_are_found() -> None:
    made = nx.planted_partition_graph(10, 40, 0.3, 0.003, seed=2)
    part = communities(as_graph(made), 10)
    truth = np.arange(400) // 40
    # Every community is nearly one planted group.
    pure = sum(np.bincount(truth[part == c]).max() for c in np.unique(part))
    assert pure / 400 > 0.9
    assert 8 <= len(np.unique(part)) <= 14


@pytest.mark.parametrize("parts", [4, 30])
def test_no_community_outgrows_the_others(parts: int) -> None:
    made = nx.barabasi_albert_graph(600, 3, seed=0)
    part = communities(as_graph(made), parts)
    sizes = np.bincount(part)
    assert sizes.min() > 0
    assert sizes.max() <= 2 * np.ceil(600 / parts)
    assert np.array_equal(part, communities(as_graph(made), parts))
    inside = np.mean([part[a] == part[b] for a, b in made.edges])
    assert inside > 1.5 * np.square(sizes / 600).sum()


def test_without_edges_and_with_few_nodes() -> None:
    empty = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 30)
    assert np.bincount(communities(empty, 5)).tolist() == [6] * 5
    assert np.unique(communities(empty, 50)).size == 30
