from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import NodePropertySplit

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment
from graphshift.datasets.node_split import PROPERTIES, property_values, split_by
from graphshift.graph.sparse import Sparse


def graph(nodes: int = 200) -> Data:
    made = nx.connected_watts_strogatz_graph(nodes, 6, 0.3, seed=1)
    ends = torch.tensor(list(made.edges)).t()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(nodes, 5, generator=generator) * torch.tensor([1.0, 1.0, 6.0, 1.0, 1.0]) + 3
    return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], 1), y=torch.arange(nodes) % 2)


@pytest.mark.parametrize("by", ["popularity", "locality", "density"])
def test_the_known_half_is_that_of_pyg(by: str) -> None:
    data = graph()
    theirs = NodePropertySplit(by, [0.3, 0.1, 0.1, 0.3, 0.2])(data.clone())
    known = theirs.id_train_mask | theirs.id_val_mask | theirs.id_test_mask
    ours = split_by(data, by)
    made = ours.train[0].mask | ours.val[0].mask | ours.tests[0].mask
    values = property_values(ours.train[0].graph, ours.train[0].x, by, 0)
    border = np.sort(values)[::-1][[99, 100]].mean()
    clear = torch.from_numpy(np.abs(values - border) > 1e-9)  # equal values may fall either way
    assert torch.equal(made[clear], known[clear])
    assert int(clear.sum()) > 120


@pytest.mark.parametrize("by", list(PROPERTIES))
def test_every_node_counts_once_and_training_labels_are_known(by: str) -> None:
    data = split_by(graph(), by, tests=2, seed=3)
    masks = torch.stack([e.mask for e in data.environments]).int()
    assert masks.sum(dim=0).tolist() == [1] * 200
    assert [int(mask.sum()) for mask in masks] == [60, 20, 20, 50, 50]
    known = data.tests[-1].known_y
    assert known is not None
    assert torch.equal(known >= 0, data.train[0].mask)
    assert split_by(graph(), by, tests=2, seed=3).tests[-1].fingerprint() == data.tests[-1].fingerprint()


def test_properties_order_nodes_as_they_say() -> None:
    data = graph()
    whole = Environment("whole", data)
    component = property_values(whole.graph, whole.x, "feature", 0)
    sparse = property_values(whole.graph, Sparse.from_torch(data.x.to_sparse()), "feature", 0)
    centred = (data.x - data.x.mean(0)).double()
    expected = (centred @ torch.linalg.svd(centred, full_matrices=False).Vh[0]).numpy()
    assert np.allclose(np.abs(component), np.abs(expected), atol=1e-5)
    assert np.allclose(component, sparse, atol=1e-4)
    part = property_values(whole.graph, whole.x, "cluster", 0)
    row, col = whole.graph.edge_index
    assert (part[row] == part[col]).mean() > 3 / len(np.unique(part))  # far more than by chance
    split = split_by(data, "degree")
    degree = whole.graph.degree
    assert float(degree[split.train[0].mask].min()) >= float(degree[split.tests[1].mask].max())


def test_bad_requests() -> None:
    with pytest.raises(GraphshiftError, match=r"the property is 'locallity'; .*Did you mean 'locality'"):
        split_by(graph(), "locallity")
    data = graph()
    data.edge_index = data.edge_index[:, :0]
    with pytest.raises(GraphshiftError, match="has no edge, so degree is the same"):
        split_by(data, "degree")
    with pytest.raises(GraphshiftError, match="ten nodes for each"):
        split_by(graph(30), "degree")
    unlabelled = Environment("whole", graph()).replace(y=None)
    with pytest.raises(GraphshiftError, match="has no labels"):
        split_by(unlabelled, "degree")


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    data = graph()
    nodes = pd.DataFrame({"id": np.arange(200) + 7, "label": np.where(np.arange(200) % 2, "a", "b")})
    nodes["age"], nodes["town"] = data.x[:, 2].numpy(), "here"
    nodes.loc[::3, "town"] = "there"
    nodes.loc[:9, "label"] = None
    ends = data.edge_index[:, : data.num_edges // 2].numpy() + 7
    return nodes, pd.DataFrame({"source": ends[0], "target": ends[1]})


@pytest.mark.parametrize("by", ["locality", "feature"])
def test_tables_by_a_property(by: str) -> None:
    nodes, edges = tables()
    with pytest.warns(GraphshiftWarning, match=f"split by {by}"):
        data = gs.from_tables(nodes, edges, environments=f"by:{by}")
    assert [e.name for e in data.environments] == ["train", "val", "alike", "T1", "T2", "T3"]
    assert sum(int(e.mask.sum()) for e in data.environments) == 190
    assert all(e.num_nodes == 200 and e.graph.num_edges == 1200 for e in data.environments)
    assert data.tests[0].ids is not None
    assert data.tests[0].ids[:3].tolist() == [7, 8, 9]
    if by == "feature":  # one column of numbers
        age = torch.from_numpy(nodes["age"].to_numpy(copy=True))
        far = [age[e.mask] for e in (data.train[0], data.tests[-1])]
        assert float(far[0].min()) >= float(far[1].max()) or float(far[0].max()) <= float(far[1].min())


def test_tables_refuse_what_does_not_go_together() -> None:
    nodes, edges = tables()
    with pytest.raises(GraphshiftError, match=r"by: takes a property, .*locality"):
        gs.from_tables(nodes, edges, environments="by:place")
    with pytest.raises(GraphshiftError, match="train does not go with environments = 'by:degree'"):
        gs.from_tables(nodes, edges, environments="by:degree", train="a")
    with pytest.raises(GraphshiftError, match="no column of numbers"):
        gs.from_tables(nodes.drop(columns="age"), edges, environments="by:feature")
