"""Parts of two graphs, and tests that resample parts: nodes of one community are alike, not independent draws.

Every quantity that is compared is a mean over nodes. Part p holds the sum X_p and the number N_p, so a side's mean is
ΣX / ΣN, and its variance follows from how far parts are from it: Σ(X_p - mean N_p)² / (ΣN)² · k / (k - 1), for k parts.
The difference of the two sides in units of its deviation is t. Under "nothing has moved" parts could as well have been
drawn from the other side: p values count how often an exchange of parts gives as large a |t|, the largest over all
columns, so that they are corrected for the number of columns (Westfall and Young, 1993).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from graphshift.data.communities import communities
from graphshift.data.environment import Environment

Array = NDArray[np.float64]

PARTS = 60  # of both graphs together; a graph has at least FEWEST
FEWEST = 12
EXCHANGES = 999
_DRAWS = 400  # of the bootstrap
_COLUMNS = 8  # of a dense table that are looked at together
_FLOOR = 0.1  # of the pooled variance: a side with less is taken to have this much


def column_blocks(count: int) -> list[slice]:
    """Columns a few at a time, for what takes copies of a large table."""
    return [slice(begin, begin + _COLUMNS) for begin in range(0, count, _COLUMNS)]


@dataclass(frozen=True)
class Parts:
    """The parts of two graphs, source first.

    Attributes:
        number: the part of each counted node of both graphs, source's nodes first.
        target: of each part whether it is of the target, ``[parts]``.
        everyone: of source and target the part of every node, counted or not; -1 for nodes of no part.
    """

    number: NDArray[np.int64]
    target: NDArray[np.bool_]
    everyone: tuple[NDArray[np.int64], NDArray[np.int64]]

    @property
    def count(self) -> int:
        """How many parts both graphs have."""
        return len(self.target)

    @property
    def target_nodes(self) -> NDArray[np.bool_]:
        """Which counted nodes are the target's."""
        return self.target[self.number]

    def total(self, values: Array) -> Array:
        """Sums over the nodes of each part: of ``[nodes]`` or ``[nodes, columns]``, also sparse."""
        nodes = len(self.number)
        member = scipy.sparse.csr_array((np.ones(nodes), self.number, np.arange(nodes + 1)), shape=(nodes, self.count))
        if scipy.sparse.issparse(values):
            return np.asarray((member.T @ values).toarray())
        if values.ndim == 1:
            return np.asarray(member.T @ values)
        # The product makes float64 of what it is given: of some columns at a time.
        return np.concatenate([member.T @ values[:, block] for block in column_blocks(values.shape[1])], axis=1)

    @property
    def sizes(self) -> Array:
        """The nodes of each part."""
        return np.bincount(self.number, minlength=self.count).astype(np.float64)


def parts_of(source: Environment, target: Environment, *, seed: int = 0) -> Parts:
    """Cuts both graphs into communities of about one size; those without a counted node are left out."""
    numbers: list[NDArray[np.int64]] = []
    everyone: list[NDArray[np.int64]] = []
    begin = 0
    counted = [int(e.mask.sum()) for e in (source, target)]
    for i, environment in enumerate((source, target)):
        wanted = max(round(PARTS * counted[i] / sum(counted)), FEWEST)
        # Only counted nodes make a part large: the graph may hold many others.
        wanted = round(wanted * environment.num_nodes / counted[i])
        whole = communities(environment.graph, wanted, seed=seed + i)
        mask = environment.mask.cpu().numpy()
        used, part = np.unique(whole[mask], return_inverse=True)
        merged = _merged(part, len(used), max(round(PARTS * counted[i] / sum(counted)), FEWEST))
        lookup = np.full(int(whole.max()) + 1, -1)
        lookup[used] = merged + begin
        everyone.append(lookup[whole])
        numbers.append(lookup[whole][mask])
        begin += int(merged.max()) + 1
    first = int(numbers[0].max()) + 1
    return Parts(np.concatenate(numbers), np.arange(begin) >= first, (everyone[0], everyone[1]))


def _merged(part: NDArray[np.int64], count: int, wanted: int) -> NDArray[np.int64]:
    """The part of each community: small ones are put together, so that none is under half of the mean size."""
    if count <= wanted:
        return np.arange(count)
    sizes = np.bincount(part)
    least = len(part) / wanted / 2
    order = np.argsort(sizes, kind="stable")
    merged, held, current = np.empty(count, dtype=np.int64), 0.0, 0
    for one in order:
        merged[one] = current
        held += sizes[one]
        if held >= least:
            current, held = current + 1, 0.0
    if held and current:
        merged[merged == current] = current - 1
    return merged


class Tested(NamedTuple):
    """What an exchange test found.

    Attributes:
        t: the difference target - source of each column in units of its deviation, ``[columns]``.
        p: of each column, corrected for all of them, ``[columns]``.
        overall: the smallest of them.
        evidence: how far the largest |t| is from what exchanges give, in their deviations; comparable between tests.
    """

    t: Array
    p: Array
    overall: float
    evidence: float


def exchange_test(
    totals: Array,
    sizes: Array,
    target: NDArray[np.bool_],
    *,
    strata: NDArray[np.int64] | None = None,
    inflation: Array | float = 1.0,
    exchanges: int = EXCHANGES,
    seed: int = 0,
) -> Tested:
    """Tests whether means differ between the parts of the source and those of the target.

    Args:
        totals: X, the sums over each part, ``[parts, columns]``.
        sizes: N, ``[parts]``, or ``[parts, columns]`` where columns are means over different nodes.
        target: which parts are the target's, ``[parts]``.
        strata: parts are exchanged inside these groups only, ``[parts]``; None for all.
        inflation: what the observed t is divided by: how much too large it is between halves of one graph, of each
            column (:mod:`graphshift.shift.comparing.halving`).
        exchanges: how many random exchanges; the least p value is 1 / (exchanges + 1).
        seed: of the exchanges.
    """
    totals = totals.reshape(len(target), -1)
    sizes = np.broadcast_to(sizes.reshape(len(target), -1), totals.shape)
    assigned = _exchanges(target, strata, exchanges, seed)
    found = np.zeros(totals.shape[1])
    largest = np.zeros(exchanges)
    for start in range(0, totals.shape[1], 512):
        block = slice(start, start + 512)
        t = _t_values(totals[:, block], sizes[:, block], assigned)
        found[block] = t[0]
        largest = np.maximum(largest, np.abs(t[1:]).max(axis=1))
    found = found / inflation
    ordered = np.sort(largest)
    as_large = exchanges - np.searchsorted(ordered, np.abs(found) * (1 - 1e-12), side="left")
    p = (1 + as_large) / (1 + exchanges)
    spread = max(float(largest.std()), 1e-12)
    return Tested(found, p, float(p.min()), float((np.abs(found).max() - largest.mean()) / spread))


def t_values(totals: Array, sizes: Array, target: NDArray[np.bool_]) -> Array:
    """t of each column, ``[columns]``: see :func:`exchange_test`."""
    totals = totals.reshape(len(target), -1)
    sizes = np.broadcast_to(sizes.reshape(len(target), -1), totals.shape)
    return np.asarray(_t_values(totals, sizes, target[None].astype(np.float64))[0])


def _exchanges(
    target: NDArray[np.bool_], strata: NDArray[np.int64] | None, exchanges: int, seed: int
) -> NDArray[np.float64]:
    """The observed assignment, then random ones with as many target parts (in each stratum), ``[1 + R, parts]``."""
    generator = np.random.default_rng(seed)
    strata = np.zeros(len(target), dtype=np.int64) if strata is None else strata
    assigned = np.empty((exchanges + 1, len(target)))
    assigned[0] = target
    for group in np.unique(strata):
        inside = np.flatnonzero(strata == group)
        order = np.argsort(generator.random((exchanges, len(inside))), axis=1)
        assigned[1:, inside] = target[inside][order]
    return assigned


def _t_values(totals: Array, sizes: Array, assigned: Array) -> Array:
    """t of every column under every assignment, ``[assignments, columns]``."""
    means, variances = [], []
    for side in (1 - assigned, assigned):
        k = side.sum(axis=1, keepdims=True)
        count = np.maximum(side @ sizes, 1e-300)
        mean = (side @ totals) / count
        spread = side @ np.square(totals) - 2 * mean * (side @ (totals * sizes)) + mean**2 * (side @ np.square(sizes))
        means.append(mean)
        variances.append(np.maximum(spread, 0) / count**2 * k / np.maximum(k - 1, 1))
    pooled = variances[0] + variances[1]
    variance = np.maximum(variances[0], _FLOOR * pooled) + np.maximum(variances[1], _FLOOR * pooled)
    scale = np.square(totals).sum(axis=0) / np.maximum(sizes.sum(axis=0), 1e-300) ** 2  # of rounding errors
    safe = np.sqrt(np.maximum(variance, 1e-12 * scale + 1e-300))
    return np.where(np.abs(means[1] - means[0]) > 1e-12, (means[1] - means[0]) / safe, 0.0)


def drawn_parts(target: NDArray[np.bool_], *, draws: int = _DRAWS, seed: int = 0) -> NDArray[np.int64]:
    """How often each part is drawn in bootstrap samples of parts, side by side, ``[draws, parts]``."""
    generator = np.random.default_rng([seed, 1])
    times = np.zeros((draws, len(target)), dtype=np.int64)
    for side in (~target, target):
        inside = np.flatnonzero(side)
        times[:, inside] = generator.multinomial(len(inside), np.full(len(inside), 1 / len(inside)), size=draws)
    return times


def interval(values: Array) -> tuple[float, float]:
    """The middle 95 % of bootstrap values."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def holm(p_values: list[float]) -> list[float]:
    """Holm's correction of several p values (1979)."""
    order = np.argsort(p_values, kind="stable")
    corrected, running = np.empty(len(p_values)), 0.0
    for place, i in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[i]))
        corrected[i] = running
    return [float(p) for p in corrected]
