"""What holds for every backbone, and how one is made."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from graphshift.backbones import BACKBONES, GCN, GCNII, Backbone, make_backbone
from graphshift.core.errors import GraphshiftError
from graphshift.explorers import Random
from graphshift.graph.sparse import Sparse
from reference import KINDS, graph_of, random_data

OPTIONS: dict[str, dict[str, Any]] = {"a2gnn": {"hops": 2}, "gat": {"heads": 2}, "gprgnn": {"hops": 3}}


@pytest.fixture(params=BACKBONES)
def backbone(request: pytest.FixtureRequest) -> Backbone:
    torch.manual_seed(1)
    return make_backbone(
        request.param, 5, 2, hidden_channels=8, num_layers=2, dropout=0.0, options=OPTIONS.get(request.param)
    )


class Own(nn.Module):
    """A user's module."""

    def __init__(self, flat: bool = False) -> None:
        super().__init__()
        self.conv, self.flat = GCNConv(5, 1 if flat else 2), flat

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = self.conv(x, edge_index)
        return out.squeeze(1) if self.flat else out


class OwnWeighted(Own):
    """A user's module that takes weights."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.conv(x, edge_index, edge_weight)


def own(module: nn.Module, out_channels: int = 2) -> Backbone:
    return make_backbone(module, 5, out_channels, hidden_channels=8, num_layers=2, dropout=0.0)


# --- every backbone


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("kind", KINDS)
def test_numbering_the_nodes_anew_numbers_the_outputs_anew(backbone: Backbone, kind: str, training: bool) -> None:
    data = random_data(**KINDS[kind])
    order = torch.randperm(data.num_nodes)
    moved = data.clone()
    moved.x = data.x[order]
    moved.edge_index = order.argsort()[data.edge_index]
    backbone.train(training)
    expected = backbone(data.x, graph_of(data))[order]
    torch.testing.assert_close(backbone(moved.x, graph_of(moved)), expected, rtol=1e-4, atol=1e-5)


def test_only_neighbours_within_reach_are_heard(backbone: Backbone) -> None:
    """A path 0 → 1 → 2 → … → 6: two layers carry two steps (GPRGNN: three hops), and nothing flows upstream."""
    n, reach = 7, 3 if type(backbone).__name__ == "GPRGNN" else 0 if type(backbone).__name__ == "MLP" else 2
    data = Data(x=torch.randn(n, 5), edge_index=torch.stack([torch.arange(n - 1), torch.arange(1, n)]))
    backbone.eval()
    x = data.x.clone().requires_grad_()
    for node in range(n):
        (gradient,) = torch.autograd.grad(backbone(x, graph_of(data))[node].square().sum(), x)
        heard = set(gradient.abs().sum(dim=1).nonzero().flatten().tolist())
        assert heard <= set(range(max(0, node - reach), node + 1))
        assert node < reach or node - reach in heard


def test_an_isolated_node_hears_only_itself(backbone: Backbone) -> None:
    data = random_data()
    backbone.eval()
    output = backbone(data.x, graph_of(data))
    assert bool(torch.isfinite(output).all())
    others = data.x.clone()
    others[:-1] = torch.randn_like(others[:-1])
    changed = backbone(others, graph_of(data))
    torch.testing.assert_close(changed[-1], output[-1])
    assert not torch.allclose(changed[:-1], output[:-1])


def test_gradients_reach_every_parameter(backbone: Backbone) -> None:
    data = random_data()
    backbone.eval()  # batch norm in training cancels the bias before it
    backbone(data.x, graph_of(data)).square().sum().backward()
    for name, parameter in backbone.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_forward_is_stem_then_propagate_and_the_stem_serves_all_views(backbone: Backbone) -> None:
    data = random_data()
    graph = graph_of(data)
    backbone.train()
    stem = backbone.stem(data.x)
    for view in (graph, *(Random(2, seed=seed).propose(graph).graph for seed in range(3))):
        torch.testing.assert_close(backbone.propagate(stem, view), backbone(data.x, view))


@pytest.mark.usefixtures("float64")
def test_sparse_features_give_the_same(backbone: Backbone) -> None:
    data = random_data()
    x = data.x * (data.x > 0)
    results = []
    for features in (x, Sparse.from_torch(x.to_sparse_csr())):
        output = backbone(features, graph_of(data))
        results.append((output, torch.autograd.grad(output.square().sum(), list(backbone.parameters()))))
    torch.testing.assert_close(results[0], results[1])


def test_dropout_acts_in_training_only() -> None:
    data = random_data()
    for name in sorted(set(BACKBONES) - {"sgc"}):  # has no hidden layer
        model = make_backbone(name, 5, 2, hidden_channels=32, num_layers=2, dropout=0.5)
        outputs = [model(data.x, graph_of(data)) for _ in range(2)]
        assert not torch.allclose(*outputs), name
        model.eval()
        outputs = [model(data.x, graph_of(data)) for _ in range(2)]
        assert torch.equal(*outputs), name


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("num_layers", [1, 2, 4])
def test_depth_and_width(name: str, num_layers: int) -> None:
    model = make_backbone(name, 5, 3, hidden_channels=8, num_layers=num_layers, dropout=0.0)
    data = random_data()
    assert model(data.x, graph_of(data)).shape == (data.num_nodes, 3)
    if name in ("gcn", "gcn-unnormalised", "sage", "gat", "gcnii", "mlp"):
        assert len(model.layers) == num_layers


# --- making one


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(GraphshiftError) as caught:
        make_backbone("gnc", 5, 2, hidden_channels=8, num_layers=2, dropout=0.0)
    for word in ["'gnc'", *BACKBONES]:
        assert word in str(caught.value)


@pytest.mark.parametrize("name", BACKBONES)
def test_an_unknown_option_is_refused_by_name(name: str) -> None:
    with pytest.raises(GraphshiftError) as caught:
        make_backbone(name, 5, 2, hidden_channels=8, num_layers=2, dropout=0.0, options={"wings": 2})
    for word in (f"'{name}'", "wings", "backbone_options"):
        assert word in str(caught.value)


def test_options_reach_the_backbone() -> None:
    model = make_backbone("gat", 5, 2, hidden_channels=8, num_layers=2, dropout=0.0, options={"heads": 3})
    assert [layer.heads for layer in model.layers] == [3, 3]


# --- a user's own module


def test_a_users_module_is_copied() -> None:
    module = Own()
    before = module.conv.lin.weight.clone()
    backbone = own(module)
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.fill_(7.0)
    assert torch.equal(module.conv.lin.weight, before)


def test_a_users_module_gives_what_it_gives_alone(any_data: Data) -> None:
    module = Own()
    torch.testing.assert_close(own(module)(any_data.x, graph_of(any_data)), module(any_data.x, any_data.edge_index))


def test_weights_are_passed_to_a_module_that_takes_them_and_to_no_other(weighted: Data) -> None:
    taking, plain = OwnWeighted(), Own()
    found = own(taking)(weighted.x, graph_of(weighted))
    torch.testing.assert_close(found, taking(weighted.x, weighted.edge_index, weighted.edge_weight))
    assert not torch.allclose(found, taking(weighted.x, weighted.edge_index))
    torch.testing.assert_close(own(plain)(weighted.x, graph_of(weighted)), plain(weighted.x, weighted.edge_index))


def test_a_module_that_takes_weights_works_without_them(directed: Data) -> None:
    module = OwnWeighted()
    torch.testing.assert_close(own(module)(directed.x, graph_of(directed)), module(directed.x, directed.edge_index))


def test_a_users_module_is_given_sparse_features_as_dense_ones(undirected: Data) -> None:
    module = Own()
    sparse = Sparse.from_torch(undirected.x.to_sparse_csr())
    torch.testing.assert_close(own(module)(sparse, graph_of(undirected)), module(undirected.x, undirected.edge_index))


def test_an_output_of_one_dimension_becomes_a_column(undirected: Data) -> None:
    module = Own(flat=True)
    found = own(module, 1)(undirected.x, graph_of(undirected))
    assert found.shape == (undirected.num_nodes, 1)
    torch.testing.assert_close(found.squeeze(1), module(undirected.x, undirected.edge_index))


def test_a_users_backbone_is_copied_and_used_as_it_is(undirected: Data) -> None:
    mine = GCN(5, 2, hidden_channels=3)
    copied = own(mine)
    assert type(copied) is GCN
    assert copied is not mine
    torch.testing.assert_close(copied(undirected.x, graph_of(undirected)), mine(undirected.x, graph_of(undirected)))
    assert not any(a is b for a, b in zip(copied.parameters(), mine.parameters(), strict=True))


def test_an_output_of_the_wrong_width_is_refused(undirected: Data) -> None:
    with pytest.raises(GraphshiftError, match=r"shape \[9, 2\]; the task needs \[9, 3\]"):
        own(Own(), 3)(undirected.x, graph_of(undirected))


def test_options_beside_a_users_module_are_refused(undirected: Data) -> None:
    with pytest.raises(GraphshiftError, match="for named backbones"):
        make_backbone(torch.nn.Linear(5, 2), 5, 2, hidden_channels=4, num_layers=2, dropout=0.0, options={"heads": 2})


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_deep_backbone_that_saves_memory_has_the_same_gradients(dropout: float) -> None:
    data = random_data(15, seed=4)
    graph, found, kept = graph_of(data), [], []
    backbone = GCNII(5, 2, hidden_channels=8, num_layers=10, dropout=dropout).train()
    for save_memory in (False, True):
        backbone.save_memory = save_memory
        sizes: list[int] = []
        backbone.zero_grad()
        torch.manual_seed(1)
        with torch.autograd.graph.saved_tensors_hooks(lambda t, n=sizes: (n.append(t.numel()), t)[1], lambda t: t):
            loss = backbone(data.x, graph).square().sum()
        loss.backward()
        found.append([p.grad.clone() for p in backbone.parameters()])
        kept.append(sum(sizes))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    assert kept[1] < kept[0] / 2
