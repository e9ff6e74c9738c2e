"""Audits: Shapley values by enumeration, what is broken by dense matrices, flips that flip, commands and pages."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.graph.sparse import Sparse
from graphshift.shift.auditing import shapley as shapley_module
from graphshift.shift.auditing.breaking import permuted, rewired, strangers, without_edges, without_pair
from graphshift.shift.auditing.columns import column_drops, moved_columns, strongest
from graphshift.shift.auditing.flipping import flip_columns, flip_edges, random_flip
from graphshift.shift.auditing.measuring import reached
from graphshift.shift.auditing.shapley import shapley
from reference import KINDS, random_data


@pytest.fixture(scope="module")
def data() -> Any:
    return gs.load("planted-structure", nodes=200)


@pytest.fixture(scope="module")
def model(data: Any) -> Any:
    return gs.ERM("sage", epochs=25, hidden_channels=16).fit(data)


def game(players: list[str], seed: int) -> Any:
    random = np.random.default_rng(seed)
    sets = (frozenset(s) for size in range(len(players) + 1) for s in itertools.combinations(players, size))
    values = {one: float(random.standard_normal()) for one in sets}
    return values.__getitem__


def test_shapley_values_are_means_over_all_orders() -> None:
    players = list("abcd")
    value = game(players, 0)
    found = shapley(value, players)
    orders = list(itertools.permutations(players))
    for player in players:
        added = [
            value(frozenset(order[: order.index(player) + 1])) - value(frozenset(order[: order.index(player)]))
            for order in orders
        ]
        assert found.values[player] == pytest.approx(np.mean(added))
    assert (found.exact, found.coalitions, set(found.errors.values())) == (True, 16, {0.0})
    assert sum(found.values.values()) == pytest.approx(value(frozenset(players)) - value(frozenset()))


def test_sampled_values_are_near_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    players = list("abcdefgh")
    value = game(players, 1)
    sampled = shapley(value, players, permutations=300)
    monkeypatch.setattr(shapley_module, "EXACT", 8)
    exact = shapley(value, players)
    assert not sampled.exact
    assert sum(sampled.values.values()) == pytest.approx(sum(exact.values.values()))
    for player in players:
        assert abs(sampled.values[player] - exact.values[player]) < 4 * sampled.errors[player]
        assert 0 < sampled.errors[player] < 0.2


@pytest.mark.parametrize("kind", list(KINDS), ids=str)
def test_rewired_edges_keep_degrees(kind: str) -> None:
    graph = Environment("e", random_data(200, density=0.02, classes=3, **KINDS[kind]), gs.Task("multiclass", 3)).graph
    environment = Environment("e", random_data(200, density=0.02, classes=3, **KINDS[kind]), gs.Task("multiclass", 3))
    made = rewired(environment, 1).graph
    index = made.edge_index
    assert made.undirected == graph.undirected
    assert not bool((index[0] == index[1]).any())
    assert made.keys.unique().numel() == made.num_edges
    assert 0.85 * graph.num_edges < made.num_edges <= graph.num_edges
    old, new = (torch.bincount(one.edge_index[1], minlength=200) for one in (graph, made))
    assert bool((new <= old).all())
    assert torch.isin(made.keys, graph.keys).double().mean() < 0.3
    assert (made.weight is None) == (graph.weight is None)
    if graph.weight is not None and made.weight is not None:
        assert bool(torch.isin(made.weight, graph.weight).all())


@pytest.mark.parametrize("sparse", [False, True])
def test_strangers_are_neighbours_with_others_features(sparse: bool) -> None:
    """One GCN layer by dense matrices: a node's own term has its features, its neighbours' terms have others'."""
    data = random_data(20, density=0.15, classes=3, seed=2)
    environment = Environment("e", data, gs.Task("multiclass", 3))
    n, x, normalised = 20, environment.x, environment.graph.normalised
    assert isinstance(x, torch.Tensor)
    model = gs.ERM("gcn", num_layers=1, epochs=2, selection="last").fit(environment)
    if sparse:
        environment = environment.replace(x=Sparse.from_torch(x.to_sparse()))
    order = torch.from_numpy(np.random.default_rng(4).permutation(n))
    made = strangers(environment, 4)
    dense = (normalised @ torch.eye(n)).detach()
    own = torch.diag(dense.diagonal())
    mixed = own @ x + (dense - own) @ x[order]
    layer = dict(model.backbone_.named_parameters())
    weight = next(p for p in layer.values() if p.dim() == 2)
    bias = next((p for p in layer.values() if p.dim() == 1), torch.zeros(3))
    expected = (mixed @ weight.t() + bias).softmax(dim=1).detach()
    np.testing.assert_allclose(model.predict_proba(made)[:n], expected, atol=1e-5)
    assert made.counted.tolist() == environment.counted.tolist()
    assert reached(model, made).score == pytest.approx(
        float((expected.argmax(dim=1) == environment.y)[environment.counted].double().mean())
    )


def test_columns_are_permuted_together_and_sparse_as_dense() -> None:
    data = random_data(30, classes=3, seed=3)
    data.x = data.x * (data.x.abs() > 0.5)
    environment = Environment("e", data, gs.Task("multiclass", 3))
    dense = permuted(environment, [1, 3], 5).x
    assert isinstance(dense, torch.Tensor)
    order = torch.from_numpy(np.random.default_rng(5).permutation(30))
    assert torch.equal(dense[:, [1, 3]], data.x[order][:, [1, 3]])
    assert torch.equal(dense[:, [0, 2, 4]], data.x[:, [0, 2, 4]])
    sparse = environment.replace(x=Sparse.from_torch(data.x.to_sparse()))
    found = permuted(sparse, [1, 3], 5).x
    assert isinstance(found, Sparse)
    assert torch.equal(found.to_dense(), dense)


def test_a_pair_of_classes_loses_its_edges() -> None:
    environment = Environment("e", random_data(40, density=0.2, classes=3, seed=6), gs.Task("multiclass", 3))
    y = environment.y
    assert y is not None
    made = without_pair(environment, y, (0, 2)).graph
    pairs = {tuple(sorted(pair)) for pair in zip(*(y[one].tolist() for one in made.edge_index), strict=True)}
    assert (0, 2) not in pairs
    joined = [{int(y[a]), int(y[b])} == {0, 2} for a, b in environment.graph.edge_index.t().tolist()]
    assert made.num_edges == environment.graph.num_edges - sum(joined)


def test_what_is_reached_is_the_score_and_the_loss(data: Any, model: Any) -> None:
    val = data.val[0]
    found = reached(model, val)
    p = model.predict_proba(val)
    y = val.y.numpy()
    assert found.score == pytest.approx(model.score(val)) == pytest.approx((p.argmax(axis=1) == y).mean())
    assert found.risk == pytest.approx(-np.log(p[np.arange(len(y)), y]).mean())
    assert found.by_class.tolist() == pytest.approx([(p.argmax(axis=1) == y)[y == k].mean() for k in range(3)])
    np.testing.assert_allclose(found.confused.sum(axis=1), 1)


def test_flips_flip_and_no_single_edit_is_overlooked_often(data: Any, model: Any) -> None:
    val = data.val[0]
    before = model.predict(val)
    singles, found_singles = 0, 0
    for node in range(0, 12):
        flip = flip_edges(model, val, node)
        enumerated = [u for u in range(val.num_nodes) if u != node and _flipped(model, val, node, [u]) != before[node]]
        singles += bool(enumerated)
        if flip is None:
            continue
        assert (flip.before, flip.found) == (before[node], "gradient")
        assert _flipped(model, val, node, flip.edits) == flip.after != flip.before
        for one in flip.edits if flip.size > 1 else ():  # nothing can be taken back
            assert _flipped(model, val, node, set(flip.edits) - {one}) == flip.before
        found_singles += flip.size == 1 and bool(enumerated)
        assert flip.size > 1 or flip.edits[0] in enumerated
        random = random_flip(model, val, node, tries=2)
        assert random is None or _flipped(model, val, node, random.edits) == random.after != before[node]
    assert found_singles >= 0.75 * singles > 0


def _flipped(model: Any, environment: Environment, node: int, others: Any) -> int:
    """The prediction after flipping pairs, by a dense matrix."""
    n = environment.num_nodes
    dense = torch.zeros(n, n)
    dense[environment.graph.edge_index[1], environment.graph.edge_index[0]] = 1
    for other in others:
        dense[node, other] = dense[other, node] = 1 - dense[node, other]
    edited = Data(x=environment.x, edge_index=dense.t().nonzero().t().contiguous())
    return int(model.predict(edited)[node])


def test_columns_that_flip(data: Any, model: Any) -> None:
    val = data.val[0]
    number = 0
    for node in range(8):
        flip = flip_columns(model, val, node)
        if flip is not None:
            x = val.x.clone()
            x[node, list(flip.edits)] = val.x.mean(dim=0)[list(flip.edits)]
            assert int(model.predict(val.replace(x=x))[node]) == flip.after != flip.before
            number += 1
    assert number >= 3


def test_a_backbone_that_cannot_be_followed_is_searched_at_random(data: Any) -> None:
    model = gs.ERM("gat", epochs=3, hidden_channels=4).fit(data)
    flips = [flip_edges(model, data.val[0], node, most=30) for node in range(5)]
    assert {flip.found for flip in flips if flip is not None} == {"random"}


def test_moved_columns_are_those_that_moved_and_are_used() -> None:
    data = gs.load("planted", nodes=300)
    model = gs.ERM(epochs=40).fit(data)
    columns = list(range(data.train[0].num_features))
    found = moved_columns(model, data.train[0], data.val[0], columns)
    spurious = set(data.facts["spurious_columns"])
    assert set(list(found)[: len(spurious)]) == spurious
    assert max(found[c] for c in columns if c not in spurious) == pytest.approx(0, abs=1e-6)  # they are the same
    drops = column_drops(model, data.val[0], columns[:3])
    plain = reached(model, data.val[0]).risk
    for column in columns[:3]:
        draws = [reached(model, permuted(data.val[0], [column], seed)).risk for seed in (0, 1)]
        assert drops[column] == pytest.approx(np.mean(draws) - plain)


def test_the_strongest_columns_are_the_ones_that_decide() -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(300, 40, generator=random)
    y = (x[:, 7] + x[:, 23] > 0).long()
    edges = torch.stack([torch.arange(299), torch.arange(1, 300)])
    environment = Environment("e", Data(x=x, edge_index=edges, y=y))
    model = gs.ERM("mlp", epochs=60, selection="last").fit(environment)
    assert {7, 23} <= set(strongest(model, environment, most=10))
    forest = gs.Forest(selection="last").fit(environment)
    assert len(strongest(forest, environment, most=10)) == 10


def test_an_audit_says_what_holds(data: Any, model: Any) -> None:
    found = gs.audit(model, [data.train[0], data.val[0]], flips=3)
    first = found.leanings[0]
    bare = without_edges(data.train[0])
    assert first.broken["dropped"].score == pytest.approx(model.score(bare))
    assert first.lost("dropped") == pytest.approx(1 - model.score(bare) / model.score(data.train[0]))
    assert first.blocks.exact
    assert sum(first.blocks.values.values()) <= first.plain.score
    assert found.verdict.startswith("Leans on edges")
    assert math.isclose(sum(len(c) for c in found.block_columns.values()), 16)
    assert len(found.flips["edges"]) + found.unflipped["edges"] == 3
    blocks = {"first": range(8), "second": range(8, 16)}
    again = gs.audit(model, data.train, flips=0, blocks={name: list(one) for name, one in blocks.items()})
    assert set(again.leanings[0].blocks.values) == {"edges", "first", "second"}
    assert again.moved == {}
    json.dumps(found.to_json())


def test_other_models_and_values_are_audited_too(data: Any) -> None:
    forest = gs.Forest().fit(data)
    found = gs.audit(forest, data.val, flips=3)
    assert found.flips == {}
    assert any("no gradient" in note for note in found.notes)
    graph = random_data(60, seed=1)
    graph.y = graph.x[:, 0] * 2
    values = gs.ERM("mlp", epochs=40, selection="last").fit(graph)
    assert gs.audit(values, graph).leanings[0].lost("dropped") == pytest.approx(0, abs=1e-6)


def test_mistakes_are_told(data: Any, model: Any) -> None:
    for how, message in (
        ({"blocks": {"edges": [1]}}, "called 'edges'"),
        ({"blocks": {"a": [1], "b": [1]}}, "block 'b' has column 1"),
        ({"blocks": {"a": []}}, "block 'a' has no column"),
        ({"column_names": ["a"]}, "column_names has 1 names; expected 16"),
    ):
        with pytest.raises(GraphshiftError, match=message):
            gs.audit(model, data.val, **how)
    with pytest.raises(GraphshiftError, match="has no labels"):
        gs.audit(model, data.val[0].replace(y=None))
    with pytest.raises(GraphshiftError, match="no GNN"):
        gs.as_module(gs.Logistic().fit(data))


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gat", "gcnii", "sgc"])
def test_pygs_explainers_take_our_models(data: Any, backbone: str) -> None:
    from torch_geometric.explain import Explainer, GNNExplainer

    model = gs.ERM(backbone, epochs=5, hidden_channels=8).fit(data)
    module, graph = gs.as_module(model), data.val[0].data
    np.testing.assert_allclose(
        module(graph.x, graph.edge_index).exp().detach(), model.predict_proba(data.val[0]), atol=1e-5
    )
    how = {"mode": "multiclass_classification", "task_level": "node", "return_type": "log_probs"}
    masks = {"node_mask_type": "attributes", "edge_mask_type": "object"}
    explainer = Explainer(module, GNNExplainer(epochs=8), explanation_type="model", model_config=how, **masks)
    found = explainer(graph.x, graph.edge_index, index=5)
    reach = {5}
    for _ in range(10 if backbone in ("gcnii",) else 2):
        reach |= {int(a) for a, b in graph.edge_index.t().tolist() if b in reach}
    asked = torch.tensor([int(b) in reach for b in graph.edge_index[1]])
    assert bool((found.edge_mask[asked] > 0).any())
    assert bool((found.edge_mask[~asked] == 0).all())  # edges that cannot matter have no mask
    assert found.node_mask.shape == graph.x.shape
    np.testing.assert_allclose(  # and the module is as before
        module(graph.x, graph.edge_index).exp().detach(), model.predict_proba(data.val[0]), atol=1e-5
    )


def test_the_command_and_its_page(graphshift: Any, tmp_path: Path) -> None:
    run, page = tmp_path / "run", tmp_path / "a.html"
    size = ("-o", "nodes=100")
    fit = ("fit", "planted-structure", *size, "--method", "erm", "--epochs", 5, "--out", run)
    assert graphshift(*fit).status == 0
    answer = graphshift("audit", run, "--flips", 2, "--out", page)
    assert answer.status == 0, answer.err
    assert "when they are rewired" in answer.out
    text = page.read_text()
    assert text.count("<figure>") == 2
    assert "Edits that flip a prediction" in text
    assert graphshift("audit", run, "--out", page).status == 2  # it is there
    told = graphshift("audit", run, "planted-structure:T3", *size, "--flips", 0, "--json")
    assert set(json.loads(told.out)["graphs"]) == {"train", "T3"}
    wrong = graphshift("audit", run, "planted-structure:T33", *size)
    assert (wrong.status, "T33" in wrong.err) == (2, True)
    assert graphshift("audit", run, "T3").status == 2
    bare = graphshift("audit", run / "model")
    assert (bare.status, "config.json" in bare.err) == (2, True)


def test_notebooks_show_audits_comparisons_estimates_and_answers(data: Any, model: Any) -> None:
    model.explore(data.val)
    found = gs.audit(model, [data.train[0], data.val[0]], flips=0)
    compared = gs.compare_graphs(data.train[0], data.val[0], progress=False)
    for thing in (found, compared, model.estimate_score(data.val[0]), model.predict_or_abstain(data.val[0])):
        assert "<table>" in thing._repr_html_()
    assert found.verdict.split(":")[0] in found._repr_html_()
    assert len(gs.figure(found).axes[0].patches) == 8  # four states of two graphs
    assert len(gs.figure(compared).axes[0].patches) == 5
