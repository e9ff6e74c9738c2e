"""Smooth ridge: directions, places and the linear model against dense computations; what the target adds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse
from graphshift.methods import smooth_ridge
from graphshift.methods.smooth_ridge import directions, placed, weighted_ridge
from reference import KINDS, random_data
from small import identical


def operator(graph: Graph) -> np.ndarray:
    """Â as a dense matrix, float64."""
    return (graph.normalised @ torch.eye(graph.num_nodes)).double().numpy()


def graphs(kind: str = "undirected") -> list[tuple[Tensor, Graph]]:
    found = []
    for seed in (1, 2):
        data = random_data(30, features=6, seed=seed, density=0.15, **KINDS[kind])
        e = gs.Environment(f"g{seed}", data)
        found.append((torch.as_tensor(e.x) * torch.arange(1, 7), e.graph))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("few", [1_000, 2])  # one dense matrix, or Lanczos
def test_directions_are_those_of_the_smoothed_features(kind: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smooth_ridge, "_FEW", few)
    pairs = graphs(kind)
    covariance = np.zeros((6, 6))
    for x, graph in pairs:
        h = np.linalg.matrix_power(operator(graph), 2) @ x.double().numpy()
        covariance += np.cov(h.T, bias=True)
    expected = np.linalg.eigh(covariance)[1][:, ::-1][:, :3]
    found = directions([x for x, _ in pairs], [graph for _, graph in pairs], 3, 2)
    assert np.allclose(np.abs(found.T @ expected), np.eye(3), atol=2e-2)
    sparse = [Sparse.from_torch(x.to_sparse_csr()) for x, _ in pairs]
    again = directions(sparse, [graph for _, graph in pairs], 3, 2)
    assert np.allclose(np.abs(found.T @ again), np.eye(3), atol=1e-3)
    everything = directions([x for x, _ in pairs], [graph for _, graph in pairs], 6, 2)
    assert np.array_equal(everything, np.eye(6))


def test_places_have_length_one_about_their_mean() -> None:
    (x, graph), _ = graphs()
    x[4] = 0  # as are its neighbours, of which there may be some
    counted = torch.tensor([0, 2, 3, 9, 11])
    h = np.linalg.matrix_power(operator(graph), 3) @ x.double().numpy()
    length = np.sqrt((h**2).sum(axis=1))
    h = np.array([row / size if size else row for row, size in zip(h, length, strict=True)])
    expected = h - h[counted.numpy()].sum(axis=0) / 5
    assert np.allclose(placed(graph, counted, x, 3), expected, atol=1e-5)


def test_the_ridge_has_no_gradient_where_it_ends() -> None:
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=(40, 5)) + 3, rng.normal(size=(40, 3)), rng.uniform(0.1, 2, 40)
    weight, offset = weighted_ridge(x, y, w, 0.2)
    W, b = (torch.tensor(one, requires_grad=True) for one in (weight, offset))
    error = (torch.from_numpy(x) @ W.t() + b - torch.from_numpy(y)).square().sum(dim=1)
    loss = (torch.from_numpy(w) * error).sum() / w.sum() + 0.2 * W.square().sum()
    for gradient in torch.autograd.grad(loss, (W, b)):
        assert float(gradient.abs().max()) < 1e-10


@pytest.fixture(scope="module")
def data() -> ShiftDataset:
    return gs.load("planted", nodes=80, environments=4)


def test_the_target_is_labelled_in_rounds(data: ShiftDataset) -> None:
    """Two rounds by hand, from the model without any."""
    how = {"target": "tests", "width": 5, "steps": 1, "share": 0.5, "penalty": 0.01}
    plain, model = gs.SmoothRidge(rounds=0, **how).fit(data), gs.SmoothRidge(rounds=2, **how).fit(data)
    now = plain.model_
    train, count = data.train[0], data.task.num_classes

    def rows(e: gs.Environment) -> np.ndarray:
        x = (torch.as_tensor(e.x) - torch.from_numpy(now.centre).float()) / torch.from_numpy(now.scale).float()
        return placed(e.graph, e.counted, x @ torch.from_numpy(now.basis), 1)

    weight, offset = now.weight, now.offset
    for _ in range(2):
        x, y, w = [rows(train)], [train.labels.numpy()], [np.full(80, 1 / 80)]
        for e in data.tests:
            scores = rows(e) @ weight.T + offset
            best = scores.argmax(axis=1)
            p = np.exp(10 * scores).max(axis=1) / np.exp(10 * scores).sum(axis=1)
            for c in np.unique(best):
                own = np.flatnonzero(best == c)
                kept = own[np.argsort(-p[own], kind="stable")[: -(-own.size // 2)]]
                x, y = [*x, rows(e)[kept]], [*y, np.full(kept.size, c)]
            new = sum(map(len, y)) - sum(map(len, w))
            w.append(np.full(new, 1 / (new * len(data.tests))))
        weight, offset = weighted_ridge(np.concatenate(x), np.eye(count)[np.concatenate(y)], np.concatenate(w), 0.01)
    assert np.allclose(model.model_.weight, weight, atol=1e-4)
    assert np.allclose(model.model_.offset, offset, atol=1e-4)


def test_labels_of_the_target_change_nothing_and_what_was_learned_can_be_saved(
    data: ShiftDataset, tmp_path: Path
) -> None:
    model = gs.SmoothRidge(target="tests", steps=2).fit(data)
    hidden = [e.replace(y=(e.y + 1) % data.task.num_classes) for e in data.tests if e.y is not None]
    again = gs.SmoothRidge(steps=2).fit(data.train, data.val, target=hidden)
    assert identical(model.arrays(), again.arrays())
    assert model.target_ == [e.name for e in data.tests]
    model.save(tmp_path)
    assert gs.load_model(tmp_path).score(data.tests) == model.score(data.tests)
    moved = [e.replace(x=torch.as_tensor(e.x) + 1) for e in data.tests]
    assert not identical(
        model.arrays(), gs.SmoothRidge(target="tests", steps=2).fit(data.train, data.val, moved).arrays()
    )


def test_a_class_that_training_does_not_have_is_never_predicted(data: ShiftDataset) -> None:
    train = data.train[0]
    y = train.y
    assert y is not None
    fewer = train.replace(mask=y != 1)
    with pytest.warns(GraphshiftWarning, match="class 1 is never in training"):
        model = gs.SmoothRidge(target="tests", steps=1).fit([fewer], data.val, data.tests)
    assert all(not (found == 1).any() for found in model.predict(data.tests).values())
    assert 1 in gs.SmoothRidge(target="tests", steps=1).fit(data).predict(data.tests[0])


def test_what_cannot_be_is_refused(data: ShiftDataset) -> None:
    with pytest.raises(GraphshiftError, match=r"smooth-ridge trains with an unlabelled target.*--target tests"):
        gs.SmoothRidge().fit(data)
    with pytest.raises(GraphshiftError, match="share"):
        gs.SmoothRidge(share=1.5).fit(data)
