"""EERM with the paper's explorer is Algorithm 1: 30 epochs against a dense one by autograd and ``torch.optim``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import graphshift as gs
from algorithm_1 import DenseAlgorithm1, drawn
from graphshift.backbones import GCN
from graphshift.data.environment import Environment
from graphshift.explorers import Reinforce, View
from graphshift.explorers.policy import SparsePolicy
from graphshift.graph.graph import Graph
from graphshift.lab.paper import EXPERIMENTS, Size, plan_of
from graphshift.methods import EERMMethod
from graphshift.methods.eerm import EERM
from policies import logits_of
from reference import dense_of, random_data
from small import environments

EPOCHS = 30
#: Learning rates at which 30 epochs change the policies a lot; the variance is about 1e-3.
EXPLORERS: dict[str, tuple[type[torch.optim.Optimizer], float]] = {
    "sgd": (torch.optim.SGD, 300.0),
    "adam": (torch.optim.Adam, 0.3),
}
OFF = ~torch.eye(24, dtype=torch.bool)


@pytest.fixture
def double() -> Iterator[None]:
    """Everything in float64, so that what differs is not rounding."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def uniforms(epoch: int, t: int, k: int, nodes: int, s: int) -> Tensor:
    generator = torch.Generator().manual_seed(1 + k + 100 * t + 10_000 * epoch)
    return torch.rand(nodes, s, generator=generator, dtype=torch.float64)


class Told(Reinforce):
    """The paper's explorer in float64; it draws from its own policy with random numbers that it is told."""

    def __init__(self, k: int, s: int, steps: int, **options: Any) -> None:
        super().__init__(s, entries_per_node=None, **options)
        self.k, self.steps, self.count, self.logs = k, steps, 0, []

    def propose(self, graph: Graph, risk: Any = None) -> View:
        if self.policy is None:
            how: dict[str, Any] = {"optimizer": self.optimizer, "lr": self.lr, "dtype": torch.float64}
            self.policy = SparsePolicy(graph.num_nodes, **how)
        epoch, t = divmod(self.count, self.steps)
        self.count += 1
        uniform = uniforms(epoch, t, self.k, graph.num_nodes, self.edits_per_node)
        columns = drawn(logits_of(self.policy).softmax(dim=1), uniform).int()
        self.logs.append(self.policy.log_prob(columns))
        return View.of_actions(graph, columns, self.logs[-1], directed=self.directed)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("T", "K", "s"), [(1, 3, 5), (3, 2, 2)])
@pytest.mark.parametrize("optimizer", EXPLORERS)
def test_thirty_epochs_are_those_of_the_dense_algorithm(optimizer: str, T: int, K: int, s: int, directed: bool) -> None:
    """Both draw from their own policies with the same random numbers, so a policy that differs is seen in θ too."""
    torch.manual_seed(0)
    (environment,) = environments(1)
    environment.x = environment.x.double()  # which enters as float32
    backbone = GCN(5, 3, hidden_channels=6)
    kind, lr = EXPLORERS[optimizer]
    method = EERMMethod(
        backbone,
        EERM(views=K, inner_steps=T, edits_per_node=s, beta=0.7, lr=0.02, weight_decay=0.1, directed_edits=directed),
        lambda m, k: Told(k, s, T, optimizer=optimizer, lr=lr, directed=directed),
    )
    dense = twin(
        environment, backbone, views=K, steps=T, beta=0.7, lr=0.02, weight_decay=0.1, explorer=kind,
        explorer_options={"lr": lr}, directed=directed,
    )  # fmt: skip
    for epoch in range(EPOCHS):
        told = dense.epoch(lambda t, k, p, epoch=epoch: drawn(p, uniforms(epoch, t, k, len(p), s)))
        row = method.step([environment], 0.0)
        assert row["risk"] == pytest.approx(sum(told[-1][0]) / K, rel=1e-8)
        for k, explorer in enumerate(method.explorers[0]):
            assert explorer.logs[-T:] == pytest.approx([logs[k] for _, logs in told], rel=1e-8)
    for name, parameter in backbone.named_parameters():
        assert float((parameter - dense.theta[name]).detach().abs().max()) < 1e-8, name
    for explorer, policy in zip(method.explorers[0], dense.policies, strict=True):
        torch.testing.assert_close(logits_of(explorer.policy)[OFF], policy.logits.detach()[OFF], rtol=1e-7, atol=1e-7)
        likeliest = policy.log_softmax().exp().max(dim=1).values
        assert float(likeliest.max().detach()) > 3 / 23  # it has learned: at first each has 1 / 23
        assert explorer.policy.touched > 23 * 2


@pytest.mark.parametrize(("optimizer", "lr"), [("adam", None), ("adam", 0.3), ("sgd", 300.0)])
def test_a_fit_with_the_papers_preset_is_the_dense_algorithm(
    optimizer: str, lr: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``fit`` with the settings of the preset ``paper`` (Cora), unbounded, in float32, with its own draws.

    Once with the preset's learning rate of explorers, and with rates at which they learn a lot in 30 epochs.
    """
    settings = dict(plan_of(EXPERIMENTS["cora-gcn"], "paper", Size()).arms[1].settings)
    assert (settings.pop("method"), settings["directed_edits"], settings.get("dropout", 0.0)) == ("eerm", True, 0.0)
    settings |= {"epochs": EPOCHS, "selection": "last", "seed": 3, "hidden_channels": 8}
    learning = {"explorer_optimizer": optimizer, "explorer_lr": lr or settings["explorer_lr"]}
    settings |= learning | {"explorer_options": {"entries_per_node": None}}
    made, kept = recorded(monkeypatch)

    data = random_data(80, classes=3, density=0.08, features=12, seed=5)
    data.mask = torch.arange(80) % 3 != 0
    environment = Environment("e", data, gs.Task("multiclass", 3))
    start = gs.EERM(**settings | {"epochs": 1, "lr": 1e-30}).fit([environment]).backbone_
    made.clear()
    kept.clear()
    model = gs.EERM(**settings).fit([environment])
    K, T = model.views, model.inner_steps
    assert len(made) == K
    dense = twin(
        environment, start, views=K, steps=T, beta=model.beta, lr=model.lr, weight_decay=model.weight_decay,
        explorer=EXPLORERS[optimizer][0], explorer_options={"lr": model.explorer_lr}, directed=True,
    )  # fmt: skip
    for epoch in range(EPOCHS):
        told = dense.epoch(lambda t, k, p, epoch=epoch: kept[id(made[k])][epoch * T + t][0])
        for t, (_, logs) in enumerate(told):
            own = [kept[id(explorer)][epoch * T + t][1] for explorer in made]
            assert own == pytest.approx(logs, rel=1e-5)
        row = model.history_[epoch]
        assert row["risk"] == pytest.approx(sum(told[-1][0]) / K, rel=1e-5)
    trained, before = dict(model.backbone_.named_parameters()), dict(start.named_parameters())
    for name in dense.theta.keys() - {"layers.0.bias"}:  # which batch normalisation takes off: its gradient is rounding
        torch.testing.assert_close(trained[name].double(), dense.theta[name], rtol=0, atol=1e-5)
    assert max(float((trained[name] - before[name]).detach().abs().max()) for name in trained) > 0.1
    off = ~torch.eye(80, dtype=torch.bool)
    for explorer, policy in zip(made, dense.policies, strict=True):
        found, expected = logits_of(explorer.policy)[off], policy.logits.detach()[off]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        assert float(expected.std()) > (0.1 if lr else 0.01)
        if lr is None:  # draws are still spread over many columns, of which a bounded policy keeps 64
            assert explorer.policy.touched > 64 * 80


def recorded(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Reinforce], dict[int, list[tuple[Tensor, float]]]]:
    """The explorers that EERM makes from now on, and what each draws, with log p."""
    made: list[Reinforce] = []
    kept: dict[int, list[tuple[Tensor, float]]] = {}
    make, propose = EERM.make_explorer, Reinforce.propose

    def keeping(self: EERM, m: int, k: int) -> Any:
        made.append(make(self, m, k))
        return made[-1]

    def proposing(self: Reinforce, graph: Any, risk: Any = None) -> View:
        view = propose(self, graph, risk)
        kept.setdefault(id(self), []).append((view.actions.clone(), view.log_prob))
        return view

    monkeypatch.setattr(EERM, "make_explorer", keeping)
    monkeypatch.setattr(Reinforce, "propose", proposing)
    return made, kept


def twin(environment: Environment, backbone: Any, **options: Any) -> DenseAlgorithm1:
    """The dense algorithm on the same graph, from the same weights."""
    return DenseAlgorithm1(
        dict(backbone.named_parameters()),
        environment.x,
        environment.y,
        environment.mask,
        dense_of(environment.data),
        **options,
    )
