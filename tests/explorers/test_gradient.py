"""The gradient-guided explorer against finite differences and against random edits."""

import pytest
import torch

import graphshift as gs
from graphshift import explorers
from graphshift.backbones import SAGE
from graphshift.core.errors import GraphshiftError
from graphshift.explorers import Gradient, Random, SharedRisk
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import native
from graphshift.graph.keys import keys_of
from reference import KINDS, random_data


def problem(kind="undirected", nodes=24, seed=0):
    """A graph, and the risk of a fixed SAGE on it as a function of the graph, in float64."""
    torch.manual_seed(seed)
    graph = explorers.as_graph(random_data(nodes, density=6 / nodes, seed=seed, **KINDS[kind]))
    backbone = SAGE(4, 3).double().eval()
    x, y = torch.randn(nodes, 4, dtype=torch.float64), torch.randint(3, (nodes,))

    def risk(graph):
        weight = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
        wide = Graph.from_keys(graph.num_nodes, graph.keys, weight.double(), undirected=graph.undirected)
        return torch.nn.functional.cross_entropy(backbone(x, wide), y)

    return graph, risk


@pytest.mark.parametrize("kind", ["undirected", "directed"])
@pytest.mark.parametrize("seed", range(4))
def test_it_moves_the_risk_in_its_direction_and_further_than_chance(kind, seed):
    graph, risk = problem(kind, nodes=40, seed=seed)
    here = risk(graph).item()
    up = risk(Gradient(1, aim="raise", seed=seed).propose(graph, risk).graph).item()
    down = risk(Gradient(1, aim="lower", seed=seed).propose(graph, risk).graph).item()
    chance = [abs(risk(Random(1, seed=k).propose(graph).graph).item() - here) for k in range(20)]
    assert up - here > max(chance)
    assert here - down > max(chance)


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gat"])
def test_it_raises_the_variance_over_as_many_random_edits(backbone):
    """In EERM, of a model that learns; with the controls, which flip as many pairs."""
    data = gs.load("planted-structure", nodes=200)
    last = {}
    for explorer in ("gradient", "random", "drop-edge", "add-edge"):
        model = gs.EERM(backbone, explorer=explorer, epochs=20, hidden_channels=8, edits_per_node=2)
        last[explorer] = sum(row["variance"] for row in model.fit(data.train, data.val).history_[-10:])
    assert last["gradient"] > 10 * max(last[name] for name in last if name != "gradient")


def test_the_number_of_flips_and_the_kind_of_graph_are_as_asked():
    graph, risk = problem(nodes=40)
    view = Gradient(2, aim="raise", candidates=10, seed=0).propose(graph, risk)
    assert view.graph.undirected
    assert view.flips.numel() <= 2 * 2 * graph.num_nodes  # both directions of nodes · s pairs
    changed = set(view.graph.keys.tolist()) ^ set(graph.keys.tolist())
    assert changed == set(view.flips.tolist())
    assert {(k % 40) * 40 + k // 40 for k in changed} == changed
    single = Gradient(1, aim="raise", directed=True, seed=0).propose(graph, risk)
    assert not single.graph.undirected
    assert single.flips.numel() <= graph.num_nodes


def test_the_weights_of_a_weighted_graph_stay_on_the_edges_that_stay():
    graph, risk = problem("weighted")
    view = Gradient(1, aim="raise", seed=0).propose(graph, risk)
    before = dict(zip(graph.keys.tolist(), graph.weight.tolist(), strict=True))
    edited = view.graph
    keys = keys_of(edited.pattern.rowptr, edited.pattern.col)  # in the order of the weights
    after = dict(zip(keys.tolist(), edited.weight.tolist(), strict=True))
    kept = before.keys() & after.keys()
    assert kept
    assert all(before[key] == after[key] for key in kept)


def test_it_needs_the_risk_and_sound_numbers():
    graph, risk = problem()
    with pytest.raises(GraphshiftError, match="needs the risk"):
        Gradient().propose(graph)
    with pytest.raises(GraphshiftError, match="candidates is -1"):
        Gradient(candidates=-1)
    empty = Graph.from_keys(5, torch.empty(0, dtype=torch.int64), undirected=True)
    assert Gradient(1, candidates=0).propose(empty, lambda g: g.weight.sum()).flips.numel() == 0
    alone = Graph.from_keys(1, torch.empty(0, dtype=torch.int64), undirected=True)
    assert Gradient().propose(alone, risk).graph is alone


@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_the_unit_of_the_weights_does_not_matter_to_a_model_that_it_does_not_matter_to(scale):
    graph, _ = problem(nodes=60)
    torch.manual_seed(0)
    backbone = SAGE(4, 3, self_loops=False).double().eval()  # a weighted mean: blind to the weights' unit
    x, y = torch.randn(60, 4, dtype=torch.float64), torch.randint(3, (60,))

    def risk(graph):
        wide = Graph.from_keys(graph.num_nodes, graph.keys, graph.weight.double(), undirected=graph.undirected)
        return torch.nn.functional.cross_entropy(backbone(x, wide), y)

    flips = []
    for weight in (1.0, scale):
        weighted = Graph.from_keys(60, graph.keys, torch.full((graph.num_edges,), weight), undirected=True)
        flips.append(set(Gradient(1, aim="raise", seed=0).propose(weighted, risk).flips.tolist()))
    # Not all: a node without neighbours has a mean of 0, whatever the unit.
    assert len(flips[0] & flips[1]) > 0.85 * len(flips[0] | flips[1])


def test_a_risk_that_edges_do_not_touch_is_refused():
    graph, _ = problem()
    for risk in (lambda g: torch.tensor(1.0), lambda g: torch.ones(1, requires_grad=True).sum()):
        with pytest.raises(GraphshiftError, match="depends on edge weights"):
            Gradient().propose(graph, risk)


def test_an_aim_of_its_own_and_no_other():
    graph, risk = problem()
    view = Gradient(1, aim="leave").propose(graph, risk)
    assert view.graph is graph
    assert view.flips.numel() == 0
    assert [Gradient(seed=seed).aim for seed in range(4)] == ["raise", "lower", "raise", "lower"]
    with pytest.raises(GraphshiftError, match="aim is 'up'; expected one of raise, lower, leave"):
        Gradient(aim="up")


@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted"])
def test_steps_refine_within_the_same_budget(kind):
    further = []
    for seed in range(6):
        graph, risk = problem(kind, nodes=40, seed=seed)
        here, reached = risk(graph).item(), []
        for steps in (1, 5):
            view = Gradient(2, aim="raise", steps=steps, seed=seed).propose(graph, risk)
            both = 2 if graph.undirected else 1
            assert 0 < view.flips.numel() <= 2 * 40 * both
            changed = set(view.graph.keys.tolist()) ^ set(graph.keys.tolist())
            assert changed == set(view.flips.tolist())
            assert view.graph.undirected == graph.undirected
            reached.append(risk(view.graph).item() - here)
        further.append(reached[1] - reached[0])
    assert sum(difference > 0 for difference in further) >= 5
    assert sum(further) > 0


def test_steps_with_single_entries():
    graph, risk = problem(nodes=40)
    view = Gradient(1, aim="raise", steps=3, directed=True, seed=0).propose(graph, risk)
    assert not view.graph.undirected
    assert view.flips.numel() <= 40
    with pytest.raises(GraphshiftError, match="steps is 0; expected at least 1"):
        Gradient(steps=0)
    assert Gradient(1, aim="raise", budget=2, steps=5, seed=0).propose(graph, risk).flips.numel() <= 4


def test_a_pair_that_a_later_step_flips_back_was_never_flipped(monkeypatch):
    graph, risk = problem("weighted", nodes=24)
    steps = [[(0, 1), (2, 3)], [(0, 1)]]

    def chosen(self, current, asked, budget):
        pairs = steps[chosen.calls]
        chosen.calls += 1
        first = torch.tensor([sum(row < n for row, _ in pairs) for n in range(25)], dtype=torch.int32)
        return first, torch.tensor([column for _, column in pairs], dtype=torch.int32)

    chosen.calls = 0
    monkeypatch.setattr(Gradient, "_chosen", chosen)
    view = Gradient(1, aim="raise", steps=2).propose(graph, risk)
    both = {2 * 24 + 3, 3 * 24 + 2} if graph.undirected else {2 * 24 + 3}
    assert set(view.flips.tolist()) == both
    assert set(view.graph.keys.tolist()) ^ set(graph.keys.tolist()) == both


@pytest.mark.parametrize("in_c", [True, False])
def test_a_budget_above_what_was_tried_asks_for_no_more_room(in_c: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_c:
        monkeypatch.setattr(native, "LIBRARY", None)
    (environment,) = gs.load("planted-structure", nodes=60).train
    model = gs.ERM("sage", epochs=2, hidden_channels=4, selection="last").fit(environment)
    risk = SharedRisk(lambda graph: environment.risk(model.backbone_(environment.x, graph)))
    explorer = Gradient(1, aim="raise", budget=99_999_999_999)
    view = explorer.propose(environment.graph, risk)
    assert 0 < view.flips.numel() <= environment.graph.num_edges + 2 * 2 * 60
