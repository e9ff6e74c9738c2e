"""Label propagation and Correct & Smooth against their closed forms, written out densely."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.tasks import Task
from graphshift.methods.correct_smooth import corrected_and_smoothed
from graphshift.methods.diffusion import diffused, operator_of
from graphshift.methods.label_propagation import propagated
from reference import random_data


def dense_operator(environment: gs.Environment) -> Any:
    n, graph = environment.num_nodes, environment.graph
    weight = np.ones(graph.num_edges) if graph.weight is None else graph.weight.numpy().astype(np.float64)
    a = np.zeros((n, n))
    for (source, target), w in zip(graph.edge_index.t().tolist(), weight, strict=True):
        a[target, source] = w
    both = a if graph.undirected else a + a.T
    degree = both.sum(axis=1)
    root = np.array([0.0 if d == 0 else d**-0.5 for d in degree])
    return root[:, None] * both * root[None, :]


def closed_form(environment: gs.Environment, start: Any, alpha: float) -> Any:
    return (1 - alpha) * np.linalg.inv(np.eye(environment.num_nodes) - alpha * dense_operator(environment)) @ start


def with_labels(data: Data, regression: bool = False) -> gs.Environment:
    """A third of the nodes train; node 0 has no edge."""
    kept = (data.edge_index != 0).all(dim=0)
    data.edge_index = data.edge_index[:, kept]
    if data.edge_weight is not None:
        data.edge_weight = data.edge_weight[kept]
    n = data.num_nodes
    task = Task("regression", 0) if regression else Task("multiclass", 3)
    data.y = torch.linspace(-2, 5, n) if regression else data.y
    known = torch.arange(n) % 3 == 1
    data.known_y = data.y.masked_fill(~known, torch.nan if regression else -1)
    return gs.Environment("any", data, task)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.99])
def test_spreading_is_the_closed_form(alpha: float, any_data: Data) -> None:
    environment = with_labels(any_data)
    start = np.random.default_rng(0).normal(size=(environment.num_nodes, 4))
    operator = operator_of(environment.graph)
    np.testing.assert_allclose(operator.toarray(), dense_operator(environment), atol=1e-12)
    np.testing.assert_allclose(diffused(operator, start, alpha), closed_form(environment, start, alpha), atol=1e-6)


@pytest.mark.parametrize("regression", [False, True], ids=["classes", "values"])
def test_label_propagation_is_the_closed_form(regression: bool, any_data: Data) -> None:
    environment = with_labels(any_data, regression)
    n, known = environment.num_nodes, np.flatnonzero(np.arange(environment.num_nodes) % 3 == 1)
    y = environment.y.numpy()
    start = np.zeros((n, 2 if regression else 3))
    for node in known:
        if regression:
            start[node] = y[node], 1
        else:
            start[node, y[node]] = 1
    spread = closed_form(environment, start, 0.8)
    shares = np.array([0.7]) if regression else np.array([0.5, 0.3, 0.2])
    found = propagated(environment, shares, 0.8)
    for node in range(n):
        total = spread[node, 1] if regression else spread[node].sum()
        expected = shares if total < 1e-12 else (spread[node, :1] if regression else spread[node]) / total
        np.testing.assert_allclose(found[node], expected.squeeze(), atol=1e-6)
    assert np.allclose(found[0], shares.squeeze())  # no edge, no label


def test_correct_and_smooth_is_the_closed_form(any_data: Data) -> None:
    environment = with_labels(any_data)
    n, y = environment.num_nodes, environment.y.numpy()
    base = np.random.default_rng(2).dirichlet(np.ones(3), size=n)
    known = np.flatnonzero(np.arange(n) % 3 == 1)
    errors = np.zeros((n, 3))
    for node in known:
        errors[node] = np.eye(3)[y[node]] - base[node]
    spread = closed_form(environment, errors, 0.9)
    sigma = np.mean([np.abs(errors[node]).sum() for node in known])
    guess = np.zeros((n, 3))
    for node in range(n):
        length = np.abs(spread[node]).sum()
        guess[node] = base[node] + (sigma * spread[node] / length if length > 0 else 0)
    guess[known] = np.eye(3)[y[known]]
    smooth = closed_form(environment, guess, 0.6).clip(0)
    expected = smooth / smooth.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(corrected_and_smoothed(environment, base, 0.9, 0.6), expected, atol=1e-5)


def test_without_known_labels_it_only_smooths(any_data: Data) -> None:
    environment = with_labels(any_data).replace(known_y=None)
    base = np.random.default_rng(2).dirichlet(np.ones(3), size=environment.num_nodes)
    smooth = closed_form(environment, base, 0.6)
    expected = smooth / smooth.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(corrected_and_smoothed(environment, base, 0.9, 0.6), expected, atol=1e-5)


@pytest.fixture
def masks() -> gs.ShiftDataset:
    """Two halves with many edges inside and few between; features say nothing."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(80) % 2
    ends = torch.randint(80, (2, 600), generator=generator)
    alike = y[ends[0]] == y[ends[1]]
    ends = ends[:, (alike | (torch.rand(600, generator=generator) < 0.1)) & (ends[0] != ends[1])]
    ends = torch.unique(torch.cat([ends, ends.flip(0)], dim=1), dim=1)
    data = Data(x=torch.rand(80, 3, generator=generator), edge_index=ends, y=y)
    role = torch.arange(80) % 5
    data.train_mask, data.val_mask, data.test_mask = role < 2, role == 2, role > 2
    return gs.from_pyg(data)


@pytest.mark.parametrize("model", [gs.LabelPropagation(), gs.CorrectSmooth()], ids=lambda m: m.method)
def test_labels_of_the_graph_help_where_they_may_be_used(model: gs.Estimator, masks: gs.ShiftDataset) -> None:
    fitted = model.fit(masks)
    assert fitted.score(masks.tests)["test"] > 0.9
    assert gs.Logistic().fit(masks).score(masks.tests)["test"] < 0.8


@pytest.mark.parametrize("selection", ["val", "id_val"])
def test_no_label_of_a_node_that_is_scored_is_looked_at(selection: str, masks: gs.ShiftDataset) -> None:
    """Other labels where nodes are scored change no prediction."""
    (train,), (val,), (test,) = masks.train, masks.val, masks.tests
    model = gs.LabelPropagation(selection=selection).fit(train, val)
    other = val.replace(y=(val.y + 1) % 2), test.replace(y=(test.y + 1) % 2)
    again = gs.LabelPropagation(selection=selection).fit(train, other[0])
    for one, changed in zip((val, test), other, strict=True):
        np.testing.assert_array_equal(model.predict_proba(one), again.predict_proba(changed))
        assert model.score(one) + model.score(changed) == pytest.approx(1)


def test_held_out_nodes_are_not_known(masks: gs.ShiftDataset) -> None:
    (train,) = masks.train
    random = train.replace(y=torch.randint(2, (80,), generator=torch.Generator().manual_seed(5)))
    model = gs.LabelPropagation(selection="id_val").fit(random)
    assert model.best_score_ is not None
    assert model.best_score_ < 0.95  # labels at random: known ones would give 1


def test_elsewhere_it_says_so_once_and_takes_the_shares() -> None:
    data = gs.load("planted", nodes=60, environments=4)
    with pytest.warns(GraphshiftWarning, match="'val' holds no node whose training label is known"):
        model = gs.LabelPropagation().fit(data)
    found = model.predict_proba(data.tests[0])  # another warning would be an error here
    np.testing.assert_allclose(found, np.tile(model.prior_.numpy(), (60, 1)))
    with pytest.warns(GraphshiftWarning, match="smoothed and not corrected"):
        gs.CorrectSmooth().fit(data)


def test_a_graph_by_time_knows_the_training_labels() -> None:
    data = random_data(40, seed=3)
    data.time = torch.arange(40).float()
    made = gs.from_pyg(data, time="time", train_until=19, val_until=29, test_until=[39])
    (test,) = made.tests
    assert test.known_y is not None
    assert torch.equal(test.known_y[:20], data.y[:20])
    assert bool((test.known_y[20:] == -1).all())


def test_values_are_not_corrected() -> None:
    environment = with_labels(random_data(30), regression=True)
    with pytest.raises(GraphshiftError, match="correct-smooth predicts classes"):
        gs.CorrectSmooth(selection="last").fit(environment)


@pytest.mark.parametrize("known", [torch.zeros(3), torch.full((30,), 7), torch.full((30,), 0.5), "all"], ids=str)
def test_known_labels_that_cannot_be_are_refused(known: Any) -> None:
    data = random_data(30)
    data.known_y = known
    with pytest.raises(GraphshiftError, match="`known_y` is"):
        gs.Environment("any", data, Task("multiclass", 3))
