from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.lab.shift.planting import STRENGTHS, made_pair
from graphshift.shift.comparing import halving, labels
from graphshift.shift.comparing.compare import Comparison, compare_graphs
from graphshift.shift.comparing.edges import fitted
from graphshift.shift.comparing.labels import predicted_classes
from graphshift.shift.comparing.parts import Parts, exchange_test, holm, parts_of, t_values
from graphshift.shift.comparing.sides import make_pair
from graphshift.shift.comparing.telling import _ranks


def test_t_is_that_of_the_formula() -> None:
    rng = np.random.default_rng(0)
    totals, sizes, target = rng.normal(size=(9, 2)), rng.integers(3, 9, 9).astype(float), np.arange(9) > 4
    expected = []
    for column in totals.T:
        means, variances = [], []
        for side in (~target, target):
            mean = column[side].sum() / sizes[side].sum()
            k = int(side.sum())
            spread = sum((x - mean * n) ** 2 for x, n in zip(column[side], sizes[side], strict=True))
            means.append(mean)
            variances.append(spread / sizes[side].sum() ** 2 * k / (k - 1))
        pooled = sum(variances)
        expected.append((means[1] - means[0]) / np.sqrt(sum(max(v, 0.1 * pooled) for v in variances)))
    assert np.allclose(t_values(totals, sizes, target), expected)


def test_halves_of_a_large_graph_are_small_and_stay_inside_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halving, "_MOST_NODES", 600)
    monkeypatch.setattr(halving, "_LARGE", 2_400)
    environment = gs.load("planted", nodes=3_000, environments=3).train[0]
    pair = make_pair(environment, environment, ("0", "1", "2", "3"), 0)
    halves = halving.halvings(pair, 3)
    assert [len(own) for own in halves] == [3, 3]
    for half in (*halves[0], *halves[1]):
        sizes = [side.environment.num_nodes for side in half.sides]
        assert 100 < sum(sizes) < 900
        assert half.parts.count == 8
        assert half.parts.target.sum() == 4
        assert len(half.parts.number) == sum(sizes)


def test_totals_of_many_columns_are_those_of_each() -> None:
    rng = np.random.default_rng(0)
    number = rng.integers(0, 5, 40)
    parts = Parts(number, np.arange(5) > 2, (number, number))
    table = rng.normal(size=(40, 21)).astype(np.float32)
    expected = [[table[number == p, c].astype(float).sum() for c in range(21)] for p in range(5)]
    np.testing.assert_allclose(parts.total(table), expected)
    np.testing.assert_allclose(parts.total(scipy.sparse.csr_array(table)), expected)


def test_exchanges_give_the_p_value_of_all_exchanges() -> None:
    from itertools import combinations

    totals = np.array([0.1, 0.5, -0.2, 0.3, 1.4, 1.1, 0.9, 0.35])[:, None] * 10
    sizes, target = np.full(8, 10.0), np.arange(8) > 3
    observed = abs(t_values(totals, sizes, target)[0])
    every = [abs(t_values(totals, sizes, np.isin(np.arange(8), c))[0]) for c in combinations(range(8), 4)]
    exact = np.mean(np.array(every) >= observed - 1e-9)
    found = exchange_test(totals, sizes, target, exchanges=4000)
    assert found.overall == pytest.approx(exact, abs=0.012)


def test_p_values_are_uniform_where_nothing_moved() -> None:
    rng = np.random.default_rng(1)
    found = [
        exchange_test(rng.normal(size=(30, 5)), np.full(30, 1.0), np.arange(30) > 14, exchanges=199, seed=i).overall
        for i in range(200)
    ]
    assert np.mean(np.array(found) <= 0.1) == pytest.approx(0.1, abs=0.06)
    assert np.mean(found) == pytest.approx(0.5, abs=0.08)


def test_holm_and_ranks() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    from scipy.stats import rankdata

    values = np.array([3.0, 1.0, 1.0, 2.0, 3.0])
    assert np.allclose(_ranks(values), (rankdata(values) - 0.5) / 5)


def test_fitting_keeps_odds_ratios_and_has_the_margins() -> None:
    table = np.array([[5.0, 1.0, 2.0], [1.0, 3.0, 0.5], [2.0, 0.5, 4.0]])
    margin = np.array([0.2, 0.5, 0.3])
    found = fitted(table, margin)
    assert np.allclose(found.sum(axis=1), margin, atol=1e-6)
    odds = lambda e: e[0, 0] * e[1, 1] / e[0, 1] ** 2  # noqa: E731
    assert odds(found) == pytest.approx(odds(table))


def test_parts_are_communities_of_each_side() -> None:
    source, target = made_pair("labels", 0.0, 0, nodes=400)
    parts = parts_of(source, target)
    assert len(parts.number) == 800
    assert parts.target_nodes[:400].sum() == 0
    assert parts.target_nodes[400:].all()
    assert parts.sizes.min() > 2
    assert np.allclose(parts.total(np.ones(800)), parts.sizes)


@pytest.fixture(scope="module")
def moved() -> dict[str, Comparison]:
    return {block: compare_graphs(*made_pair(block, strengths[2], 1)) for block, strengths in STRENGTHS.items()}


@pytest.mark.parametrize("block", list(STRENGTHS))
def test_a_planted_shift_is_named_first(block: str, moved: dict[str, Comparison]) -> None:
    found = moved[block]
    assert found.moved[0].name == block
    assert found[block].corrected is not None
    assert found[block].corrected < 0.05
    assert found.advice[0]
    assert "moved" in found.verdict


def test_effects_are_those_of_the_data(moved: dict[str, Comparison]) -> None:
    source, target = made_pair("labels", STRENGTHS["labels"][2], 1)
    shares = [torch.bincount(e.labels, minlength=4) / e.labels.numel() for e in (source, target)]
    assert moved["labels"]["labels"].effect == pytest.approx(float((shares[0] - shares[1]).abs().sum() / 2), abs=1e-6)
    source, target = made_pair("structure", STRENGTHS["structure"][2], 1)
    facts = moved["structure"]["structure"].details
    assert facts["source"]["mean_degree"] == pytest.approx(float(source.graph.degree.mean()))
    assert facts["target"]["mean_degree"] == pytest.approx(float(target.graph.degree.mean()))
    source, target = made_pair("edges", STRENGTHS["edges"][2], 1)
    same = []
    for e in (source, target):
        assert e.y is not None
        row, col = e.graph.edge_index
        same.append(float((e.y[row] == e.y[col]).float().mean()))
    assert moved["edges"]["edges"].details["homophily"][:2] == pytest.approx(same, abs=0.01)
    source, target = made_pair("features", STRENGTHS["features"][2], 1)
    first = moved["features"]["features"].details["columns"][0]
    place = int(first["column"].removeprefix("column "))
    assert first["source"] == pytest.approx(float(source.x[:, place].mean()), abs=1e-4)  # type: ignore[index]


def test_nothing_moved_between_two_draws() -> None:
    found = compare_graphs(*made_pair("labels", 0.0, 7))
    assert found.moved == ()
    assert found.verdict.startswith("Nothing has moved")


def test_without_labels_of_the_target_classes_are_predicted() -> None:
    source, target = made_pair("edges", 0.4, 2)
    found = compare_graphs(source, target.replace(y=None))
    assert found["edges"].details["predicted"]
    assert any("predicted" in caveat for caveat in found["edges"].caveats)
    assert found["labels"].details["estimated"]
    same = compare_graphs(source, target.replace(y=None))
    assert same.to_json() == found.to_json()


@pytest.mark.parametrize("sparse", [False, True])
def test_classes_are_predicted_some_nodes_at_a_time(monkeypatch: pytest.MonkeyPatch, sparse: bool) -> None:
    source, target = made_pair("edges", 0.4, 2, nodes=500)
    if sparse:
        data = [e.data for e in (source, target)]
        for one in data:
            one.x = one.x.to_sparse_csr()
        source, target = (Environment(e.name, one, e.task) for e, one in zip((source, target), data, strict=True))
    whole = make_pair(source, target.replace(y=None), ("0", "1", "2", "3"), 0)
    found = predicted_classes(whole)
    monkeypatch.setattr(labels, "_PIECE", 37)
    pieces = make_pair(source, target.replace(y=None), ("0", "1", "2", "3"), 0)
    again = predicted_classes(pieces)
    assert found is not None
    assert again is not None
    for one, other in zip(found, again, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    x = np.asarray(torch.as_tensor(target.x.to_dense() if sparse else target.x))  # type: ignore[union-attr]
    near = whole.target.matrix.toarray() @ x / np.maximum(whole.target.degree, 1)[:, None]
    table = labels._with_neighbours(whole.target, np.array([3, 40, 41]))
    expected = np.concatenate([x, near], axis=1)[[3, 40, 41]]
    np.testing.assert_allclose(table.toarray() if sparse else table, expected, atol=1e-5)


def test_errors_of_predicted_classes_are_taken_out_of_what_edges_join() -> None:
    data = gs.load("planted-structure", nodes=800)
    source, target = data.val[0], data.tests[-1]
    truth = compare_graphs(source, target)["edges"].details["homophily"]
    found = compare_graphs(source, target.replace(y=None))["edges"]
    predicted, corrected = found.details["homophily"][1], found.details["homophily_without_errors"]
    assert abs(corrected - truth[1]) < 0.1 < 0.3 < abs(predicted - truth[1])
    assert abs(found.details["error_in_source"]) < 0.05
    assert f"about {100 * corrected:.0f} % in the target, {100 * truth[0]:.0f} % in the source" in found.says


def test_values_instead_of_classes() -> None:
    source, target = made_pair("labels", 0.0, 3, nodes=500)
    graphs = []
    for environment, step in ((source, 0.0), (target, 2.0)):
        assert environment.y is not None
        data = environment.data
        data.y = environment.y.float() + step
        graphs.append(data)
    found = gs.compare_graphs(*graphs)
    assert found.moved[0].name == "labels"
    assert found["edges"].effect is not None


def test_named_caveats() -> None:
    source, target = made_pair("labels", 0.0, 4, nodes=400)
    assert isinstance(target.x, torch.Tensor)
    other = target.x.clone()
    other[:, 0] = (other[:, 0] + 3) * 1000
    units = compare_graphs(source.replace(x=source.x + torch.eye(16)[0] * 3), target.replace(x=other))  # type: ignore[operator]
    assert any("other units" in caveat for caveat in units["features"].caveats)
    assert source.y is not None
    one = compare_graphs(source.replace(y=torch.zeros_like(source.y)), target.replace(y=torch.zeros_like(source.y)))
    assert any("one class" in caveat for caveat in one["labels"].caveats)
    narrow = compare_graphs(source, target.replace(y=torch.zeros_like(source.y)))
    assert narrow["edges"].p is None  # all join nodes of one class: that is no shift of what edges say
    assert any("not in the target: 1, 2" in caveat for caveat in narrow.caveats)
    mean, deviation = source.x.mean(dim=0), source.x.std(dim=0)  # type: ignore[union-attr]
    standard = [(x - mean) / deviation for x in (source.x, target.x / 1000)]
    scaled = compare_graphs(source.replace(x=standard[0]), target.replace(x=standard[1]))
    assert any("other units" in caveat for caveat in scaled["features"].caveats)
    assert scaled["features"].high is not None
    assert scaled["features"].high <= 1
    data = target.data
    data.edge_index = data.edge_index[:, :0]
    leftovers = compare_graphs(source, Environment("target", data, source.task))
    assert any("lost edges" in caveat for caveat in leftovers["structure"].caveats)
    assert any("no edge" in caveat for caveat in leftovers.caveats)
    assert leftovers["surroundings"].p is None


def test_bad_input_is_refused() -> None:
    source, target = made_pair("labels", 0.0, 5, nodes=300)
    with pytest.raises(GraphshiftError, match="16 columns and 'target' has 3"):
        compare_graphs(source, target.replace(x=torch.rand(300, 3)))
    small = Data(x=torch.rand(5, 16), edge_index=torch.empty(2, 0, dtype=torch.int64))
    with pytest.raises(GraphshiftError, match="has 5 nodes that count; expected at least 60"):
        compare_graphs(source, small)
    empty = Data(x=torch.empty(0, 16), edge_index=torch.empty(2, 0, dtype=torch.int64))
    with pytest.raises(GraphshiftError, match="target is empty"):
        compare_graphs(source, empty)
    with pytest.raises(GraphshiftError, match="level is 2"):
        compare_graphs(source, target, level=2)
    with pytest.raises(GraphshiftError, match="expected an Environment"):
        compare_graphs(source, 3)  # type: ignore[arg-type]


def test_features_whose_squares_are_infinite_are_refused() -> None:
    data = gs.load("planted", nodes=60)
    x = data.tests[0].x.clone()
    x[0, 3] = -1e20
    with pytest.raises(GraphshiftError, match=r"column 3 of `x` in environment 'T1' reaches 1e\+20.*Scale"):
        gs.compare_graphs(data.train[0], data.tests[0].replace(x=x))


def test_several_known_graphs_are_taken_together() -> None:
    first, target = made_pair("features", STRENGTHS["features"][2], 1, nodes=400)
    second = made_pair("features", 0.0, 2, nodes=400)[0]
    found = compare_graphs([first, second], target)
    assert found.moved[0].name == "features"
    x = torch.cat([first.x, second.x])  # type: ignore[list-item]
    row = found["features"].details["columns"][0]
    assert row["source"] == pytest.approx(float(x[:, int(row["column"].removeprefix("column "))].mean()), abs=1e-5)
    assert found["structure"].details["source"]["nodes"] == 800
    assert compare_graphs([first], target).to_json() == compare_graphs(first, target).to_json()
    with pytest.raises(GraphshiftError, match="source is empty"):
        compare_graphs([], target)
    with pytest.raises(GraphshiftError, match="has 15; expected the same columns"):
        compare_graphs([first, second.replace(x=second.x[:, :15])], target)  # type: ignore[index]
