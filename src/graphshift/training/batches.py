"""Batches: what one training step sees. A batch is a list of ordinary environments.

An epoch goes through the batches that a function of this shape gives::

    def batches(environments, epoch):
        '''environments: the training environments. epoch: from 1.'''
        yield [environments[0]]
        yield [environments[1]]

Pass it to ``fit(..., batches=batches)``. Every method, explorer and backbone works on it.
"""

from __future__ import annotations

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
