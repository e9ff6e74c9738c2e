"""Structural columns, against networkx."""

import warnings

import networkx as nx
import numpy as np
import pytest
import torch

from graphshift.core.errors import GraphshiftWarning
from graphshift.data import structure
from graphshift.data.structure import STRUCTURAL_NAMES, ranks, structural_columns
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Pattern


def _graph(nodes: int, directed: bool, seed: int, edges: int) -> tuple[Graph, nx.Graph]:
    made = nx.gnm_random_graph(nodes, edges, seed=seed, directed=directed)
    hub = [(0, other) for other in range(1, nodes // 2)]  # a hub, and nodes without an edge
    made.add_edges_from(hub)
    made.add_nodes_from(range(nodes, nodes + 3))
    pairs = np.array(list(made.edges), dtype=np.int64).reshape(-1, 2).T
    pairs = pairs if directed else np.concatenate([pairs, pairs[::-1]], axis=1)
    return Graph.from_edge_index(torch.from_numpy(np.ascontiguousarray(pairs)), nodes + 3), made


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("edges", [0, 60, 700])
def test_columns_agree_with_networkx(directed, edges, monkeypatch):
    monkeypatch.setattr(structure, "_BLOCK", 50)  # several blocks of rows
    graph, made = _graph(50, directed, seed=edges, edges=edges)
    both = nx.Graph(made)
    columns = dict(zip(STRUCTURAL_NAMES, structural_columns(graph).double().numpy().T, strict=True))
    in_order = sorted(both)
    expected = {
        "log degree": np.log1p([both.degree[node] for node in in_order]),
        "core number": [nx.core_number(both)[node] for node in in_order],
        "clustering": [nx.clustering(both)[node] for node in in_order],
        "log PageRank": np.log([nx.pagerank(made, tol=1e-12, max_iter=1000)[node] * len(made) for node in in_order]),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(columns[name], values, atol=1e-5, err_msg=name)
        values = np.round(np.asarray(values), 7)
        less, same = values[:, None] > values, values[:, None] == values
        rank = (less.sum(axis=1) + same.sum(axis=1) / 2) / len(values)
        np.testing.assert_allclose(columns[f"{name} rank"], rank, atol=1e-6, err_msg=name)


def test_weights_are_not_used():
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    plain, weighted = (Graph.from_edge_index(edges, 3, weight) for weight in (None, torch.tensor([9.0, 9.0, 1.0, 1.0])))
    assert torch.equal(structural_columns(plain), structural_columns(weighted))


def test_cores_of_a_path_a_clique_and_both():
    made = nx.compose(nx.path_graph(200), nx.complete_graph(12))
    matrix = nx.to_scipy_sparse_array(made, nodelist=sorted(made), format="csr")
    expected = [nx.core_number(made)[node] for node in sorted(made)]
    assert structure.core_numbers(matrix).tolist() == expected


def test_clustering_is_estimated_where_paths_are_too_many_and_says_so(monkeypatch):
    graph, _ = _graph(60, False, seed=1, edges=500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact = structural_columns(graph)[:, 2]
    monkeypatch.setattr(structure, "MOST_PATHS", 10)
    monkeypatch.setattr(structure, "_PAIRS", 4000)
    monkeypatch.setattr(structure, "_BLOCK", 50_000)
    with pytest.warns(GraphshiftWarning, match="estimated from 4000 pairs of neighbours a node"):
        estimate = structural_columns(graph)[:, 2]
    # The deviation of a share over 4000 draws is at most 0.008.
    assert float((estimate - exact).abs().max()) < 0.04
    with pytest.warns(GraphshiftWarning):
        assert torch.equal(structural_columns(graph)[:, 2], estimate)


def test_ranks_share_ties_and_keep_missing_ones():
    values = np.array([3.0, np.nan, 1.0, 3.0, 9.0])
    np.testing.assert_allclose(ranks(values), [0.5, np.nan, 0.125, 0.5, 0.875])
    assert ranks(np.array([7.0])).tolist() == [0.5]
    assert np.isnan(ranks(np.array([np.nan, np.nan]))).all()


def test_a_graph_whose_columns_are_unsorted_is_not_changed():
    pattern = Pattern(torch.tensor([0, 2, 3, 4]), torch.tensor([2, 1, 0, 0]), (3, 3))
    graph = Graph(pattern, undirected=True)
    expected = structural_columns(Graph.from_edge_index(graph.edge_index, 3))
    assert torch.equal(structural_columns(graph), expected)
    assert graph.pattern.col.tolist() == [2, 1, 0, 0]
