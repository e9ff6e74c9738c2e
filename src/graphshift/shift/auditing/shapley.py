"""Shapley values: how much each player adds to a value that all of them reach together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

#: Players up to which all coalitions are tried.
EXACT = 6

Value = Callable[[frozenset[str]], float]


@dataclass(frozen=True)
class Shapley:
    """The values of players.

    Attributes:
        values: by player; together they are the value of all less that of none.
        errors: the standard error of each, over permutations; 0 where all coalitions were tried.
        exact: whether they were.
        coalitions: how many were tried.
    """

    values: dict[str, float]
    errors: dict[str, float]
    exact: bool
    coalitions: int


def shapley(value: Value, players: Sequence[str], *, permutations: int = 12, seed: int = 0) -> Shapley:
    """φ_i = Σ_S |S|! (n − |S| − 1)! / n! · (v(S ∪ i) − v(S)) (Shapley, 1953): exact for six players at most.

    For more it is the mean over permutations of what a player adds to those before it. Permutations come in pairs, one
    the reverse of the other, which makes the error smaller.

    >>> shapley(lambda s: float(len(s) >= 2), ["a", "b", "c"]).values
    {'a': 0.3333333333333333, 'b': 0.3333333333333333, 'c': 0.3333333333333333}

    Args:
        value: of a coalition.
        players: their names.
        permutations: how many pairs, beyond six players.
        seed: of these.
    """
    known: dict[frozenset[str], float] = {}

    def of(coalition: frozenset[str]) -> float:
        if coalition not in known:
            known[coalition] = value(coalition)
        return known[coalition]

    n = len(players)
    if n <= EXACT:
        found = dict.fromkeys(players, 0.0)
        for player in players:
            others = [other for other in players if other != player]
            for size in range(n):
                weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
                for chosen in itertools.combinations(others, size):
                    found[player] += weight * (of(frozenset(chosen) | {player}) - of(frozenset(chosen)))
        return Shapley(found, dict.fromkeys(players, 0.0), True, len(known))
    random = np.random.default_rng(seed)
    added = np.zeros((permutations, n))
    for row in range(permutations):
        order = random.permutation(n)
        for way in (order, order[::-1]):
            before: frozenset[str] = frozenset()
            for i in way:
                after = before | {players[i]}
                added[row, i] += (of(after) - of(before)) / 2
                before = after
    values = dict(zip(players, added.mean(axis=0).tolist(), strict=True))
    errors = added.std(axis=0, ddof=1) / math.sqrt(permutations) if permutations > 1 else np.full(n, math.inf)
    return Shapley(values, dict(zip(players, errors.tolist(), strict=True)), False, len(known))
