"""EERM's step is Algorithm 1, in its order, held against a straight-line implementation."""

from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import graphshift as gs
from graphshift.backbones import BACKBONES, GCN, Backbone, ModuleBackbone
from graphshift.data.environment import Environment
from graphshift.explorers import Explorer, Random, Reinforce, Risk, View
from graphshift.graph.graph import Graph
from graphshift.methods import EERMMethod
from graphshift.methods.eerm import EERM
from small import OwnModule, assert_close, copied, environments, identical

# Batch normalisation takes the bias before it off: its gradient is zero but for rounding, which Adam blows up.
IDLE = ("layers.0.bias", "norms.0.running_mean", "module.first.bias", "module.norm.running_mean")


def learner(m: int, k: int, **options: Any) -> Reinforce:
    """An explorer that learns fast enough for its next draws to differ."""
    return Reinforce(2, **{"lr": 2.0, "seed": 100 * m + k} | options)


def risk_of(backbone: Backbone, environment: Environment, graph: Graph) -> torch.Tensor:
    assert environment.y is not None
    return F.cross_entropy(backbone(environment.x, graph)[environment.mask], environment.y[environment.mask])


def algorithm_1(
    backbone: Backbone,
    optimizer: torch.optim.Optimizer,
    training: list[Environment],
    explorers: list[list[Explorer]],
    T: int,
    beta: float,
) -> list[list[float]]:
    """One outer iteration, line by line; returns the risks of t = 1 … T."""
    told = []
    for t in range(1, T + 1):
        views = [[explorer.propose(e.graph) for explorer in row] for e, row in zip(training, explorers, strict=True)]
        # Before t = T the risks are only looked at: a copy has the batch normalisation's statistics to itself.
        network = backbone if t == T else copy.deepcopy(backbone)
        risks = [risk_of(network, e, v.graph) for e, row in zip(training, views, strict=True) for v in row]
        told.append([risk.item() for risk in risks])
        mean = sum(risks) / len(risks)
        variance = sum((risk - mean) ** 2 for risk in risks) / (len(risks) - 1)
        for row, proposed in zip(explorers, views, strict=True):
            for explorer, view in zip(row, proposed, strict=True):
                explorer.learn(view, variance.item())
        if t == T:
            optimizer.zero_grad()
            (variance + beta * mean).backward()
            optimizer.step()
    return told


def shown(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in state.items() if name not in IDLE}


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize(("T", "count", "K"), [(1, 1, 2), (1, 2, 3), (3, 1, 3), (3, 2, 2)])
def test_steps_are_those_of_algorithm_1(T: int, count: int, K: int, optimizer: str) -> None:
    training = environments(count)
    backbone = GCN(5, 3, hidden_channels=6).train()
    twin = copy.deepcopy(backbone)
    options = {"optimizer": optimizer, "lr": 2.0 if optimizer == "adam" else 3000.0}
    method = EERMMethod(
        backbone,
        EERM(views=K, inner_steps=T, beta=0.7, lr=0.02, weight_decay=0.1, reward_variance="pooled"),
        lambda m, k: learner(m, k, **options),
    )
    explorers = [[learner(m, k, **options) for k in range(K)] for m in range(count)]
    adam = torch.optim.AdamW(twin.parameters(), lr=0.02, weight_decay=0.1)
    for _ in range(4):  # the explorers persist over the epochs
        told = algorithm_1(twin, adam, training, explorers, T, 0.7)
        row = method.step(training, 0.0)
        assert len(told[-1]) == count * K
        assert row["risk"] == pytest.approx(np.mean(told[-1]), rel=1e-4)
        assert row["variance"] == pytest.approx(np.var(told[-1], ddof=1), rel=1e-2, abs=1e-9)
        assert row["loss"] == pytest.approx(row["variance"] + 0.7 * row["risk"], rel=1e-5)
    assert_close(shown(backbone.state_dict()), shown(twin.state_dict()), rtol=1e-3, atol=1e-5)
    for ours, theirs in zip(method.explorers, explorers, strict=True):
        for left, right in zip(ours, theirs, strict=True):
            assert left.policy.steps == 4 * T
            torch.testing.assert_close(left.policy.dense_logits(), right.policy.dense_logits(), rtol=1e-2, atol=1e-2)
            assert torch.equal(left.generator.get_state(), right.generator.get_state())


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("over", ["pooled", "within"])
def test_an_anchor_is_the_risk_without_edits_in_the_mean(over: str, low_memory: bool) -> None:
    """Steps of SGD by hand: Var + β ((1 − a) mean of views + a mean of graphs as they are)."""
    training, K, a, beta = environments(2), 3, 0.3, 0.7
    backbone = GCN(5, 3, hidden_channels=6).train()
    twin = copy.deepcopy(backbone)
    options = {"views": K, "beta": beta, "anchor": a, "variance": over, "low_memory": low_memory}
    method = EERMMethod(backbone, EERM(**options, lr=0.02, weight_decay=0.1), lambda m, k: Random(1, seed=9 * m + k))
    same = [[Random(1, seed=9 * m + k) for k in range(K)] for m in range(2)]
    adam = torch.optim.AdamW(twin.parameters(), lr=0.02, weight_decay=0.1)
    for _ in range(3):
        row = method.step(training, 0.0)
        views = [[one.propose(e.graph).graph for one in mine] for e, mine in zip(training, same, strict=True)]
        risks = torch.stack([risk_of(twin, e, g) for e, mine in zip(training, views, strict=True) for g in mine])
        whole = torch.stack([risk_of(twin, e, e.graph) for e in training])
        spread = risks.view(2, K).var(dim=1).mean() if over == "within" else risks.var()
        loss = spread + beta * ((1 - a) * risks.mean() + a * whole.mean())
        adam.zero_grad()
        loss.backward()
        adam.step()
        assert row["loss"] == pytest.approx(loss.item(), rel=1e-4)
        assert abs(float((whole.mean() - risks.mean()).detach())) > 1e-3  # else no anchor would pass as well
    assert_close(shown(backbone.state_dict()), shown(twin.state_dict()), rtol=1e-3, atol=1e-5)


def trained(steps: int = 4, *, count: int = 1, seed: int = 0, make: Any = learner, **options: Any) -> EERMMethod:
    torch.manual_seed(seed)
    backbone = options.pop("backbone", None) or GCN(5, 3, hidden_channels=6, dropout=options.pop("dropout", 0.0))
    method = EERMMethod(backbone, EERM(**{"views": 2, "inner_steps": 2} | options), make)
    method.training = environments(count)  # type: ignore[attr-defined]  # explorers go with their environments
    for i in range(steps):
        method.step(method.training, i / max(steps - 1, 1))  # type: ignore[attr-defined]
    return method


def test_what_explorers_learn_reaches_the_gnn() -> None:
    def weights(lr: float, **options: Any) -> dict[str, torch.Tensor]:
        method = trained(make=lambda m, k: learner(m, k, lr=lr), views=3, **options)
        return method.backbone.state_dict()

    assert not identical(weights(0.5), weights(0.0))
    # What decides only how explorers learn changes nothing if they do not.
    assert identical(weights(0.0), weights(0.0, credit="difference"))
    assert not identical(weights(0.5), weights(0.5, credit="difference"))
    control = [
        trained(make=lambda m, k: Random(2, seed=k), reset_explorers=r, credit=c).backbone.state_dict()
        for r, c in ((False, "shared"), (True, "shared"), (False, "difference"))
    ]
    assert identical(control[0], control[1])
    assert identical(control[0], control[2])


def test_learning_at_t_below_T_reaches_the_same_steps_views() -> None:
    """With one epoch, only explorers that learn before the GNN's step can change its weights."""
    once = [trained(1, inner_steps=3, make=lambda m, k, lr=lr: learner(m, k, lr=lr)) for lr in (0.0, 2.0)]
    assert not identical(once[0].backbone.state_dict(), once[1].backbone.state_dict())
    once = [trained(1, inner_steps=1, make=lambda m, k, lr=lr: learner(m, k, lr=lr)) for lr in (0.0, 2.0)]
    assert identical(once[0].backbone.state_dict(), once[1].backbone.state_dict())


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("name", BACKBONES)
def test_every_parameter_and_every_logit_that_should_move_does(name: str, low_memory: bool) -> None:
    torch.manual_seed(1)
    backbone = BACKBONES[name](5, 3, hidden_channels=6, num_layers=3, dropout=0.1)
    before = copied(dict(backbone.named_parameters()))
    method = trained(2, backbone=backbone, count=2, low_memory=low_memory)
    still = {n for n, p in backbone.named_parameters() if torch.equal(p, before[n])}
    assert still <= {"layers.0.bias", "layers.1.bias"}  # batch normalisation takes them off
    for row in method.explorers:
        for explorer in row:
            # The MLP sees no edges, A2GNN none in training: all views of a graph have one risk, and nothing is to be
            # learned but rounding.
            logits = explorer.policy.dense_logits()
            moved = (logits - logits[0, 1]).masked_fill(torch.isinf(logits), 0).abs()
            assert (moved.amax(dim=1) > 0).all() or name in ("mlp", "a2gnn")


class Watching(Explorer):
    """Proposes scripted graphs and remembers all that it is told."""

    def __init__(self, log: list[Any], m: int = 0, k: int = 0, backbone: Backbone | None = None) -> None:
        super().__init__(1, seed=10 * m + k)
        self.log, self.place, self.backbone, self.random = log, (m, k), backbone, Random(1, seed=10 * m + k)

    def propose(self, graph: Graph, risk: Risk | None = None) -> View:
        view = self.random.propose(graph)
        self.log.append(("propose", self.place, view, self._weights()))
        return view

    def learn(self, view: View, reward: float) -> None:
        self.log.append(("learn", self.place, view, self._weights(), reward))

    def reset(self) -> None:
        self.log.append(("reset", self.place, None, self._weights()))

    def _weights(self) -> dict[str, torch.Tensor]:
        return {} if self.backbone is None else copied(dict(self.backbone.named_parameters()))


def test_the_order_is_algorithm_1s() -> None:
    log: list[Any] = []
    backbone = GCN(5, 3, hidden_channels=6)
    method = EERMMethod(backbone, EERM(views=2, inner_steps=3), lambda m, k: Watching(log, m, k, backbone))
    training = environments(2)
    for _ in range(2):
        log.clear()
        start = copied(dict(backbone.named_parameters()))
        method.step(training, 0.0)
        pairs = [(m, k) for m in range(2) for k in range(2)]
        assert [entry[:2] for entry in log] == [
            (what, p) for _ in range(3) for what in ("propose", "learn") for p in pairs
        ]
        assert all(identical(entry[3], start) for entry in log)  # θ waits for line 9
        assert not identical(dict(backbone.named_parameters()), start)
        for t in range(3):  # each learns from the view that it proposed
            proposed, learned = log[8 * t : 8 * t + 4], log[8 * t + 4 : 8 * t + 8]
            assert all(p[2] is q[2] for p, q in zip(proposed, learned, strict=True))


@pytest.mark.parametrize("low_memory", [False, True])
def test_running_statistics_are_those_of_the_last_views_alone(low_memory: bool) -> None:
    log: list[Any] = []
    training = environments(2)
    for backbone in (GCN(5, 3, hidden_channels=6, num_layers=3), ModuleBackbone(OwnModule(), 3)):
        log.clear()
        for norm in (m for m in backbone.modules() if isinstance(m, torch.nn.BatchNorm1d)):
            norm.momentum = None if isinstance(backbone, ModuleBackbone) else 0.1  # None: a plain mean of all passes
        twin = copy.deepcopy(backbone).train()
        method = EERMMethod(
            backbone, EERM(views=2, inner_steps=3, low_memory=low_memory), lambda m, k: Watching(log, m, k)
        )
        method.step(training, 0.0)
        for _, (m, _), view, _ in [entry for entry in log if entry[0] == "propose"][-4:]:
            twin(training[m].x, view.graph)
        ours, theirs = dict(backbone.named_buffers()), dict(twin.named_buffers())
        assert ours
        assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
        assert {int(t) for name, t in ours.items() if name.endswith("num_batches_tracked")} == {4}


@pytest.mark.parametrize("kind", ["gcn", "gat", "gcnii", "own", "mlp"])
def test_low_memory_gives_the_same_steps(kind: str) -> None:
    results = []
    for low_memory in (False, True):
        torch.manual_seed(3)
        backbone = (
            ModuleBackbone(OwnModule(dropout=0.5), 3)
            if kind == "own"
            else BACKBONES[kind](5, 3, hidden_channels=6, num_layers=2, dropout=0.5)
        )
        method = trained(4, backbone=backbone, count=2, low_memory=low_memory, beta=0.5, views=3, clip=1.0)
        results.append((method, torch.get_rng_state()))
    (normal, left), (lean, right) = results
    assert torch.equal(left, right)  # as many dropout masks were drawn
    assert_close(shown(lean.backbone.state_dict()), shown(normal.backbone.state_dict()), rtol=1e-3, atol=2e-4)
    for ours, theirs in zip(lean.explorers[1], normal.explorers[1], strict=True):
        assert torch.equal(ours.generator.get_state(), theirs.generator.get_state())
        assert ours.policy.steps == theirs.policy.steps == 8


@pytest.mark.parametrize("kind", ["gcn", "own"])
def test_low_memory_gives_the_same_gradient(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = []
    for low_memory in (False, True):
        torch.manual_seed(3)
        dropout = {"dropout": 0.5}
        backbone = ModuleBackbone(OwnModule(**dropout), 3) if kind == "own" else GCN(5, 3, hidden_channels=6, **dropout)
        method = EERMMethod(backbone, EERM(views=3, inner_steps=2, low_memory=low_memory), learner)
        monkeypatch.setattr(method, "descend", lambda: None)
        method.step(environments(2), 0.0)
        gradients.append({name: p.grad for name, p in backbone.named_parameters()})
    assert max(g.abs().max() for g in gradients[0].values()) > 1e-2
    assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("credit", ["shared", "difference"])
def test_rewards_are_the_variance_or_what_a_view_adds_to_it(credit: str) -> None:
    log: list[Any] = []
    backbone = GCN(5, 3, hidden_channels=6).train()
    twin = copy.deepcopy(backbone)
    training = environments(2)
    EERMMethod(backbone, EERM(views=3, credit=credit, reward_variance="pooled"), lambda m, k: Watching(log, m, k)).step(
        training, 0.0
    )
    views = [(place, view) for what, place, view, *_ in log if what == "propose"]
    risks = np.array([risk_of(twin, training[m], view.graph).item() for (m, _), view in views], dtype=np.float64)
    rewards = [entry[4] for entry in log if entry[0] == "learn"]
    whole = risks.var(ddof=1)
    expected = [whole - np.delete(risks, i).var(ddof=1) if credit == "difference" else whole for i in range(6)]
    np.testing.assert_allclose(rewards, expected, rtol=1e-2, atol=1e-3 * whole)
    assert (len(set(rewards)) == 1) == (credit == "shared")


def test_beta_moves_in_a_straight_line() -> None:
    method = EERMMethod(GCN(5, 3, hidden_channels=6), EERM(beta=1.0, beta_end=11.0, views=2), learner)
    rows = [method.step(environments(1), progress) for progress in (0.0, 0.25, 0.5, 1.0)]
    assert [row["beta"] for row in rows] == [1.0, 3.5, 6.0, 11.0]
    for row in rows:
        assert row["loss"] == pytest.approx(row["variance"] + row["beta"] * row["risk"], rel=1e-5)
    constant = EERMMethod(GCN(5, 3, hidden_channels=6), EERM(beta=2.0, views=2), learner)
    assert [constant.step(environments(1), progress)["beta"] for progress in (0.0, 1.0)] == [2.0, 2.0]


def test_beta_weighs_the_gradient_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = []
    for progress in (0.0, 1.0):
        torch.manual_seed(0)
        method = EERMMethod(GCN(5, 3, hidden_channels=6), EERM(beta=1.0, beta_end=10000.0, views=2), learner)
        monkeypatch.setattr(method, "descend", lambda: None)
        method.step(environments(1), progress)
        gradients.append(torch.cat([p.grad.flatten() for p in method.backbone.parameters() if p.grad is not None]))
    assert gradients[1].norm() / gradients[0].norm() == pytest.approx(1e4, rel=0.2)


def test_explorers_are_reset_at_every_step_only_if_asked() -> None:
    assert [e.policy.steps for e in trained(3, reset_explorers=True).explorers[0]] == [2, 2]
    assert [e.policy.steps for e in trained(3).explorers[0]] == [6, 6]
    log: list[Any] = []
    method = EERMMethod(GCN(5, 3), EERM(views=2, reset_explorers=True), lambda m, k: Watching(log, m, k))
    training = environments(1)
    for _ in range(2):
        log.clear()
        method.step(training, 0.0)
        assert [entry[0] for entry in log] == ["reset", "reset", "propose", "propose", "learn", "learn"]


def test_explorers_are_made_once_for_each_environment_and_view() -> None:
    made: list[tuple[int, int]] = []

    def make(m: int, k: int) -> Explorer:
        made.append((m, k))
        return Random(1, seed=10 * m + k)

    method, training = EERMMethod(GCN(5, 3, hidden_channels=6), EERM(views=3), make), environments(2)
    for _ in range(3):
        method.step(training, 0.0)
    assert made == [(m, k) for m in range(2) for k in range(3)]


def test_the_stem_runs_once_for_each_environment_and_step() -> None:
    class Counting(GCN):
        stems = propagations = 0

        def stem(self, x: Any) -> torch.Tensor:
            self.stems += 1
            return super().stem(x)

        def propagate(self, h: torch.Tensor, graph: Graph) -> torch.Tensor:
            self.propagations += 1
            return super().propagate(h, graph)

    for low_memory, last in ((False, 1), (True, 2)):
        backbone = Counting(5, 3, hidden_channels=6)
        method = EERMMethod(backbone, EERM(views=4, inner_steps=3, low_memory=low_memory), learner)
        for step in (1, 2):
            method.step(environments(2), 0.0)
            assert backbone.stems == 2 * step
            assert backbone.propagations == 2 * 4 * (2 + last) * step


class Guided(Explorer):
    """Asks for the gradient of the risk with respect to edge weights, and checks it by finite differences."""

    needs_risk = True
    seen: list[tuple[float, float, float]]

    def propose(self, graph: Graph, risk: Risk | None = None) -> View:
        assert risk is not None
        weight = torch.ones(graph.num_edges).requires_grad_()
        value = risk(Graph.from_keys(graph.num_nodes, graph.keys, weight, undirected=graph.undirected))
        (gradient,) = torch.autograd.grad(value, weight)
        step = 1e-2 * gradient / gradient.norm()
        around = [
            risk(Graph.from_keys(graph.num_nodes, graph.keys, (weight + sign * step).detach(), undirected=False)).item()
            for sign in (1, -1)
        ]
        self.seen.append((value.item(), gradient.norm().item(), (around[0] - around[1]) / 2e-2))
        return View(graph, torch.empty(0, dtype=torch.int64))


def test_an_explorer_that_follows_gradients_gets_a_risk_that_works() -> None:
    seen: list[tuple[float, float, float]] = []

    def make(m: int, k: int) -> Explorer:
        explorer = Guided(1) if k == 0 else Random(1, seed=k)
        explorer.seen = seen  # type: ignore[attr-defined]
        return explorer

    (environment,) = environments(1)
    backbone = GCN(5, 3, hidden_channels=6).train()
    twin = copy.deepcopy(backbone)
    EERMMethod(backbone, EERM(views=2, lr=1e-09, weight_decay=0.0), make).step([environment], 0.0)
    ((value, slope, measured),) = seen
    assert value == pytest.approx(risk_of(twin, environment, environment.graph).item(), rel=1e-4)
    assert slope > 1e-3
    assert measured == pytest.approx(slope, rel=0.05)
    # Looking left nothing behind: the statistics are those of the step's two passes.
    assert int(backbone.norms[0].num_batches_tracked) == 2


def test_what_was_made_for_an_environment_belongs_to_it() -> None:
    """Not to its place: views of b are made from b's graph, by b's explorers, after a step on a alone."""
    a, b = environments(2)
    method = EERMMethod(GCN(5, 3, hidden_channels=6), EERM(views=2), lambda m, k: Random(1, seed=10 * m + k))
    method.step([a], 0.0)
    views, _ = method.explore([b])
    for k, view in enumerate(views[0]):
        assert view.graph.num_nodes == b.num_nodes
        assert torch.equal(view.graph.keys, Random(1, seed=10 + k).propose(b.graph).graph.keys)
    method.step([a, b], 0.0)
    assert len(method.explorers) == 2
    del b, views
    gc.collect()
    assert len(method.explorers) == 1  # nothing is kept of an environment that is gone


def test_explorers_that_watch_the_risk_get_along_with_deep_backbones_in_low_memory() -> None:
    """GCNII computes its layers twice there; the explorer's own pass must not."""
    data = gs.load("planted", nodes=60)
    views = {}
    for low_memory in (False, True):
        model = gs.EERM("gcnii", explorer="gradient", num_layers=6, epochs=3, hidden_channels=8, low_memory=low_memory)
        views[low_memory] = model.fit(data.train, val=data.val).history_[-1]["variance"]
    assert views[True] == pytest.approx(views[False], rel=1e-3)
