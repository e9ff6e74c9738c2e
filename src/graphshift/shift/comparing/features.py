"""Block ``features``: every column, and all of them jointly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from scipy.stats import norm as normal

from graphshift.datasets.tables.numeric import Unit
from graphshift.shift.comparing.block import Block, joined
from graphshift.shift.comparing.crossing import crossings
from graphshift.shift.comparing.parts import Array, column_blocks, exchange_test
from graphshift.shift.comparing.sides import Pair
from graphshift.shift.comparing.telling import tell_apart

_LEAST = 10  # nodes in which a column must differ from 0, else it says nothing
SHOWN = 10  # columns
_BINS = 20
_OTHER_UNITS = 30.0  # a column whose scale differs by this factor
_CENTRED = 0.01  # deviations that the mean of a standardised column is from 0, at most: all nodes need not be counted
_BY_CHANCE = 4.0  # standard errors that the mean of a column around 0 is from it, at most
_HISTOGRAM_NODES = 50_000


def features_block(pair: Pair, names: tuple[str, ...], units: Sequence[Unit] | None = None) -> Block:
    """Compares the features of the counted nodes.

    Args:
        pair: the two graphs.
        names: of the columns.
        units: in which their values are told; None for those that they have.
    """
    table = pair.counted((pair.source.x, pair.target.x))
    parts = pair.parts
    sums = parts.total(table)
    filled = np.asarray((table != 0).sum(axis=0)).ravel() if scipy.sparse.issparse(table) else _filled(table)
    constant = filled < _LEAST
    means, spread = _moments(table, parts.target_nodes)
    pooled = np.sqrt(np.maximum((spread[0] ** 2 + spread[1] ** 2) / 2, 1e-12))
    constant |= np.maximum(spread[0], spread[1]) <= 1e-6 * (1 + np.abs(means).max(axis=0))
    constant &= ~(np.abs(means[1] - means[0]) > 1e-6 * (1 + np.abs(means).max(axis=0)))
    usable = np.flatnonzero(~constant)
    if not len(usable):
        return Block("features", _MEASURE, says="No column has values to compare.", caveats=("no column varies",))
    adjusted = pair.given_classes(sums, table)[:, usable]
    table = table[:, usable] if len(usable) < table.shape[1] else table
    crossed = crossings(pair, table)
    both = np.concatenate([adjusted, crossed.totals], axis=1)
    tested = exchange_test(both, parts.sizes, parts.target, seed=pair.seed)
    by_mean, by_column = tested.p[: len(usable)], tested.p[: len(usable)].copy()
    np.minimum.at(by_column, crossed.column, tested.p[len(usable) :])
    sides = (("source", ~parts.target_nodes), ("target", parts.target_nodes))
    told = tell_apart(pair, table)
    p, evidence = joined(tested, told.tested)
    difference = np.clip((means[1] - means[0]) / pooled, -99, 99)[usable]
    apart = np.zeros(len(usable))
    np.maximum.at(apart, crossed.column, crossed.gap)
    order = np.lexsort((-np.maximum(np.abs(difference), _in_deviations(apart)), by_column))
    shown: list[dict[str, Any]] = []
    for c in map(int, order[:SHOWN]):
        unit = Unit() if units is None else units[usable[c]]
        values = unit.mean + unit.scale * _values(table, c).astype(np.float64)
        row = {"column": names[usable[c]], "of": unit.of, "difference": float(difference[c])}
        row |= {name: float(values[side].mean()) for name, side in sides}
        row |= {"p": float(by_column[c]), "p_mean": float(by_mean[c]), **_farthest(values, parts.target_nodes)}
        shown.append(row | {"histogram": _histogram(values, parts.target_nodes)})
    moved = int((by_column < 0.05).sum())
    given = " of one class" if pair.counted_classes is not None else ""
    says = (
        f"Nodes{given} are told apart by their features with an AUC of {told.auc:.2f} (0.50 is chance); "
        f"{moved} of {len(usable)} columns moved" + (f", most of all {_spoken(shown[0])}." if moved else ".")
    )
    details: dict[str, Any] = {"columns": shown, "columns_moved": moved, "columns_tested": len(usable)}
    caveats = _units(means, spread, int((~parts.target_nodes).sum()), usable, names)
    if told.sampled:
        caveats.append(f"the classifier saw {told.sampled:,} sampled nodes of {len(parts.number):,}")
    return Block(
        "features",
        _MEASURE,
        effect=told.auc,
        none=0.5,
        low=told.low,
        high=told.high,
        p=p,
        evidence=evidence,
        says=says,
        details=details,
        caveats=tuple(caveats),
    )


def _spoken(row: Mapping[str, Any]) -> str:
    """A column, and by how much it moved: its mean, unless that hides most."""
    name = named(row)
    if row["p_mean"] < 0.05 and _in_deviations(row["apart"]) < 2 * abs(row["difference"]):
        return f"{name} ({row['difference']:+.2f} deviations)"
    shares = [f"{100 * row[side]:.0f} %" for side in ("source_at_most", "target_at_most")]
    return (
        f"{name} ({shares[0]} of the source's nodes and {shares[1]} of the target's have at most "
        f"{row['at']:.3g}; the means are {row['difference']:+.2f} deviations apart)"
    )


def named(row: Mapping[str, Any]) -> str:
    """The name of a column, and what of it is told."""
    return f"{row['column']} ({row['of']})" if row["of"] else str(row["column"])


def _in_deviations(apart: Any) -> Any:
    """By how many deviations two bell curves are apart whose shares below a value differ by at most ``apart``."""
    return 2 * normal.ppf((1 + np.minimum(apart, 0.999)) / 2)


def _farthest(values: Array, target: Any) -> dict[str, float]:
    """The value below which the shares of both graphs' nodes differ most (Kolmogorov and Smirnov)."""
    own = [np.sort(values[side]) for side in (~target, target)]
    at = np.unique(values)
    shares = [np.searchsorted(one, at, side="right") / len(one) for one in own]
    most = int(np.abs(shares[1] - shares[0]).argmax())
    a, b = (float(share[most]) for share in shares)
    return {"apart": abs(b - a), "at": float(at[most]), "source_at_most": a, "target_at_most": b}


def _values(table: Any, column: int) -> Any:
    values = table[:, [column]]
    return (values.toarray() if scipy.sparse.issparse(values) else np.asarray(values)).ravel()


_MEASURE = "AUC of telling nodes apart by their features"


def _moments(table: Any, target: Any) -> tuple[Array, Array]:
    """The mean and the deviation of every column on each side, ``[2, columns]``."""
    means, spread = [], []
    for side in (~target, target):
        if scipy.sparse.issparse(table):
            own = table[side]
            mean = np.asarray(own.mean(axis=0), dtype=np.float64).ravel()
            second = np.asarray(own.multiply(own).mean(axis=0), dtype=np.float64).ravel() - mean**2
        else:
            blocks = (table[:, block][side].astype(np.float64) for block in column_blocks(table.shape[1]))
            mean, second = np.concatenate([[one.mean(axis=0), one.var(axis=0)] for one in blocks], axis=1)
        means.append(mean)
        spread.append(np.sqrt(np.maximum(second, 0)))
    return np.stack(means), np.stack(spread)


def _filled(table: Any) -> Any:
    """How many values of each column of a dense table differ from 0."""
    return np.concatenate([(table[:, block] != 0).sum(axis=0) for block in column_blocks(table.shape[1])])


def _histogram(values: Array, target: Any) -> dict[str, Any]:
    """The distribution of a column on both sides, in bins: two values for a column of two values."""
    distinct = np.unique(values[: min(len(values), _HISTOGRAM_NODES)])
    if len(distinct) <= 2:
        edges = [float(distinct[0]), float(distinct[-1])]
        shares = [[float((values[side] == v).mean()) for v in edges] for side in (~target, target)]
        return {"values": edges, "source": shares[0], "target": shares[1]}
    low, high = np.quantile(values, (0.005, 0.995))
    if low == high:
        low, high = float(values.min()), float(values.max())
    bins = np.linspace(low, high, _BINS + 1)
    shares = [
        (np.histogram(np.clip(values[side], low, high), bins)[0] / max(int(side.sum()), 1)).tolist()
        for side in (~target, target)
    ]
    return {"bins": bins.tolist(), "source": shares[0], "target": shares[1]}


def _units(means: Array, spread: Array, nodes: int, usable: Any, names: tuple[str, ...]) -> list[str]:
    """Columns whose scale differs so much that they may be in other units.

    Mean and deviation have to differ alike, but where the source's mean, over ``nodes``, is about 0: then the
    deviation alone tells.
    """
    ratio = (spread[1] + 1e-12) / (spread[0] + 1e-12)
    size = (np.abs(means[1]) + 1e-12) / (np.abs(means[0]) + 1e-12)
    centred = np.abs(means[0]) < max(_CENTRED, _BY_CHANCE / np.sqrt(nodes)) * spread[0]
    size = np.where(centred, ratio, size)
    both = np.minimum(np.maximum(ratio, 1 / ratio), np.maximum(size, 1 / size))
    same_way = (ratio > 1) == (size > 1)
    varies = np.minimum(spread[0], spread[1]) > 1e-9
    odd = [int(c) for c in usable if both[c] > _OTHER_UNITS and same_way[c] and varies[c]]
    if not odd:
        return []
    listed = ", ".join(f"{names[c]} (about {ratio[c]:,.3g} times)" for c in odd[:3]) + ("…" if len(odd) > 3 else "")
    return [f"the scale of {listed} differs so much that it may be in other units"]
