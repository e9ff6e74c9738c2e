"""Seeds: derived parts do not collide, and the caller's random state is given back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from graphshift.core.randomness import (
    counter_hash,
    counter_uniform,
    derive_seed,
    draw_seed,
    isolated,
    rng_state,
    set_rng_state,
    unit_interval,
)

CPU = torch.device("cpu")


def test_a_derived_seed_is_the_same_for_the_same_path() -> None:
    assert derive_seed(3, 2, 1) == derive_seed(3, 2, 1)


def test_derived_seeds_do_not_collide() -> None:
    # Those that are used: the whole run, held-out nodes, explorers of environment m and view k, built-in data.
    paths = [
        (),
        *((1, i) for i in range(20)),
        *((2, m, k) for m, k in itertools.product(range(20), repeat=2)),
        (11,),
        (12,),
    ]
    seeds = {derive_seed(seed, *path) for seed in range(5) for path in paths}
    assert len(seeds) == 5 * len(paths)


def test_derived_seeds_suit_torch_generators_and_are_well_mixed() -> None:
    seeds = [derive_seed(i) for i in range(2000)]
    assert all(0 <= seed < 2**63 for seed in seeds)
    for seed in (min(seeds), max(seeds)):
        torch.Generator().manual_seed(seed)
    bits = np.array([[seed >> bit & 1 for bit in range(63)] for seed in seeds]).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 0.06  # 5 standard errors


def test_isolated_gives_the_random_state_back_and_depends_on_its_seed_alone() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    with isolated(5, CPU):
        inside = torch.rand(3)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(99)
    with isolated(5, CPU):
        assert torch.equal(torch.rand(3), inside)
    with isolated(6, CPU):
        assert not torch.equal(torch.rand(3), inside)


def test_isolated_gives_the_random_state_back_after_an_error() -> None:
    def fails() -> None:
        torch.rand(3)
        raise RuntimeError("inside")

    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="inside"), isolated(5, CPU):
        fails()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_state_taken_back_gives_the_same_draws() -> None:
    torch.manual_seed(4)
    torch.rand(7)
    state = rng_state(CPU)
    expected = torch.rand(5)
    torch.rand(100)
    set_rng_state(state, CPU)
    assert torch.equal(torch.rand(5), expected)


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_devices_own_state_is_kept_as_well(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no such device here, so its two functions are played."""
    held = {"state": torch.tensor([1, 2, 3])}
    module = getattr(torch, kind)
    monkeypatch.setattr(module, "get_rng_state", lambda *_: held["state"])
    monkeypatch.setattr(module, "set_rng_state", lambda state, *_: held.update(state=state))
    device = torch.device(kind)
    state = rng_state(device)
    held["state"] = torch.tensor([7])
    set_rng_state(state, device)
    assert held["state"].tolist() == [1, 2, 3]
    assert set(rng_state(CPU)) == {"cpu"}


# --- random numbers of a counter


@pytest.mark.parametrize(
    ("seed", "outputs"),
    [  # those of the generator's published implementation
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]),
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]),
    ],
)
def test_hashes_are_the_outputs_of_split_mix(seed: int, outputs: list[int]) -> None:
    found = counter_hash(seed, torch.arange(len(outputs)))
    assert [bits % 2**64 for bits in found.tolist()] == outputs


def test_hashes_are_those_of_whole_number_arithmetic_at_any_seed_and_counter() -> None:
    word = 2**64 - 1
    counters = [0, 1, 2, 1000, 2**31, 2**40 + 7, 2**62]
    for seed in (0, 5, 2**31, 2**63 - 1):
        expected = []
        for counter in counters:
            z = (seed + (counter + 1) * 0x9E3779B97F4A7C15) & word
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
            expected.append(z ^ (z >> 31))
        assert [bits % 2**64 for bits in counter_hash(seed, torch.tensor(counters)).tolist()] == expected
        uniform = counter_uniform(seed, torch.tensor(counters)).tolist()
        assert uniform == [(bits >> 11) / 2**53 for bits in expected]


def test_a_seed_may_be_a_tensor() -> None:
    seeds = torch.tensor([3, -1, 2**63 - 1])
    single = [int(counter_hash(int(seed), torch.tensor([4]))) for seed in seeds]
    assert counter_hash(seeds, torch.full((3,), 4)).tolist() == single


def test_the_unit_interval_has_its_lower_end_and_not_its_upper() -> None:
    found = unit_interval(torch.tensor([0, 2**11 - 1, 2**11, -1, -(2**63)]))
    assert found.tolist() == [0.0, 0.0, 2.0**-53, 1 - 2.0**-53, 0.5]
    assert found.dtype == torch.float64


def test_seeds_are_drawn_from_a_generator_that_moves_on() -> None:
    generator = torch.Generator().manual_seed(0)
    seeds = [draw_seed(generator) for _ in range(1000)]
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**62
    assert seeds[0] == draw_seed(torch.Generator().manual_seed(0))
