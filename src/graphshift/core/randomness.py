"""Seeds: every source of randomness is derived from one, and the user's own random state is left alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError


def derive_seed(seed: int, *path: int) -> int:
    """A seed for one part of a run: well mixed, and the same for the same path."""
    return int(np.random.SeedSequence([seed, *path]).generate_state(1, np.uint64)[0] >> 1)


@contextmanager
def isolated(seed: int, device: torch.device) -> Iterator[None]:
    """Runs a block under its own seed and gives the caller's torch random state back afterwards."""
    devices = [device] if device.type == "cuda" else []
    before = torch.mps.get_rng_state() if device.type == "mps" else None  # fork_rng knows nothing of MPS
    try:
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(derive_seed(seed))
            yield
    finally:
        if before is not None:
            torch.mps.set_rng_state(before)


def rng_state(device: torch.device) -> dict[str, Tensor]:
    """The random state that dropout draws from."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["device"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        state["device"] = torch.mps.get_rng_state()
    return state


def set_rng_state(state: dict[str, Tensor], device: torch.device) -> None:
    """Takes back what :func:`rng_state` gave."""
    check_rng_state(state["cpu"])
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["device"], device)
    elif device.type == "mps":
        torch.mps.set_rng_state(state["device"])


def check_rng_state(state: Tensor) -> None:
    """Refuses a CPU generator's state that torch would read past its end with: it checks its two counters apart.

    A Mersenne Twister has 624 numbers; those that were taken and those that are left are 625 together, or 1 at first.
    """
    fresh = torch.Generator().get_state()
    if state.dtype != fresh.dtype or state.shape != fresh.shape:
        what = f"{state.dtype} of shape {list(state.shape)}"
        raise GraphshiftError(f"random state: found {what}; expected {fresh.dtype} of shape {list(fresh.shape)}.")
    known, found = (_counters(one) for one in (fresh, state))
    if sum(known) == 1 and sum(found) not in (1, 625):  # else torch keeps them elsewhere
        raise GraphshiftError("random state: its counters do not fit each other; the file is damaged.")


def _counters(state: Tensor) -> tuple[int, int]:
    content = state.contiguous().numpy().tobytes()
    return int.from_bytes(content[8:12], "little"), int.from_bytes(content[16:24], "little")


def draw_seed(generator: torch.Generator) -> int:
    """A seed for :func:`counter_uniform` from a generator, which moves on."""
    return int(torch.randint(2**63 - 1, (), generator=generator))


def counter_hash(seed: int | Tensor, counter: Tensor) -> Tensor:
    """SplitMix64 (Steele, Lea and Flood, 2014) of a counter: random bits that need no order of drawing, int64."""
    z = seed + (counter + 1) * -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed number; products wrap around
    z = (z ^ _shifted(z, 30)) * -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
    z = (z ^ _shifted(z, 27)) * -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB
    return z ^ _shifted(z, 31)


def counter_uniform(seed: int | Tensor, counter: Tensor) -> Tensor:
    """Uniform on [0, 1) with 53 bits, float64, for every counter."""
    return unit_interval(counter_hash(seed, counter))


def unit_interval(bits: Tensor) -> Tensor:
    """The upper 53 of 64 random bits as a number on [0, 1)."""
    return _shifted(bits, 11).double() * 2.0**-53


def other_nodes(nodes: int, draws: int, seed: int, within: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """``draws`` uniformly random other nodes for every node, ``[nodes, draws]``, int32.

    With ``within``, ``begin`` and ``size`` for each node, they are ``size`` nodes from ``begin`` on, the node itself
    among them; a node that is alone there stands for itself.
    """
    uniform, own = counter_uniform(seed, torch.arange(nodes * draws)).view(nodes, draws), torch.arange(nodes)
    if within is None:
        slot = (uniform * (nodes - 1)).int()
        return slot + (slot >= own.unsqueeze(1)).int()  # the diagonal is not among the slots
    begin, size = (numbers.unsqueeze(1) for numbers in within)
    slot = begin + (uniform * (size - 1)).int()
    other = slot + (slot >= own.unsqueeze(1)).int()
    return torch.where(size < 2, own.unsqueeze(1).int(), other)


def _shifted(bits: Tensor, count: int) -> Tensor:
    """A shift to the right that brings in zeros; torch's own repeats the sign."""
    return (bits >> count) & ((1 << (64 - count)) - 1)
