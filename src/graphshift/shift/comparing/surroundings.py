"""Block ``surroundings``: the features around a node given its own: how alike neighbours are.

Features are projected on their leading principal directions and centred within each side (and class, where classes are
known), so that a shift of the features themselves, or of class shares, is no shift of this block. The slope of the
neighbours' mean z̄ on a node's own z says how much of a node's difference from the mean its neighbours share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from graphshift.shift.comparing.block import Block
from graphshift.shift.comparing.halving import Halves, inflation
from graphshift.shift.comparing.parts import Array, drawn_parts, exchange_test, interval, t_values
from graphshift.shift.comparing.sides import Pair, Side

_MEASURE = "difference in how much neighbours share of a node's features"
_DIRECTIONS = 8
_MOST = 20_000  # nodes that the directions are found with


Around = tuple[Array, Array, Array]


def surroundings_block(pair: Pair, halves: Halves) -> Block:
    """Compares how far the neighbours of a node resemble it; ``halves`` say how much that differs by itself."""
    directions = _directions(pair)
    found = _own_and_around(pair, directions)
    if not _neighbours_everywhere(pair, found):
        return Block("surroundings", _MEASURE, says="One of the graphs has no edge between counted nodes.")
    return similarity_block("surroundings", _MEASURE, pair, halves, lambda one: _own_and_around(one, directions))


def _neighbours_everywhere(pair: Pair, found: Around) -> bool:
    some, target = found[2].reshape(-1), pair.parts.target_nodes
    return bool(some[target].any() and some[~target].any())


def similarity_block(
    name: str, measure: str, pair: Pair, halves: Halves, make: Callable[[Pair], Around], what: str = "features"
) -> Block:
    """The block of a slope of neighbours' means on a node's own values.

    Args:
        name, measure: of the block.
        pair: the two graphs.
        halves: from :func:`~graphshift.shift.comparing.halving.halvings`.
        make: a node's own values, the means around it, ``[nodes, columns]`` each, and 1 for nodes with neighbours, 0
            for others, ``[nodes, 1]``.
        what: the values, in words.
    """
    parts = pair.parts
    product, square = _products(pair, make(pair))

    def t_of(half: Pair) -> Array | None:
        found = make(half)
        return (
            t_values(*_left(half, *_products(half, found)), half.parts.target)
            if _neighbours_everywhere(half, found)
            else None
        )

    slopes = _slopes(pair, product, square)
    left, sizes = _left(pair, product, square)
    tested = exchange_test(left, sizes, parts.target, inflation=inflation(halves, t_of), seed=pair.seed)
    times = drawn_parts(parts.target, seed=pair.seed).astype(np.float64)

    def overall(times: Array, side: NDArray[np.bool_]) -> Array:
        return (times[:, side] @ product[side].sum(axis=1)) / np.maximum(
            times[:, side] @ square[side].sum(axis=1), 1e-12
        )

    once = np.ones((1, parts.count))
    shares = [float(overall(once, side)[0]) for side in (~parts.target, parts.target)]
    low, high = interval(overall(times, parts.target) - overall(times, ~parts.target))
    says = (
        f"Neighbours share {100 * shares[0]:z.0f} % of a node's difference from the mean {what} in the source and "
        f"{100 * shares[1]:z.0f} % in the target."
    )
    details: dict[str, Any] = {"source": shares[0], "target": shares[1], "directions": product.shape[1]}
    details["slopes"] = {"source": slopes[0].tolist(), "target": slopes[1].tolist()}
    return Block(
        name,
        measure,
        effect=shares[1] - shares[0],
        low=low,
        high=high,
        p=tested.overall,
        evidence=tested.evidence,
        says=says,
        details=details,
    )


def _products(pair: Pair, found: Around) -> tuple[Array, Array]:
    own, around, weight = found
    return pair.parts.total(own * around * weight), pair.parts.total(np.square(own) * weight)


def _slopes(pair: Pair, product: Array, square: Array) -> list[Array]:
    sides = (~pair.parts.target, pair.parts.target)
    return [product[side].sum(axis=0) / np.maximum(square[side].sum(axis=0), 1e-12) for side in sides]


def _left(pair: Pair, product: Array, square: Array) -> tuple[Array, Array]:
    """Σ z (z̄ - b z), which is 0 on both sides if both have the slope b; all directions together are one more column."""
    slopes = _slopes(pair, product, square)
    left = product - (slopes[0] + slopes[1]) / 2 * square
    both = np.concatenate([left, left.sum(axis=1, keepdims=True)], axis=1)
    sizes = np.concatenate([square, square.sum(axis=1, keepdims=True)], axis=1)
    return both, sizes + 1e-9 * sizes.mean()


def _own_and_around(pair: Pair, directions: Array) -> Around:
    """z, z̄ and whether there are neighbours, of the counted nodes of both sides."""
    own, around, weight = [], [], []
    for i, side in enumerate(pair.sides):
        z = np.asarray(side.x @ directions, dtype=np.float64)
        classes = None if pair.classes is None or pair.predicted else pair.classes[i]
        z = _centred(z, side, classes)
        known = np.ones(len(z)) if classes is None else (classes >= 0).astype(np.float64)
        degree = side.matrix @ known
        mean = (side.matrix @ (z * known[:, None])) / np.maximum(degree, 1)[:, None]
        own.append(z[side.counted])
        around.append(mean[side.counted])
        weight.append((degree > 0)[side.counted].astype(np.float64))
    return np.concatenate(own), np.concatenate(around), np.concatenate(weight)[:, None]


def _centred(z: Array, side: Side, classes: NDArray[np.int64] | None) -> Array:
    """Values minus the mean of the counted nodes, or of those of the node's class."""
    if classes is None:
        return z - z[side.counted].mean(axis=0)
    count = max(int(classes.max()) + 1, 1)
    known = classes >= 0
    nodes = int(known.sum())
    member = scipy.sparse.csr_array((np.ones(nodes), classes[known], np.arange(nodes + 1)), shape=(nodes, count))
    means = (member.T @ z[known]) / np.maximum(np.bincount(classes[known], minlength=count), 1)[:, None]
    result = z - z[side.counted].mean(axis=0)
    result[known] = z[known] - means[classes[known]]
    return result


def _directions(pair: Pair) -> Array:
    """The leading principal directions of the columns in units of their deviation, ``[columns, directions]``."""
    table = pair.sampled((pair.source.x, pair.target.x), _MOST, np.random.default_rng([pair.seed, 3]))
    mean = np.asarray(table.mean(axis=0), dtype=np.float64).ravel()
    second = (
        table.multiply(table).mean(axis=0)
        if scipy.sparse.issparse(table)
        else np.square(table, dtype=np.float64).mean(axis=0)
    )
    deviation = np.sqrt(np.maximum(np.asarray(second).ravel() - mean**2, 0))
    # A rare word has a large inverse deviation and says little: the square root lies between counts and their units.
    scale = np.where(deviation > 1e-9, 1 / np.sqrt(np.maximum(deviation, 1e-9)), 0.0)
    if not scipy.sparse.issparse(table):
        scale = np.square(scale)
    wide = table @ scipy.sparse.diags_array(scale) if scipy.sparse.issparse(table) else (table - mean) * scale
    count = min(_DIRECTIONS, *table.shape)
    _, _, right = randomized_svd(wide, n_components=count, n_iter=3, random_state=pair.seed)
    return np.asarray(right.T * scale[:, None])
