"""Block ``labels``: the shares of the classes, or the values; and predictions where the target has no labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from graphshift.estimators.adaptation import calibrated_to
from graphshift.shift.comparing.block import Block
from graphshift.shift.comparing.parts import Array, drawn_parts, exchange_test, interval
from graphshift.shift.comparing.sides import Pair, Side

_MEASURE = "share of nodes that would have to change their class"
_FOLDS = 4
_MOST = 20_000  # source nodes that the predictions are learned from
_PIECE = 20_000  # nodes that are predicted at a time


def labels_block(pair: Pair) -> Block:
    """Compares the class shares of the counted nodes, known in both graphs or estimated in the target."""
    source, target = pair.source.environment, pair.target.environment
    if source.y is None:
        return Block(
            "labels",
            _MEASURE,
            says="The source has no labels.",
            caveats=("without labels of the source nothing is known of classes",),
        )
    if not source.task.is_classification:
        return _values(pair)
    if target.y is not None:
        classes = pair.counted_classes
        assert classes is not None
        return _shares(pair, classes)
    return _estimated(pair)


def _shares(pair: Pair, classes: NDArray[np.int64]) -> Block:
    parts, count = pair.parts, len(pair.class_names)
    held = parts.total(np.eye(count)[classes])
    there = held.sum(axis=0) > 0
    if int((held[~parts.target].sum(axis=0) > 0).sum()) < 2:
        caveat = "the source has one class only, so nothing can be said of how classes differ"
        return Block("labels", _MEASURE, says="The source has one class only.", caveats=(caveat,))
    tested = exchange_test(held[:, there], parts.sizes, parts.target, seed=pair.seed)
    times = drawn_parts(parts.target, seed=pair.seed).astype(np.float64)
    share = [_side_shares(times, held, side) for side in (~parts.target, parts.target)]
    drawn = np.abs(share[1] - share[0]).sum(axis=1) / 2
    once = np.ones((1, parts.count))
    a, b = (_side_shares(once, held, side)[0] for side in (~parts.target, parts.target))
    effect = float(np.abs(b - a).sum() / 2)
    low, high = interval(drawn)
    details = {"classes": list(pair.class_names), "source": a.tolist(), "target": b.tolist(), "estimated": False}
    return Block(
        "labels",
        _MEASURE,
        effect=effect,
        low=low,
        high=high,
        p=tested.overall,
        evidence=tested.evidence,
        says=_sentence(pair, a, b, effect),
        details=details,
    )


def _side_shares(times: Array, held: Array, side: NDArray[np.bool_]) -> Array:
    counts = times[:, side] @ held[side]
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def _sentence(pair: Pair, a: Array, b: Array, effect: float, how: str = "") -> str:
    most = int(np.abs(b - a).argmax())
    return (
        f"{100 * effect:.0f} % of the nodes would have to change their class{how}; most moved class "
        f"{pair.class_names[most]}: {100 * a[most]:.0f} → {100 * b[most]:.0f} %."
    )


def _values(pair: Pair) -> Block:
    """Of values the mean, in units of the source's deviation."""
    measure = "difference of the mean value, in deviations of the source"
    if pair.target.environment.y is None:
        caveat = "the target has no labels, and of values nothing is estimated"
        return Block("labels", measure, says="The target has no labels.", caveats=(caveat,))
    y = pair.counted((pair.source.labels, pair.target.labels)).astype(np.float64)
    parts = pair.parts
    own = y[~parts.target_nodes]
    deviation = float(own.std())
    if not deviation:
        return Block(
            "labels", measure, says="All values of the source are equal.", caveats=("the source's values are equal",)
        )
    scaled = (y - own.mean()) / deviation
    totals = parts.total(np.stack([scaled, np.square(scaled)], axis=1))
    tested = exchange_test(totals, parts.sizes, parts.target, seed=pair.seed)
    times = drawn_parts(parts.target, seed=pair.seed).astype(np.float64)
    side = parts.target
    drawn = (times[:, side] @ totals[side, 0]) / np.maximum(times[:, side] @ parts.sizes[side], 1)
    effect = float(scaled[parts.target_nodes].mean())
    low, high = interval(drawn)
    says = f"The mean value is {own.mean():.4g} in the source and {y[parts.target_nodes].mean():.4g} in the target."
    evidence = tested.evidence
    return Block("labels", measure, effect=effect, low=low, high=high, p=tested.overall, evidence=evidence, says=says)


def _estimated(pair: Pair) -> Block:
    """Class shares of an unlabelled target, by expectation maximisation over predictions from the features."""
    predicted = predicted_classes(pair)
    if predicted is None:
        caveat = "the source's classes cannot be learned from its features: label some nodes of the target"
        return Block(
            "labels", _MEASURE, says="Without labels nothing can be said of the target's classes.", caveats=(caveat,)
        )
    scores, classes, target_scores, accuracy = predicted
    prior = torch.from_numpy(np.bincount(classes, minlength=len(pair.class_names)) / len(classes))
    calibration = calibrated_to([torch.from_numpy(scores)], [torch.from_numpy(classes)], prior)
    found, unsafe = calibration.prior_on(torch.from_numpy(target_scores), pair.class_names)
    a, b = prior.numpy(), found.numpy()
    effect = float(np.abs(b - a).sum() / 2)
    details = {"classes": list(pair.class_names), "source": a.tolist(), "target": b.tolist(), "estimated": True}
    details |= {"accuracy_on_source": accuracy}
    caveats = [
        "the target has no labels: shares are estimated from predictions that are right for "
        f"{100 * accuracy:.0f} % of the source's nodes"
    ]
    if unsafe is not None:
        caveats.append(f"the estimate is not to be trusted: {unsafe}")
        says = "The class shares of the target cannot be told without labels."
        return Block("labels", _MEASURE, effect=effect, says=says, details=details, caveats=tuple(caveats))
    parts = pair.parts
    hard = np.concatenate([scores.argmax(axis=1), target_scores.argmax(axis=1)])
    held = parts.total(np.eye(len(pair.class_names))[hard])
    tested = exchange_test(held[:, held.sum(axis=0) > 0], parts.sizes, parts.target, seed=pair.seed)
    drawn = []
    target_parts = parts.number[parts.target_nodes] - int((~parts.target).sum())
    generator = np.random.default_rng([pair.seed, 4])
    count = int(parts.target.sum())
    members = [np.flatnonzero(target_parts == one) for one in range(count)]
    for _ in range(40):
        rows = np.concatenate([members[one] for one in generator.integers(count, size=count)])
        again, _ = calibration.prior_on(torch.from_numpy(target_scores[rows]))
        drawn.append(np.abs(again.numpy() - a).sum() / 2)
    low, high = interval(np.array(drawn))
    return Block(
        "labels",
        _MEASURE,
        effect=effect,
        low=low,
        high=high,
        p=tested.overall,
        evidence=tested.evidence,
        says=_sentence(pair, a, b, effect, f" (estimated; {100 * low:.0f} to {100 * high:.0f} %)"),
        details=details,
        caveats=tuple(caveats),
    )


def predicted_classes(pair: Pair) -> tuple[Array, NDArray[np.int64], Array, float] | None:
    """Class scores of source nodes that the model had not seen, their classes, scores of target nodes, the accuracy.

    A logistic regression on a node's features and the mean of its neighbours'. None if it is no better than the largest
    class. Sets the pair's predicted classes, of all nodes.
    """
    source = pair.source.environment
    assert source.y is not None
    first, second = pair.sides
    counted = np.flatnonzero(first.counted)
    classes = source.y.cpu().numpy()[counted]
    count = len(pair.class_names)
    if len(np.unique(classes)) < 2:
        return None
    number = pair.parts.number[~pair.parts.target_nodes]
    fold = np.random.default_rng([pair.seed, 5]).permutation(int(number.max()) + 1)[number] % _FOLDS
    logarithms = np.full((len(classes), count), -30.0)
    for one in range(_FOLDS):
        held, others = np.flatnonzero(fold == one), np.flatnonzero(fold != one)
        model = _learned(first, counted[others], classes[others], pair.seed)
        if model is None:
            return None
        _fill(logarithms, held, model, first, counted[held])
    accuracy = float((logarithms.argmax(axis=1) == classes).mean())
    if accuracy <= np.bincount(classes).max() / len(classes) + 0.02:
        return None
    model = _learned(first, counted, classes, pair.seed)
    assert model is not None
    every = np.arange(pair.target.environment.num_nodes)
    everyone = np.full((len(every), count), -30.0)
    _fill(everyone, every, model, second, every)
    everyone = np.maximum(everyone, -30)
    known = np.full(source.num_nodes, -1)
    known[counted] = logarithms.argmax(axis=1)
    pair.classes = (known, everyone.argmax(axis=1))
    pair.predicted = True
    return np.maximum(logarithms, -30), classes, everyone[pair.target.counted], accuracy


def learned_classifier(table: Any, classes: NDArray[np.int64], seed: int, most: int = _MOST) -> Any:
    """A logistic regression; None if there is one class only.

    Args:
        table: a row for each node, also scipy CSR.
        classes: of these.
        seed: of the rows that are taken where there are more than ``most``.
        most: rows that are learned from.
    """
    if len(np.unique(classes)) < 2:
        return None
    rows = _some(table.shape[0], most, seed)
    table, classes = table[rows], classes[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(max_iter=100, tol=1e-3).fit(table, classes)


def _some(count: int, most: int, seed: int) -> Any:
    """Which of ``count`` rows are learned from: all, or as many as may be."""
    return slice(None) if count <= most else np.sort(np.random.default_rng([seed, 6]).permutation(count)[:most])


def _learned(side: Side, nodes: NDArray[np.int64], classes: NDArray[np.int64], seed: int) -> Any:
    """As :func:`learned_classifier`, of some nodes of a side by their features and those around them."""
    rows = _some(len(nodes), _MOST, seed)
    return learned_classifier(_with_neighbours(side, nodes[rows]), classes[rows], seed)


def _fill(logarithms: Array, places: NDArray[np.int64], model: Any, side: Side, nodes: NDArray[np.int64]) -> None:
    """Puts log probabilities of nodes into the rows ``places``, some nodes at a time: a table of all would be large."""
    for begin in range(0, len(nodes), _PIECE):
        piece = slice(begin, begin + _PIECE)
        said = model.predict_log_proba(_with_neighbours(side, nodes[piece]))
        logarithms[np.ix_(places[piece], model.classes_)] = said


def _with_neighbours(side: Side, nodes: NDArray[np.int64]) -> Any:
    """Features of some nodes beside the mean of their neighbours' features."""
    inverse = scipy.sparse.diags_array(1 / np.maximum(side.degree[nodes], 1))
    edges = side.matrix[nodes].astype(side.x.dtype)  # of another type, the product would copy all features
    x, around = side.x[nodes].astype(np.float64), inverse @ (edges @ side.x)
    if scipy.sparse.issparse(x):
        return scipy.sparse.csr_array(scipy.sparse.hstack([x, around]))
    return np.concatenate([x, around], axis=1)
