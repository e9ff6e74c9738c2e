from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch

import graphshift as gs
from graphshift.data.side_by_side import side_by_side


@pytest.mark.parametrize("sparse", [(), (0, 1, 2), (1,)], ids=["dense", "sparse", "mixed"])
def test_several_graphs_are_what_pyg_makes_of_them(sparse: tuple[int, ...]) -> None:
    graphs = gs.load("planted", nodes=60).tests[:3]
    expected = Batch.from_data_list([e.data for e in graphs])
    given = []
    for i, e in enumerate(graphs):
        data = e.data
        if i in sparse:
            data.x = data.x.to_sparse_csr()
        given.append(gs.Environment(e.name, data, e.task))
    found = side_by_side(given)
    x = found.data.x
    assert torch.equal(x.to_dense() if sparse else x, expected.x)
    assert torch.equal(found.y, expected.y)  # type: ignore[arg-type]
    assert torch.equal(found.mask, torch.cat([e.mask for e in graphs]))
    assert {tuple(e) for e in found.graph.edge_index.T.tolist()} == {tuple(e) for e in expected.edge_index.T.tolist()}
    assert found.graph.undirected
    assert found.name == "T1, T2, T3"
    assert side_by_side(given[:1]) is given[0]
    assert side_by_side([*given, given[0].replace(name="more", y=None)]).name == "4 graphs"
