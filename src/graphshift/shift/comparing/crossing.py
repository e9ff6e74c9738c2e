"""How many nodes are above some values of a column: sees what means do not, other scales and other shapes.

The values are quantiles of both graphs together, so they are the same whichever graph a part is of. The largest
difference of the two shares is the statistic of Kolmogorov and Smirnov at these values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from graphshift.shift.comparing.parts import Array, column_blocks
from graphshift.shift.comparing.sides import Pair

_QUANTILES = np.arange(1, 8) / 8
_LEAST_SHARE = 0.02  # of the nodes on each side of a value
_QUANTILE_NODES = 20_000


class Crossings(NamedTuple):
    """Counts of nodes above values.

    Attributes:
        column: the column of each value, ascending, ``[values]``.
        totals: nodes above it in each part, less what classes explain, ``[parts, values]``.
        gap: by how much the shares of nodes above it differ between the graphs, ``[values]``.
    """

    column: NDArray[np.int64]
    totals: Array
    gap: Array


def crossings(pair: Pair, table: Any) -> Crossings:
    """Counts for every column with more than two values; of one with two the mean says all.

    Args:
        pair: the two graphs.
        table: of the counted nodes, ``[nodes, columns]``, also sparse.
    """
    parts, classes = pair.parts, pair.counted_classes
    count = 1 if classes is None else len(pair.class_names)
    cell = parts.number if classes is None else parts.number * count + classes
    sizes = np.bincount(cell, minlength=parts.count * count)
    columns: list[int] = []
    found: list[Array] = []
    for column, cuts, rows, values in _cut(table, pair.seed):
        above = _above(values, cell if rows is None else cell[rows], cuts, len(sizes))
        if rows is not None:  # the others are zeros
            above += (sizes - np.bincount(cell[rows], minlength=len(sizes)))[:, None] * (cuts < 0)
        columns += [column] * len(cuts)
        found.append(above)
    if not found:
        return Crossings(np.empty(0, np.int64), np.empty((parts.count, 0)), np.empty(0))
    cells = np.concatenate(found, axis=1).reshape(parts.count, count, -1)
    totals = cells.sum(axis=1)
    sides = [(totals[side].sum(axis=0) / max(parts.sizes[side].sum(), 1)) for side in (~parts.target, parts.target)]
    by_class = np.concatenate([cells[side].sum(axis=0) for side in (~parts.target, parts.target)])
    return Crossings(np.array(columns), pair.less_class_means(totals, by_class), np.abs(sides[1] - sides[0]))


def _above(values: Any, cell: NDArray[np.int64], cuts: Array, cells: int) -> Array:
    """How many values of each cell are above each cut, ``[cells, cuts]``."""
    passed = np.zeros(len(values), dtype=np.int64)  # cuts that a value is above
    for cut in cuts.astype(values.dtype):
        passed += values > cut
    bins = np.bincount(cell * (len(cuts) + 1) + passed, minlength=cells * (len(cuts) + 1)).reshape(cells, -1)
    return np.asarray(bins[:, ::-1].cumsum(axis=1)[:, -2::-1], dtype=np.float64)


def _cut(table: Any, seed: int) -> Iterator[tuple[int, Array, NDArray[np.int64] | None, Any]]:
    """Every column that is cut: where, and its values; of a sparse one the rows of those that are stored."""
    generator = np.random.default_rng([seed, 9])
    nodes = table.shape[0]
    chosen = np.sort(generator.permutation(nodes)[:_QUANTILE_NODES]) if nodes > _QUANTILE_NODES else np.arange(nodes)
    sample = table if len(chosen) == nodes else table[chosen]
    if not scipy.sparse.issparse(table):
        for block in column_blocks(table.shape[1]):
            by_column = [_cuts(values, len(chosen)) for values in sample[:, block].T]
            if any(map(len, by_column)):
                values = np.ascontiguousarray(table[:, block].T)
                for i, own in enumerate(by_column):
                    if len(own):
                        yield block.start + i, own, None, values[i]
        return
    drawn, whole = (scipy.sparse.csc_array(one) for one in (sample, table))
    for column in range(table.shape[1]):
        cuts = _cuts(drawn.data[drawn.indptr[column] : drawn.indptr[column + 1]], len(chosen))
        if len(cuts):
            stored = slice(whole.indptr[column], whole.indptr[column + 1])
            yield column, cuts, whole.indices[stored], whole.data[stored]


def _cuts(values: Any, nodes: int) -> Array:
    """Values with enough nodes below and above them; none if the column has two values. Nodes without one have 0."""
    zeros = nodes - len(values)
    if len(values) < max(_LEAST_SHARE * nodes, 1):
        return np.empty(0)
    low, high = (min(values.min(), 0), max(values.max(), 0)) if zeros else (values.min(), values.max())
    if ((values == low) | (values == high)).all() and (not zeros or 0 in (low, high)):
        return np.empty(0)
    ordered = np.sort(values)
    if zeros:
        ordered = np.insert(ordered, np.searchsorted(ordered, 0), np.zeros(zeros, ordered.dtype))
    found = np.unique(ordered[(_QUANTILES * nodes).astype(np.int64)])
    above = nodes - np.searchsorted(ordered, found, side="right")
    return found[(above >= _LEAST_SHARE * nodes) & (above <= (1 - _LEAST_SHARE) * nodes)]
