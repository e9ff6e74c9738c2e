"""Explorers as PyG transforms."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform, Compose, NormalizeFeatures
from torch_geometric.utils import is_undirected

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.explorers import EXPLORERS, Random
from reference import dense_of, random_data, same_tensors


@pytest.fixture(params=[name for name, explorer in EXPLORERS.items() if not explorer.needs_risk])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_the_transform_gives_the_view_and_leaves_its_input_alone(name: str, any_data: Data) -> None:
    before = any_data.clone()
    made = EXPLORERS[name](2, seed=3)(any_data)
    view = EXPLORERS[name](2, seed=3).propose(any_data)
    assert same_tensors(any_data, before)
    assert torch.equal(made.edge_index, view.edge_index)
    assert torch.equal(made.x, before.x)
    assert torch.equal(made.y, before.y)
    assert ("edge_weight" in made) == ("edge_weight" in any_data)
    if "edge_weight" in made:
        assert made.edge_weight.shape == (made.num_edges,)
        kept = (dense_of(made) > 0) & (dense_of(before) > 0)
        assert torch.equal(dense_of(made)[kept], dense_of(before)[kept])
    assert not torch.equal(dense_of(made), dense_of(before))


def test_in_a_composition(name: str, undirected: Data) -> None:
    undirected.x = undirected.x.abs()
    before = undirected.clone()
    explorer = EXPLORERS[name](1, seed=3)
    assert isinstance(explorer, BaseTransform)
    made = Compose([explorer, NormalizeFeatures()])(undirected)
    assert same_tensors(undirected, before)
    torch.testing.assert_close(made.x.sum(dim=1), torch.ones(9))
    assert is_undirected(made.edge_index)
    assert not torch.equal(dense_of(made), dense_of(before))


def test_changing_the_result_does_not_reach_the_input(name: str, undirected: Data) -> None:
    before = undirected.clone()
    made = EXPLORERS[name](1)(undirected)
    made.x.zero_()
    made.y.zero_()
    assert same_tensors(undirected, before)


def test_each_call_is_another_view(name: str, undirected: Data) -> None:
    explorer = EXPLORERS[name](1)
    assert not torch.equal(dense_of(explorer(undirected)), dense_of(explorer(undirected)))


def test_one_node(name: str) -> None:
    data = Data(x=torch.ones(1, 2), edge_index=torch.empty(2, 0, dtype=torch.int64))
    assert same_tensors(EXPLORERS[name](3)(data), data)


def test_edges_are_repaired_with_a_warning(name: str) -> None:
    data = random_data()
    data.edge_index = torch.cat([data.edge_index, torch.tensor([[4], [4]])], dim=1)
    with pytest.warns(GraphshiftWarning, match="removed 1 self-loops"):
        made = EXPLORERS[name](1)(data)
    assert not made.has_self_loops()


def test_other_edge_attributes_are_refused():
    data = random_data()
    data.edge_time = torch.ones(data.num_edges, 2)
    with pytest.raises(GraphshiftError, match="edge_time"):
        Random(1)(data)
