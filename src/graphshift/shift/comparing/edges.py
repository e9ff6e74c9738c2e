"""Block ``edges``: what edges say about labels: which classes they join, beyond what the classes' shares explain.

e[c, d] is the share of edges that join classes c and d. How strongly two classes attract each other is what is left
of e when its margins, which follow from class shares and degrees, are set to others' (iterative proportional fitting,
Deming and Stephan 1940): the odds ratios stay. So the source's e, fitted to the target's margins, is what the target
would have if edges said the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from graphshift.shift.comparing.block import Block
from graphshift.shift.comparing.halving import Halves, inflation
from graphshift.shift.comparing.parts import Array, drawn_parts, exchange_test, interval, t_values
from graphshift.shift.comparing.sides import Pair, Side
from graphshift.shift.comparing.surroundings import Around, similarity_block
from graphshift.shift.reference import reference_of

_MEASURE = "share of edges that join other classes than the source's would"
_MOST_PAIRS = 64  # of classes that are tested one by one; with more classes only each with itself
_LEAST_EDGES = 50


def edges_block(pair: Pair, halves: Halves) -> Block:
    """Compares which classes edges join; with predicted classes where the target has none."""
    if pair.source.environment.y is not None and not pair.source.environment.task.is_classification:
        return _values(pair, halves)
    if pair.classes is None:
        caveat = "the classes of the target are not known and cannot be predicted"
        return Block(
            "edges", _MEASURE, says="Without classes nothing can be said of what edges join.", caveats=(caveat,)
        )
    totals, parts = _pairs_of_classes(pair), pair.parts
    observed = [totals[side].sum(axis=0) for side in (~parts.target, parts.target)]
    if min(float(o.sum()) for o in observed) < 2 * _LEAST_EDGES:
        caveat = f"one of the graphs has fewer than {_LEAST_EDGES} edges between nodes with a class"
        return Block("edges", _MEASURE, says="There are too few edges between nodes with a class.", caveats=(caveat,))
    if any(int((o.sum(axis=1) > 0).sum()) < 2 for o in observed):
        caveat = "all edges of one of the graphs join nodes of one class, so nothing can be said of what they prefer"
        return Block(
            "edges", _MEASURE, says="In one of the graphs edges join nodes of one class only.", caveats=(caveat,)
        )
    shares = [_smooth(o) for o in observed]
    larger = inflation(halves, lambda half: t_values(*_left(half, _pairs_of_classes(half)), half.parts.target))
    columns, sizes = _left(pair, totals)
    tested = exchange_test(columns, sizes, parts.target, inflation=larger, seed=pair.seed)
    effect, same = _effect(totals[~parts.target].sum(axis=0), totals[parts.target].sum(axis=0))
    drawn = [
        _effect(
            np.tensordot(times[~parts.target], totals[~parts.target], axes=1),
            np.tensordot(times[parts.target], totals[parts.target], axes=1),
        )[0]
        for times in drawn_parts(parts.target, draws=200, seed=pair.seed)
    ]
    low, high = interval(np.array(drawn))
    how = " (predicted classes)" if pair.predicted else ""
    says = (
        f"{100 * same[0]:.0f} % of edges join nodes of one class in the source, {100 * same[1]:.0f} % in the target"
        f"{how}; {100 * same[2]:.0f} % would if edges said what they say in the source."
    )
    if pair.predicted:
        said, more = _without_errors(pair)
        says += said
    caveats = (
        ("classes are predicted: a wrong prediction also makes edges look as if they joined others",)
        if pair.predicted
        else ()
    )
    details = {"classes": list(pair.class_names), "predicted": pair.predicted, "homophily": list(same)}
    if pair.predicted:
        details |= more
    details |= {
        "source": (shares[0] / shares[0].sum(axis=1, keepdims=True)).tolist(),
        "target": (shares[1] / shares[1].sum(axis=1, keepdims=True)).tolist(),
    }
    return Block(
        "edges",
        _MEASURE,
        effect=effect,
        low=low,
        high=high,
        p=tested.overall,
        evidence=tested.evidence,
        says=says,
        details=details,
        caveats=caveats,
    )


def _without_errors(pair: Pair) -> tuple[str, dict[str, float]]:
    """The share of edges between nodes of one class when the errors of predictions are taken out; what that is off by.

    How far it is off is seen in the source, where the truth is known.
    """
    reference = reference_of(pair.source.environment)
    found = reference.pairs_of(pair.target.environment, pair.source.environment)
    if found is None or reference.solved is None or reference.known is None:
        return "", {}
    here, error = float(np.trace(found)), float(np.trace(reference.solved) - np.trace(reference.known))
    says = (
        f" With the errors of predictions taken out it is about {100 * here:.0f} % in the target, "
        f"{100 * np.trace(reference.known):.0f} % in the source (there, found without labels, it is "
        f"{100 * abs(error):.0f} points off)."
    )
    return says, {"homophily_without_errors": here, "error_in_source": error}


def _pairs_of_classes(pair: Pair) -> Array:
    """Neighbours by part, class of the node and class of the neighbour, ``[parts, classes, classes]``."""
    assert pair.classes is not None
    count = len(pair.class_names)
    nodes = [_joined(side, own, count) for side, own in zip(pair.sides, pair.classes, strict=True)]
    held = [_by_part(pair, i, found) for i, found in enumerate(nodes)]
    return held[0] + held[1]  # parts of one side are empty in the other


def _left(pair: Pair, totals: Array) -> tuple[Array, Array]:
    """What is left of the pairs of classes beyond what is expected if edges say the same on both sides, and edges.

    One column for each pair of classes (with many classes only each with itself), and one for all pairs of one class.
    """
    left, parts = np.zeros_like(totals), pair.parts
    sides = (~parts.target, parts.target)
    shares = [_smooth(totals[side].sum(axis=0)) for side in sides]
    for side, share in zip(sides, shares, strict=True):
        expected = fitted(shares[0] + shares[1], share.sum(axis=1))
        given = expected / expected.sum(axis=1, keepdims=True)  # of a neighbour, given the node's class
        left[side] = totals[side] - totals[side].sum(axis=2, keepdims=True) * given
    few = totals.shape[1] ** 2 <= _MOST_PAIRS
    columns = left.reshape(parts.count, -1) if few else np.einsum("pcc->pc", left)
    return np.concatenate([columns, np.einsum("pcc->p", left)[:, None]], axis=1), totals.sum(axis=(1, 2))


def fitted(shares: Array, margin: Array, *, rounds: int = 200) -> Array:
    """A symmetric table with the odds ratios of ``shares`` and given margins, by iterative proportional fitting."""
    table = (shares + shares.T) / 2
    for _ in range(rounds):
        ratio = np.sqrt(margin / np.maximum(table.sum(axis=1), 1e-300))
        table = table * ratio[:, None] * ratio[None, :]
        if np.abs(table.sum(axis=1) - margin).max() < 1e-10:
            break
    return table


def _effect(a: Array, b: Array) -> tuple[float, tuple[float, float, float]]:
    """The distance of the target's pairs from the source's under the target's margins; shares of one class."""
    a, b = _smooth(a), _smooth(b)
    expected = fitted(a, b.sum(axis=1))
    return float(np.abs(b - expected).sum() / 2), (float(np.trace(a)), float(np.trace(b)), float(np.trace(expected)))


def _smooth(counts: Array) -> Array:
    """Shares of the pairs of classes, symmetric; half an edge more for each pair, so that none is impossible."""
    counts = (counts + counts.T) / 2 + 0.5
    return np.asarray(counts / counts.sum())


def _joined(side: Side, classes: NDArray[np.int64], count: int) -> Any:
    """How many neighbours of each class every node has; nodes without a class are no neighbours."""
    known = np.flatnonzero(classes >= 0)
    ones = np.ones(len(known))
    member = scipy.sparse.csr_array((ones, (known, classes[known])), shape=(len(classes), count))
    return side.matrix @ member


def _by_part(pair: Pair, i: int, found: Any) -> Array:
    """Neighbours by part, class of the node and class of the neighbour, ``[parts, classes, classes]``."""
    side, parts = pair.sides[i], pair.parts
    assert pair.classes is not None
    number = parts.number[parts.target_nodes == bool(i)]
    classes = pair.classes[i][side.counted]
    known = classes >= 0
    count = found.shape[1]
    cell = number[known] * count + classes[known]
    nodes = int(known.sum())
    member = scipy.sparse.csr_array((np.ones(nodes), cell, np.arange(nodes + 1)), shape=(nodes, parts.count * count))
    sums = member.T @ scipy.sparse.csr_array(found)[side.counted][known]
    return np.asarray(sums.toarray()).reshape(parts.count, count, count)


def _values(pair: Pair, halves: Halves) -> Block:
    """Of values how much neighbours share."""
    measure = "difference in how much neighbours share of a node's value"
    if pair.target.environment.y is None:
        return Block("edges", measure, says="The target has no labels.", caveats=("the target has no labels",))
    return similarity_block("edges", measure, pair, halves, _values_around, what="value")


def _values_around(pair: Pair) -> Around:
    """A node's value less the mean, the mean of its neighbours', and whether there are any."""
    own, around, weight = [], [], []
    for side in pair.sides:
        y = side.labels
        assert y is not None
        known = side.counted.astype(np.float64)
        z = np.where(side.counted, y - y[side.counted].mean(), 0.0)
        degree = side.matrix @ known
        own.append(z[side.counted])
        around.append(((side.matrix @ z) / np.maximum(degree, 1))[side.counted])
        weight.append((degree > 0)[side.counted].astype(np.float64))
    own_all, around_all, weight_all = (np.concatenate(part)[:, None] for part in (own, around, weight))
    return own_all, around_all, weight_all
