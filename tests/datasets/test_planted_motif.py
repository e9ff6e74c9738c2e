"""``planted-motif``: counts, shapes by networkx, and what goes with what."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from scipy.stats import chisquare

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.datasets.planted_motif import BASES, MOTIFS

SHAPES = {
    "cycle": nx.cycle_graph(5),
    "house": nx.house_graph(),
    "crane": nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 4)]),
}


def graphs_of(e: Environment) -> list[nx.Graph]:
    blocks, edges = e.graph.blocks, e.graph.edge_index.t().tolist()
    assert blocks is not None
    whole = nx.Graph(edges)
    return [whole.subgraph(range(*blocks.begin[i : i + 2].tolist())) for i in range(blocks.count)]


def test_motifs_are_what_they_are_called_and_no_two_alike() -> None:
    for name, edges in MOTIFS.items():
        for other, shape in SHAPES.items():
            assert nx.is_isomorphic(nx.Graph(edges), shape) == (name == other)


@pytest.mark.parametrize("nodes", [8, 11, 12])
def test_bases_are_what_they_are_called(nodes: int) -> None:
    tree, ladder, wheel = (nx.Graph(make(nodes)) for make in BASES.values())
    assert all(one.number_of_nodes() == nodes for one in (tree, ladder, wheel))
    assert nx.is_tree(tree)
    assert max(degree for _, degree in tree.degree()) == 3
    assert nx.is_isomorphic(wheel, nx.wheel_graph(nodes))
    whole = ladder if nodes % 2 == 0 else ladder.subgraph(range(nodes - 1))
    assert nx.is_isomorphic(whole, nx.ladder_graph(nodes // 2))
    assert nx.is_connected(ladder)


def test_every_graph_is_a_base_and_its_classs_motif_joined_by_one_edge() -> None:
    data = gs.load("planted-motif", graphs=60, tests=2)
    for e in data.environments:
        bases = data.facts["bases"][e.name]
        assert e.y is not None
        for graph, label, base in zip(graphs_of(e), e.y.tolist(), bases.tolist(), strict=True):
            nodes = sorted(graph)
            motif, rest = graph.subgraph(nodes[-5:]), graph.subgraph(nodes[:-5])
            assert nx.is_isomorphic(motif, list(SHAPES.values())[label])
            assert nx.is_isomorphic(rest, nx.Graph(list(BASES.values())[base](len(rest))))
            assert graph.number_of_edges() == motif.number_of_edges() + rest.number_of_edges() + 1
            assert nx.is_connected(graph)
        sizes = e.graph.blocks.sizes - 5  # type: ignore[union-attr]
        assert 8 <= int(sizes.min()) <= int(sizes.max()) <= 12
        assert bool((e.x == 1).all())


def test_bases_go_with_labels_in_training_and_not_in_the_first_test() -> None:
    data = gs.load("planted-motif", graphs=3000, tests=3)
    assert list(data.facts["bias"].values()) == [0.9, 0.6, pytest.approx(1 / 3), pytest.approx(1 / 6), 0]
    for e in data.environments:
        bases, bias = data.facts["bases"][e.name], data.facts["bias"][e.name]
        assert e.y is not None
        assert e.num_items == int(e.mask.sum()) == 3000
        counts = torch.bincount(3 * e.y + bases, minlength=9).double()
        expected = torch.full((3, 3), (1 - bias) / 6, dtype=torch.float64).fill_diagonal_(bias / 3).flatten()
        possible = expected > 0
        assert int(counts[~possible].sum()) == 0
        assert chisquare(counts[possible], 3000 * expected[possible]).pvalue > 1e-4


def test_the_same_seed_gives_the_same_data_and_options_are_checked() -> None:
    one, same, other = (gs.load("planted-motif", graphs=30, seed=seed) for seed in (1, 1, 2))
    assert [e.fingerprint() for e in one.environments] == [e.fingerprint() for e in same.environments]
    assert one.train[0].fingerprint() != other.train[0].fingerprint()
    assert one.task.is_graph_level
    assert one.class_names == ("cycle", "house", "crane")
    wider = gs.load("planted-motif", graphs=30, features=3).train[0].x
    assert wider.shape[1] == 4
    with pytest.raises(GraphshiftError, match="planted-motif: bias is 2; expected from 0 to 1"):
        gs.load("planted-motif", bias=2)


def test_repeated_and_crossed_edges_are_none() -> None:
    """Checking an environment would warn of them, and warnings are errors here."""
    for e in gs.load("planted-motif", graphs=200, tests=1).environments:
        assert e.graph.undirected
