"""``adapt="beliefs"``: exact on trees, rates of largest likelihood, class shares kept, and when it is not taken."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.storage import read_json, write_json
from graphshift.estimators import beliefs as beliefs_file
from graphshift.estimators.beliefs import Ends, beliefs, gain, pair_rates, propagated
from graphshift.estimators.loading import load_model
from graphshift.graph.graph import Graph

TREE = torch.tensor([[0, 0, 1, 1, 4], [1, 2, 3, 4, 5]])  # six nodes; a seventh is alone


def graph_of(edges: Tensor, nodes: int) -> Graph:
    return Graph.from_edge_index(torch.cat([edges, edges.flip(0)], dim=1), nodes)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1


def rates_of(classes: int, seed: int = 3) -> Tensor:
    r = random(classes, classes, seed=seed)
    return (r + r.t()) / (r + r.t()).sum()


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_on_a_tree_beliefs_are_the_marginals_of_an_enumeration(kept: float) -> None:
    evidence, prior, rates = random(7, 3), torch.tensor([0.5, 0.3, 0.2]).double(), rates_of(3)
    m = rates.sum(dim=1)
    expected = torch.zeros(7, 3, dtype=torch.float64)
    for y in itertools.product(range(3), repeat=7):
        p = 1.0
        for v, c in enumerate(y):
            p *= float(prior[c] * evidence[v, c])
        for u, v in TREE.t().tolist():
            p *= float(rates[y[u], y[v]] / (m[y[u]] * m[y[v]]))
        for v, c in enumerate(y):
            expected[v, c] += p
    expected /= expected.sum(dim=1, keepdim=True)
    ends = Ends(graph_of(TREE, 7))
    steps = 4 if not kept else 80
    found = beliefs(evidence, prior, rates, ends, steps=steps, kept=kept, fitted=False)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)
    assert not torch.allclose(beliefs(evidence, prior, rates, ends, steps=1, kept=kept, fitted=False), expected)


def test_directed_edges_and_loops() -> None:
    one_way = Graph.from_edge_index(torch.tensor([[0, 1, 2, 2], [1, 2, 2, 1]]), 3)
    ends = Ends(one_way)
    assert list(zip(ends.receiver.tolist(), ends.sender.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert ends.back.tolist() == [1, 0, 3, 2]


def test_pair_rates_are_those_of_largest_likelihood() -> None:
    """Of known classes, counts; of noisy ones, a fixed point of the maximisation, written as loops over edges."""
    g = torch.Generator().manual_seed(1)
    graph = graph_of(torch.randint(30, (2, 80), generator=g), 30)
    ends = Ends(graph)
    once = [(int(u), int(v)) for u, v in zip(ends.receiver, ends.sender, strict=True) if u < v]
    prior = torch.tensor([0.4, 0.35, 0.25]).double()
    y = torch.randint(3, (30,), generator=g)
    counts = torch.zeros(3, 3, dtype=torch.float64)
    for u, v in once:
        counts[y[u], y[v]] += 0.5 / len(once)
        counts[y[v], y[u]] += 0.5 / len(once)
    known = torch.nn.functional.one_hot(y, 3).double()
    torch.testing.assert_close(pair_rates(known, prior, ends), counts, atol=1e-6, rtol=0)

    noisy = known * 4 + random(30, 3)
    found, again = pair_rates(noisy, prior, ends), torch.zeros(3, 3, dtype=torch.float64)
    for u, v in once:
        joint = found * noisy[u].unsqueeze(1) * noisy[v]
        again += (joint / joint.sum() + (joint / joint.sum()).t()) / (2 * len(once))
    torch.testing.assert_close(found, again, atol=1e-5, rtol=0)
    assert (found - counts).abs().max() > 0.01  # noise is not ignored

    m = found.sum(dim=1)
    by_hand = sum(
        float(((found * noisy[u].unsqueeze(1) * noisy[v]).sum() / ((m @ noisy[u]) * (m @ noisy[v]))).log())
        for u, v in once
    )
    price = 1.5 * float(torch.tensor(len(once)).double().log())
    assert gain(noisy, found, ends) == pytest.approx(by_hand - price, rel=1e-6)


def test_class_shares_among_ends_are_kept() -> None:
    """Edges within classes, strong: without the fit, one class takes all."""
    graph = gs.load("planted-structure", nodes=200, tests=1).train[0].graph
    ends, prior = Ends(graph), torch.full((3,), 1 / 3, dtype=torch.float64)
    rates = torch.full((3, 3), 0.01, dtype=torch.float64) + torch.eye(3) * 0.97 / 3
    rates = rates / rates.sum()
    evidence = random(200, 3)
    degree = torch.bincount(ends.receiver, minlength=200).double()

    def shares(fitted: bool) -> Tensor:
        b = beliefs(evidence, prior, rates, ends, fitted=fitted)
        return (degree.unsqueeze(1) * b).sum(dim=0) / degree.sum()

    torch.testing.assert_close(shares(True), rates.sum(dim=1), atol=1e-3, rtol=0)
    assert float(shares(False).max()) > 0.9


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted-structure", nodes=600, tests=4)


@pytest.fixture(scope="module")
def model(data: gs.ShiftDataset) -> gs.Logistic:
    return gs.Logistic().fit(data)


def test_edges_help_where_neighbours_agree_and_where_they_avoid_each_other(
    model: gs.Logistic, data: gs.ShiftDataset, tmp_path: Path
) -> None:
    assert model.can_adapt("beliefs")
    last = data.tests[-1]  # no edge joins equal classes
    assert model.score(last, adapt="beliefs") > model.score(last) + 0.1
    assert model.rehearsed_ == pytest.approx([model.score(data.val[0]), model.score(data.val[0], adapt="beliefs")])
    assert model.rehearsed_[1] > model.rehearsed_[0] + 0.05
    found = model.predict_proba(last, adapt="beliefs")
    assert (found == model.predict_proba(last.unlabelled(), adapt="beliefs")).all()
    p = torch.from_numpy(model.predict_proba(last, calibrated=True))
    assert abs(propagated(p, model.prior_, last.graph)[0].numpy() - found).max() < 1e-6
    model.save(tmp_path / "model")
    assert (load_model(tmp_path / "model").predict_proba(last, adapt="beliefs") == found).all()
    note = read_json(tmp_path / "model" / "model.json")
    write_json(tmp_path / "model" / "model.json", note | {"rehearsed": [0.5]})
    with pytest.raises(GraphshiftError, match="rehearsed"):
        load_model(tmp_path / "model")


def test_where_edges_say_nothing_it_is_left_alone(model: gs.Logistic, data: gs.ShiftDataset) -> None:
    e = data.tests[0]
    edges = torch.randint(e.num_nodes, (2, 1500), generator=torch.Generator().manual_seed(0))
    shuffled = e.replace(graph=graph_of(edges, e.num_nodes))
    with pytest.warns(GraphshiftWarning, match="its edges say nothing sure about the nodes' classes"):
        assert (model.predict_proba(shuffled, adapt="beliefs") == model.predict_proba(shuffled)).all()
    bare = e.replace(graph=graph_of(torch.empty(2, 0, dtype=torch.int64), e.num_nodes))
    with pytest.warns(GraphshiftWarning, match="it has no edges"):
        model.predict(bare, adapt="beliefs")


def test_when_it_is_not_taken(data: gs.ShiftDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    test = data.tests[0]
    bare = gs.ShiftDataset("bare", data.train, (), data.tests)
    with pytest.warns(GraphshiftWarning, match="no validation graph with a score"):
        gs.Logistic(selection="last").fit(bare).predict(test, adapt="beliefs")
    model = gs.ERM("mlp", epochs=3, hidden_channels=8).fit(data)
    assert model.can_adapt("beliefs")
    with monkeypatch.context() as patched:
        patched.setattr(beliefs_file, "_REHEARSED", 3 * data.val[0].graph.num_edges)
        model.calibrate(data.val)
        assert model.rehearsed_ is not None
        patched.setattr(beliefs_file, "_REHEARSED", 3 * data.val[0].graph.num_edges - 1)
        model.calibrate(data.val)
        assert model.rehearsed_ is None
    model.rehearsed_ = [0.6, 0.5]
    with pytest.warns(GraphshiftWarning, match=r"the score goes from 0\.600 to 0\.500"):
        model.predict(test, adapt="beliefs")
    gnn = gs.ERM("sage", epochs=2, hidden_channels=8).fit(data)
    assert not gnn.can_adapt("beliefs")
    assert gnn.rehearsed_ is None
    with pytest.raises(GraphshiftError, match="it needs a model that does not look at edges"):
        gnn.predict(test, adapt="beliefs")
