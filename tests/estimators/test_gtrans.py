"""``adapt="gtrans"``: the loss and the projection against independent computations; what is edited, and what is not."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.estimators import gtrans
from graphshift.estimators.gtrans import Pairs, contrast, projected, transformed
from graphshift.graph.graph import Graph
from reference import KINDS, graph_of, random_data


def test_the_loss_is_that_of_the_paper() -> None:
    z, positive, negative = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0)).unbind()

    def cosine(u: torch.Tensor, v: torch.Tensor) -> float:
        a, b = u.tolist(), v.tolist()
        return sum(i * j for i, j in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))

    by_hand = [(1 - cosine(z[v], positive[v])) - (1 - cosine(z[v], negative[v])) for v in range(5)]
    assert float(contrast(z, positive, negative)) == pytest.approx(sum(by_hand) / 5, abs=1e-6)


@pytest.mark.parametrize("budget", [0.0, 1.5, 3.0, 100.0])
def test_the_projection_is_the_nearest_point(budget: float) -> None:
    c = torch.tensor([2.0, 0.7, 0.4, -0.3, 0.9, 0.1, 1.2])
    constraint = {"type": "ineq", "fun": lambda d: budget - d.sum()}
    found = minimize(lambda d: ((d - c.numpy()) ** 2).sum(), np.zeros(7), bounds=[(0, 1)] * 7, constraints=[constraint])
    np.testing.assert_allclose(projected(c, budget).numpy(), found.x, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_changes_of_pairs_are_changes_of_the_matrix(kind: str) -> None:
    graph = graph_of(random_data(12, density=0.3, **KINDS[kind]))
    pairs = Pairs(graph, torch.Generator().manual_seed(0))
    before = graph.adjacency.to_dense()
    assert torch.equal(pairs.graph(torch.zeros(pairs.count)).adjacency.to_dense(), before)
    assert pairs.edges == graph.num_edges // (2 if graph.undirected else 1)
    d = torch.rand(pairs.count, generator=torch.Generator().manual_seed(1))
    after = pairs.graph(d).adjacency.to_dense()
    row, col = pairs.wide.pattern.row.long(), pairs.wide.pattern.col.long()
    expected = before.clone()
    for r, c, place in zip(row.tolist(), col.tolist(), pairs.place.tolist(), strict=True):
        expected[r, c] = before[r, c] * (1 - d[place]) if before[r, c] else d[place]
    torch.testing.assert_close(after, expected)
    assert int(((before == 0) & (after != 0)).sum()) > 0
    if graph.undirected:
        assert torch.equal(after, after.t())
    assert not after.diagonal().any()


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", nodes=120, environments=3)


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gat"])
def test_edits_lower_the_loss_within_the_budget(
    backbone: str, data: gs.ShiftDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gtrans, "mutual_information", lambda _: 1.0)  # the guard says yes
    monkeypatch.setattr(gtrans, "_FEATURE_RATE", 0.05)
    model, e = gs.ERM(backbone, epochs=20, hidden_channels=8).fit(data), data.tests[0]
    weights = copy.deepcopy(model.backbone_.state_dict())
    found = transformed(model.backbone_, e)
    assert torch.equal(found.x, transformed(model.backbone_, e.unlabelled()).x)  # type: ignore[arg-type]
    before, after = e.graph.adjacency.to_dense(), found.graph.adjacency.to_dense()
    changed = float((after - before).abs().sum()) / 2
    assert 0.1 < changed <= 0.05 * e.graph.num_edges / 2 + 1e-3
    assert torch.equal(after, after.t())

    def loss(x: torch.Tensor, graph: Graph) -> float:
        """The mean over many draws of edges and of other nodes."""
        g, total = torch.Generator().manual_seed(5), 0.0
        with torch.no_grad():
            for _ in range(20):
                pairs = Pairs(graph, g)
                kept = (torch.rand(pairs.count, generator=g) < 0.5).float()
                half, stem = pairs.graph(torch.zeros(pairs.count), kept), model.backbone_.stem(x)
                shuffled = stem[torch.randperm(len(x), generator=g)]
                z, p, n = (
                    model.backbone_.represent(h, a)[0] for h, a in ((stem, graph), (stem, half), (shuffled, graph))
                )
                total += float(contrast(z, p, n))
        return total

    assert loss(found.x, found.graph) < loss(e.x, e.graph)  # type: ignore[arg-type]
    assert (model.predict_proba(e, adapt="gtrans") != model.predict_proba(e)).any()
    assert all(torch.equal(one, weights[name]) for name, one in model.backbone_.state_dict().items())
    assert all(p.grad is None or not p.grad.any() for p in model.backbone_.parameters())


def test_when_it_is_not_taken(data: gs.ShiftDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    e = data.tests[0]
    with pytest.raises(GraphshiftError, match="a backbone that uses edges with weights"):
        gs.ERM("mlp", epochs=2).fit(data).predict(e, adapt="gtrans")
    told = iter([0.4, 0.5])  # after the edits, and before
    monkeypatch.setattr(gtrans, "mutual_information", lambda _: next(told))
    model = gs.ERM(epochs=2, hidden_channels=8).fit(data)
    with pytest.warns(GraphshiftWarning, match="its predictions say less about the nodes' classes"):
        assert (model.predict_proba(e, adapt="gtrans") == model.predict_proba(e)).all()
