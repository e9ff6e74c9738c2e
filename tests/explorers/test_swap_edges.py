"""Swapped edges: degrees stay, against a plain loop over what was drawn; nothing else is made."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.explorers import SwapEdges, as_graph
from graphshift.graph.graph import Graph
from reference import KINDS, random_data


def degrees(graph: Graph) -> tuple[list[int], list[int]]:
    row, col = graph.keys // graph.num_nodes, graph.keys % graph.num_nodes
    return tuple(torch.bincount(end, minlength=graph.num_nodes).tolist() for end in (row, col))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_node_keeps_its_degree(kind: str, directed: bool, seed: int) -> None:
    options: dict[str, Any] = KINDS[kind]
    graph = as_graph(random_data(24, density=0.15, seed=seed, **options))
    view = SwapEdges(2, most=1.0, directed=directed, seed=seed).propose(graph)
    assert degrees(view.graph) == degrees(graph)
    before, after = set(graph.keys.tolist()), set(view.graph.keys.tolist())
    assert len(after - before) >= 4
    assert set(view.flips.tolist()) == before ^ after
    loops = {key for key in before if key // 24 == key % 24}
    assert {key for key in after if key // 24 == key % 24} == loops
    if graph.undirected and not directed:
        assert all((key % 24) * 24 + key // 24 in after for key in after)


def test_the_budget_and_a_graph_whose_edges_cannot_swap() -> None:
    graph = as_graph(random_data(40, density=0.2, seed=1))
    few = SwapEdges(1, most=0.1, seed=0).propose(graph)
    assert 0 < few.flips.numel() <= 4 * int(0.1 * graph.num_edges)
    star = Graph.from_edge_index(torch.tensor([[0, 0, 0], [1, 2, 3]]), 4)
    assert SwapEdges(5, most=1.0).propose(star).graph.keys.equal(star.keys)
    with pytest.raises(GraphshiftError, match=r"explorer most is 1\.5; expected a share from 0 to 1"):
        SwapEdges(1, most=1.5)


def test_all_swaps_of_a_ring_are_as_likely() -> None:
    """Two of four edges of a ring of six can be paired in 15 ways and joined in two; counted by hand, drawn often."""
    n, ring = 6, [(i, (i + 1) % 6) for i in range(6)]
    graph = Graph.from_edge_index(torch.tensor([*ring, *(e[::-1] for e in ring)]).t(), n)
    expected: Counter[frozenset[frozenset[int]]] = Counter()
    for i in range(6):
        for j in range(i + 1, 6):
            (a, b), one = ring[i], ring[j]
            for c, d in (one, one[::-1]):
                new = [frozenset((a, d)), frozenset((c, b))]
                old = [frozenset(e) for e in ring]
                rest = [e for e in old if e not in (frozenset((a, b)), frozenset((c, d)))]
                fits = len({*new}) == 2 and all(len(e) == 2 and e not in old for e in new)
                if fits:  # else edges are drawn again
                    expected[frozenset(rest + new)] += 1
    explorer, found, draws = SwapEdges(1, most=0.34, seed=0), Counter[frozenset[frozenset[int]]](), 3000
    for _ in range(draws):
        keys = explorer.propose(graph).graph.keys.tolist()
        found[frozenset(frozenset((k // n, k % n)) for k in keys)] += 1
    assert found.keys() == expected.keys()
    total = sum(expected.values())
    for one, count in expected.items():
        share = count / total
        assert abs(found[one] / draws - share) < 5 * (share * (1 - share) / draws) ** 0.5


def test_a_model_trains_with_it() -> None:
    data = gs.load("planted", nodes=60)
    model = gs.EERM(explorer="swap-edges", epochs=3, edits_per_node=1, hidden_channels=8).fit(data.train, val=data.val)
    assert model.history_[-1]["variance"] > 0
