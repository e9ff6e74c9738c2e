"""Seconds, measured so that they can be compared on a machine that does other things as well."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from statistics import median

_LEAST_ROUNDS = 2


def in_turns(
    jobs: Sequence[Callable[[], object]], *, rounds: int = 7, least: float = 0.0, budget: float = float("inf")
) -> list[float]:
    """The median seconds of each job, run in turns after one warm-up.

    In turns, because a disturbance then meets all jobs alike; the median, because a machine has fast moments as well as
    slow ones, and the least of each job may come from a different one: ratios of medians vary less.

    Args:
        jobs: what to time.
        rounds: how often, at least: short jobs are repeated
        least: for so many seconds, since a machine may be disturbed for longer than they take;
        budget: and after so many seconds no further round is begun, once there were two.
    """
    times: list[list[float]] = [[] for _ in jobs]
    for job in jobs:
        job()
    begun = time.perf_counter()
    for turn in itertools.count():
        passed = time.perf_counter() - begun
        if (turn >= rounds and passed >= least) or (turn >= _LEAST_ROUNDS and passed > budget):
            break
        for job, kept in zip(jobs, times, strict=True):
            start = time.perf_counter()
            job()
            kept.append(time.perf_counter() - start)
    return [median(kept) for kept in times]
