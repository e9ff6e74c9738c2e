"""MMD: the kernel's sums, one by one, and the asymmetry of A2GNN's network."""

from __future__ import annotations

import math

import pytest
import torch

import graphshift as gs
from graphshift.backbones import make_backbone
from graphshift.methods.mmd import MMDMethod, maximum_mean_discrepancy


def test_maximum_mean_discrepancy_is_the_sum_over_all_pairs() -> None:
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randn(n, 3, dtype=torch.float64, generator=random) + i for i, n in enumerate((4, 6)))
    every = [*a.tolist(), *b.tolist()]
    scale = sum(math.dist(u, v) ** 2 for u in every for v in every) / len(every) ** 2

    def kernel(u: list[float], v: list[float]) -> float:
        return sum(math.exp(-(math.dist(u, v) ** 2) / (w * scale)) for w in (0.25, 0.5, 1, 2, 4)) / 5

    def mean(first: torch.Tensor, second: torch.Tensor) -> float:
        return sum(kernel(u, v) for u in first.tolist() for v in second.tolist()) / (len(first) * len(second))

    assert float(maximum_mean_discrepancy(a, b)) == pytest.approx(mean(a, a) + mean(b, b) - 2 * mean(a, b))
    assert float(maximum_mean_discrepancy(a, a)) == pytest.approx(0, abs=1e-12)


def test_a2gnn_smooths_the_source_little_and_what_it_predicts_a_lot() -> None:
    data = gs.load("planted", nodes=60, environments=3)
    how = {"hidden_channels": 8, "num_layers": 2, "dropout": 0.0}
    network = make_backbone("a2gnn", 24, 4, **how, options={"hops": 3, "source_hops": 1})
    graph, x = data.train[0].graph, data.train[0].x
    A = torch.zeros(60, 60)
    A[graph.edge_index[0], graph.edge_index[1]] = 1.0
    A += torch.eye(60)
    A = A / A.sum(1).sqrt().outer(A.sum(1).sqrt())
    first, last = network.layers
    for training, at_target, hops in ((True, False, 1), (True, True, 3), (False, False, 3)):
        network.train(training)
        network.at_target = at_target
        expected = torch.linalg.matrix_power(A, hops) @ torch.relu(first(x)) @ last.weight.t() + last.bias
        torch.testing.assert_close(network(x, graph), expected, rtol=1e-4, atol=1e-5)


def test_a_step_is_the_sources_risk_and_the_discrepancy_of_counted_nodes() -> None:
    data = gs.load("planted", nodes=60, environments=4)
    settings = gs.MMD(target="tests", penalty=0.5, hidden_channels=8, backbone="a2gnn").resolved()
    network = settings.new_backbone(24, data.task)
    method = MMDMethod(network, settings)
    masked = data.tests[0].replace(mask=torch.arange(60) < 30)
    method.target = [masked.unlabelled(), data.tests[1].unlabelled()]
    network.train()
    with torch.no_grad():
        hidden, output = network.represent(network.stem(data.train[0].x), data.train[0].graph)
        network.at_target = True
        theirs = [network.represent(network.stem(e.x), e.graph)[0] for e in method.target]
        network.at_target = False
    found = method.step(data.train, 0.0)
    expected = maximum_mean_discrepancy(hidden, torch.cat([theirs[0][:30], theirs[1]]))
    assert found["penalty"] == pytest.approx(float(expected), rel=1e-4)
    assert found["loss"] == pytest.approx(float(data.train[0].risk(output) + 0.5 * expected), rel=1e-5)
    assert not network.at_target


def test_at_most_so_many_nodes_are_compared() -> None:
    settings = gs.MMD(sample=5).resolved()
    method = MMDMethod(settings.new_backbone(24, gs.load("planted", nodes=60).task), settings)
    rows = torch.arange(12.0).unsqueeze(1)
    drawn = method._drawn([rows[:7], rows[7:]])
    assert drawn.shape == (5, 1)
    assert len(set(drawn.flatten().tolist())) == 5
    assert method._drawn([rows[:3]]).tolist() == rows[:3].tolist()
