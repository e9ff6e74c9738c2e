"""How much two halves of one graph differ: what exchanging parts cannot see.

Parts of a graph are joined by edges. A hub raises the degrees of nodes in many parts at once, so quantities of edges
differ more between two graphs than the spread over parts says. The same comparison between random halves of each graph,
as graphs of their own, shows by how much: t is divided by the root mean square that it has there, if this is above 1.
The root mean square of ten values is itself uncertain: what is divided by it has the tails of Student's t with ten
degrees of freedom, so it is raised by the ratio of that law's 1 % quantile to the normal one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm as normal
from scipy.stats import t as student

from graphshift.data.communities import communities
from graphshift.datasets.temporal import subgraph
from graphshift.shift.comparing.parts import Array, Parts
from graphshift.shift.comparing.sides import Pair, Side

_HALVINGS = 10  # of each graph
_TAILS = float(student.ppf(0.995, _HALVINGS) / normal.ppf(0.995))
_MOST_NODES, _FEWEST_PARTS = 6_000, 8  # of a graph that is halved: of a larger one some parts are taken
_LARGE = 4 * _MOST_NODES  # nodes of a graph whose parts are too large for that: a community of each is taken


Halves: TypeAlias = tuple[list[Pair], list[Pair]]


def halvings(pair: Pair, times: int = _HALVINGS) -> Halves:
    """Pairs of random halves of the source, and of the target."""
    generator = np.random.default_rng([pair.seed, 8])
    pieces = [_pieces(side, pair.seed + i) for i, side in enumerate(pair.sides)]
    first, second = ([half for _ in range(times) for half in _halved(pair, i, pieces[i], generator)] for i in (0, 1))
    return first, second


def _pieces(side: Side, seed: int) -> NDArray[np.int64] | None:
    """Of a large graph the community of each node, so small that a few make a graph to halve."""
    graph = side.environment.graph
    if graph.num_nodes <= _LARGE:
        return None
    return communities(graph, graph.num_nodes * _FEWEST_PARTS // _MOST_NODES, seed=seed)


def _one_piece(part: NDArray[np.int64], pieces: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """The nodes of a part that are in one of its pieces, drawn by size, ``[any]``."""
    return part[pieces[part] == pieces[generator.choice(part)]]


def inflation(halves: Halves, statistic: Callable[[Pair], Array | None]) -> Array | float:
    """By how much t is too large: its root mean square between halves, of the graph where it is larger, ``[columns]``.

    Args:
        halves: from :func:`halvings`.
        statistic: t of a pair, ``[columns]``; None where it cannot be told.
    """
    largest: Array | float = 1.0
    for pairs in halves:
        found = [t for pair in pairs if (t := statistic(pair)) is not None]
        if found:
            largest = np.maximum(largest, np.sqrt(np.square(np.stack(found)).mean(axis=0)))
    return largest * _TAILS


def _halved(pair: Pair, i: int, pieces: NDArray[np.int64] | None, generator: np.random.Generator) -> Iterator[Pair]:
    side, everyone = pair.sides[i], pair.parts.everyone[i]
    parts = generator.permutation(np.unique(everyone[everyone >= 0]))
    share = _MOST_NODES / max(len(everyone), 1)
    parts = parts[: max(int(share * len(parts)), _FEWEST_PARTS)]
    if len(parts) < _FEWEST_PARTS:
        return
    dealt = np.full(pair.parts.count + 1, -1)  # the last place is for nodes of no part
    dealt[parts[::2]], dealt[parts[1::2]] = 0, 1
    half = dealt[everyone]
    if pieces is not None:
        kept = np.concatenate([_one_piece(np.flatnonzero(everyone == part), pieces, generator) for part in parts])
        half, whole = np.full_like(half, -1), half
        half[kept] = whole[kept]
    loose = everyone < 0
    half[loose] = np.where(
        generator.random(int(loose.sum())) < min(share, 1.0), generator.integers(2, size=int(loose.sum())), -1
    )
    sides: list[Side] = []
    classes: list[NDArray[np.int64]] = []
    numbers: list[NDArray[np.int64]] = []
    for one in (0, 1):
        nodes = half == one
        sides.append(Side(subgraph(side.environment, torch.from_numpy(nodes), side.environment.name)))
        numbers.append(everyone[nodes & side.counted])
        if pair.classes is not None:
            classes.append(pair.classes[i][nodes])
    used, number = np.unique(np.concatenate(numbers), return_inverse=True)
    target = dealt[used] == 1
    halves = Parts(number, target, (np.empty(0, np.int64), np.empty(0, np.int64)))
    known = (classes[0], classes[1]) if classes else None
    yield Pair(sides[0], sides[1], halves, pair.class_names, known, pair.predicted, pair.seed)
