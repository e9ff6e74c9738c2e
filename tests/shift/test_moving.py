"""Graphs with other edges between their classes, and with other features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.graph.sparse import Sparse
from graphshift.shift.moving import class_pairs, moved_features, rewired


def test_pairs_of_classes_are_counted() -> None:
    data = Data(x=torch.ones(4, 1), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), y=torch.zeros(4).long())
    graph = gs.Environment("g", data).graph
    assert class_pairs(graph, np.array([0, 1, 1, -1]), 2).tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize("denser", [0.5, 1.0, 1.5])
def test_edges_join_the_classes_that_are_wanted(denser: float) -> None:
    environment = gs.load("planted-structure", nodes=900).val[0]
    classes = environment.y.numpy().copy()  # type: ignore[union-attr]
    classes[:100] = -1
    random = np.random.default_rng(0)
    table = random.random((3, 3)) + 2 * np.eye(3)[::-1]
    wanted = (table + table.T) / (table + table.T).sum()
    made = rewired(environment.graph, classes, wanted, random, denser)
    found, before = class_pairs(made, classes, 3), class_pairs(environment.graph, classes, 3)
    assert found / found.sum() == pytest.approx(wanted, abs=0.01)
    assert found.sum() == pytest.approx(denser * before.sum(), rel=0.04)  # but for pairs drawn twice
    assert made.undirected
    old, new = (set(map(tuple, g.edge_index.t().tolist())) for g in (environment.graph, made))
    assert all(min(classes[a], classes[b]) >= 0 for a, b in old ^ new)  # edges of nodes without a class stay
    assert all(a != b for a, b in new)


def test_one_way_edges_stay_one_way() -> None:
    random = np.random.default_rng(0)
    edges = torch.from_numpy(random.integers(0, 60, (2, 300))).unique(dim=1)
    data = Data(x=torch.ones(60, 1), edge_index=edges[:, edges[0] != edges[1]], y=torch.arange(60) % 2)
    environment = gs.Environment("g", data)
    classes = np.arange(60) % 2
    made = rewired(environment.graph, classes, np.array([[0.4, 0.1], [0.1, 0.4]]), random)
    found = class_pairs(made, classes, 2)
    assert not made.undirected
    assert np.trace(found) / found.sum() == pytest.approx(0.8, abs=0.05)


def test_dense_features_get_the_targets_moments() -> None:
    one, other = (gs.load("planted", nodes=200, seed=seed).val[0] for seed in (0, 1))
    found = moved_features(one, other, np.random.default_rng(0)).x
    assert torch.allclose(found.mean(dim=0), other.x.mean(dim=0), atol=1e-4)
    assert torch.allclose(found.std(dim=0), other.x.std(dim=0), rtol=1e-3)
    same = moved_features(one, one, np.random.default_rng(0)).x
    assert torch.allclose(same, one.x, atol=1e-5)


def test_nodes_of_before_are_moved_to_those_of_before() -> None:
    environment = gs.load("planted", nodes=200).val[0]
    mask = torch.arange(200) < 120
    target = environment.replace(mask=mask, x=environment.x + 5.0 * mask.float().unsqueeze(1))
    found = moved_features(environment.replace(mask=mask), target, np.random.default_rng(0)).x
    assert torch.allclose(found, target.x, atol=1e-4)


def test_sparse_columns_lose_entries_and_gain_none() -> None:
    random = np.random.default_rng(0)
    rates = np.array([0.8, 0.2, 0.5])
    drawn = (random.random((4000, 3)) < one for one in (rates, rates[::-1]))
    one, other = (torch.from_numpy(table.astype(np.float32)) for table in drawn)
    empty = torch.empty(2, 0).long()
    a, b = (
        gs.Environment(name, Data(x=x.to_sparse(), edge_index=empty, y=torch.arange(4000) % 2))
        for name, x in (("a", one), ("b", other))
    )
    assert isinstance(a.x, Sparse)
    found = moved_features(a, b, random).x
    assert isinstance(found, Sparse)
    dense = found.to_torch().to_dense()
    assert dense.mean(dim=0).numpy() == pytest.approx([0.5, 0.2, 0.5], abs=0.03)
    assert bool((dense <= one).all())


def test_full_columns_among_sparse_ones_move_as_dense_ones_do() -> None:
    random = np.random.default_rng(0)
    rare = (random.random((500, 6)) < 0.05).astype(np.float32)
    full = random.normal(size=(500, 2)).astype(np.float32)
    empty = torch.empty(2, 0).long()

    def made(full: np.ndarray) -> gs.Environment:
        x = torch.from_numpy(np.concatenate([rare, full], axis=1, dtype=np.float32))
        return gs.Environment("g", Data(x=x.to_sparse(), edge_index=empty, y=torch.arange(500) % 2))

    one, other = made(full), made(full * np.float32(0.5) + np.array([3.0, -2.0], dtype=np.float32))
    found = moved_features(one, other, random).x
    assert isinstance(found, Sparse)
    assert isinstance(other.x, Sparse)
    assert torch.allclose(found.to_torch().to_dense(), other.x.to_torch().to_dense(), atol=1e-4)


def test_entries_of_columns_that_are_not_full_keep_their_values() -> None:
    x = torch.zeros(100, 2)
    x[:94, 0], x[:96, 1] = 1.0, 1.0
    one, other = (
        gs.Environment("g", Data(x=(x * by).to_sparse(), edge_index=torch.empty(2, 0).long(), y=torch.arange(100) % 2))
        for by in (1.0, 3.0)
    )
    found = moved_features(one, other, np.random.default_rng(0)).x
    assert found.to_torch().to_dense().max(dim=0).values.tolist() == [1.0, 3.0]


def test_how_the_features_of_the_target_are_stored_does_not_matter() -> None:
    x = (np.random.default_rng(0).random((2, 300, 4)) < np.array([0.6, 0.3]).reshape(2, 1, 1)).astype(np.float32)
    dense = [
        gs.Environment(
            name, Data(x=torch.from_numpy(one), edge_index=torch.empty(2, 0).long(), y=torch.arange(300) % 2)
        )
        for name, one in zip("ab", x, strict=True)
    ]
    sparse = [one.replace(x=Sparse.from_torch(one.x.to_sparse_csr())) for one in dense]  # type: ignore[union-attr]
    for one, targets in ((dense[0], (dense[1], sparse[1])), (sparse[0], (sparse[1], dense[1]))):
        found = [moved_features(one, target, np.random.default_rng(0)).x for target in targets]
        ours, theirs = (each.to_dense() if isinstance(each, Sparse) else each for each in found)
        assert torch.equal(ours, theirs)
        own = one.x.to_dense() if isinstance(one.x, Sparse) else one.x
        assert not torch.equal(ours, own)
