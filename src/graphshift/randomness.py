"""Seeds: every source of randomness is derived from one, and the user's own random state is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

__all__ = ["derive_seed", "isolated", "rng_state", "set_rng_state"]


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
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["device"], device)
    elif device.type == "mps":
        torch.mps.set_rng_state(state["device"])
