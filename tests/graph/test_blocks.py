"""Many small graphs in one: pooling as PyG has it, draws and policies that stay inside each."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool

from graphs import SIZES, environment
from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import other_nodes
from graphshift.explorers import SparsePolicy
from graphshift.explorers.probing import Scores
from graphshift.graph import kernels
from graphshift.graph.blocks import READOUTS, Blocks
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import native
from policies import DensePolicy

PYG = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool}
NODES = sum(SIZES)
BLOCKS = Blocks.of(torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES)))
BEGIN = [sum(SIZES[:i]) for i in range(len(SIZES))]
#: The nodes that each may be joined to.
INSIDE = torch.block_diag(*(torch.ones(n, n) - torch.eye(n) for n in SIZES)).bool()
needs_kernels = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


@pytest.mark.parametrize("readout", READOUTS)
def test_pooling_and_its_gradient_are_those_of_pyg(readout: str) -> None:
    h = torch.randn(NODES, 7, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(len(SIZES), 7, dtype=torch.float64)
    found, expected = BLOCKS.pooled(h, readout), PYG[readout](h, BLOCKS.batch)
    torch.testing.assert_close(found, expected)
    slopes = [torch.autograd.grad((one * weight).sum(), h)[0] for one in (found, expected)]
    torch.testing.assert_close(*slopes)


def test_a_readout_that_is_none_is_refused() -> None:
    with pytest.raises(GraphshiftError, match="readout is 'median'; expected one of mean, sum, max"):
        BLOCKS.pooled(torch.ones(NODES, 1), "median")


def test_ranges_are_those_of_each_graph() -> None:
    begin, size = BLOCKS.within
    assert begin.tolist() == [b for b, n in zip(BEGIN, SIZES, strict=True) for _ in range(n)]
    assert size.tolist() == [n for n in SIZES for _ in range(n)]
    assert BLOCKS.first(2).begin.tolist() == [0, 4, 5]
    assert Blocks.of(BLOCKS.batch) == BLOCKS != Blocks.of(torch.zeros(NODES, dtype=torch.int64))


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("seed", [0, 7, 2**62])
def test_draws_stay_inside_and_are_the_same_in_c_and_in_torch(seed: int) -> None:
    drawn = kernels.draw(NODES, 40, seed, BLOCKS.within)
    assert torch.equal(drawn, other_nodes(NODES, 40, seed, BLOCKS.within))
    reached = torch.zeros(NODES, NODES, dtype=torch.bool)
    reached[torch.arange(NODES).unsqueeze(1), drawn.long()] = True
    reached[4, 4] = False  # the node that is alone stands for itself
    assert torch.equal(reached, INSIDE)


@pytest.mark.usefixtures("either")
def test_draws_are_uniform_over_a_graphs_other_nodes() -> None:
    drawn = kernels.draw(NODES, 20_000, 3, BLOCKS.within).long()
    for row in range(NODES):
        counts = torch.bincount(drawn[row], minlength=NODES)[INSIDE[row]]
        assert row == 4 or chisquare(counts.tolist()).pvalue > 1e-5


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("nodes", [2, 9])
def test_one_block_draws_what_a_graph_draws(nodes: int) -> None:
    whole = Blocks(torch.tensor([0, nodes])).within
    assert torch.equal(kernels.draw(nodes, 6, 11, whole), kernels.draw(nodes, 6, 11))
    one, other = SparsePolicy(nodes, lr=0.3), SparsePolicy(nodes, lr=0.3, within=whole)
    for step in range(12):
        drawn = [policy.draw(3, torch.Generator().manual_seed(step)) for policy in (one, other)]
        assert torch.equal(drawn[0][0], drawn[1][0])
        assert drawn[0][1] == drawn[1][1]
        for policy in (one, other):
            policy.reinforce(drawn[0][0], math.sin(step))
    assert all(torch.equal(one.state()[name], other.state()[name]) for name in one.state())


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_policy_in_blocks_learns_what_a_dense_one_does(optimizer: str) -> None:
    """Logits outside of a graph are −∞ in the dense one, so its softmax is over the graph's other nodes."""
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
    dense = DensePolicy(NODES, torch.float64, kind, lr=0.3)
    dense.diagonal = ~INSIDE
    dense.diagonal[4, 4] = False  # a row needs an entry; this one stays at 0
    policy = SparsePolicy(NODES, optimizer=optimizer, lr=0.3, within=BLOCKS.within, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for step in range(25):
        columns, log_prob = policy.draw(2, generator)
        assert log_prob == pytest.approx(float(dense.log_prob(columns.long()).detach()))
        assert policy.log_prob(columns) == pytest.approx(log_prob)
        reward = 2 * math.cos(step)
        policy.reinforce(columns, reward)
        dense.reinforce(columns.long(), reward)
    own, theirs = policy.dense_logits(), dense.logits.detach()
    assert bool(own[~INSIDE].isneginf().all())
    torch.testing.assert_close(own.softmax(dim=1)[INSIDE], theirs.masked_fill(~INSIDE, -math.inf).softmax(1)[INSIDE])


@needs_kernels
@pytest.mark.parametrize(("steps", "bound"), [(0, None), (2, None), (30, None), (30, 3)])
def test_policies_in_blocks_are_the_same_in_c_and_in_torch(steps: int, bound: int | None) -> None:
    def taught() -> tuple[SparsePolicy, list[Any]]:
        policy, told = SparsePolicy(NODES, lr=0.3, max_entries=bound, within=BLOCKS.within), []
        for step in range(steps):
            columns, log_prob = policy.draw(2, torch.Generator().manual_seed(step))
            told += [columns, log_prob]
            policy.reinforce(columns, math.sin(step))
        told += policy.draw(3, torch.Generator().manual_seed(99))
        return policy, told

    (one, mine), plain = taught(), patch.object(native, "LIBRARY", None)
    with plain:
        other, theirs = taught()
    for left, right in zip(mine, theirs, strict=True):
        assert torch.equal(left, right) if isinstance(left, Tensor) else left == pytest.approx(right, rel=1e-5)
    for name, tensor in one.state().items():
        torch.testing.assert_close(tensor, other.state()[name], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("steps", [1, 3, 40])
def test_policies_in_blocks_draw_by_their_softmax(steps: int) -> None:
    policy = SparsePolicy(NODES, optimizer="sgd", lr=0.4, within=BLOCKS.within)
    for step in range(steps):
        policy.reinforce(other_nodes(NODES, 2, step, BLOCKS.within), 1.0 if step % 3 else -1.0)
    expected = policy.dense_logits().double().softmax(dim=1)
    drawn = policy.sample(20_000, torch.Generator().manual_seed(5)).long()
    for row in range(NODES):
        inside = INSIDE[row]
        counts = torch.bincount(drawn[row], minlength=NODES)
        assert row == 4 or int(counts[~inside].sum()) == 0
        assert row == 4 or chisquare(counts[inside], 20_000 * expected[row, inside]).pvalue > 1e-5
    assert bool((drawn[4] == 4).all())


def test_a_learned_policy_comes_back_and_another_division_is_refused() -> None:
    policy = SparsePolicy(NODES, within=BLOCKS.within)
    policy.reinforce(policy.sample(2, torch.Generator().manual_seed(0)), 1.0)
    again = SparsePolicy(NODES, within=BLOCKS.within)
    again.load_state(policy.state())
    assert torch.equal(again.dense_logits(), policy.dense_logits())
    with pytest.raises(GraphshiftError, match="join nodes of two graphs"):
        policy.reinforce(torch.full((NODES, 1), NODES - 1) - torch.eye(NODES)[-1:].t().long(), 1.0)
    damaged = policy.state()
    damaged["slot"][5, 0] = 5  # of a graph with six nodes, that have slots 0 … 4
    damaged["count"][5] = max(int(damaged["count"][5]), 1)
    with pytest.raises(GraphshiftError, match="`slot` holds numbers that no policy has"):
        SparsePolicy(NODES, within=BLOCKS.within).load_state(damaged)


@needs_kernels
@pytest.mark.parametrize("both", [False, True])
def test_scored_random_pairs_are_the_same_in_c_and_in_torch(both: bool) -> None:
    graph = environment(count=5).graph
    table, add = torch.randn(graph.num_nodes, 16), torch.randn(graph.num_nodes)
    scores = Scores(table, 8, add)
    drawn, gains = scores.of_random(graph, 30, 4, both=both)
    with patch.object(native, "LIBRARY", None):
        plain, theirs = scores.of_random(graph, 30, 4, both=both)
    assert torch.equal(drawn, plain)
    torch.testing.assert_close(gains, theirs)
    row = torch.arange(graph.num_nodes).repeat_interleave(30)
    assert bool((graph.blocks.batch[row] == graph.blocks.batch[drawn.long()]).all())  # type: ignore[union-attr]
    assert bool((gains[row == drawn] == 0).all())


def test_an_edge_between_two_graphs_is_refused() -> None:
    graph = Graph.from_edge_index(torch.tensor([[3, 4], [4, 3]]), NODES)
    with pytest.raises(GraphshiftError, match=r"2 edges join nodes of two graphs, first \[4, 3\], of graphs \[1, 0\]"):
        graph.in_blocks(BLOCKS)


def test_edits_and_copies_keep_the_blocks() -> None:
    graph = environment(count=5, weighted=True).graph
    assert graph.blocks == BLOCKS
    drawn = kernels.draw(NODES, 2, 0, graph.within)
    for one in (graph.flip_rows(drawn), graph.to(torch.device("cpu")), graph.weighted(graph.weight, undirected=True)):
        assert one.blocks is graph.blocks
    for left, right in pairwise((graph.flip_rows(drawn), graph.flip(graph.flip_rows(drawn).keys[:0]))):
        assert left.blocks is right.blocks
    assert repr(graph).startswith("Graph(5 graphs, 19 nodes")
