"""Explorers against a fixed GNN: nothing but them changes, and what is recorded is what happened."""

from __future__ import annotations

import copy
import itertools
import json
from collections import Counter
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import pytest
import torch
from torch import Tensor

from graphshift.backbones import GCN, Backbone
from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed, other_nodes
from graphshift.data.environment import Environment
from graphshift.explorers import Explorer, Random, Reinforce, View
from graphshift.graph.graph import Graph
from graphshift.lab.paper import exploring
from graphshift.lab.paper.exploring import LEARNERS, Case, Explored, cases, explore, explore_all, explored, relabelled
from graphshift.lab.paper.tables import exploring_table, long_table, rates_table
from graphshift.methods import EERM, EERMMethod
from policies import logits_of
from reference import dense_adjacency, graph_of, random_data
from small import copied, environments, identical

# --- other columns, repetitions kept


def repeated(nodes: int, draws: int) -> Tensor:
    """Draws of which many are equal."""
    generator = torch.Generator().manual_seed(3)
    few = torch.randint(3, (nodes, draws), generator=generator)
    return (torch.arange(nodes).unsqueeze(1) + 1 + 2 * few) % nodes


def test_equal_draws_stay_equal_and_others_differ() -> None:
    nodes, draws = 400, 5
    graph, actions = graph_of(random_data(nodes, density=0.02, directed=True)), repeated(nodes, draws)
    found = relabelled(graph, actions, 7).actions
    assert found is not None
    assert (found.shape, found.dtype) == (actions.shape, actions.dtype)
    apart = together = 0
    for old, new in zip(actions.tolist(), found.tolist(), strict=True):
        for i, j in itertools.combinations(range(draws), 2):
            if old[i] == old[j]:
                assert new[i] == new[j]
            else:
                apart, together = apart + (new[i] != new[j]), together + (new[i] == new[j])
    assert apart + together > 2000
    assert together < 25  # by chance one in 399
    assert float((found == actions).float().mean()) < 0.02  # and they are other columns


def test_no_node_is_paired_with_itself_and_all_others_are_as_likely() -> None:
    graph, actions = graph_of(random_data(5)), torch.tensor([[1, 1], [0, 2], [3, 0], [4, 4], [0, 1]])
    counts = [[Counter[int]() for _ in range(2)] for _ in range(5)]
    seeds = 1000
    for seed in range(seeds):
        found = relabelled(graph, actions, seed).actions
        assert found is not None
        for node, row in enumerate(found.tolist()):
            for draw, column in enumerate(row):
                counts[node][draw][column] += 1
    for node, row in enumerate(counts):
        for counter in row:
            assert set(counter) == set(range(5)) - {node}
            chi_square = sum((count - seeds / 4) ** 2 / (seeds / 4) for count in counter.values())
            assert chi_square < 22  # 3 degrees of freedom: exceeded once in 15,000 times


@pytest.mark.parametrize("directed", [False, True])
def test_as_many_pairs_are_flipped_as_before(directed: bool) -> None:
    nodes = 300
    graph, actions = graph_of(random_data(nodes, density=0.02, directed=directed)), repeated(nodes, 5)
    view = relabelled(graph, actions, 1)
    pairs = {(n, m) for n, row in enumerate(view.actions.tolist()) for m in row}
    pairs |= set() if directed else {(m, n) for n, m in pairs}
    before, after = (dense_adjacency(g.edge_index, nodes) > 0 for g in (graph, view.graph))
    assert {tuple(pair) for pair in (before != after).nonzero().tolist()} == pairs
    kept = sum(len(set(row)) for row in actions.tolist())
    flipped = len(pairs) if directed else len(pairs) / 2
    assert 0.97 * kept <= flipped <= kept  # a few coincide by chance


# --- one step of the explorers


@pytest.fixture
def training() -> list[Environment]:
    return environments(2)


@pytest.fixture
def backbone() -> Backbone:
    """With statistics of batch normalisation that are not those it began with."""
    made = GCN(5, 3, hidden_channels=8)
    made.train()
    for environment in environments(2, seed=5):
        made(environment.x, environment.graph)
    return made


def learner(m: int, k: int) -> Reinforce:
    return Reinforce(2, lr=0.5, seed=10 * m + k)


def risk_of(backbone: Backbone, environment: Environment, graph: Graph) -> float:
    """Of a copy in training mode, which has its batch normalisation to itself."""
    with torch.no_grad():
        return float(environment.risk(copy.deepcopy(backbone).train()(environment.x, graph)))


@pytest.mark.parametrize("credit", ["shared", "difference"])
def test_explorers_learn_and_the_gnn_stays(credit: str, training: list[Environment], backbone: Backbone) -> None:
    before = copied(backbone.state_dict())
    method = EERMMethod(backbone, EERM(views=3, credit=credit, reward_variance="pooled"), learner)
    twins = [[learner(m, k) for k in range(3)] for m in range(2)]
    for _ in range(3):
        views, risks = method.explore(training)
        own = [[twin.propose(e.graph) for twin in row] for e, row in zip(training, twins, strict=True)]
        expected = [risk_of(backbone, e, v.graph) for e, row in zip(training, own, strict=True) for v in row]
        assert risks.tolist() == pytest.approx(expected, rel=1e-5)
        for view, other in zip(itertools.chain(*views), itertools.chain(*own), strict=True):
            assert torch.equal(view.actions, other.actions)
        for i, (twin, view) in enumerate(zip(itertools.chain(*twins), itertools.chain(*own), strict=True)):
            others = expected[:i] + expected[i + 1 :]
            twin.learn(view, variance(expected) - (variance(others) if credit == "difference" else 0))
    for explorer, twin in zip(itertools.chain(*method.explorers), itertools.chain(*twins), strict=True):
        logits = logits_of(explorer.policy)
        torch.testing.assert_close(logits, logits_of(twin.policy), rtol=1e-3, atol=1e-3)
        assert float(logits.nan_to_num(neginf=0).abs().max()) > 0.1
    assert identical(copied(backbone.state_dict()), before)
    assert all(parameter.grad is None for parameter in backbone.parameters())


def test_the_risks_of_views_are_those_that_exploring_gave(training: list[Environment], backbone: Backbone) -> None:
    method = EERMMethod(backbone, EERM(views=2), learner)
    views, risks = method.explore(training)
    before = copied(method.state())
    assert torch.equal(method.risks_of(training, views), risks)
    assert identical(copied(method.state()), before)  # neither GNN nor explorers took note
    swapped = [row[::-1] for row in views]
    assert method.risks_of(training, swapped).tolist() == risks[[1, 0, 3, 2]].tolist()


# --- a case


def tiny() -> Environment:
    """Eight nodes: few enough for explorers to know all pairs."""
    return Environment("tiny", random_data(8, features=3, density=0.4, seed=2))


def still() -> Backbone:
    torch.manual_seed(4)
    return GCN(3, 1, hidden_channels=4)


def relabelled_by_hand(actions: list[list[int]], seed: int) -> list[list[int]]:
    fresh = other_nodes(len(actions), len(actions[0]), seed).tolist()
    return [[new[old.index(column)] for column in old] for old, new in zip(actions, fresh, strict=True)]


@pytest.mark.parametrize("learner_name", LEARNERS)
def test_a_record_holds_what_happened(learner_name: str) -> None:
    training, backbone = environments(2, nodes=12), GCN(5, 3, hidden_channels=4)
    case = Case("anything", learner_name, 0.2, 2, 40, 6)
    record = explore(case, backbone, training, 0.125)
    options = dict(LEARNERS[learner_name])
    credit = options.pop("credit")

    def make(m: int, k: int) -> Explorer:
        return Reinforce(2, lr=0.2, seed=derive_seed(6, 3, m, k), **options)

    method = EERMMethod(backbone, EERM(views=3, credit=credit, reward_variance="pooled"), make)
    variances, controls = [], []
    for step in range(40):
        views, risks = method.explore(training)
        variances.append(variance(risks.tolist()))
        if step >= 36:  # the last tenth
            seed = derive_seed(6, 5, step)
            others = [
                risk_of(
                    backbone,
                    e,
                    e.graph.flip_rows(
                        torch.tensor(relabelled_by_hand(view.actions.tolist(), derive_seed(seed, m, k))).int()
                    ),
                )
                for m, (e, row) in enumerate(zip(training, views, strict=True))
                for k, view in enumerate(row)
            ]
            controls.append(variance(others))
    assert record.curve["step"] == list(range(2, 41, 2))
    pairs = [fmean(variances[i : i + 2]) for i in range(0, 40, 2)]
    assert record.curve["variance"] == pytest.approx(pairs, rel=1e-4)
    assert record.last == pytest.approx(fmean(variances[-4:]), rel=1e-4)
    assert record.control == pytest.approx(fmean(controls), rel=1e-4)
    distinct = [fmean(len(set(row)) for row in view.actions.tolist()) for row in views for view in row]
    assert record.distinct == pytest.approx(distinct)
    assert (record.random, record.nodes, record.views) == (0.125, 12 + 16, 3)
    assert (record.id, record.status) == (case.id, "ok")
    assert Explored.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_explorers_that_cannot_learn_are_random_ones() -> None:
    case = Case("tiny", "paper", 0.0, 1, 200, 0)
    record = explore(case, still(), [tiny()], 1.0)
    method = EERMMethod(still(), EERM(views=3), lambda m, k: Random(1, seed=50 + k))
    training = [tiny()]  # explorers belong to an environment
    random = fmean(float(method.explore(training)[1].var()) for _ in range(200))
    assert fmean(record.curve["variance"]) / random == pytest.approx(1, abs=0.2)
    assert record.distinct == [1.0, 1.0, 1.0]


def test_explorers_that_learn_raise_the_variance() -> None:
    random = exploring._random_variance(still(), [tiny()], Case("tiny", "paper", 0.0, 1, 1, 0))
    learned = explore(Case("tiny", "own credit", 0.3, 1, 300, 0), still(), [tiny()], random)
    assert learned.last > 1.5 * random
    assert learned.control < 0.8 * learned.last  # with other columns most of it is gone


def test_the_random_variance_is_that_of_a_hundred_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "_RANDOM_DRAWS", 5)
    found = exploring._random_variance(still(), [tiny()], Case("tiny", "paper", 0.0, 2, 1, 9))
    explorers = [Random(2, seed=derive_seed(9, 4, 0, k)) for k in range(3)]
    expected = [variance(risk_of(still(), tiny(), e.propose(tiny().graph).graph) for e in explorers) for _ in range(5)]
    assert found == pytest.approx(fmean(expected), rel=1e-4)


# --- all cases


def test_cases_are_every_rate_and_reward() -> None:
    found = cases(["a", "b"], 2, 30)
    assert len(found) == len({case.id for case in found}) == 2 * 2 * 2 * (5 + 5 + 1)
    assert [case.seed for case in found] == sorted(case.seed for case in found)  # one seed of everything, then the next
    assert {case.steps for case in found} == {30}
    for learner_name in LEARNERS:
        rates = sorted({case.lr for case in found if case.learner == learner_name})
        assert rates == ([1.0] if "normalised" in learner_name else [0.001, 0.01, 0.1, 0.3, 1.0])
    assert {case.edits_per_node for case in found} == {1, 5}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The built-in dataset with sixty nodes; what is done is noted."""
    done: list[str] = []
    real, trained = exploring.explore, exploring._trained

    def noted(case: Case, *arguments: Any) -> dict[str, Any]:
        done.append(case.id)
        return real(case, *arguments)

    monkeypatch.setattr(exploring, "DATASETS", {"planted": {"nodes": 60, "environments": 3}})
    monkeypatch.setattr(exploring, "_EPOCHS", 2)
    monkeypatch.setattr(exploring, "_RANDOM_DRAWS", 3)
    monkeypatch.setattr(exploring, "explore", noted)
    monkeypatch.setattr(exploring, "_trained", lambda *a: (done.append("ERM"), trained(*a))[1])
    return done


def test_cases_are_done_once(small: list[str], tmp_path: Path) -> None:
    a, b = (Case("planted", "paper", lr, 1, 4, 0) for lr in (0.01, 0.1))
    c, d = Case("planted", "own credit", 0.1, 2, 4, 0), Case("planted", "paper", 0.01, 1, 4, 1)
    file, reports = tmp_path / "deep" / "results.jsonl", list[dict[str, Any]]()
    first = explore_all([a, b], file, report=reports.append)
    assert small == ["ERM", a.id, b.id]  # one GNN for both
    assert reports == [{"epoch": 0}, {"epoch": 1}]
    assert first[0].random == first[1].random
    small.clear()
    everything = explore_all([d, c, b, a], file)
    assert small == ["ERM", d.id, "ERM", c.id]  # another seed draws other data
    assert [record.id for record in everything] == [case.id for case in (d, c, b, a)]
    assert everything[::-1][:2] == first
    small.clear()
    assert explore_all([a, b, c, d], file) == [everything[3], everything[2], everything[1], everything[0]]
    assert small == []
    assert sorted(record.id for record in explored(file)) == sorted(case.id for case in (a, b, c, d))
    assert explored(tmp_path / "none.jsonl") == []


def test_the_table_divides_by_the_random_variance() -> None:
    common: dict[str, Any] = {"dataset": "d", "edits_per_node": 1, "learner": "paper", "lr": 0.1, "steps": 40}
    common |= {"id": "x", "views": 3, "nodes": 9, "curve": {}}
    records = [
        Explored(**common, seed=0, last=6.0, control=2.0, random=2.0, distinct=[2.0, 1.0, 1.5]),
        Explored(**common, seed=1, last=5.0, control=4.0, random=1.0, distinct=[3.0, 4.0, 1.0]),
        Explored(**common | {"lr": 1.0}, seed=2, last=1e-9, control=2e-9, random=5e-10, distinct=[1.0, 1.0, 1.0]),
    ]
    table = exploring_table(records)
    assert [list(row) for row in table.rows] == [
        ["d", "1", "paper", "0.1", "1.5e+00", "4.0 (3.0–5.0)", "2.5", "1.0 to 3.0", "2"],
        ["d", "1", "paper", "1", "5.0e-10", "2.0", "4.0", "1.0 to 1.0", "1"],
    ]
    assert "after 40 steps" in table.title
    short = rates_table(records)
    assert short.columns[3:5] == ["lr 0.1", "lr 1"]
    assert [list(row) for row in short.rows] == [["d", "1", "paper", "4.0 (2.5)", "2.0 (4.0)", "3"]]


def test_the_bounded_policy_stands_below_the_exact_one() -> None:
    common: dict[str, Any] = {"id": "x", "edits_per_node": 1, "lr": 0.1, "steps": 40, "seed": 0, "views": 3, "nodes": 9}
    common |= {"curve": {}, "last": 6.0, "control": 2.0, "random": 2.0, "distinct": [1.0]}
    ran = [("d", "paper, bounded"), ("d", "own credit, bounded"), ("e", "paper, bounded"), ("d", "paper")]
    records = [Explored(**common, dataset=dataset, learner=learner) for dataset, learner in ran]
    expected = [("d", "paper"), ("d", "paper, bounded"), ("d", "own credit, bounded"), ("e", "paper, bounded")]
    for table in (rates_table(records), exploring_table(records)):
        assert [(row[0], row[2]) for row in table.rows] == expected


def test_a_graph_of_one_node_has_nothing_to_explore() -> None:
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 1)
    with pytest.raises(GraphshiftError, match="a graph of one node has no pairs to explore"):
        exploring._drawn(View(graph, torch.empty(0, dtype=torch.int64)))


def test_long_cases_have_an_exact_and_a_bounded_policy(tmp_path: Path) -> None:
    wanted = exploring.long_cases(["planted-structure"], 1, steps=40)
    assert [case.learner.endswith(exploring.BOUNDED) for case in wanted] == [False, True] * 2
    assert {case.edits_per_node for case in wanted} == {1, 5}
    exact, bounded = (exploring._reinforce(case, {"credit": "shared"}, 0, 0) for case in wanted[:2])
    assert (exact.entries_per_node, bounded.entries_per_node) == (None, 64)
    rising = [1.0, 2.0, 3.0, 4.0, 5.0]
    records = [
        Explored(
            id=case.id, dataset=case.dataset, learner=case.learner, lr=case.lr, edits_per_node=case.edits_per_node,
            steps=40, seed=0, views=3, nodes=10, curve={"step": [8, 16, 24, 32, 40], "variance": rising},
            last=5.0, control=1.0, random=0.5, distinct=[1.0],
        )
        for case in wanted
    ]  # fmt: skip
    table = long_table(records)
    assert [row[4] for row in table.rows].count("exact") == 2
    assert table.rows[0][-6:] == ["2.0", "4.0", "6.0", "8.0", "10.0", "2.0"]
