"""Uniform draws: the kernel and the plain code against whole-number arithmetic in Python, and their frequencies."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chisquare

from graphshift.core.randomness import other_nodes
from graphshift.graph import kernels

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
SEEDS = (0, 1, 12345, 2**62, 2**63 - 2)
WORD = 2**64 - 1


def split_mix(seed: int, counter: int) -> int:
    """Output number `counter` of SplitMix64, as its authors wrote it, in Python's whole numbers."""
    z = (seed + (counter + 1) * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def by_hand(nodes: int, draws: int, seed: int) -> list[list[int]]:
    rows = []
    for row in range(nodes):
        slots = [(split_mix(seed, row * draws + t) >> 11) * 2.0**-53 * (nodes - 1) for t in range(draws)]
        rows.append([int(slot) + (int(slot) >= row) for slot in slots])
    return rows


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("nodes", "draws"), [(2, 1), (2, 5), (3, 4), (17, 1), (40, 7)])
def test_draws_are_those_of_whole_number_arithmetic(nodes: int, draws: int, seed: int) -> None:
    drawn = kernels.draw(nodes, draws, seed)
    assert drawn.dtype == torch.int32
    assert drawn.tolist() == by_hand(nodes, draws, seed) == other_nodes(nodes, draws, seed).tolist()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("nodes", "draws"), [(20_000, 5), (1000, 64), (3, 50_000), (150_001, 1)])
def test_the_kernel_draws_what_the_plain_code_draws(nodes: int, draws: int, seed: int) -> None:
    drawn = kernels.draw(nodes, draws, seed)
    assert torch.equal(drawn, other_nodes(nodes, draws, seed))
    assert bool(((drawn >= 0) & (drawn < nodes)).all())
    assert bool((drawn != torch.arange(nodes).unsqueeze(1)).all())  # never the row itself


@pytest.mark.parametrize("nodes", [3, 4, 11])
def test_draws_are_uniform_and_independent(nodes: int) -> None:
    drawn = kernels.draw(nodes, 30_000, 99).long()
    slot = drawn - (drawn > torch.arange(nodes).unsqueeze(1)).long()
    for row in range(nodes):
        counts = torch.bincount(drawn[row], minlength=nodes).tolist()
        assert counts.pop(row) == 0
        assert chisquare(counts).pvalue > 1e-4
        # One draw and the next of its row; one row and the next.
        for one, other in ((slot[row, ::2], slot[row, 1::2]), (slot[row], slot[row - 1])):
            pairs = torch.bincount(one * (nodes - 1) + other, minlength=(nodes - 1) ** 2)
            assert chisquare(pairs.tolist()).pvalue > 1e-4


def test_other_seeds_draw_others() -> None:
    draws = {tuple(kernels.draw(50, 2, seed).flatten().tolist()) for seed in range(100)}
    assert len(draws) == 100
