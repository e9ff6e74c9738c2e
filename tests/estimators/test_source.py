"""``adapt="centroids"`` and ``"neighbours"``: what is kept of training, what is computed, and when it is not taken."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.storage import read_tensors, write_tensors
from graphshift.data.environment import Environment
from graphshift.estimators import source as source_file
from graphshift.estimators.centroids import HOPS, centroid_probabilities, class_centroids, smoothed
from graphshift.estimators.loading import load_model
from graphshift.estimators.neighbours import (
    adjusted_homophily,
    aligned,
    labelled_counts,
    pair_counts,
    pair_weights,
    sure_classes,
)
from graphshift.graph.graph import Graph
from small import OwnModule, environments

SMALL: dict[str, Any] = {"epochs": 30, "hidden_channels": 8}
WAYS = ("centroids", "neighbours")


def dense(graph: Graph) -> Tensor:
    """A, weights as values."""
    return graph.adjacency.to_dense().double()


def test_centroids_are_those_of_a_dense_computation() -> None:
    (e,) = environments(1)
    hidden = torch.randn(e.num_nodes, 6, generator=torch.Generator().manual_seed(0))
    a = dense(e.graph) + torch.eye(e.num_nodes)
    root = a.sum(dim=1).rsqrt().diag()
    z = (root @ a @ root) @ (root @ a @ root) @ hidden.double()
    z = z / z.norm(dim=1, keepdim=True)
    torch.testing.assert_close(smoothed(hidden, e.graph, 2).double(), z, atol=1e-5, rtol=0)
    expected = torch.stack([z[e.counted][e.labels == c].mean(dim=0) for c in range(3)])
    expected = expected / expected.norm(dim=1, keepdim=True)
    found = class_centroids([(e, hidden)], e.task, 2)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    p = centroid_probabilities(hidden, e.graph, found, 2)
    scores = [[math.exp(10 * float(row @ centre)) for centre in expected] for row in z]
    torch.testing.assert_close(
        p, torch.tensor([[s / sum(row) for s in row] for row in scores]).double(), atol=1e-4, rtol=0
    )
    found[1] = 0.0  # no node of this class in training
    assert not centroid_probabilities(hidden, e.graph, found, 2)[:, 1].any()


def test_pairs_and_homophily_are_counted_edge_by_edge() -> None:
    (e,) = environments(1)
    label = {int(v): int(c) for v, c in zip(e.counted, e.labels, strict=True)}
    expected = torch.zeros(3, 3, dtype=torch.float64)
    for sender, receiver in e.graph.edge_index.t().tolist():
        if sender in label and receiver in label:
            expected[label[receiver], label[sender]] += 1
    counts = labelled_counts([e])
    assert torch.equal(counts, expected)
    total, ends = float(expected.sum()), expected.sum(dim=0) + expected.sum(dim=1)
    chance = sum((float(end) / (2 * total)) ** 2 for end in ends)
    assert adjusted_homophily(counts) == pytest.approx((float(expected.trace()) / total - chance) / (1 - chance))
    assert adjusted_homophily(torch.eye(3)) == 1
    assert adjusted_homophily(torch.ones(3, 3)) == pytest.approx(0, abs=1e-6)
    assert adjusted_homophily(torch.zeros(3, 3)) == 0
    heavy = Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3, torch.tensor([2.0, 3.0]))
    assert pair_counts(heavy, torch.tensor([0, 1, 0]), 2).tolist() == [[0, 3], [2, 0]]


def test_weighted_neighbours_have_the_rates_of_the_source() -> None:
    """Where all classes are known, the weighted edges to each class come from the classes as often as in training."""
    source, target = environments(2, nodes=40)
    y = torch.arange(target.num_nodes) % 3
    counts = labelled_counts([source])
    gamma = pair_weights(counts, pair_counts(target.graph, y, 3))
    receiver, sender, _ = target.graph.entries
    weighted = target.graph.weighted(gamma[y[receiver.long()], y[sender.long()]].float(), undirected=False)
    found = pair_counts(weighted, y, 3)
    rates = [c / c.sum(dim=1, keepdim=True) for c in (found, counts)]
    torch.testing.assert_close(rates[0], rates[1], atol=1e-6, rtol=0)
    assert pair_weights(torch.zeros(2, 2), torch.ones(2, 2)).tolist() == [[1, 1], [1, 1]]


def test_unsure_nodes_keep_their_edges() -> None:
    source, target = environments(2, nodes=40)
    p = torch.full((target.num_nodes, 3), 1 / 3, dtype=torch.float64)
    p[:20] = torch.tensor([0.98, 0.01, 0.01], dtype=torch.float64)
    p[10:20] = torch.tensor([0.01, 0.98, 0.01], dtype=torch.float64)
    classes = sure_classes(p)
    assert classes.tolist() == [0] * 10 + [1] * 10 + [-1] * (target.num_nodes - 20)
    found = aligned(target, p, labelled_counts([source])).graph
    receiver, sender, weight = found.entries
    assert weight is not None
    assert not found.undirected
    between = (receiver < 20) & (sender < 20)
    assert bool(between.any())
    assert not bool(between.all())
    assert (weight[~between] == 1).all()
    gamma = pair_weights(labelled_counts([source]), pair_counts(target.graph, classes, 3)).clamp(0.1, 10)
    expected = gamma[classes[receiver[between].long()], classes[sender[between].long()]]
    torch.testing.assert_close(weight[between].double(), expected, atol=1e-6, rtol=0)
    # An entry as Graph has it is the weight of what the receiver gets: a dense product says the same.
    x = torch.randn(target.num_nodes, 2)
    by_hand = torch.zeros(target.num_nodes, 2).index_add(0, receiver.long(), weight.unsqueeze(1) * x[sender.long()])
    torch.testing.assert_close(found.adjacency @ x, by_hand)


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", nodes=150, environments=3)


@pytest.fixture(scope="module", params=["gcn", "sage", "gat", "gprgnn", "mlp"])
def model(request: pytest.FixtureRequest, data: gs.ShiftDataset) -> gs.ERM:
    return gs.ERM(request.param, **SMALL).fit(data)


@pytest.mark.parametrize("way", WAYS)
def test_it_is_computed_without_labels_and_saved(
    way: str, model: gs.ERM, data: gs.ShiftDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_file, "mutual_information", lambda _: 1.0)  # the last of the guards says yes
    graph = data.tests[0]
    if way == "neighbours" and model.backbone == "mlp":
        assert not model.can_adapt(way)
        with pytest.raises(GraphshiftError, match="a backbone that uses edges with weights"):
            model.predict(graph, adapt=way)
        return
    assert model.can_adapt(way)
    assert model.source_ is not None
    model.source_.rehearsed[way] = (0.5, 0.5)  # taken, if its premise holds
    model.source_.pairs = torch.eye(4, dtype=torch.float64) * 5 + 1
    found = model.predict_proba(graph, adapt=way)
    assert found.shape == (150, 4)
    assert (found == model.predict_proba(graph.unlabelled(), adapt=way)).all()
    assert (model.predict_proba(graph) == model.predict_proba(graph)).all()  # and the model is what it was
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert (again.predict_proba(graph, adapt=way) == found).all()
    p = torch.from_numpy(model.predict_proba(graph))
    with torch.no_grad():
        hidden, _ = model.backbone_.represent(model.backbone_.stem(graph.x), graph.graph)
        if way == "centroids":
            which = model.source_.hops
            expected = centroid_probabilities(hidden, graph.graph, model.source_.centroids[which], HOPS[which])
        else:
            other = aligned(graph, p, model.source_.pairs)
            expected = model.task_.probabilities(model.backbone_(other.x, other.graph))
    torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-6, rtol=0)


def test_fit_keeps_what_the_training_graphs_show_and_rehearses(model: gs.ERM, data: gs.ShiftDataset) -> None:
    model.fit(data)
    with torch.no_grad():
        shown = [(e, model.backbone_.represent(model.backbone_.stem(e.x), e.graph)[0]) for e in data.train]
        assert model.source_ is not None
        expected = [class_centroids(shown, model.task_, hops) for hops in HOPS]
        assert torch.equal(model.source_.centroids, torch.stack(expected))
        assert torch.equal(model.source_.pairs, labelled_counts(data.train))
    plain, with_it = model.source_.rehearsed["centroids"]
    assert plain == pytest.approx(sum(model.score(e) for e in data.val) / len(data.val))
    model.source_.pairs = torch.eye(4, dtype=torch.float64)  # the premise holds
    model.source_.rehearsed["centroids"] = (0.0, 0.0)
    scores = []
    for which in range(len(HOPS)):
        model.source_.hops = which
        scores.append(sum(model.score(e, adapt="centroids") for e in data.val) / len(data.val))
    model.source_.rehearse(model, data.val)
    assert model.source_.rehearsed["centroids"][1] == pytest.approx(max(scores))
    assert scores[model.source_.hops] == max(scores)
    model.source_.rehearsed["centroids"] = (0.0, 0.0)
    assert with_it == pytest.approx(sum(model.score(e, adapt="centroids") for e in data.val) / len(data.val))


def _unsafe(model: gs.ERM, graph: Environment, way: str) -> str:
    with pytest.warns(GraphshiftWarning, match="was left as it is") as told:
        found = model.predict_proba(graph, adapt=way)
    assert (found == model.predict_proba(graph)).all()
    return str(told[0].message)


def test_it_is_not_taken_where_the_rule_speaks_against_it(
    data: gs.ShiftDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, graph = gs.ERM("gcn", **SMALL).fit(data), data.tests[0]
    found = model.source_
    assert found is not None
    found.rehearsed = dict.fromkeys(WAYS, (0.9, 0.9))
    found.pairs = torch.ones(4, 4, dtype=torch.float64)
    assert "neighbours share classes too little" in _unsafe(model, graph, "centroids")
    found.pairs = torch.eye(4, dtype=torch.float64) + 0.1
    found.rehearsed = dict.fromkeys(WAYS, (0.9, 0.8))
    for way in WAYS:
        assert "the score goes from 0.900 to 0.800" in _unsafe(model, graph, way)
    found.rehearsed = {}
    for way in WAYS:
        assert "no validation graph with a score to rehearse it on" in _unsafe(model, graph, way)
    found.rehearsed = dict.fromkeys(WAYS, (0.9, 0.95))
    falling = iter([0.5, 1.0])
    with monkeypatch.context() as patch:
        patch.setattr(source_file, "mutual_information", lambda _: next(falling))
        assert "say less about the nodes' classes" in _unsafe(model, graph, "neighbours")
    model.calibrate([data.val[0]])  # rehearses anew
    assert found.rehearsed["centroids"][0] == pytest.approx(model.score(data.val[0]))


def test_what_cannot_be_is_refused(data: gs.ShiftDataset, tmp_path: Path) -> None:
    model, graph = gs.ERM("gcn", **SMALL).fit(data), data.tests[0]
    for way, why in (("norm+centroids", "norm.prior"), ("neighbours+tent", "norm.prior")):
        with pytest.raises(GraphshiftError, match=why):
            model.predict(graph, adapt=way)
    with pytest.raises(GraphshiftError, match="needs a GNN"):
        gs.Logistic().fit(data).predict(graph, adapt="centroids")
    assert model.source_ is not None
    model.source_.pairs, model.source_.rehearsed["centroids"] = torch.eye(4, dtype=torch.float64), (0.5, 0.5)
    with pytest.raises(GraphshiftError, match="no temperature"):
        model.predict_proba(graph, adapt="centroids", calibrated=True)
    (e,) = environments(1)
    own = gs.ERM(OwnModule(), epochs=2, selection="last").fit(e)  # its forward takes no edge_weight
    with pytest.raises(GraphshiftError, match="uses edges with weights"):
        own.predict(e, adapt="neighbours")
    values = gs.load("planted", nodes=60, environments=3)
    regression = [e.replace(y=e.x[:, 0], task=gs.Task("regression", 0)) for e in values.train]
    with pytest.raises(GraphshiftError, match="classes of nodes"):
        gs.ERM("gcn", epochs=2, selection="last").fit(regression).predict(regression[0], adapt="centroids")
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "source.safetensors"
    arrays, _ = read_tensors(path)
    for wrong in ({"pairs": arrays["pairs"][:2]}, {"pairs": -arrays["pairs"] - 1}, {"rehearsed/norm": torch.ones(2)}):
        write_tensors(path, arrays | wrong)
        with pytest.raises(GraphshiftError, match=r"source\.safetensors: arrays have other names, shapes or types"):
            load_model(tmp_path / "model")
    path.unlink()
    with pytest.raises(GraphshiftError, match="keeps nothing of its training graphs"):
        load_model(tmp_path / "model").predict(graph, adapt="centroids")


def test_a_study_scores_it_and_says_how_often_it_was_not_taken(tmp_path: Path) -> None:
    from graphshift.report.study_tables import adapting_note
    from graphshift.studies import Arm, run_study
    from tiny_studies import TINY, plan

    arms = [Arm(f"ERM, {name}", {"method": "erm", "backbone": name, **TINY}) for name in ("gcn", "mlp")]
    study = run_study(plan(arms=arms, trials=0, seeds=[0], adapt=WAYS), workers=0, threads=1)
    names = ["ERM, gcn", "ERM, gcn, + centroids", "ERM, gcn, + neighbours", "ERM, mlp", "ERM, mlp, + centroids"]
    assert study.summary.arm_names() == names
    assert study.summary.skipped[0].reason == "no GNN that can be adapted so: ERM, mlp"
    note = adapting_note(study.summary, study.summary.arms)
    assert "cases centroids was not taken" in note
