"""A step of the policy: kernels, plain code, torch.optim on dense logits, and the rule for full rows, row by row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from graphshift.core.randomness import other_nodes
from graphshift.explorers import SparsePolicy
from graphshift.graph import kernels
from graphshift.graph.kernels import native
from policies import DensePolicy

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adam": {"optimizer": "adam", "lr": 0.1},
    "adam, decay": {"optimizer": "adam", "lr": 0.1, "weight_decay": 0.5},
    "sgd": {"optimizer": "sgd", "lr": 0.3},
    "sgd, decay": {"optimizer": "sgd", "lr": 0.3, "weight_decay": 0.1},
}
#: Nodes, draws, bound, steps. The bounded ones overflow many times; bounds of either parity, for the hand goes in twos.
SHAPES: dict[str, tuple[int, int, int | None, int]] = {
    "two nodes": (2, 3, None, 4),
    "few nodes": (5, 2, None, 15),
    "free": (150, 5, None, 8),
    "bound, odd": (12, 3, 5, 15),
    "bound, even": (18, 2, 6, 15),
    "bound as tight as can be": (15, 4, 5, 10),
    "bound after the room has grown": (60, 4, 20, 12),
}
needs_kernels = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


def lessons(
    shape: str, options: dict[str, Any], size: float = 1.0
) -> Iterator[tuple[SparsePolicy, dict[str, Tensor], Tensor, float]]:
    """Steps of a policy in 32 bits: itself after the step, its state before, the columns drawn, the reward."""
    nodes, draws, bound, steps = SHAPES[shape]
    policy, generator = SparsePolicy(nodes, max_entries=bound, **options), torch.Generator().manual_seed(nodes)
    for step in range(steps):
        before = policy.state()
        columns = policy.sample(draws, generator)
        if step % 2:  # not its own: unlikely ones too
            columns = other_nodes(nodes, draws, step)
        if step % 5 == 4:  # drawn more than once
            columns[:, -1] = columns[:, 0]
        reward = size * math.cos(step)
        policy.reinforce(columns, reward)
        yield policy, before, columns, reward


def scale_of(options: dict[str, Any], size: float) -> Tensor:
    """How far a step goes in logits, and how large the moments are: Adam's steps do not depend on the rewards' size."""
    return torch.tensor([options["lr"] * (1 if options["optimizer"] == "adam" else size), size, size**2])


def in_use(state: dict[str, Tensor], width: int) -> Tensor:
    return torch.arange(width) < state["count"].unsqueeze(1)


# --- the plain code


@needs_kernels
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3], ids="rewards of {:.0e}".format)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_of_the_kernel_is_one_of_the_plain_code(shape: str, name: str, size: float) -> None:
    nodes, _, bound, _ = SHAPES[shape]
    twin = SparsePolicy(nodes, max_entries=bound, **OPTIMIZERS[name])
    for policy, before, columns, reward in lessons(shape, OPTIMIZERS[name], size):
        twin.load_state(before)
        with patch.object(native, "LIBRARY", None):
            twin.reinforce(columns, reward)
        left, right = policy.state(), twin.state()
        assert left.keys() == right.keys()
        for same in ("slot", "count", "hand", "steps"):
            assert torch.equal(left[same], right[same]), same
        assert policy._longest == twin._longest == int(left["count"].max())
        scale = scale_of(OPTIMIZERS[name], size)
        units = {"entry": scale.view(3, 1), "shared": scale.view(3, 1), "top": scale[0], "mass": 1.0}
        for close, unit in units.items():
            loose = 1e-3 if close == "mass" and size > 1 else 1e-5  # exp(logit) of logits that go into the thousands
            torch.testing.assert_close(left[close] / unit, right[close] / unit, rtol=loose, atol=1e-5)


@needs_kernels
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_both_go_the_same_way_over_many_steps(name: str) -> None:
    """Each on its own, from draws of its own."""
    ways = []
    for library in (native.LIBRARY, None):
        policy, generator = SparsePolicy(25, **OPTIMIZERS[name]), torch.Generator().manual_seed(3)
        with patch.object(native, "LIBRARY", library):
            drawn = []
            for step in range(40):
                columns, log_prob = policy.draw(2, generator)
                policy.reinforce(columns, math.cos(step))
                drawn.append((columns.tolist(), pytest.approx(log_prob, rel=1e-5)))
        ways.append((drawn, policy))
    assert ways[0][0] == ways[1][0]
    torch.testing.assert_close(ways[0][1].dense_logits(), ways[1][1].dense_logits(), rtol=1e-4, atol=1e-4)


# --- what is known from the latest draw


def twins(bound: int | None) -> list[SparsePolicy]:
    """Two policies that have learned the same."""
    pair = [SparsePolicy(14, max_entries=bound, **OPTIMIZERS["adam"]) for _ in range(2)]
    for policy in pair:
        for step in range(3):
            policy.reinforce(other_nodes(14, 2, step), math.cos(step))
    return pair


@pytest.mark.parametrize("bound", [None, 5])
@pytest.mark.parametrize(
    "between",
    ["nothing", "it is changed", "another draw", "a step from another draw", "a step from this draw", "a load"],
)
def test_what_happens_between_a_draw_and_learning_from_it_is_noticed(between: str, bound: int | None) -> None:
    """The same draw in another tensor, whose entries have to be looked for, teaches the same."""
    states = []
    for copied, policy in zip((False, True), twins(bound), strict=True):
        old, generator = policy.state(), torch.Generator().manual_seed(6)
        columns = policy.sample(3, generator)
        if between == "it is changed":
            columns.copy_(other_nodes(14, 3, 77))
        elif between == "another draw":
            policy.sample(3, generator)
        elif between == "a step from another draw":
            policy.reinforce(other_nodes(14, 3, 78), 1.0)
        elif between == "a step from this draw":
            policy.reinforce(columns.clone() if copied else columns, 1.0)
        elif between == "a load":
            policy.reinforce(other_nodes(14, 3, 78), 1.0)
            columns = policy.sample(3, generator)
            policy.load_state(old)
        policy.reinforce(columns.clone() if copied else columns, -0.5)
        states.append(policy.state())
        for row, slots in enumerate(states[-1]["slot"].tolist()):
            used = slots[: int(states[-1]["count"][row])]
            assert len(set(used)) == len(used)  # no column has two entries
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@needs_kernels
def test_the_latest_draw_is_not_looked_for_again() -> None:
    policy = twins(5)[0]
    with patch.object(native, "call", wraps=native.call) as kernel:
        policy.reinforce(policy.sample(3, torch.Generator()), 1.0)
        policy.reinforce(other_nodes(14, 3, 1), 1.0)
    known = [call.args[-3] for call in kernel.call_args_list if call.args[0] == "policy_learn_within"]
    assert known == [True, False]


# --- dense logits


def dense_state(policy: SparsePolicy, state: dict[str, Tensor]) -> Tensor:
    """Logits and moments of every slot, ``[3, nodes, slots]``, float64."""
    dense = state["shared"].double().unsqueeze(2).repeat(1, 1, policy.slots)
    for row in range(policy.num_nodes):
        for place in range(int(state["count"][row])):
            dense[:, row, state["slot"][row, place]] = state["entry"][row, :, place].double()
    return dense


def dense_step(before: Tensor, taken: int, slots: Tensor, reward: float, options: dict[str, Any]) -> Tensor:
    """One step of torch.optim on reward · log p, by autograd, in float64."""
    logits = torch.nn.Parameter(before[0].clone())
    rest = {"lr": options["lr"], "weight_decay": options.get("weight_decay", 0.0)}
    if options["optimizer"] == "adam":
        optimizer: torch.optim.Optimizer = torch.optim.AdamW([logits], **rest)
        moments = {"exp_avg": before[1].clone(), "exp_avg_sq": before[2].clone()}
        optimizer.state[logits] = {"step": torch.tensor(float(taken))} | moments
    else:
        optimizer, moments = torch.optim.SGD([logits], **rest), {}
    (-reward * logits.log_softmax(dim=1).gather(1, slots).sum()).backward()
    optimizer.step()
    return torch.stack([logits.detach(), *(moments.values() or before[1:])])


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("size", [1e-6, 1e3], ids="rewards of {:.0e}".format)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("shape", ["few nodes", "bound, odd", "bound as tight as can be"])
def test_a_step_is_one_of_torch_optim_but_for_what_is_forgotten(shape: str, name: str, size: float) -> None:
    """Every column, touched or not, moves as its dense logit does. One that lost its entry is as the untouched are."""
    options, forgotten = OPTIMIZERS[name], 0
    for policy, before, columns, reward in lessons(shape, options, size):
        own = torch.arange(policy.num_nodes).unsqueeze(1)
        slots = columns.long() - (columns > own).long()
        expected = dense_step(dense_state(policy, before), int(before["steps"]), slots, reward, options)
        after = policy.state()
        for row in range(policy.num_nodes):
            kept = set(after["slot"][row].tolist())
            touched = set(before["slot"][row].tolist()) | set(slots[row].tolist())
            untouched = [slot for slot in range(policy.slots) if slot not in touched]
            assert set(slots[row].tolist()) <= kept
            for slot in touched - kept - {-1}:
                expected[:, row, slot] = expected[:, row, untouched[0]]
                forgotten += 1
        found = dense_state(policy, after)
        scale = scale_of(options, size).view(3, 1, 1)
        torch.testing.assert_close(found / scale, expected / scale, rtol=1e-5, atol=1e-5)
    assert (forgotten > 2 * policy.num_nodes) == shape.startswith("bound")


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("bound", [None, 64])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_below_the_bound_it_is_the_dense_policy_to_rounding(name: str, bound: int | None) -> None:
    options = OPTIMIZERS[name]
    nodes, draws, steps = 60, 2, 30
    sparse = SparsePolicy(nodes, max_entries=bound, **options)
    optimizer = {"adam": torch.optim.AdamW, "sgd": torch.optim.SGD}[options["optimizer"]]
    dense = DensePolicy(nodes, torch.float64, optimizer, lr=options["lr"], weight_decay=options.get("weight_decay", 0))
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        columns, log_prob = sparse.draw(draws, generator)
        assert log_prob == pytest.approx(dense.log_prob(columns.long()).item(), rel=1e-5)
        for policy in (sparse, dense):
            policy.reinforce(columns.long(), math.cos(step))
    others = ~torch.eye(nodes, dtype=torch.bool)
    found, expected = sparse.dense_logits().double()[others], dense.logits.detach()[others]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert expected.std() > 0.05
    assert 16 < sparse._longest < 64  # the room has grown, and is not full


# --- full rows


def after_touching(
    slots: list[int], logits: list[float], hand: int, width: int, drawn: list[int], shared: float
) -> tuple[list[int], int]:
    """The rule, on lists: which slots a row has entries for after the draws, place by place, and where its hand is."""
    for slot in drawn:
        if slot in slots:
            continue
        if len(slots) < width:
            slots, logits = [*slots, slot], [*logits, shared]
            continue
        old: list[int] = []
        while not old:
            pair = [hand, (hand + 1) % width]
            hand = (hand + 2) % width
            old = [place for place in pair if slots[place] not in drawn]
        worst = min(old, key=lambda place: logits[place])  # of equals the first
        slots, logits = slots.copy(), logits.copy()
        slots[worst], logits[worst] = slot, shared
    return slots, hand


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("shape", SHAPES)
def test_entries_are_where_the_rule_puts_them(shape: str) -> None:
    for policy, before, columns, _ in lessons(shape, OPTIMIZERS["sgd"]):
        after = policy.state()
        width = after["slot"].shape[1]
        for row in range(policy.num_nodes):
            used = int(before["count"][row])
            expected, hand = after_touching(
                before["slot"][row, :used].tolist(),
                before["entry"][row, 0, :used].tolist(),
                int(before["hand"][row]),
                width,
                [c - (c > row) for c in columns[row].tolist()],
                float(before["shared"][0, row]),
            )
            assert after["slot"][row].tolist() == expected + [-1] * (width - len(expected))
            assert (int(after["count"][row]), int(after["hand"][row])) == (len(expected), hand)


@pytest.mark.usefixtures("either")
def test_a_hand_beside_new_room_leaves_alone_what_was_just_put_there() -> None:
    """A row whose hand stands at its last entry gets room for one more, then draws three columns that are new."""
    policy, own = SparsePolicy(40, optimizer="sgd", lr=1.0, max_entries=2), torch.arange(40).unsqueeze(1)

    def learn(steps_ahead: list[int], reward: float) -> None:
        policy.reinforce((own + torch.tensor(steps_ahead)) % 40, reward)

    learn([1, 2, 3, 4, 5, 6, 7, 8], 0.1)  # room for nine
    learn([9], 5.0)
    for new in (10, 11, 12, 13):  # the hand goes over the first eight
        learn([new], 0.1)
    assert policy.state()["hand"].tolist() == [8] * 40
    learn([9] * 9, 0.1)  # room for ten
    learn([20, 21, 22], 0.1)
    kept = policy.state()["slot"] + (policy.state()["slot"] >= own).int()
    for row in range(40):
        assert {(row + m) % 40 for m in (20, 21, 22)} <= set(kept[row].tolist())
    assert policy.touched == 400


# --- numbers that stay finite


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("lr", [0.3, 30.0, 5000.0])
@pytest.mark.parametrize("shape", ["few nodes", "free", "bound, odd"])
def test_top_is_near_the_largest_logit_and_mass_is_the_sum(shape: str, lr: float) -> None:
    farthest = 0.0
    for policy, *_ in lessons(shape, {"optimizer": "sgd", "lr": lr}):
        state = policy.state()
        width = state["slot"].shape[1]
        used = in_use(state, width)
        assert torch.equal(used, state["slot"] >= 0)
        logits = state["entry"][:, 0].double()
        assert bool(torch.isfinite(logits[used]).all())
        assert bool((logits[~used] == -math.inf).all())
        shared = torch.where(state["count"] < policy.slots, state["shared"][0], -math.inf).double()
        largest = torch.maximum(logits.amax(dim=1), shared)
        apart = (largest - state["top"]).abs()
        assert bool((apart < 8).all())
        farthest = max(farthest, float(apart.max()))
        mass = (logits - state["top"].double().unsqueeze(1)).exp().sum(dim=1)
        torch.testing.assert_close(state["mass"].double(), mass, rtol=1e-5, atol=1e-30)
        assert math.isfinite(policy.draw(3, torch.Generator())[1])
    assert farthest > 0.5 or lr > 1  # it is not set anew at every step
    assert state["top"].abs().max() >= 8 or lr < 1


@pytest.mark.usefixtures("either")
def test_a_row_that_is_touched_all_over_has_no_shared_logit_to_go_by() -> None:
    policy = SparsePolicy(3, optimizer="sgd", lr=1.0)
    policy.reinforce(torch.tensor([[1], [0], [0]]), -100.0)  # the one drawn falls to −50, the other one rises to 50
    second = torch.tensor([[2], [2], [1]])
    policy.reinforce(second, -100.0)  # it is certain, so it stays; what is shared by none is at 150
    assert policy.state()["shared"][0].tolist() == [150.0] * 3
    assert policy.state()["top"].tolist() == [50.0] * 3
    assert policy.log_prob(second) == pytest.approx(0.0, abs=1e-6)
    assert torch.equal(policy.sample(4, torch.Generator()).long(), second.expand(3, 4))


@pytest.mark.usefixtures("either")
def test_what_unlikely_entries_weigh() -> None:
    """Rows that were punished for every draw: their entries lie up to 80 below the untouched rest."""
    lowest = 0.0
    for punishment in (5.0, 20.0, 45.0, 60.0, 80.0):
        policy = SparsePolicy(500, optimizer="sgd", lr=1.0)
        policy.reinforce(other_nodes(500, 1, 3), -punishment)
        state = policy.state()
        expected = (state["entry"][:, 0].double() - state["top"].double().unsqueeze(1)).exp().sum(dim=1)
        torch.testing.assert_close(state["mass"].double(), expected, rtol=1e-5, atol=0)
        lowest = float(expected.min())
    assert 0 < lowest < 1e-34


@pytest.mark.usefixtures("either")
def test_unlikely_entries_do_not_vanish_while_others_rise() -> None:
    """Logits of −60 … 60 around a top that follows: log p is that of float64 throughout."""
    policy = SparsePolicy(6, optimizer="sgd", lr=1.0)
    for step in range(40):
        columns = torch.tensor([[1 + step % 2], [0], [0], [0], [0], [0]])
        policy.reinforce(columns, 3.0 if step < 20 else -4.0)
        dense = policy.dense_logits().double().log_softmax(dim=1)
        for other in (1, 2, 3, 5):
            drawn = torch.tensor([[other], [2], [1], [1], [1], [1]])
            assert policy.log_prob(drawn) == pytest.approx(float(dense.gather(1, drawn).sum()), rel=1e-5, abs=1e-5)
