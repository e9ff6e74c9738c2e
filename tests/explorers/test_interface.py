"""The interface is wide enough for explorers that follow the gradient of the risk: one is made here."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import graphshift as gs
from graphshift.backbones import BACKBONES
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.explorers import EXPLORERS, Explorer, Random, Risk, SparsePolicy, View, apply_actions
from graphshift.graph.graph import Graph
from graphshift.graph.keys import reverse
from reference import graph_of, random_data

FACTS = ("learns", "edits_edges", "changes_features", "needs_risk", "follows_edges", "side_by_side")


class Deleting(Explorer):
    """Deletes the edges whose weight lowers the risk most: those with the most negative gradient."""

    needs_risk = True

    def propose(self, graph: Graph, risk: Risk | None = None) -> View:
        assert risk is not None
        weight = torch.ones(graph.num_edges).requires_grad_()
        weighted = Graph.from_keys(graph.num_nodes, graph.keys, weight, undirected=graph.undirected)
        (gradient,) = torch.autograd.grad(risk(weighted), weight)
        both = gradient + gradient[torch.searchsorted(graph.keys, reverse(graph.keys, graph.num_nodes))]
        row, column = graph.keys // graph.num_nodes, graph.keys % graph.num_nodes
        both[row > column] = torch.inf  # one of each pair
        chosen = graph.keys[both.topk(self.edits_per_node, largest=False).indices]
        flips = torch.cat([chosen, reverse(chosen, graph.num_nodes)]).sort().values
        return View(graph.flip(flips), flips)


@pytest.fixture(params=["gcn", "sage", "gat", "gprgnn", "gcn-unnormalised"])
def problem(request: pytest.FixtureRequest) -> tuple[Environment, Risk]:
    """A graph whose edges help, and the risk of a model that was fitted to it a little."""
    data = random_data(60, density=0.12, seed=2)
    data.edge_index = data.edge_index[:, data.y[data.edge_index[0]] == data.y[data.edge_index[1]]]
    environment = Environment("homophilous", data)
    model = BACKBONES[request.param](environment.num_features, 1, hidden_channels=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(15):
        optimizer.zero_grad()
        environment.risk(model(environment.x, environment.graph)).backward()
        optimizer.step()
    model.eval()

    def risk(graph: Graph) -> Tensor:
        return environment.risk(model(environment.x, graph))

    return environment, risk


def test_following_the_gradient_raises_the_risk_more_than_chance(problem: tuple[Environment, Risk]) -> None:
    environment, risk = problem
    graph = environment.graph
    assert graph.undirected
    view = Deleting(8).propose(graph, risk)
    assert view.graph.num_edges == graph.num_edges - 16
    assert view.graph.undirected
    before, guided = risk(graph).item(), risk(view.graph).item()
    generator = torch.Generator().manual_seed(0)
    pairs = graph.keys[graph.keys // graph.num_nodes < graph.keys % graph.num_nodes]
    chance = []
    for _ in range(20):  # the same number of deletions, anywhere
        chosen = pairs[torch.randperm(pairs.numel(), generator=generator)[:8]]
        flips = torch.cat([chosen, reverse(chosen, graph.num_nodes)]).sort().values
        chance.append(risk(graph.flip(flips)).item())
    assert guided - before > 0
    assert guided > max(chance)


def test_the_base_class_asks_for_propose_only(problem: tuple[Environment, Risk]) -> None:
    environment, risk = problem
    explorer = Deleting(2, seed=1)
    assert explorer.needs_risk
    assert not Random.needs_risk
    view = explorer.propose(environment.graph, risk)
    explorer.learn(view, 1.0)
    explorer.reset()
    explorer.load_state(explorer.state())
    assert torch.equal(explorer.propose(environment.graph, risk).flips, view.flips)
    with pytest.raises(TypeError, match="propose"):
        Explorer(1)  # type: ignore[abstract]


@pytest.mark.parametrize(
    ("actions", "complaint"),
    [
        (torch.zeros(3, 1, dtype=torch.int64), r"shape \[3, 1\].*each of the graph's 9 nodes"),
        (torch.zeros(9, dtype=torch.int64), r"shape \[9\]"),
        (torch.zeros(9, 1), r"type torch.float32; expected whole numbers"),
        (torch.full((9, 1), 9), r"between 9 and 9; expected 0 to 8"),
        (torch.full((9, 1), -1), r"between -1 and -1"),
        (torch.arange(9).unsqueeze(1), "its own neighbour"),
    ],
    ids=["too few rows", "no rows", "fractions", "too large", "negative", "self-loops"],
)
def test_actions_that_are_none_are_refused(actions: torch.Tensor, complaint: str) -> None:
    """Before they reach kernels that would write wherever they are told."""
    with pytest.raises(GraphshiftError, match=complaint):
        apply_actions(graph_of(random_data()), actions)
    if actions.shape[:1] != (9,) or actions.dim() != 2:
        with pytest.raises(GraphshiftError, match="a row for each of 9 nodes"):
            SparsePolicy(9).reinforce(actions, 1.0)


@pytest.mark.parametrize("directed", [False, True])
def test_a_view_that_forgets_its_graph_makes_the_same_again(directed: bool) -> None:
    graph = graph_of(random_data(seed=5))
    view = Random(2, directed=directed, seed=1).propose(graph)
    before, keys = view.graph, view.graph.keys
    view.forget()
    assert view.graph is not before
    assert torch.equal(view.graph.keys, keys)
    assert view.graph is view.graph


def test_a_view_without_actions_keeps_its_graph() -> None:
    graph = graph_of(random_data(seed=5))
    view = View(graph, torch.empty(0, dtype=torch.int64))
    assert graph.normalised is graph.normalised
    view.forget()
    assert view.graph is graph
    assert "normalised" not in vars(graph)


def test_what_an_explorer_is_can_be_read_on_its_class() -> None:
    says = {name: [x for x in FACTS if getattr(EXPLORERS[name], x)] for name in EXPLORERS}
    assert says == {
        "add-edge": ["edits_edges", "side_by_side"],
        "drop-edge": ["edits_edges"],
        "features": ["changes_features", "needs_risk", "side_by_side"],
        "gradient": ["edits_edges", "needs_risk", "follows_edges", "side_by_side"],
        "mixed": ["edits_edges", "changes_features", "needs_risk", "follows_edges", "side_by_side"],
        "random": ["edits_edges", "side_by_side"],
        "reinforce": ["learns", "edits_edges", "side_by_side"],
        "swap-edges": ["edits_edges"],
    }

    class Learning(Random):
        def learn(self, view: View, reward: float) -> None: ...

    assert Learning.learns
    assert not Deleting.learns


def test_an_explorer_of_another_file_is_found_without_being_named_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GraphshiftError, match=r"'radnom'.*add-edge.*'random'\?"):
        EXPLORERS.find("radnom")
    with pytest.raises(AttributeError, match="Deleting"):
        _ = gs.explorers.Deleting
    monkeypatch.setitem(EXPLORERS._members, "deleting", Deleting)
    assert EXPLORERS.find("deleting") is gs.explorers.Deleting is Deleting
