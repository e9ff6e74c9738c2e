"""Groups of nodes part the counted ones, in the order that was asked for."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment, as_environments
from graphshift.graph.sparse import Sparse
from graphshift.methods.groups import divided
from small import environments


@pytest.mark.parametrize("by", ["degree", "features"])
@pytest.mark.parametrize("count", [2, 5])
def test_every_counted_node_is_in_one_group(by: str, count: int) -> None:
    for environment, parts in zip(environments(2), divided(environments(2), by, count), strict=True):
        assert len(parts) == count
        assert torch.cat(parts).sort().values.equal(environment.counted)
        sizes = [part.numel() for part in parts]
        assert max(sizes) - min(sizes) <= 1


def test_by_degree_no_node_of_a_group_has_more_neighbours_than_one_of_the_next() -> None:
    (e,) = environments(1)
    degree = torch.bincount(e.graph.edge_index[1], minlength=e.num_nodes)
    parts = divided([e], "degree", 4)[0]
    for part, following in itertools.pairwise(parts):
        assert int(degree[part].max()) <= int(degree[following].min())
    assert int(degree[parts[0]].min()) < int(degree[parts[-1]].max())


@pytest.mark.parametrize("sparse", [False, True])
def test_by_features_the_order_is_that_of_the_first_principal_component(sparse: bool) -> None:
    (e,) = environments(1, nodes=40)
    dense = e.x.to_dense() if isinstance(e.x, Sparse) else e.x
    if sparse:
        e = e.replace(x=Sparse.from_torch(dense.to_sparse_csr()))
    centred = (dense - dense.mean(dim=0)).double()
    coordinate = (centred @ torch.linalg.svd(centred)[2][0])[e.counted]
    parts = divided([e], "features", 3)[0]
    expected = torch.tensor_split(e.counted[coordinate.argsort()], 3)
    sets = [set(part.tolist()) for part in parts]
    assert sets in ([set(p.tolist()) for p in expected], [set(p.tolist()) for p in reversed(expected)])  # either sign


def test_one_feature_is_its_own_component() -> None:
    (e,) = environments(1)
    e = e.replace(x=torch.arange(float(e.num_nodes)).flip(0).unsqueeze(1))
    first, last = divided([e], "features", 2)[0]
    assert int(first.min()) > int(last.max())


def test_by_time_no_node_of_a_group_is_later_than_one_of_the_next() -> None:
    (e,) = environments(1)
    time = torch.randperm(e.num_nodes, generator=torch.Generator().manual_seed(0)).double() / 7
    parts = divided([e.replace(time=time)], "time", 3)[0]
    assert torch.cat(parts).equal(e.counted[time[e.counted].argsort()])
    sizes = [part.numel() for part in parts]
    assert len(parts) == 3
    assert max(sizes) - min(sizes) <= 1


def test_graphs_are_groups_where_there_are_several() -> None:
    several = environments(3)
    for by in ("auto", "graphs"):
        assert [len(parts) for parts in divided(several, by)] == [1, 1, 1]
    assert [p[0].equal(e.counted) for p, e in zip(divided(several), several, strict=True)] == [True] * 3
    assert len(divided(several[:1], "auto", 4)[0]) == 4


def test_what_cannot_be_grouped_says_why() -> None:
    (e,) = environments(1)
    with pytest.raises(GraphshiftError, match=r"one training graph.*'degree' or 'features'"):
        divided([e], "graphs")
    with pytest.raises(GraphshiftError, match="group_by is 'colour'; expected one of auto, graphs, degree, features"):
        divided([e], "colour")
    with pytest.raises(GraphshiftError, match=r"'time' and training graph '.*' has no `time`; expected a number"):
        divided([e], "time")
    unknown = torch.arange(float(e.num_nodes))
    unknown[e.counted[0]] = float("nan")
    with pytest.raises(GraphshiftError, match="has nodes without a time"):
        divided([e.replace(time=unknown)], "time")
    alone = e.mask.clone().fill_(False)
    alone[3] = True
    with pytest.raises(GraphshiftError, match="one node counts; 4 groups"):
        divided([_masked(e, alone)], "degree", 4)


def _masked(e: Environment, mask: torch.Tensor) -> Environment:
    return e.replace(mask=mask)


@pytest.mark.parametrize("shape", [(50, 300), (2, 5), (6, 40)])
@pytest.mark.parametrize("sparse", [False, True])
def test_by_features_with_more_columns_than_nodes(shape: tuple[int, int], sparse: bool) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    data = Data(x=x.to_sparse() if sparse else x, edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.arange(len(x)) % 2)
    (parts,) = divided(as_environments(data, name="train"), "features", 2)
    along = (x - x.mean(0)).double() @ torch.linalg.svd((x - x.mean(0)).double())[2][0]
    expected = {frozenset(part.tolist()) for part in along.argsort().tensor_split(2)}
    assert {frozenset(part.tolist()) for part in parts} == expected


@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_do_not_vary_are_named(sparse: bool) -> None:
    x = torch.full((30, 3), 0.1)
    data = Data(x=x.to_sparse() if sparse else x, edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.arange(30) % 2)
    with pytest.raises(GraphshiftError, match="the features of training graph 'train' do not vary"):
        divided(as_environments(data, name="train"), "features")
