"""cbas: BA-Shapes with colours that agree with roles as often as GOOD says, by sampled frequencies."""

from __future__ import annotations

import math
from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.datasets.cbas import AGREEMENT, cbas
from graphshift.datasets.making.random_graphs import preferential_attachment

COLOURS = torch.tensor([[1, 0, 0, 0.5], [0, 1, 0, 0.7], [0, 0, 1, 0.3], [1, 1, 0, 0.2]])


def colour_is_own(e: gs.Environment) -> torch.Tensor:
    return (e.x[e.counted] == COLOURS[e.labels]).all(dim=1)


def test_counts_are_those_of_the_publication() -> None:
    data = gs.load("cbas")
    assert [len(data.train), len(data.val), len(data.tests)] == [5, 1, 1]
    assert data.train[0].num_nodes == 700
    assert sum(int(e.mask.sum()) for e in data.train) == 140
    assert [int(e.mask.sum()) for e in (*data.val, *data.tests)] == [140, 140]
    counts = [cbas(seed=seed).train[0].graph.num_edges for seed in range(8)]
    assert np.mean(counts) == pytest.approx(3962, rel=0.01)  # GOOD's draw has 3,962 directed edges
    covariate = gs.load("cbas", shift="covariate", alike=True)
    assert sum(int(e.mask.sum()) for e in covariate.train) == 420
    assert [int(e.mask.sum()) for e in (*covariate.val, *covariate.tests)] == [70, 70, 70]
    assert [e.name for e in covariate.tests] == ["alike", "test"]


def test_no_node_counts_twice_and_known_labels_are_those_of_training() -> None:
    data = cbas(alike=True)
    together = torch.stack([e.mask for e in data.environments]).sum(dim=0)
    assert together.max() == 1
    trained = torch.stack([e.mask for e in data.train]).any(dim=0)
    for e in data.environments:
        assert torch.equal(e.known_y >= 0, trained)
        assert torch.equal(e.known_y[trained], e.y[trained])


def test_colours_agree_with_the_role_as_often_as_asked() -> None:
    """p plus the chance that one of four random colours is the right one."""
    draws = [cbas(seed=seed) for seed in range(40)]
    for place, share in enumerate(AGREEMENT):
        found = torch.cat([colour_is_own(data.environments[place]) for data in draws]).double()
        expected = share + (1 - share) / 4
        assert float(found.mean()) == pytest.approx(expected, abs=4 * math.sqrt(0.25 / found.numel()))
    test = [data.tests[0] for data in draws]
    rows = torch.cat([e.x[e.counted] for e in test])
    for colour in COLOURS:  # all four alike in the test
        assert float((rows == colour).all(dim=1).double().mean()) == pytest.approx(0.25, abs=0.03)


def test_in_the_covariate_shift_an_environment_has_one_colour_of_its_own() -> None:
    data = cbas(shift="covariate")
    colours = [torch.unique(e.x[e.counted], dim=0) for e in data.environments]
    assert all(len(colour) == 1 for colour in colours)
    assert len(torch.unique(torch.cat(colours), dim=0)) == 7
    assert "agreement" not in data.facts


def test_houses_are_houses_that_hang_on_the_base_by_one_edge() -> None:
    data = cbas(seed=3)
    e = data.train[0]
    graph = nx.Graph(e.graph.edge_index.t().tolist())
    assert nx.is_connected(graph)
    roles = e.y.numpy()
    assert Counter(roles.tolist()) == {0: 300, 1: 160, 2: 160, 3: 80}
    parts = list(nx.connected_components(graph.subgraph(np.flatnonzero(roles > 0).tolist())))
    assert len(parts) == 80
    for part in parts:
        house = graph.subgraph(part)
        assert nx.is_isomorphic(house, nx.house_graph())
        assert sorted(roles[sorted(part)].tolist()) == [1, 1, 2, 2, 3]
        top, bottom = ([n for n in part if roles[n] == role] for role in (3, 2))
        assert {int(roles[n]) for n in house[top[0]]} == {1}  # the roof stands on the middle nodes
        assert house.has_edge(*bottom)
        outside = [(a, b) for a in part for b in graph[a] if b not in part]
        assert len(outside) == 1
        assert roles[outside[0][0]] == 1
    assert len({b for part in parts for a in part for b in graph[a] if b not in part}) == 80  # one house a base node


def test_new_nodes_prefer_those_with_many_edges() -> None:
    """Before node 3 joins, 0 and 1 have one end each and 2 has two: two draws by degree miss 2 in a quarter."""
    generator = np.random.default_rng(0)
    joined = []
    for _ in range(2000):
        edges = preferential_attachment(4, 2, generator)
        assert edges[:, :2].tolist() == [[2, 2], [0, 1]]
        joined.append(set(edges[1, edges[0] == 3].tolist()))
    assert np.mean([2 in one for one in joined]) == pytest.approx(0.75, abs=0.04)
    assert np.mean([0 in one for one in joined]) == pytest.approx(1 - 0.75**2, abs=0.045)


def test_the_seed_decides_everything() -> None:
    first, again, other = cbas(seed=1), cbas(seed=1), cbas(seed=2)
    assert [e.fingerprint() for e in first.environments] == [e.fingerprint() for e in again.environments]
    assert first.train[0].fingerprint() != other.train[0].fingerprint()


@pytest.mark.parametrize(
    ("options", "match"),
    [({"seed": -1}, "cbas: seed is -1; expected at least 0"), ({"shift": "colour"}, "shift is 'colour'")],
)
def test_mistakes_are_named(options: dict[str, object], match: str) -> None:
    with pytest.raises(GraphshiftError, match=match):
        gs.load("cbas", **options)
