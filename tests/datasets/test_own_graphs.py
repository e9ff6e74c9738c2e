"""Lists of PyG graphs with a label each as a shift dataset."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphs import SIZES, graphs
from graphshift.core.errors import GraphshiftError


def lists(**options: Any) -> dict[str, list[Data]]:
    return {name: graphs(seed=10 * i, **options) for i, name in enumerate(("a", "b", "c", "new"))}


def test_every_list_is_an_environment_with_its_graphs_in_order() -> None:
    made = lists(classes=3, weighted=True)
    data = gs.from_pyg(made, train="a", val="b", tests=["c"], unlabelled="new", metric="macro_f1")
    assert [e.name for e in (*data.environments, *data.target)] == ["a", "b", "c", "new"]
    assert data.task == gs.Task("multiclass", 3, "macro_f1", level="graph")
    for e in (*data.environments, *data.target):
        blocks, own = e.graph.blocks, made[e.name]
        assert blocks is not None
        assert blocks.sizes.tolist() == list(SIZES)
        assert torch.equal(e.x, torch.cat([graph.x for graph in own]))
        assert e.graph.num_edges == sum(graph.num_edges for graph in own)
        begin = 0
        for graph in own:  # edges and weights, graph by graph
            inside = (e.graph.edge_index[0] >= begin) & (e.graph.edge_index[0] < begin + graph.num_nodes)
            found = torch.sparse_coo_tensor(e.graph.edge_index[:, inside] - begin, e.graph.weight[inside], (6, 6))  # type: ignore[index]
            expected = torch.sparse_coo_tensor(graph.edge_index, graph.edge_weight, (6, 6))
            assert torch.equal(found.to_dense(), expected.to_dense())
            begin += graph.num_nodes
        if e.y is not None:
            assert e.y.tolist() == [int(graph.y) for graph in own]
    assert data.target[0].y is None


def test_graphs_without_a_label_do_not_count() -> None:
    made = lists()
    made["a"][1].y = torch.tensor([-1])
    assert gs.from_pyg(made, train="a").train[0].mask.tolist() == [True, False, True, True, True]
    for graph in made["a"]:
        graph.y = float(graph.y) + 0.5
    made["a"][0].y = float("nan")
    data = gs.from_pyg(made, train="a")
    assert (data.task.kind, int(data.train[0].mask.sum())) == ("regression", 4)


def test_it_is_fitted_and_predicts_a_list() -> None:
    data = gs.from_pyg(lists(), train=["a", "b"], val="c", unlabelled="new")
    model = gs.EERM(explorer="random", edits_per_node=1, epochs=3).fit(data)
    assert model.predict_frame(data.target)["environment"].tolist() == ["new"] * 5


@pytest.mark.parametrize(
    ("change", "how", "complaint"),
    [
        ({}, {"train": "z"}, "there is no list 'z'; expected one of a, b, c, new"),
        ({}, {}, "train names no list; the lists are 'a', 'b', 'c', 'new'"),
        ({"a": []}, {"train": "a"}, "list 'a' is empty"),
        ({"a": [1]}, {"train": "a"}, "graph 0 of 'a' is int"),
        ({"a": [Data(edge_index=torch.zeros(2, 0).long())]}, {"train": "a"}, "no node with features `x`"),
        ({"a": [Data(x=torch.ones(2, 1), y=torch.ones(2))]}, {"train": "a"}, r"`y` of shape \[2\]; expected one label"),
        ({"a": [Data(x=torch.ones(2, 1))]}, {"train": "a"}, "`y` None; expected one label"),
        ({}, {"train": "a", "domain": "b"}, "leave out domain and time"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], how: dict[str, Any], complaint: str) -> None:
    with pytest.raises(GraphshiftError, match=complaint):
        gs.from_pyg({**lists(), **change}, **how)
