"""The part of a policy that a batch sees: the softmax over the batch, learned by the nodes' numbers in the whole."""

from __future__ import annotations

import math

import pytest
import torch

from graphshift.explorers.policy import SparsePolicy
from graphshift.explorers.policy_part import PolicyPart
from graphshift.graph.kernels.policy import check_table


def learned(nodes: int, steps: int, **how: object) -> SparsePolicy:
    policy = SparsePolicy(nodes, dtype=torch.float64, lr=0.3, **how)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(0)
    for i in range(steps):
        policy.reinforce(policy.sample(2, generator), float(i + 1))
    return policy


ROWS = torch.tensor([1, 2, 5, 7, 8])


@pytest.mark.parametrize("steps", [0, 1, 4, 30])
def test_the_part_has_the_logits_of_the_pairs_in_the_batch(steps: int) -> None:
    whole = learned(10, steps)
    part = PolicyPart(whole, ROWS)
    check_table(part.policy._table)
    assert torch.allclose(part.policy.dense_logits(), whole.dense_logits()[ROWS][:, ROWS])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("steps", [0, 3, 30])
def test_what_a_batch_learns_is_the_conditional_policys_gradient(steps: int, optimizer: str) -> None:
    """Pairs drawn in the batch get the dense gradient of log p(m | m in the batch); pairs that are not in it nothing.

    Untouched columns move together, so this compares those that have an entry of their own.
    """
    whole = learned(10, steps, optimizer=optimizer)
    before = whole.dense_logits()
    part = PolicyPart(whole, ROWS)
    drawn = torch.tensor([[1, 2], [0, 0], [3, 4], [4, 1], [3, 3]])  # as numbers of the batch's nodes
    logits = before[ROWS][:, ROWS].clone().requires_grad_()
    log_prob = logits.log_softmax(dim=1).gather(1, drawn).sum()
    (2.0 * log_prob).backward()
    assert logits.grad is not None
    part.policy.reinforce(drawn, 2.0)
    part.put_back()
    check_table(whole._table)
    after = whole.dense_logits()
    assert whole.steps == steps + 1
    if optimizer == "sgd":
        expected = before[ROWS][:, ROWS] + 0.3 * logits.grad
        assert torch.allclose(after[ROWS][:, ROWS].gather(1, drawn), expected.detach().gather(1, drawn))
    outside = [n for n in range(10) if n not in ROWS.tolist()]
    assert torch.equal(after[outside], before[outside])
    used = (whole._table.slot >= 0).sum(dim=1)
    assert torch.equal(used, whole._table.count.long())
    again = PolicyPart(whole, ROWS)  # what was learned is met again
    assert torch.allclose(again.policy.dense_logits(), after[ROWS][:, ROWS])
    assert torch.allclose(again.policy.dense_logits(), part.policy.dense_logits())


def test_entries_about_nodes_outside_of_the_batch_wait() -> None:
    whole = learned(10, 4, optimizer="sgd")
    table, before = whole._table, whole.dense_logits()
    touched = {(n, int(s) + int(s >= n)) for n in range(10) for s in table.slot[n] if s >= 0}
    part = PolicyPart(whole, ROWS)
    part.policy.reinforce(torch.tensor([[1], [0], [3], [4], [3]]), 1.0)
    part.put_back()
    after = whole.dense_logits()
    for n, m in touched:
        if m not in ROWS.tolist():
            assert float(after[n, m]) == float(before[n, m])


def test_all_nodes_in_the_batch_learn_as_without_batches() -> None:
    one, other = learned(10, 5), learned(10, 5)
    columns = one.sample(2, torch.Generator().manual_seed(7))
    one.reinforce(columns, 1.5)
    part = PolicyPart(other, torch.arange(10))
    part.policy.reinforce(columns, 1.5)
    part.put_back()
    assert torch.allclose(one.dense_logits(), other.dense_logits())


def test_a_full_row_gives_up_its_least_likely_waiting_entry() -> None:
    whole = SparsePolicy(12, max_entries=3, optimizer="sgd", lr=1.0, dtype=torch.float64)
    columns = torch.tensor([[9, 10, 11]] * 9 + [[0, 1, 2]] * 3)
    whole.reinforce(columns, 1.0)
    whole._table.entry[0, 0, :3] = torch.tensor([0.1, 3.0, 2.0])
    part = PolicyPart(whole, torch.tensor([0, 1, 2, 3]))
    part.policy.reinforce(torch.tensor([[1], [0], [0], [0]]), 1.0)
    part.put_back()
    check_table(whole._table)
    kept = {int(s) + int(s >= 0) for s in whole._table.slot[0] if s >= 0}
    assert kept == {1, 10, 11}  # 9, the least likely, is gone
    assert int(whole._table.count.max()) <= 3
    assert math.isfinite(float(whole._table.mass.sum()))
