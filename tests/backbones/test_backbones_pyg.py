"""Single layers against PyG's own with the same weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GATConv, GCN2Conv, GCNConv, SAGEConv, SGConv
from torch_geometric.utils import add_self_loops

from graphshift.backbones import GAT, GCN, GCNII, GPRGNN, SAGE, SGC
from graphshift.backbones.gat import GATConvolution
from graphshift.core.errors import GraphshiftError
from reference import KINDS, graph_of, random_data

pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(params=["undirected", "directed"])
def unweighted(request: pytest.FixtureRequest) -> Iterator[Data]:
    """SAGEConv and GATConv take no edge weights."""
    return random_data(**KINDS[request.param])


def weight_of(data: Data) -> Tensor | None:
    return data.edge_weight if "edge_weight" in data else None


@torch.no_grad()
def copy(*pairs: tuple[Tensor, Tensor]) -> None:
    """Random numbers into ours, the same into theirs."""
    for ours, theirs in pairs:
        ours.normal_()
        theirs.copy_(ours.view(theirs.shape))


@pytest.mark.parametrize("normalize", [True, False])
def test_gcn(any_data: Data, normalize: bool) -> None:
    ours = GCN(5, 3, num_layers=1, normalize=normalize)
    theirs = GCNConv(5, 3, normalize=normalize, add_self_loops=normalize)
    copy((ours.layers[0].linear.weight, theirs.lin.weight), (ours.layers[0].bias, theirs.bias))
    expected = theirs(any_data.x, any_data.edge_index, weight_of(any_data))
    torch.testing.assert_close(ours(any_data.x, graph_of(any_data)), expected)


@pytest.mark.parametrize("self_loops", [True, False])
def test_sage(unweighted: Data, self_loops: bool) -> None:
    ours, theirs = SAGE(5, 3, num_layers=1, self_loops=self_loops), SAGEConv(5, 3)
    layer = ours.layers[0]
    copy((layer.neighbours.weight, theirs.lin_l.weight), (layer.root.weight, theirs.lin_r.weight))
    copy((layer.root.bias, theirs.lin_l.bias))
    edge_index = unweighted.edge_index
    if self_loops:
        edge_index, _ = add_self_loops(edge_index, num_nodes=unweighted.num_nodes)
    torch.testing.assert_close(ours(unweighted.x, graph_of(unweighted)), theirs(unweighted.x, edge_index))


@pytest.mark.parametrize("concatenate", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
def test_gat(unweighted: Data, heads: int, concatenate: bool) -> None:
    ours, theirs = GATConvolution(5, 2, heads, concatenate), GATConv(5, 2, heads, concat=concatenate)
    copy((ours.linear.weight, theirs.lin.weight), (ours.bias, theirs.bias))
    copy((ours.from_source, theirs.att_src), (ours.to_target, theirs.att_dst))
    found = ours.mix(ours.transform(unweighted.x), graph_of(unweighted))
    torch.testing.assert_close(found, theirs(unweighted.x, unweighted.edge_index))


def test_the_last_gat_layer_averages_and_the_others_concatenate() -> None:
    model = GAT(5, 2, hidden_channels=3, num_layers=3, heads=4)
    assert [(c.concatenate, c.out_width) for c in model.layers] == [(True, 12), (True, 12), (False, 2)]


def test_gcnii(any_data: Data) -> None:
    ours = GCNII(5, 3, hidden_channels=4, num_layers=3, alpha=0.2, lamda=0.6)
    h = first = ours.stem(any_data.x)
    for number, layer in enumerate(ours.layers, start=1):
        theirs = GCN2Conv(4, alpha=0.2, theta=0.6, layer=number)
        with torch.no_grad():
            theirs.weight1.copy_(layer.weight.t())
        h = theirs(h, first, any_data.edge_index, weight_of(any_data)).relu()
    torch.testing.assert_close(ours(any_data.x, graph_of(any_data)), ours.leave(h))
    torch.testing.assert_close(first, nn.functional.linear(any_data.x, ours.enter.weight, ours.enter.bias).relu())


@pytest.mark.parametrize("hops", [1, 2, 4])
def test_sgc(any_data: Data, hops: int) -> None:
    ours, theirs = SGC(5, 3, num_layers=hops), SGConv(5, 3, K=hops)
    copy((ours.linear.weight, theirs.lin.weight), (ours.bias, theirs.lin.bias))
    expected = theirs(any_data.x, any_data.edge_index, weight_of(any_data))
    torch.testing.assert_close(ours(any_data.x, graph_of(any_data)), expected)


def test_a_fresh_gprgnn_is_personalised_pagerank(any_data: Data) -> None:
    """γ starts as the weights of APPNP, which PyG has."""
    ours = GPRGNN(5, 3, hidden_channels=4, hops=6, alpha=0.2)
    expected = APPNP(K=6, alpha=0.2)(ours.mlp.stem(any_data.x), any_data.edge_index, weight_of(any_data))
    torch.testing.assert_close(ours(any_data.x, graph_of(any_data)), expected)
    assert ours.gamma.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("kind", [SAGE, GCNII, GPRGNN])
def test_uniform_first_weights_are_those_of_torch(kind: type[nn.Module]) -> None:
    """torch's linear layers, and PyG's, draw weights and biases from ±1/√inputs; Glorot has no bias, another bound."""
    torch.manual_seed(0)
    ours, glorot = (kind(90, 3, hidden_channels=70, init=init) for init in ("uniform", "glorot"))
    found = [layer for layer in ours.modules() if isinstance(layer, nn.Linear)]
    assert len(found) >= 2
    for layer in found:
        theirs = nn.Linear(layer.in_features, layer.out_features)
        bound = 1 / math.sqrt(layer.in_features)
        for own, other in ((layer.weight, theirs.weight), (layer.bias, theirs.bias)):
            if own is not None:
                assert own.abs().max() <= bound
                assert other.abs().max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.15)
    assert all(
        not layer.bias.any() for layer in glorot.modules() if isinstance(layer, nn.Linear) and layer.bias is not None
    )
    with pytest.raises(GraphshiftError, match="expected 'glorot' or 'uniform'"):
        kind(3, 2, init="zeros")
