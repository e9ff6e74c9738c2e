from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import other_nodes
from graphshift.data.environment import Environment
from graphshift.explorers import (
    EXPLORERS,
    AddEdge,
    DropEdge,
    Explorer,
    FeatureExplorer,
    Gradient,
    MixedExplorer,
    Random,
    Reinforce,
    SparsePolicy,
    SwapEdges,
    View,
)
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import native
from graphshift.methods.risks import difference_rewards, variance
from policies import logits_of, probabilities_of
from reference import KINDS, dense_adjacency, graph_of, random_data

# --- views


def learned(graph: Graph, steps: int = 3, **options: object) -> Reinforce:
    explorer = Reinforce(2, lr=0.3, **options)
    for step in range(steps):
        explorer.learn(explorer.propose(graph), math.cos(step))
    return explorer


def pairs_drawn(view: View, both: bool) -> set[tuple[int, int]]:
    pairs = {(n, m) for n, row in enumerate(view.actions.tolist()) for m in row}
    return pairs | {(m, n) for n, m in pairs} if both else pairs


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_view_differs_from_the_graph_in_exactly_the_pairs_drawn(kind: str, directed: bool) -> None:
    data = random_data(**KINDS[kind])
    graph = graph_of(data)
    explorer = learned(graph, directed=directed)
    view = explorer.propose(graph)
    assert view.actions.shape == (graph.num_nodes, 2)
    pairs = pairs_drawn(view, both=graph.undirected and not directed)
    before = dense_adjacency(graph.edge_index, graph.num_nodes) > 0
    after = dense_adjacency(view.edge_index, graph.num_nodes) > 0
    assert {tuple(pair) for pair in (before != after).nonzero().tolist()} == pairs
    assert view.flips.tolist() == sorted(n * graph.num_nodes + m for n, m in pairs)
    assert (view.edge_weight is None) == (graph.weight is None)


def test_undirected_graphs_stay_undirected_by_default(undirected: Data, weighted: Data) -> None:
    for data in (undirected, weighted):
        view = Reinforce(3, seed=1).propose(data)
        assert view.graph.undirected
        assert is_undirected(view.edge_index, view.edge_weight, num_nodes=data.num_nodes)
        view = Reinforce(3, seed=1, directed=True).propose(data)
        assert not view.graph.undirected
        assert not is_undirected(view.edge_index, num_nodes=data.num_nodes)


def test_log_prob_is_that_of_the_actions(undirected: Data) -> None:
    graph = graph_of(undirected)
    explorer = learned(graph)
    dense = logits_of(explorer.policy).log_softmax(dim=1)
    view = explorer.propose(graph)
    assert view.log_prob == pytest.approx(float(dense.gather(1, view.actions).sum()), rel=1e-5)


def test_what_can_be_explored(undirected: Data) -> None:
    views = [
        Reinforce(2, seed=4).propose(graph)
        for graph in (undirected, graph_of(undirected), Environment("a", undirected))
    ]
    assert all(torch.equal(view.edge_index, views[0].edge_index) for view in views)
    with pytest.raises(GraphshiftError, match="found Tensor"):
        Reinforce(2).propose(undirected.edge_index)


def test_a_graph_of_one_node_is_given_back() -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 1)
    explorer = Reinforce(2)
    view = explorer.propose(graph)
    assert view.graph is graph
    assert (view.actions, view.log_prob, view.flips.numel()) == (None, 0.0, 0)
    explorer.learn(view, 1.0)
    assert explorer.policy is None


def test_two_nodes_have_one_pair() -> None:
    view = Reinforce(3).propose(Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2))
    assert view.graph.num_edges == 0
    assert view.log_prob == 0.0


def test_another_size_is_refused_until_reset(undirected: Data) -> None:
    explorer = Reinforce(2)
    view = explorer.propose(undirected)
    explorer.learn(view, 1.0)
    with pytest.raises(GraphshiftError, match=r"9 nodes and was given one of 5.*reset\(\)"):
        explorer.propose(random_data(5))
    explorer.reset()
    assert explorer.propose(random_data(5)).graph.num_nodes == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"edits_per_node": 0}, "edits_per_node is 0; expected at least 1"),
        ({"lr": -0.1}, "lr is -0.1; expected 0 or more"),
        ({"lr": math.nan}, "lr is nan"),
        ({"baseline": 1.0}, "baseline is 1.0"),
        ({"baseline": -0.5}, "baseline is -0.5"),
        ({"edits_per_node": 5, "entries_per_node": 5}, "entries_per_node is 5; expected more than edits_per_node, 5"),
        ({"edits_per_node": 2, "entries_per_node": 0}, "entries_per_node is 0; expected more than edits_per_node, 2"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(GraphshiftError, match=words):
        Reinforce(**options)


def test_explorers_by_name() -> None:
    ours = {
        "reinforce": Reinforce,
        "random": Random,
        "gradient": Gradient,
        "features": FeatureExplorer,
        "mixed": MixedExplorer,
        "drop-edge": DropEdge,
        "add-edge": AddEdge,
        "swap-edges": SwapEdges,
    }
    assert ours == EXPLORERS
    assert issubclass(Reinforce, Explorer)


# --- learning


@pytest.mark.parametrize("baseline", [None, 0.0, 0.9])
def test_the_reward_and_its_baseline(undirected: Data, baseline: float | None) -> None:
    """R − b with b the running mean, which starts at the first reward; without baseline R itself."""
    graph, rewards = graph_of(undirected), [3.0, 5.0, -1.0, 2.0, 2.5]
    explorer = Reinforce(2, lr=0.4, optimizer="sgd", baseline=baseline)
    twin = SparsePolicy(graph.num_nodes, optimizer="sgd", lr=0.4)
    expected = {
        None: rewards,
        0.0: [0.0, 2.0, -6.0, 3.0, 0.5],  # against the reward before
        0.9: [0.0, 2.0, -4.2, -0.78, -0.202],  # b = 3, 3, 3.2, 2.78, 2.702
    }[baseline]
    for reward, advantage in zip(rewards, expected, strict=True):
        view = explorer.propose(graph)
        explorer.learn(view, reward)
        twin.reinforce(view.actions, advantage)
    torch.testing.assert_close(logits_of(explorer.policy), logits_of(twin), rtol=0, atol=1e-6)


def test_reward_raises_and_punishment_lowers_the_probability(undirected: Data) -> None:
    graph = graph_of(undirected)
    for reward in (1.0, -1.0):
        for optimizer in ("sgd", "adam"):
            explorer = Reinforce(2, lr=0.05, optimizer=optimizer)
            view = explorer.propose(graph)
            explorer.learn(view, reward)
            assert (explorer.policy.log_prob(view.actions) - view.log_prob) * reward > 0


def test_reset_forgets_and_the_generator_goes_on(undirected: Data) -> None:
    graph = graph_of(undirected)
    explorer = learned(graph, baseline=0.5)
    place = explorer.generator.get_state()
    explorer.reset()
    assert torch.equal(explorer.generator.get_state(), place)
    assert explorer.propose(graph).log_prob == pytest.approx(-2 * 9 * math.log(8), rel=1e-6)
    assert "mean_reward" not in explorer.state()


@pytest.mark.parametrize("steps", [0, 4])
def test_a_restored_explorer_goes_on_identically(undirected: Data, steps: int) -> None:
    graph = graph_of(undirected)
    explorer = learned(graph, steps, baseline=0.8, seed=3)
    other = learned(graph, 2, baseline=0.8, seed=9)  # has learned something else, which must go
    other.load_state(explorer.state())
    for step in range(10):
        views = [e.propose(graph) for e in (explorer, other)]
        assert torch.equal(views[0].actions, views[1].actions)
        assert views[0].log_prob == views[1].log_prob
        for e, view in zip((explorer, other), views, strict=True):
            e.learn(view, math.sin(step))
    assert torch.equal(logits_of(explorer.policy), logits_of(other.policy))


def risk_of(graph: Graph) -> float:
    """Jumps when the missing edge 3 → 0 (row 0 draws column 3) is there, and trembles a little with the rest."""
    there = bool((graph.keys == 3).any())
    return float(there) + 0.01 * math.sin(graph.num_edges)


def explore(explorers: list[Explorer], graph: Graph, steps: int) -> list[float]:
    """Every explorer learns from what its view adds to the variance; returns the variances on the way."""
    found = []
    for _ in range(steps):
        views = [explorer.propose(graph) for explorer in explorers]
        risks = torch.tensor([risk_of(view.graph) for view in views])
        found.append(variance(risks).item())
        for explorer, view, reward in zip(explorers, views, difference_rewards(risks).tolist(), strict=True):
            explorer.learn(view, reward)
    return found


def test_learning_finds_the_one_edge_that_matters() -> None:
    nodes = 20
    ring = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(-1)])
    graph = Graph.from_edge_index(ring, nodes)
    reinforce = [Reinforce(1, lr=0.05, baseline=0.9, seed=seed) for seed in range(3)]
    random = [Random(1, seed=seed) for seed in range(3)]
    learnt, control = explore(reinforce, graph, 400)[-100:], explore(random, graph, 400)
    mean, control_mean = sum(learnt) / len(learnt), sum(control) / len(control)
    # Chance makes the edge with probability 1/19 and a variance of 1/19 · 18/19 = 0.05; the best possible is 1/3.
    assert control_mean == pytest.approx(18 / 361, abs=0.02)
    assert mean > 5 * control_mean
    probabilities = [float(probabilities_of(e.policy)[0, 3]) for e in reinforce]
    assert max(probabilities) > 0.8
    best = probabilities_of(reinforce[probabilities.index(max(probabilities))].policy)
    assert best[1:].max(dim=1).values.median() < 0.5  # rows that do not matter stay spread


# --- a bound on what is remembered


def ring(nodes: int) -> Graph:
    return Graph.from_edge_index(torch.stack([torch.arange(nodes), torch.arange(nodes).roll(-1)]), nodes)


def entries(explorer: Reinforce) -> int:
    """The most that a node remembers."""
    return int(explorer.policy.state()["count"].max())


def test_a_node_remembers_as_many_columns_as_it_is_allowed_to() -> None:
    graph = ring(90)
    explorers = [Reinforce(5, seed=1, **o) for o in ({}, {"entries_per_node": 8}, {"entries_per_node": None})]
    for explorer in explorers:
        for _ in range(25):
            explorer.learn(explorer.propose(graph), 1.0)
    assert [entries(explorer) for explorer in explorers[:2]] == [64, 8]  # 64 unless said otherwise
    assert entries(explorers[2]) > 64


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_below_the_bound_it_is_the_unbounded_explorer(optimizer: str) -> None:
    graph = ring(70)
    explorers = [Reinforce(2, lr=0.3, optimizer=optimizer, entries_per_node=n, seed=4) for n in (21, None)]
    for epoch in range(10):
        views = [explorer.propose(graph) for explorer in explorers]
        assert torch.equal(views[0].actions, views[1].actions)
        assert torch.equal(views[0].edge_index, views[1].edge_index)
        assert views[0].log_prob == views[1].log_prob
        for explorer, view in zip(explorers, views, strict=True):
            explorer.learn(view, math.cos(epoch))
    assert 16 < entries(explorers[0]) < 21
    assert torch.equal(*(explorer.policy.dense_logits() for explorer in explorers))
    for seed in range(10):  # and above it is not
        for explorer in explorers:
            explorer.policy.reinforce(other_nodes(70, 2, seed), 1.0)
    assert not torch.equal(*(explorer.policy.dense_logits() for explorer in explorers))


def test_a_bounded_explorer_finds_the_one_edge_that_matters_too() -> None:
    """It remembers three columns of nineteen at a time."""
    explorers = [Reinforce(1, lr=0.05, baseline=0.9, entries_per_node=3, seed=seed) for seed in range(3)]
    found = explore(explorers, ring(20), 400)[-100:]
    assert sum(found) / len(found) > 5 * 18 / 361
    assert max(float(probabilities_of(e.policy)[0, 3]) for e in explorers) > 0.8
    assert all(entries(explorer) == 3 for explorer in explorers)


def test_a_restored_bounded_explorer_goes_on_identically() -> None:
    graph = ring(30)
    explorer, other = (Reinforce(2, lr=0.3, entries_per_node=4, seed=seed) for seed in (1, 2))
    for _ in range(5):
        explorer.learn(explorer.propose(graph), 1.0)
    other.load_state(explorer.state())
    for step in range(6):
        views = [e.propose(graph) for e in (explorer, other)]
        assert torch.equal(views[0].actions, views[1].actions)
        for e, view in zip((explorer, other), views, strict=True):
            e.learn(view, math.cos(step))
    left, right = explorer.state(), other.state()
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert entries(other) == 4


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_same_explorer_without_kernels(kind: str, directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(random_data(20, **KINDS[kind]))
    ways = []
    for library in (native.LIBRARY, None):
        monkeypatch.setattr(native, "LIBRARY", library)
        explorer = Reinforce(2, lr=0.3, entries_per_node=6, directed=directed, seed=5)
        ways.append([explorer.propose(graph)])
        for step in range(12):
            explorer.learn(ways[-1][-1], math.cos(step))
            ways[-1].append(explorer.propose(graph))
    for fast, plain in zip(*ways, strict=True):
        assert torch.equal(fast.actions, plain.actions)
        assert torch.equal(fast.graph.keys, plain.graph.keys)
        assert torch.equal(fast.flips, plain.flips)
        assert fast.log_prob == pytest.approx(plain.log_prob, rel=1e-5)
        assert fast.graph.undirected == plain.graph.undirected


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1e300, 1e39])
def test_a_reward_that_is_no_number_is_refused_and_changes_nothing(optimizer: str, reward: float) -> None:
    graph = graph_of(random_data(20))
    explorer = Reinforce(2, optimizer=optimizer)
    explorer.learn(explorer.propose(graph), 1.0)
    view = explorer.propose(graph)
    before = explorer.state()
    with pytest.raises(GraphshiftError, match=r"reward is .*expected a finite number"):
        explorer.learn(view, reward)
    after = explorer.state()
    for name in ("entry", "shared", "slot", "count", "mass", "top"):
        assert torch.equal(before[f"policy.{name}"][..., :4], after[f"policy.{name}"][..., :4]), name
    explorer.propose(graph)


def test_a_policy_that_diverged_says_so_and_can_be_reset() -> None:
    graph = graph_of(random_data(20))
    explorer = Reinforce(2, optimizer="sgd", lr=1e12)
    view = explorer.propose(graph)
    with pytest.raises(GraphshiftError, match="policy became NaN or infinite"):
        explorer.learn(view, 1e38)
    with pytest.raises(GraphshiftError, match="policy became NaN or infinite"):
        explorer.propose(graph)
    explorer.reset()
    explorer.propose(graph)
