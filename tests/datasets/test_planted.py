"""planted: X1, labels and edges are shared; X2 alone moves, by labels and environment, as strongly as asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.datasets.planted import planted


def spurious(data: gs.ShiftDataset, environment: gs.Environment) -> np.ndarray:
    return environment.x[:, data.facts["spurious_columns"]].numpy()


def probe(data: gs.ShiftDataset, train: gs.Environment, test: gs.Environment, columns: list[int]) -> float:
    """The accuracy of a linear classifier on given columns: even nodes teach, odd ones are asked."""
    model = LogisticRegression(max_iter=300)
    model.fit(train.x[::2][:, columns].numpy(), train.y[::2].numpy())
    return float(model.score(test.x[1::2][:, columns].numpy(), test.y[1::2].numpy()))


@pytest.mark.parametrize("nodes", [60, 61, 1000])
def test_one_trains_one_validates_eight_test(nodes: int) -> None:
    data = gs.load("planted", nodes=nodes)
    assert [e.name for e in data.environments] == ["train", "val", *(f"T{i}" for i in range(1, 9))]
    assert [len(data.train), len(data.val), len(data.tests)] == [1, 1, 8]
    assert all(e.num_nodes == nodes and e.num_features == 24 for e in data.environments)
    assert (data.task.kind, data.task.num_classes, data.task.metric) == ("multiclass", 4, "accuracy")
    assert all(e.mask.all() for e in data.environments)


def test_large_graphs_are_made_without_a_matrix_of_all_pairs() -> None:
    data = planted(200_000, environments=3, spurious_features=2, invariant_features=4)
    assert data.train[0].num_nodes == 200_000
    assert data.train[0].graph.num_edges == pytest.approx(1_600_000, rel=0.05)


def test_the_seed_decides_everything() -> None:
    first, again, other = (planted(100, seed=seed) for seed in (5, 5, 6))
    for a, b, c in zip(first.environments, again.environments, other.environments, strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.y, b.y)
        assert torch.equal(a.graph.keys, b.graph.keys)
        assert not torch.equal(a.x, c.x)
        assert not torch.equal(a.graph.keys, c.graph.keys)


def test_the_users_random_state_plays_no_part() -> None:
    torch.manual_seed(1)
    first, before = planted(60), torch.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(planted(60).train[0].x, first.train[0].x)
    torch.manual_seed(1)
    planted(60)
    assert torch.equal(torch.get_rng_state(), before)


def test_environments_share_all_but_the_spurious_columns() -> None:
    data = planted(300, invariant_features=5, spurious_features=3)
    assert data.facts["spurious_columns"] == [5, 6, 7]
    first = data.environments[0]
    for i, e in enumerate(data.environments[1:]):
        assert torch.equal(e.x[:, :5], first.x[:, :5])
        assert torch.equal(e.y, first.y)
        assert torch.equal(e.graph.keys, first.graph.keys)
        for other in data.environments[: i + 1]:
            assert (e.x[:, 5:] - other.x[:, 5:]).abs().mean() > 0.05


def test_labels_are_decided_by_x1_and_the_graph() -> None:
    """What the spurious part is made of changes neither labels nor X1."""
    base = planted(200, seed=3)
    for change in ({"strength": 0.0}, {"shift": 5.0}, {"strength": 4.0}):
        other = planted(200, seed=3, **change)
        assert torch.equal(other.train[0].y, base.train[0].y)
        assert torch.equal(other.train[0].x[:, :16], base.train[0].x[:, :16])
        assert not torch.equal(other.train[0].x[:, 16:], base.train[0].x[:, 16:])
    # And X1 tells labels: neighbourhood means of X1 more than X1 alone, for the labels are a GCN's.
    data = planted(2000)
    e = data.train[0]
    mixed = e.replace(x=torch.cat([e.graph.normalised @ (e.graph.normalised @ e.x[:, :16]), e.x[:, 16:]], dim=1))
    columns = list(range(16))
    assert probe(data, mixed, mixed, columns) > 0.85
    assert probe(data, mixed, mixed, columns) > probe(data, e, e, columns) + 0.1
    assert np.bincount(e.y.numpy(), minlength=4).min() > 100


def test_the_strength_decides_how_much_x2_tells_of_labels() -> None:
    scores = []
    for strength in (0.0, 0.3, 1.0):
        data = planted(2000, strength=strength)
        e = data.train[0]
        scores.append(probe(data, e, e, data.facts["spurious_columns"]))
        if strength == 0:
            assert scores[0] < e.majority + 0.05  # noise and the environment alone
    assert scores[1] > scores[0] + 0.1
    assert scores[2] > scores[1] + 0.02
    assert scores[2] > 0.7


def test_what_x2_tells_in_training_misleads_elsewhere_the_more_the_larger_the_shift() -> None:
    losses = []
    for shift in (0.0, 1.0, 3.0):
        data = planted(1000, shift=shift)
        columns, e = data.facts["spurious_columns"], data.train[0]
        at_home = probe(data, e, e, columns)
        losses.append(at_home - np.mean([probe(data, e, test, columns) for test in data.tests]))
    assert abs(losses[0]) < 0.02  # all environments alike, up to noise
    assert losses[1] > 0.1
    assert losses[2] > losses[1]


def test_without_shift_environments_differ_by_noise_alone() -> None:
    data = planted(2000, shift=0.0)
    for test in data.tests:
        difference = spurious(data, test) - spurious(data, data.train[0])
        assert difference.std() == pytest.approx(0.1 * np.sqrt(2), rel=0.02)
        assert abs(difference.mean()) < 0.01


def test_communities_and_skewed_degrees_are_real() -> None:
    data = planted(4000)
    e = data.train[0]
    degrees = torch.bincount(e.graph.keys // e.num_nodes, minlength=e.num_nodes).double()
    assert degrees.mean().item() == pytest.approx(8, rel=0.05)
    assert degrees.max() > 10 * degrees.mean()
    # Communities cannot be read off the labels; the spectrum shows them: seven large eigenvalues besides the first.
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import eigsh

    row, column = (e.graph.keys // e.num_nodes).numpy(), (e.graph.keys % e.num_nodes).numpy()
    scale = 1 / np.sqrt(np.maximum(degrees.numpy(), 1))
    values = np.sort(eigsh(csr_matrix((scale[row] * scale[column], (row, column)), shape=(4000, 4000)), k=10)[0])[::-1]
    assert values[1:8].min() > 0.65  # eight communities: inside share 0.8 → eigenvalues about (0.8 − 0.2 / 7) ≈ 0.77
    assert values[1:8].min() > values[8] + 0.02


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"nodes": 59}, "planted: nodes is 59; expected at least 60"),
        ({"environments": 2}, "environments is 2; expected at least 3"),
        ({"classes": 1}, "classes is 1; expected at least 2"),
        ({"invariant_features": 0}, "invariant_features is 0"),
        ({"spurious_features": 0}, "spurious_features is 0"),
        ({"strength": -0.1}, "strength is -0.1"),
        ({"shift": -1.0}, "shift is -1.0"),
        ({"degree": 0.5}, "degree is 0.5; expected from 1 to"),
        ({"seed": -1}, "seed is -1"),
        ({"nodes": 60.5}, "dataset 'planted': nodes is 60.5; expected a whole number"),
        ({"nodes": 10**30}, "nodes is 1000000000000000000000000000000; expected a whole number"),
        ({"nodes": "many"}, "nodes is 'many'; expected a whole number"),
        ({"nodes": True}, "nodes is True; expected a whole number"),
        ({"degree": float("inf")}, "degree is inf; expected a finite number"),
        ({"strength": float("nan")}, "strength is nan; expected a finite number"),
        ({"colour": 1}, "dataset 'planted' has no option 'colour'; expected one of nodes, seed"),
        ({"name": "x"}, "dataset 'planted' has no option 'name'"),
    ],
)
def test_impossible_options_are_named(options: dict[str, Any], match: str) -> None:
    with pytest.raises(GraphshiftError, match=match):
        gs.load("planted", **options)


def test_an_unknown_dataset_is_told_with_the_known_ones() -> None:
    with pytest.raises(GraphshiftError, match=r"dataset is 'planeted'; .*Did you mean 'planted'"):
        gs.load("planeted")


def test_two_classes_are_binary_and_sizes_are_as_asked() -> None:
    data = planted(80, classes=2, environments=4, invariant_features=2, spurious_features=1, degree=2.0)
    assert data.task.kind == "binary"
    assert [len(data.train), len(data.val), len(data.tests)] == [1, 1, 2]
    assert data.train[0].num_features == 3
    assert planted(60, strength=1).train[0].num_nodes == 60


@pytest.mark.parametrize("degree", [1e308, 61.0])
@pytest.mark.parametrize("name", ["planted", "planted-structure"])
def test_a_mean_degree_above_the_number_of_nodes_is_refused(name: str, degree: float) -> None:
    with pytest.raises(GraphshiftError, match=r"degree is .*; expected from 1 to 60"):
        gs.load(name, nodes=60, degree=degree)


@pytest.mark.parametrize("version", [1, 2])
def test_x2_is_the_gcn_that_it_is_said_to_be(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 2: Â relu(Â [onehot(Y), onehot(e)] W) V with dense matrices. Version 1 puts 1 in the place of Â · 1."""
    drawn: list[torch.Tensor] = []
    randn = torch.randn

    def keeping(*shape: int, **how: Any) -> torch.Tensor:
        drawn.append(randn(*shape, **how))
        return drawn[-1]

    monkeypatch.setattr(torch, "randn", keeping)
    data = planted(80, seed=2, classes=3, environments=4, spurious_features=2, version=version)
    first, second = (next(t for t in drawn if t.shape == shape) for shape in ((7, 32), (32, 2)))
    noise = [t for t in drawn if t.shape == (80, 2)]
    a = data.train[0].graph.normalised @ torch.eye(80)
    assert float((a.sum(dim=1) - 1).abs().max()) > 0.1  # Â · 1 is not 1
    y = torch.nn.functional.one_hot(data.train[0].y, 3).float()
    assert data.facts["version"] == version
    for e, environment in enumerate(data.environments):
        onehot = torch.zeros(80, 4)
        onehot[:, e] = 1
        hidden = a @ torch.cat([y, onehot], dim=1) @ first if version == 2 else a @ y @ first[:3] + first[3 + e]
        expected = a @ torch.clamp(hidden, min=0) @ (second / 32**0.5) + 0.1 * noise[e]
        torch.testing.assert_close(environment.x[:, -2:], expected, rtol=1e-4, atol=1e-4)
