from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import subgraph as pyg_subgraph
from torch_geometric.utils import to_undirected

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.datasets.temporal import Period, inductive_environments, subgraph
from graphshift.graph.sparse import Sparse

PERIODS = [Period("old", None, 3), Period("mid", 4, 6), Period("new", 7, 9)]


def whole(kind: str = "undirected", sparse: bool = False) -> tuple[Environment, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    nodes = 60
    edge_index = torch.unique(torch.randint(nodes, (2, 300), generator=generator), dim=1)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    if kind == "undirected":
        edge_index = to_undirected(edge_index)
    x = torch.rand(nodes, 5, generator=generator).round()
    weight = torch.rand(edge_index.shape[1], generator=generator) + 0.1 if kind == "weighted" else None
    data = Data(
        x=x.to_sparse_csr() if sparse else x,
        edge_index=edge_index,
        edge_weight=weight,
        y=torch.randint(2, (nodes,), generator=generator),
        mask=torch.rand(nodes, generator=generator) > 0.2,
    )
    return Environment("whole", data), torch.randint(10, (nodes,), generator=generator)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted"])
def test_inductive_is_what_pyg_induces(kind: str, sparse: bool) -> None:
    environment, time = whole(kind, sparse)
    made = inductive_environments(environment, time, PERIODS)
    assert [e.name for e in made] == ["old", "mid", "new"]
    for e, period in zip(made, PERIODS, strict=True):
        kept = time <= period.last
        edge_index, weight = pyg_subgraph(
            kept, environment.graph.edge_index, environment.graph.weight, relabel_nodes=True, num_nodes=60
        )
        x = environment.x.to_dense() if isinstance(environment.x, Sparse) else environment.x
        expected = Environment("expected", Data(x=x[kept], edge_index=edge_index, edge_weight=weight, y=e.y))
        assert torch.equal(e.graph.keys, expected.graph.keys)
        assert e.graph.undirected == (kind == "undirected")
        if weight is not None:
            assert e.graph.weight is not None
            assert expected.graph.weight is not None
            assert torch.equal(e.graph.weight, expected.graph.weight)
        assert isinstance(e.x, Sparse) == sparse
        assert torch.equal(e.x.to_dense(), x[kept])
        assert torch.equal(e.mask, (environment.mask & period.contains(time))[kept])
        assert environment.y is not None
        assert torch.equal(e.labels, environment.y[environment.mask & period.contains(time)])


def test_nodes_keep_their_time() -> None:
    environment, time = whole()
    finer = time + torch.rand(60, generator=torch.Generator().manual_seed(1)) / 2
    for given, expected in ((environment, time), (environment.replace(time=finer), finer)):
        for e, period in zip(inductive_environments(given, time, PERIODS), PERIODS, strict=True):
            assert e.time is not None
            assert e.time.equal(expected[time <= period.last])


def test_no_node_counts_twice_and_none_is_lost() -> None:
    environment, time = whole()
    made = inductive_environments(environment, time, PERIODS)
    assert sum(int(e.mask.sum()) for e in made) == int(environment.mask.sum())
    assert [e.num_nodes for e in made] == [int((time <= last).sum()) for last in (3, 6, 9)]


def test_plain_tuples_do() -> None:
    environment, time = whole()
    (made,) = inductive_environments(environment, time.float() + 0.5, [("some", 1.0, 4.5)])  # type: ignore[list-item]
    assert int(made.mask.sum()) == int((environment.mask & (time >= 1) & (time <= 4)).sum())


def test_subgraph_of_one_period_alone() -> None:
    environment, time = whole()
    made = subgraph(environment, time == 5, "five")
    assert made.num_nodes == int((time == 5).sum())
    assert torch.equal(made.mask, environment.mask[time == 5])


@pytest.mark.parametrize(
    ("periods", "text"),
    [
        ([Period("a", 5, 3)], "'a' begins at 5, after its end at 3"),
        ([Period("a", None, 4), Period("b", 4, 6)], "'b' begins at 4, and 'a' before it ends at 4"),
        ([Period("a", None, 4), Period("b", None, 6)], "'b' begins at no time"),
        ([Period("a", 20, 30)], "'a' would have 60 nodes and none that counts"),
    ],
)
def test_impossible_periods(periods: list[Period], text: str) -> None:
    environment, time = whole()
    with pytest.raises(GraphshiftError, match=text):
        inductive_environments(environment, time, periods)


def test_times_must_fit_the_nodes() -> None:
    environment, time = whole()
    with pytest.raises(GraphshiftError, match=r"shape \[59\]; expected \[60\]"):
        inductive_environments(environment, time[:-1], PERIODS)
    bad = time.float()
    bad[7] = torch.nan
    with pytest.raises(GraphshiftError, match="1 nodes have no time, first node 7"):
        inductive_environments(environment, bad, PERIODS)
