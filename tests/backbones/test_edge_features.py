"""Layers that use edge features, against PyG's with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GINEConv

from graphshift.backbones import BACKBONES
from graphshift.backbones.gat import GAT, GATConvolution
from graphshift.backbones.gine import GINE, GINEConvolution
from graphshift.graph.graph import Graph
from reference import KINDS, random_data

pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(params=["undirected", "directed"])
def data(request: pytest.FixtureRequest) -> Data:
    found = random_data(**KINDS[request.param])
    found.edge_attr = torch.randn(found.num_edges, 3, generator=torch.Generator().manual_seed(1))
    return found


def graph_of(data: Data) -> Graph:
    return Graph.from_edge_index(data.edge_index, data.num_nodes, edge_attr=data.edge_attr)


@torch.no_grad()
def copy(*pairs: tuple[Tensor, Tensor]) -> None:
    for ours, theirs in pairs:
        ours.normal_()
        theirs.copy_(ours.view(theirs.shape))


def test_gine_layer(data: Data) -> None:
    ours = GINEConvolution(5, 3)
    theirs = GINEConv(nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5)), train_eps=True, edge_dim=3)
    pairs = [(ours.eps, theirs.eps)]
    for mine, other in ((ours.first, theirs.nn[0]), (ours.second, theirs.nn[2]), (ours.edges, theirs.lin)):
        pairs += [(mine.weight, other.weight), (mine.bias, other.bias)]
    copy(*pairs)
    torch.testing.assert_close(ours(data.x, graph_of(data)), theirs(data.x, data.edge_index, data.edge_attr))


@pytest.mark.parametrize("concatenate", [True, False])
def test_gat_layer(data: Data, concatenate: bool) -> None:
    ours = GATConvolution(5, 4, 2, concatenate, 3)
    theirs = GATConv(5, 4, heads=2, concat=concatenate, edge_dim=3)
    copy(
        (ours.linear.weight, theirs.lin.weight),
        (ours.from_source, theirs.att_src),
        (ours.to_target, theirs.att_dst),
        (ours.edges.weight, theirs.lin_edge.weight),
        (ours.from_edge, theirs.att_edge),
        (ours.bias, theirs.bias),
    )
    found = ours.mix(ours.transform(data.x), graph_of(data))
    torch.testing.assert_close(found, theirs(data.x, data.edge_index, data.edge_attr))


@pytest.mark.parametrize("make", [GINE, GAT])
def test_gradients_reach_the_edges_and_their_weights(data: Data, make: type[GINE] | type[GAT]) -> None:
    torch.manual_seed(0)
    network = make(5, 2, hidden_channels=4, edge_channels=3).eval()
    graph = graph_of(data)
    weight = torch.ones(graph.num_edges, requires_grad=True)

    def risk(weight: Tensor) -> Tensor:
        return network(data.x, graph.weighted(weight, undirected=False)).square().mean()

    risk(weight).backward()
    entry = int(weight.grad.abs().argmax())
    step = torch.zeros_like(weight)
    step[entry] = 1e-6
    slope = (risk(weight.detach() + step) - risk(weight.detach() - step)) / 2e-6
    assert float(weight.grad[entry]) == pytest.approx(float(slope.detach()), rel=1e-4)
    used = {name: p.grad for name, p in network.named_parameters() if "edge" in name}
    assert used
    assert all(float(gradient.abs().max()) > 0 for gradient in used.values())


def test_those_that_use_them_say_so() -> None:
    assert {name for name, one in BACKBONES.items() if one.uses_edge_features} == {"gine", "gat"}
    without = GINE(5, 2)
    assert "layers.0.edges.weight" not in without.state_dict()
