"""Explorers of many small graphs: no edit joins two, and the edits are those of enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from graphs import SIZES, environment
from graphshift.backbones import graph_backbone
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.explorers import EXPLORERS, Explorer, Gradient, Random, Reinforce, SharedRisk, View, apply_actions
from graphshift.graph.blocks import Blocks
from graphshift.graph.graph import Graph


def explorer_of(name: str, seed: int = 0) -> Explorer:
    return EXPLORERS[name](seed=seed) if name == "features" else EXPLORERS[name](2, seed=seed)


def risk_of(e: Environment, backbone: str = "gcn") -> SharedRisk:
    torch.manual_seed(3)
    shape = {"hidden_channels": 8, "num_layers": 2, "dropout": 0.0}
    net = graph_backbone(backbone, e.num_features, e.task.out_channels, readout="mean", **shape).eval()
    return SharedRisk(lambda g, change=None: e.risk(net(e.x if change is None else change(e.x), g)), e.x)


def matrix_of(graph: Graph) -> Tensor:
    """A, ones for edges: row n receives from column m."""
    found = torch.zeros(graph.num_nodes, graph.num_nodes)
    found[graph.edge_index[1], graph.edge_index[0]] = 1.0
    return found


def crossing(view: View, e: Environment) -> int:
    n, batch = e.num_nodes, e.graph.blocks.batch  # type: ignore[union-attr]
    return int((batch[view.flips // n] != batch[view.flips % n]).sum())


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("backbone", ["gcn", "gine"])  # gine cannot be probed: pairs enter with weight 0
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", list(EXPLORERS))
def test_no_edit_joins_two_graphs(name: str, directed: bool, backbone: str) -> None:
    e = environment(directed=directed)
    explorer = explorer_of(name)
    for step in range(4):
        view = explorer.propose(e.graph, risk_of(e, backbone))
        explorer.learn(view, math.cos(step))
        assert crossing(view, e) == 0
        assert view.graph.blocks is e.graph.blocks
        # In graphs this small there may be no two edges that can swap.
        assert explorer.edits_edges == bool(view.flips.numel()) or name == "swap-edges"
        expected = matrix_of(e.graph).bool()
        expected[view.flips // e.num_nodes, view.flips % e.num_nodes] ^= True
        assert torch.equal(matrix_of(view.graph).bool(), expected)
        assert not bool(expected.diagonal().any())


@pytest.mark.parametrize("make", [Random, Reinforce])
def test_log_probabilities_are_those_of_the_graphs_apart(make: Callable[..., Explorer]) -> None:
    e = environment(count=5)
    view = make(2, seed=1).propose(e.graph)
    expected = -sum(2 * n * math.log(n - 1) for n in SIZES if n > 1)
    assert view.log_prob == pytest.approx(expected, rel=1e-5)


def test_views_of_two_graphs_are_as_likely_as_enumeration_says() -> None:
    """Two nodes and three: every row's draw, one by one, and the flips that come of it."""
    path = torch.tensor([[2, 3, 3, 4], [3, 2, 4, 3]])
    graph = Graph.from_edge_index(path, 5).in_blocks(Blocks(torch.tensor([0, 2, 5])))
    choices = [(1,), (0,), (3, 4), (2, 4), (2, 3)]
    expected: dict[tuple[int, ...], float] = {}
    for drawn in itertools.product(*choices):
        flips = apply_actions(graph, torch.tensor(drawn).unsqueeze(1))[1]
        expected[tuple(flips.tolist())] = expected.get(tuple(flips.tolist()), 0) + 1 / 8
    explorer, counts = Random(1, seed=0), dict.fromkeys(expected, 0)
    for _ in range(2000):
        counts[tuple(explorer.propose(graph).flips.tolist())] += 1
    assert chisquare(list(counts.values()), [2000 * p for p in expected.values()]).pvalue > 1e-4


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("backbone", ["gcn", "gine"])
@pytest.mark.parametrize("aim", ["raise", "lower"])
def test_guided_edits_are_all_pairs_of_a_graph_that_help(aim: str, backbone: str, float64: None) -> None:
    """With so many candidates that every pair is tried, and no limit: those whose derivative has the right sign."""
    e = environment(count=5)
    e = e.replace(x=e.x.double())
    risk = risk_of(e, backbone)
    view = Gradient(60, aim=aim, budget=10**6, candidates=200).propose(e.graph, risk)
    n, batch = e.num_nodes, e.graph.blocks.batch  # type: ignore[union-attr]
    there = matrix_of(e.graph)
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n) if batch[a] == batch[b]]
    every = torch.tensor(sorted([a * n + b for a, b in pairs] + [b * n + a for a, b in pairs]))
    complete = e.graph.flip(every[~torch.isin(every, e.graph.keys)])
    weight = there[every // n, every % n].double().requires_grad_()
    (slope,) = torch.autograd.grad(risk(complete.weighted(weight, undirected=True)), weight)
    change = torch.zeros(n, n, dtype=torch.float64)
    change[every // n, every % n] = slope * (1 - 2 * there[every // n, every % n].double())
    change = change + change.t()
    sign = 1 if aim == "raise" else -1
    wanted = {a * n + b for a, b in (*pairs, *((b, a) for a, b in pairs)) if sign * change[a, b] > 1e-30}
    assert set(view.flips.tolist()) == wanted


def test_a_learned_explorer_is_saved_with_its_division() -> None:
    e, explorer = environment(), Reinforce(2, lr=0.5, seed=1)
    for step in range(3):
        explorer.learn(explorer.propose(e.graph), math.cos(step))
    again = Reinforce(2, lr=0.5, seed=9)
    again.load_state(explorer.state())
    views: list[Tensor] = [one.propose(e.graph).flips for one in (explorer, again)]
    assert torch.equal(*views)
    whole = Graph(e.graph.pattern, undirected=True)
    with pytest.raises(GraphshiftError, match="divided otherwise into small graphs"):
        again.propose(whole)
    state = explorer.state()
    state["within.begin"] = state["within.begin"] + 1
    with pytest.raises(GraphshiftError, match="the ranges of nodes"):
        again.load_state(state)


def test_actions_that_join_two_graphs_are_refused() -> None:
    e = environment(count=5)
    actions = torch.arange(e.num_nodes).unsqueeze(1).flip(0)
    actions[e.num_nodes // 2] = 0
    with pytest.raises(GraphshiftError, match="join nodes of two graphs"):
        apply_actions(e.graph, actions)
