"""What the policy draws: kernels against plain code bit for bit, and their frequencies against a dense softmax."""

from __future__ import annotations

import math
from unittest.mock import patch

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from graphshift.core.randomness import other_nodes
from graphshift.explorers import SparsePolicy
from graphshift.graph import kernels
from graphshift.graph.kernels import native

NODES = 13
#: Steps of two draws, and the bound. Twelve slots: with more than half of them touched a row goes by ranks.
STATES: dict[str, tuple[int, int | None]] = {
    "untouched": (0, None),
    "little touched": (2, None),
    "crowded": (9, None),
    "touched all over": (60, None),
    "bounded": (30, 4),
    "bounded, crowded": (30, 9),
    "raised": (9, None),  # the same as crowded, but for a number that all logits of a row have more
}
needs_kernels = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


def learned(state: str, nodes: int = NODES) -> SparsePolicy:
    """A policy in 32 bits that has learned from random columns, so that rows differ in how much is touched."""
    steps, bound = STATES[state]
    policy = SparsePolicy(nodes, optimizer="sgd", lr=0.5, max_entries=bound)
    for step in range(steps):
        policy.reinforce(other_nodes(nodes, 2, step), 1.0 if step % 3 else -1.0)
    if state == "raised":
        raised = policy.state()
        for logits in (raised["entry"][:, 0], raised["shared"][0], raised["top"]):
            logits += 30.0
        policy.load_state(raised)
    return policy


def shares(policy: SparsePolicy) -> Tensor:
    return policy.state()["count"] / policy.slots


def test_the_states_are_what_they_are_called() -> None:
    assert [float(shares(learned(name)).max()) for name in ("untouched", "bounded")] == [0, pytest.approx(4 / 12)]
    assert 0 < shares(learned("little touched")).max() < 0.5
    crowded = shares(learned("crowded"))
    assert crowded.min() > 0.5
    assert crowded.median() < 1
    assert shares(learned("touched all over")).min() == 1
    assert shares(learned("bounded, crowded")).unique().tolist() == [0.75]


@needs_kernels
@pytest.mark.parametrize("state", STATES)
def test_frequencies_are_those_of_the_dense_softmax(state: str) -> None:
    policy, draws = learned(state), 20_000
    expected = policy.dense_logits().double().softmax(dim=1)
    drawn = policy.sample(draws, torch.Generator().manual_seed(8))
    assert drawn.dtype == torch.int32
    for row in range(NODES):
        counts = torch.bincount(drawn[row], minlength=NODES)
        assert counts[row] == 0  # never the diagonal
        others = [m for m in range(NODES) if m != row]
        assert chisquare(counts[others].numpy(), expected[row, others].numpy() * draws).pvalue > 1e-4


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("state", STATES)
def test_a_draw_comes_with_its_log_probability(state: str) -> None:
    policy = learned(state)
    dense = policy.dense_logits().double().log_softmax(dim=1)
    for seed in range(5):
        columns, found = policy.draw(40, torch.Generator().manual_seed(seed))
        assert found == pytest.approx(policy.log_prob(columns), rel=1e-6)
        assert found == pytest.approx(float(dense.gather(1, columns.long()).sum()), rel=1e-6)


@needs_kernels
@pytest.mark.parametrize("nodes", [2, 3, NODES, 200])
@pytest.mark.parametrize("state", STATES)
def test_the_kernel_draws_what_the_plain_code_draws(state: str, nodes: int) -> None:
    policy, draws = learned(state, nodes), 400
    with patch.object(native, "call", wraps=native.call) as kernel:
        fast, left = policy.draw(draws, torch.Generator().manual_seed(2))
        with patch.object(native, "LIBRARY", None):
            plain, right = policy.draw(draws, torch.Generator().manual_seed(2))
    assert kernel.call_count == 1
    assert (fast != plain).double().mean() < 1e-4  # where a uniform number falls on a boundary, rounding decides
    assert fast.dtype == plain.dtype
    assert left == pytest.approx(right, rel=1e-5)


@needs_kernels
def test_one_row_does_not_depend_on_another() -> None:
    """Rows draw from numbers of their own: pairs of columns of two rows are as likely as if drawn apart."""
    policy = SparsePolicy(4, optimizer="sgd", lr=0.5)
    policy.reinforce(torch.tensor([[1], [2], [3], [0]]), 1.0)
    expected = policy.dense_logits().double().softmax(dim=1)
    drawn = policy.sample(20_000, torch.Generator().manual_seed(4)).long()
    cells = [(a, b) for a in (1, 2, 3) for b in (0, 2, 3)]
    pairs = torch.bincount(drawn[0] * 4 + drawn[1], minlength=16)
    probable = [float(expected[0, a] * expected[1, b]) * 20_000 for a, b in cells]
    assert chisquare([int(pairs[4 * a + b]) for a, b in cells], probable).pvalue > 1e-4


@pytest.mark.usefixtures("either")
def test_what_has_no_probability_left_is_not_drawn() -> None:
    """One column has all of it: neither touched columns 1000 below nor the untouched rest come up."""
    policy = SparsePolicy(8, optimizer="sgd", lr=1000.0)
    first, second = (torch.tensor([[m if m != n else 7] for n in range(8)]) for m in (3, 5))
    policy.reinforce(first, 1.0)
    policy.reinforce(second, -1.0)
    drawn, log_prob = policy.draw(200, torch.Generator().manual_seed(0))
    assert torch.equal(drawn.long(), first.expand(8, 200))
    assert log_prob == pytest.approx(0.0, abs=1e-6)
    assert math.isfinite(policy.log_prob(second))
