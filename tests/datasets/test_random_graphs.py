"""Random graphs: the asked share of edges inside groups, degrees in proportion to weights, nothing twice."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from graphshift.datasets.making.random_graphs import edges_within_groups, pareto_weights


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(
    inside: float, *, nodes: int = 4000, degree: float = 6.0, groups: int = 5, skewed: bool = False
) -> tuple[Tensor, Tensor]:
    random = generator(3)
    group = torch.randint(groups, (nodes,), generator=random)
    weights = pareto_weights(nodes, 2.8, random) if skewed else torch.ones(nodes, dtype=torch.float64)
    return edges_within_groups(group, inside, degree, weights, random), group


@pytest.mark.parametrize("skewed", [False, True])
def test_edges_are_undirected_without_loops_and_duplicates(skewed: bool) -> None:
    edge_index, _ = drawn(0.7, nodes=300, degree=30.0, skewed=skewed)
    pairs = set(map(tuple, edge_index.t().tolist()))
    assert len(pairs) == edge_index.shape[1]
    assert all(a != b and (b, a) in pairs for a, b in pairs)
    assert edge_index.min() >= 0
    assert edge_index.max() < 300


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("inside", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_the_share_inside_groups_is_as_asked(inside: float, skewed: bool) -> None:
    edge_index, group = drawn(inside, skewed=skewed)
    share = (group[edge_index[0]] == group[edge_index[1]]).double().mean().item()
    count = edge_index.shape[1] / 2
    assert share == pytest.approx(inside, abs=4 * math.sqrt(inside * (1 - inside) / count) + (0.02 if skewed else 1e-9))
    if inside in (0.0, 1.0):
        assert share == inside


def test_the_mean_degree_is_as_asked() -> None:
    for degree in (2.0, 10.0):
        edge_index, _ = drawn(0.5, degree=degree)
        found = edge_index.shape[1] / 4000
        assert 0.97 * degree < found <= degree  # a few pairs were drawn twice


def test_degrees_are_in_proportion_to_weights() -> None:
    nodes = 6000
    weights = torch.ones(nodes, dtype=torch.float64)
    weights[: nodes // 3], weights[nodes // 3 : 2 * nodes // 3] = 4.0, 2.0
    group = torch.arange(nodes) % 3
    edge_index = edges_within_groups(group, 0.6, 6.0, weights, generator())
    degrees = torch.bincount(edge_index[0], minlength=nodes).double()
    means = [part.mean().item() for part in degrees.chunk(3)]
    assert means[0] / means[2] == pytest.approx(4, rel=0.06)
    assert means[1] / means[2] == pytest.approx(2, rel=0.06)


def test_partners_inside_and_outside_are_drawn_by_weight() -> None:
    """Three nodes in two groups: every probability can be written down."""
    group, weights = torch.tensor([0, 0, 1]), torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64)
    counts = {(0, 1): 0, (0, 2): 0, (1, 2): 0}
    random = generator(1)
    for _ in range(3000):
        for a, b in edges_within_groups(group, 0.5, 2 / 3, weights, random).t().tolist():  # one pair is drawn
            if a < b:
                counts[a, b] += 1
    # First end i by weight; then with ½ a partner of its group by weight (its own place: dropped), else outside.
    p01 = 1 / 6 * 0.5 * 3 / 4 + 3 / 6 * 0.5 * 1 / 4
    p02 = 1 / 6 * 0.5 * 1 + 2 / 6 * 0.5 * 1 / 4
    p12 = 3 / 6 * 0.5 * 1 + 2 / 6 * 0.5 * 3 / 4
    for pair, probability in (((0, 1), p01), ((0, 2), p02), ((1, 2), p12)):
        assert counts[pair] / 3000 == pytest.approx(probability, abs=4 * math.sqrt(probability / 3000))


def test_empty_groups_and_one_group_are_fine() -> None:
    weights = torch.ones(50, dtype=torch.float64)
    group = torch.full((50,), 3)  # 0, 1 and 2 are empty
    inside = edges_within_groups(group, 1.0, 4.0, weights, generator())
    assert inside.shape[1] > 100
    outside = edges_within_groups(group, 0.0, 4.0, weights, generator())  # there is no outside
    assert outside.shape == (2, 0)


def test_weights_follow_a_pareto_law_that_is_cut() -> None:
    weights = pareto_weights(100_000, 2.8, generator())
    assert weights.min() >= 1
    assert weights.max() <= math.sqrt(100_000)
    for x in (2.0, 5.0, 10.0):  # P(w > x) = x^(1 − skew)
        expected = x**-1.8
        assert (weights > x).double().mean().item() == pytest.approx(expected, abs=4 * math.sqrt(expected / 100_000))


def test_the_generator_decides() -> None:
    first, again, other = (
        edges_within_groups(torch.arange(40) % 2, 0.5, 4.0, torch.ones(40, dtype=torch.float64), generator(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert first.shape != other.shape or not torch.equal(first, other)


def test_large_graphs_are_drawn_without_a_matrix_of_all_pairs() -> None:
    edge_index, _ = drawn(0.8, nodes=300_000, groups=8, skewed=True)
    assert int(edge_index.max()) < 300_000
