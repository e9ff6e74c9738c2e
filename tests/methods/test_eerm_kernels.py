"""EERM with explorers in threads, and with and without kernels in C: the same training."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphshift.backbones import GCN
from graphshift.data.environment import Environment
from graphshift.datasets.planted import planted
from graphshift.explorers import Explorer, Random, Reinforce, Risk, View
from graphshift.graph import kernels
from graphshift.graph.graph import Graph
from graphshift.graph.kernels import native
from graphshift.methods import EERMMethod
from graphshift.methods.eerm import EERM
from small import assert_close, copied, environments, identical

Make = Callable[[int, int], Explorer]
EXPLORERS: dict[str, Make] = {
    "random": lambda m, k: Random(2, seed=10 * m + k),
    "reinforce": lambda m, k: Reinforce(2, lr=1.0, seed=10 * m + k),
    "reinforce, bounded": lambda m, k: Reinforce(2, lr=1.0, entries_per_node=5, seed=10 * m + k),
    "reinforce, directed": lambda m, k: Reinforce(2, lr=1.0, optimizer="sgd", directed=True, seed=10 * m + k),
}


@pytest.fixture(scope="module")
def training() -> list[Environment]:
    return [*planted(150, environments=3).train, *planted(100, environments=3, seed=1).train]


def use_threads(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """For explorers. Torch's own sums go on in one thread: in two they have other rounding."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: count)


def trained(
    training: list[Environment], make: Make, steps: int = 6, **options: Any
) -> tuple[EERMMethod, list[dict[str, float]]]:
    torch.manual_seed(0)
    backbone = GCN(training[0].num_features, training[0].task.num_classes, hidden_channels=8, dropout=0.2)
    method = EERMMethod(backbone, EERM(**{"views": 3, "inner_steps": 2} | options), make)
    return method, [method.step(training, 0.0) for _ in range(steps)]


@pytest.mark.parametrize("name", EXPLORERS)
def test_explorers_in_threads_change_no_bit(
    name: str, training: list[Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    for threads in (1, 2):
        use_threads(monkeypatch, threads)
        method, rows = trained(training, EXPLORERS[name])
        assert (method.kept._pool is not None) == (threads == 2)
        runs.append((rows, copied(method.state())))
    assert runs[0][0] == runs[1][0]  # risks, variances, losses
    assert identical(runs[0][1], runs[1][1])  # weights, optimiser, policies, generators
    assert len({row["risk"] for row in runs[0][0]}) == 6


def test_explorers_in_threads_change_no_bit_beside_torchs_own_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    before, runs = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        for side_by_side in (True, False):
            monkeypatch.setattr(Reinforce, "side_by_side", side_by_side)
            method, rows = trained(environments(1), EXPLORERS["reinforce"], steps=2, views=2, inner_steps=1)
            assert (method.kept._pool is not None) == side_by_side
            runs.append((rows, copied(method.state())))
    finally:
        torch.set_num_threads(before)
    assert runs[0][0] == runs[1][0]
    assert identical(runs[0][1], runs[1][1])


class Meeting(Explorer):
    """Proposes only when another does at the same time, in another thread."""

    side_by_side = True

    def __init__(self, together: threading.Barrier, seen: list[int]) -> None:
        super().__init__(1)
        self.together, self.seen = together, seen

    def propose(self, graph: Graph, risk: Risk | None = None) -> View:
        self.seen.append(threading.get_ident())
        self.together.wait(timeout=20)
        return View(graph, torch.empty(0, dtype=torch.int64))

    def learn(self, view: View, reward: float) -> None:
        self.seen.append(threading.get_ident())
        self.together.wait(timeout=20)


def test_explorers_work_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    use_threads(monkeypatch, 2)
    together, seen = threading.Barrier(2), list[int]()
    trained(environments(1), lambda m, k: Meeting(together, seen), steps=2, views=2, inner_steps=1)
    assert len(seen) == 8
    assert threading.get_ident() not in seen
    assert len(set(seen)) == 2


@pytest.mark.parametrize("alone", ["one thread", "not side by side", "needs the risk"])
def test_explorers_work_one_after_the_other_where_they_must(alone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_threads(monkeypatch, 1 if alone == "one thread" else 2)
    seen: list[int] = []

    def make(m: int, k: int) -> Explorer:
        explorer = Meeting(threading.Barrier(1), seen)
        explorer.side_by_side = alone != "not side by side" or k == 0  # one of them is enough
        explorer.needs_risk = alone == "needs the risk" and k == 1
        return explorer

    trained(environments(1), make, steps=1, views=2, inner_steps=1)
    # Who asks for the risk does so while it proposes; what it learns afterwards needs nobody.
    assert set(seen[:2] if alone == "needs the risk" else seen) == {threading.get_ident()}


def test_an_error_in_a_thread_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Random):
        def propose(self, graph: Graph, risk: Risk | None = None) -> View:
            raise RuntimeError("inside")

    use_threads(monkeypatch, 2)
    with pytest.raises(RuntimeError, match="inside"):
        trained(environments(1), lambda m, k: Broken(1))


@pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
@pytest.mark.parametrize("name", EXPLORERS)
def test_training_is_the_same_without_kernels(
    name: str, training: list[Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    for library in (native.LIBRARY, None):
        monkeypatch.setattr(native, "LIBRARY", library)
        method, rows = trained(training, EXPLORERS[name], steps=4)
        actions = [e.propose(training[m].graph).actions for m, row in enumerate(method.explorers) for e in row]
        runs.append((rows, actions))
    (fast, drawn), (plain, drawn_plainly) = runs
    for left, right in zip(fast, plain, strict=True):
        assert left == pytest.approx(right, rel=1e-3, abs=1e-7)
    assert all(torch.equal(left, right) for left, right in zip(drawn, drawn_plainly, strict=True))


@pytest.mark.parametrize("library", ["kernels", "plain"])
@pytest.mark.parametrize("name", EXPLORERS)
def test_low_memory_gives_the_same_gradient_of_views(
    name: str, library: str, training: list[Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    if library == "plain":
        monkeypatch.setattr(native, "LIBRARY", None)
    monkeypatch.setattr(EERMMethod, "descend", lambda self: None)
    gradients = []
    for low_memory in (False, True):
        method, _ = trained(training, EXPLORERS[name], steps=1, low_memory=low_memory)
        gradients.append({name: p.grad for name, p in method.backbone.named_parameters()})
    assert max(g.abs().max() for g in gradients[0].values()) > 1e-2
    assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-6)
