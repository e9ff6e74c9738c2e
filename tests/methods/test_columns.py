"""The table of a graph's nodes: features, neighbours' means and structural columns, dense and sparse alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.data.environment import Environment
from graphshift.data.structure import structural_columns
from graphshift.data.tasks import Task
from graphshift.methods.columns import COLUMNS, adjacency_of, edge_means, neighbour_means, pooled, table_of, width_of
from small import environments


def as_sparse(environment: Environment) -> Environment:
    data = environment.data
    data.x = data.x.to_sparse()
    return Environment(environment.name, data, environment.task)


def test_neighbours_means_are_those_of_a_loop(any_data: Data) -> None:
    environment = Environment("any", any_data, Task("multiclass", 3))
    x, means = environment.x, neighbour_means(environment)
    graph = environment.graph
    weight = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    for node in range(environment.num_nodes):
        total, amount = torch.zeros(x.shape[1], dtype=torch.float64), 0.0
        for (source, target), w in zip(graph.edge_index.t().tolist(), weight.tolist(), strict=True):
            if target == node:
                total, amount = total + w * x[source].double(), amount + w
        expected = total / amount if amount else total
        np.testing.assert_allclose(means[node], expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in COLUMNS if kind != "ranks"])
def test_sparse_features_give_the_same_table_and_stay_sparse(kind: str) -> None:
    (environment,) = environments(1)
    sparse = table_of(as_sparse(environment), kind)
    assert scipy.sparse.issparse(sparse)
    dense = table_of(environment, kind)
    assert dense.dtype == sparse.dtype == np.float32
    np.testing.assert_allclose(sparse.toarray(), dense, rtol=1e-6)
    assert dense.shape == (environment.num_nodes, width_of(environment.num_features, kind))


def test_parts_stand_in_order() -> None:
    (environment,) = environments(1)
    table, features = table_of(environment, "all"), environment.num_features
    np.testing.assert_array_equal(table[:, :features], environment.x.numpy())
    np.testing.assert_array_equal(table[:, features : 2 * features], neighbour_means(environment))
    np.testing.assert_array_equal(table[:, 2 * features :], structural_columns(environment.graph).numpy())


def test_counted_nodes_of_all_graphs_are_pooled() -> None:
    first, second = environments(2)
    table, labels = pooled([first, second], "plain")
    assert labels.tolist() == [*first.labels.tolist(), *second.labels.tolist()]
    np.testing.assert_array_equal(table, torch.cat([e.x[e.counted] for e in (first, second)]).numpy())
    sparse, _ = pooled([as_sparse(first), as_sparse(second)], "plain")
    np.testing.assert_array_equal(sparse.toarray(), table)


def test_the_adjacency_matrix_receives(directed: Data) -> None:
    environment = Environment("any", directed, Task("multiclass", 3))
    matrix = adjacency_of(environment.graph).toarray()
    for source, target in environment.graph.edge_index.t().tolist():
        assert matrix[target, source] == 1
    assert matrix.sum() == environment.graph.num_edges


def test_features_of_edges_are_averaged_over_those_that_a_node_receives() -> None:
    ends = torch.tensor([[0, 1, 2, 0], [2, 2, 0, 1]])
    attr, weight = torch.tensor([[1.0, 0.0], [5.0, 2.0], [7.0, 4.0], [9.0, 6.0]]), torch.tensor([1.0, 3.0, 1.0, 2.0])
    data = Data(x=torch.ones(4, 1), edge_index=ends, edge_attr=attr, edge_weight=weight, y=torch.zeros(4).long())
    environment = Environment("any", data, Task("multiclass", 3))
    expected = [[7, 4], [9, 6], [(1 + 3 * 5) / 4, (0 + 3 * 2) / 4], [0, 0]]  # of nodes 0 to 3, by hand
    np.testing.assert_allclose(edge_means(environment.graph), expected)
    for kind, own in (("neighbours", 2), ("all", 2), ("plain", 0), ("structure", 0)):
        table = table_of(environment, kind)
        assert table.shape[1] == width_of(1, kind, 2) == width_of(1, kind) + own
        assert table_of(environment, kind, edge_features=False).shape[1] == width_of(1, kind)
    np.testing.assert_array_equal(table_of(environment, "neighbours")[:, 2:], edge_means(environment.graph))


def test_ranks_are_those_of_pandas_and_no_change_of_scale_moves_them() -> None:
    (environment,) = environments(1)
    x = environment.x.clone()
    x[:, 0] = (x[:, 0] > 0).float()  # zeros and ones have no scale
    x[:, 1] = x[:, 1].round()  # ties
    plain = environment.replace(x=x)
    table = table_of(plain, "ranks")
    frame = pd.DataFrame(x.numpy()).rank(pct=True) - 0.5 / len(x) - 0.5
    np.testing.assert_allclose(table[:, 1:], 12**0.5 * frame.to_numpy()[:, 1:], atol=1e-6)
    np.testing.assert_array_equal(table[:, 0], x[:, 0].numpy())
    grown = torch.cat([x[:, :1], 1000 * x[:, 1:] ** 3 + 5], dim=1)
    np.testing.assert_allclose(table_of(environment.replace(x=grown), "ranks"), table, atol=1e-6)
    sparse = as_sparse(plain)
    np.testing.assert_array_equal(table_of(sparse, "ranks").toarray(), x.numpy())


def test_a_model_of_ranks_does_not_notice_another_unit(tmp_path: Path) -> None:
    train, test = environments(2)
    model = gs.Logistic(columns="ranks", selection="last").fit([train])
    assert not model.uses_edges
    other = test.replace(x=test.x * 1000 + 7)
    assert (model.predict_proba(other) == model.predict_proba(test)).all()
    model.save(tmp_path / "m")
    assert (gs.load_model(tmp_path / "m").predict_proba(other) == model.predict_proba(test)).all()
