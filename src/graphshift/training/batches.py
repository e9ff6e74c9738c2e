"""Batches: what one training step sees, as a list of ordinary environments.

``fit(..., batches=f)`` goes through ``f(environments, epoch)`` in each epoch; epochs count from 1.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from graphshift.data.environment import Environment

Batches: TypeAlias = Callable[[Sequence[Environment], int], Iterable[Sequence[Environment]]]


def full_batch(environments: Sequence[Environment], epoch: int) -> Iterable[Sequence[Environment]]:
    """One batch with all training environments: the default, and Algorithm 1 of the paper."""
    return [environments]


def one_by_one(environments: Sequence[Environment], epoch: int) -> Iterable[Sequence[Environment]]:
    """Each training environment is a batch: one step for each of them, as the authors' code does on Facebook-100."""
    return [[environment] for environment in environments]
