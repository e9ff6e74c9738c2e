"""Every backbone against a dense-matrix computation that is written here, in eval and in train mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from graphshift.backbones import BACKBONES, Backbone
from graphshift.graph.graph import Graph
from reference import KINDS, dense_normalised, dense_of, graph_of, random_data

pytestmark = pytest.mark.usefixtures("float64")

Reference = Callable[[Backbone, Tensor, Tensor], Tensor]


def batch_norm(norm: torch.nn.BatchNorm1d, h: Tensor, training: bool) -> Tensor:
    mean, variance = (h.mean(0), h.var(0, correction=0)) if training else (norm.running_mean, norm.running_var)
    return (h - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def layered(
    model: Any, x: Tensor, convolve: Callable[[Any, Tensor], Tensor], activation: Callable[..., Tensor]
) -> Tensor:
    h = x
    for i, layer in enumerate(model.layers):
        h = convolve(layer, h)
        if i < len(model.layers) - 1:
            h = activation(batch_norm(model.norms[i], h, model.training))
            h = F.dropout(h, model.dropout, model.training)
    return h


def gcn(model: Any, x: Tensor, a: Tensor) -> Tensor:
    return layered(model, x, lambda c, h: dense_normalised(a) @ h @ c.linear.weight.t() + c.bias, torch.relu)


def gcn_unnormalised(model: Any, x: Tensor, a: Tensor) -> Tensor:
    return layered(model, x, lambda c, h: a @ h @ c.linear.weight.t() + c.bias, torch.relu)


def sage(model: Any, x: Tensor, a: Tensor, *, self_loops: bool = True) -> Tensor:
    looped = a + torch.eye(a.shape[0]) if self_loops else a
    total = looped.sum(dim=1, keepdim=True)
    mean = torch.where(total > 0, looped / torch.where(total > 0, total, 1.0), 0.0)

    def convolve(c: Any, h: Tensor) -> Tensor:
        return mean @ h @ c.neighbours.weight.t() + h @ c.root.weight.t() + c.root.bias

    return layered(model, x, convolve, torch.relu)


def sage_without_loops(model: Any, x: Tensor, a: Tensor) -> Tensor:
    return sage(model, x, a, self_loops=False)


def gat(model: Any, x: Tensor, a: Tensor) -> Tensor:
    looped = a + torch.eye(a.shape[0])

    def convolve(c: Any, h: Tensor) -> Tensor:
        heads = []
        for k in range(c.heads):
            z = h @ c.linear.weight[k * c.width : (k + 1) * c.width].t()
            score = F.leaky_relu((z @ c.to_target[k])[:, None] + (z @ c.from_source[k])[None, :], 0.2)
            share = looped * score.exp()
            heads.append(share / share.sum(dim=1, keepdim=True) @ z)
        return (torch.cat(heads, dim=1) if c.concatenate else sum(heads) / c.heads) + c.bias

    return layered(model, x, convolve, F.elu)


def gcnii(model: Any, x: Tensor, a: Tensor) -> Tensor:
    first = h = torch.relu(x @ model.enter.weight.t() + model.enter.bias)
    for number, layer in enumerate(model.layers, start=1):
        theta = math.log(model.lamda / number + 1)
        h = F.dropout(h, model.dropout, model.training)
        s = (1 - model.alpha) * dense_normalised(a) @ h + model.alpha * first
        h = torch.relu(s @ ((1 - theta) * torch.eye(s.shape[1]) + theta * layer.weight.t()))
    return F.dropout(h, model.dropout, model.training) @ model.leave.weight.t() + model.leave.bias


def mlp(model: Any, x: Tensor, a: Tensor) -> Tensor:
    h = x
    for i, layer in enumerate(model.layers):
        h = h @ layer.weight.t() + layer.bias
        if i < len(model.layers) - 1:
            h = F.dropout(torch.relu(h), model.dropout, model.training)
    return h


def gine(model: Any, x: Tensor, a: Tensor) -> Tensor:
    h = x @ model.enter.weight.t() + model.enter.bias
    for layer, norm in zip(model.layers, model.norms, strict=True):
        total = (1 + layer.eps) * h + a @ torch.relu(h)
        total = torch.relu(total @ layer.first.weight.t() + layer.first.bias)
        h = torch.relu(batch_norm(norm, total @ layer.second.weight.t() + layer.second.bias, model.training))
        h = F.dropout(h, model.dropout, model.training)
    return h @ model.leave.weight.t() + model.leave.bias


def gprgnn(model: Any, x: Tensor, a: Tensor) -> Tensor:
    h = mlp(model.mlp, x, a)
    return sum(gamma * torch.matrix_power(dense_normalised(a), k) @ h for k, gamma in enumerate(model.gamma))


def a2gnn(model: Any, x: Tensor, a: Tensor) -> Tensor:
    for layer in model.layers[:-1]:
        x = F.dropout(torch.relu(x @ layer.weight.t() + layer.bias), model.dropout, model.training)
    smoothed = torch.matrix_power(dense_normalised(a), model.source_hops if model.training else model.target_hops) @ x
    return smoothed @ model.layers[-1].weight.t() + model.layers[-1].bias


def sgc(model: Any, x: Tensor, a: Tensor) -> Tensor:
    return torch.matrix_power(dense_normalised(a), model.num_hops) @ x @ model.linear.weight.t() + model.bias


def canet(model: Any, x: Tensor, a: Tensor) -> Tensor:
    """Node by node: σ(z_v + Σ_k π_vk (Σ_u Â_vu W_D^k z_u + W_S^k z_v))."""
    weights = dense_normalised(a)
    z = F.dropout(torch.relu(x @ model.first.weight.t() + model.first.bias), model.dropout, model.training)
    for mixture in model.mixtures:
        width, new = z.shape[1], []
        for v in range(len(z)):
            pi = torch.softmax(mixture.environment.weight @ z[v] + mixture.environment.bias, dim=0)
            experts = [(weights[v] @ z) @ w[:width] + z[v] @ w[width:] for w in mixture.weight]
            new.append(torch.relu(z[v] + sum(p * expert for p, expert in zip(pi, experts, strict=True))))
        z = F.dropout(torch.stack(new), model.dropout, model.training)
    return z @ model.last.weight.t() + model.last.bias


CASES: dict[str, tuple[str, dict[str, Any], Reference]] = {
    "gcn": ("gcn", {}, gcn),
    "gcn-unnormalised": ("gcn-unnormalised", {}, gcn_unnormalised),
    "sage": ("sage", {}, sage),
    "sage-without-loops": ("sage", {"self_loops": False}, sage_without_loops),
    "gat": ("gat", {"heads": 2}, gat),
    "gcnii": ("gcnii", {"alpha": 0.3, "lamda": 0.7}, gcnii),
    "gprgnn": ("gprgnn", {"hops": 4}, gprgnn),
    "a2gnn": ("a2gnn", {"hops": 3, "source_hops": 1}, a2gnn),
    "sgc": ("sgc", {}, sgc),
    "mlp": ("mlp", {}, mlp),
    "gine": ("gine", {}, gine),
    "canet": ("canet", {"experts": 2}, canet),
}


def made(case: str, *, num_layers: int = 3, dropout: float = 0.0) -> tuple[Backbone, Reference]:
    """A backbone with every number random: also biases, norms and their running means, which start at 0 and 1."""
    name, options, reference = CASES[case]
    model = BACKBONES[name](5, 2, hidden_channels=4, num_layers=num_layers, dropout=dropout, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
        for key, buffer in model.named_buffers():
            if buffer.is_floating_point():
                buffer.copy_(torch.rand_like(buffer) + 0.5 if "var" in key else torch.randn_like(buffer))
    return model, reference


def test_every_backbone_is_covered() -> None:
    assert {name for name, _, _ in CASES.values()} == set(BACKBONES)


@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_eval_mode(case: str, kind: str, num_layers: int) -> None:
    data = random_data(**KINDS[kind])
    model, reference = made(case, num_layers=num_layers)
    model.eval()
    torch.testing.assert_close(model(data.x, graph_of(data)), reference(model, data.x, dense_of(data)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_train_mode_with_dropout_and_gradients(case: str, kind: str) -> None:
    data = random_data(**KINDS[kind])
    model, reference = made(case, dropout=0.3)
    model.train()
    outer = torch.randn(data.num_nodes, 2)
    results = []
    for compute in (lambda: model(data.x, graph_of(data)), lambda: reference(model, data.x, dense_of(data))):
        torch.manual_seed(1)  # the same dropout masks, drawn in the same order
        output = compute()
        results.append((output, torch.autograd.grad((output * outer).sum(), list(model.parameters()))))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("case", [case for case in CASES if case != "mlp"])
def test_gradients_reach_the_edge_weights(case: str, directed: bool) -> None:
    """What explorers that follow the risk's gradient need."""
    data = random_data(directed=directed, weighted=True)
    graph = graph_of(data)
    weight = graph.weight.clone().requires_grad_()
    model, reference = made(case)
    model.eval()
    outer = torch.randn(data.num_nodes, 2)
    row, column = graph.keys // graph.num_nodes, graph.keys % graph.num_nodes
    dense = torch.zeros(graph.num_nodes, graph.num_nodes).index_put((row, column), weight)
    ours = model(data.x, Graph.from_keys(graph.num_nodes, graph.keys, weight, undirected=graph.undirected))
    found = torch.autograd.grad((ours * outer).sum(), weight)
    torch.testing.assert_close(found, torch.autograd.grad((reference(model, data.x, dense) * outer).sum(), weight))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_edited_graphs(case: str, kind: str) -> None:
    data = random_data(**KINDS[kind])
    graph, a = graph_of(data), dense_of(data)
    n = data.num_nodes
    b = torch.rand(n, n).lt(0.3).double().fill_diagonal_(0)
    if graph.undirected:
        b = b.maximum(b.t())
    mean = a[a > 0].mean()
    edited = torch.where(b > 0, torch.where(a > 0, 0.0, mean), a)
    model, reference = made(case)
    model.eval()
    view = graph.flip(b.flatten().nonzero().squeeze(1))
    torch.testing.assert_close(model(data.x, view), reference(model, data.x, edited))


@pytest.mark.parametrize("case", CASES)
def test_a_graph_without_edges(case: str) -> None:
    model, reference = made(case)
    model.eval()
    x = torch.randn(4, 5)
    empty = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 4)
    torch.testing.assert_close(model(x, empty), reference(model, x, torch.zeros(4, 4)))


def test_the_unnormalised_gcn_is_the_plain_sum_and_not_the_normalised() -> None:
    data = random_data()
    model, _ = made("gcn-unnormalised", num_layers=1)
    other, _ = made("gcn", num_layers=1)
    other.load_state_dict(model.state_dict())
    graph, a = graph_of(data), dense_of(data)
    output = model(data.x, graph)
    torch.testing.assert_close(output, a @ data.x @ model.layers[0].linear.weight.t() + model.layers[0].bias)
    torch.testing.assert_close(output[-1], model.layers[0].bias)  # the isolated node hears not even itself
    assert (output - other(data.x, graph)).abs().min() > 1e-3


def test_attention_survives_scores_that_overflow_exp() -> None:
    data = random_data()
    model, _ = made("gat", num_layers=1)
    with torch.no_grad():
        model.layers[0].from_source.mul_(1000)
    output = model(data.x, graph_of(data))
    assert bool(torch.isfinite(output).all())
    (gradient,) = torch.autograd.grad(output.sum(), model.layers[0].linear.weight)
    assert bool(torch.isfinite(gradient).all())


def test_options_of_the_authors_gcnii_and_gprgnn() -> None:
    graph = graph_of(random_data(9))
    x = torch.randn(9, 4)
    torch.manual_seed(0)
    plain = BACKBONES["gcnii"](4, 2, num_layers=2, hidden_channels=5)
    torch.manual_seed(0)
    logs = BACKBONES["gcnii"](4, 2, num_layers=2, hidden_channels=5, log_softmax=True)
    torch.testing.assert_close(logs(x, graph), plain(x, graph).log_softmax(dim=1))
    dropping = BACKBONES["gprgnn"](4, 2, hidden_channels=5, dprate=0.5)
    torch.manual_seed(1)
    found = dropping.train()(x, graph)
    torch.manual_seed(1)
    h = torch.nn.functional.dropout(dropping.mlp.stem(x), 0.5)
    a, expected = graph.normalised @ torch.eye(graph.num_nodes), torch.zeros_like(h)
    for gamma in dropping.gamma:
        expected, h = expected + gamma * h, a @ h
    torch.testing.assert_close(found, expected)
    assert torch.equal(dropping.eval()(x, graph), dropping(x, graph))  # none in prediction
