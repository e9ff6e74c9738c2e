"""A classifier that tells the nodes of two graphs apart, cross-validated over parts."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from graphshift.shift.comparing.parts import Array, Tested, drawn_parts, exchange_test, interval
from graphshift.shift.comparing.sides import Pair

#: Nodes of both graphs that the classifier sees at most; more are sampled, evenly over parts.
MOST_NODES = 20_000
_FOLDS = 4
_BINS = 32  # of a column's values, for the trees
_MOST_TREE_COLUMNS = 64  # more columns are weighed by a logistic regression


class Told(NamedTuple):
    """How well the two graphs' nodes can be told apart.

    Attributes:
        auc: how often a target node looks more like the target than a source node does; 0.5 if nothing differs.
        low, high: a 95 % interval over parts.
        tested: whether it is above one half.
        sampled: how many nodes were looked at, if not all.
    """

    auc: float
    low: float
    high: float
    tested: Tested
    sampled: int | None


def tell_apart(pair: Pair, columns: Any) -> Told:
    """Trains on three quarters of the parts and ranks the nodes of the fourth by how much they look like target.

    Nodes are compared with those of their own class where classes are known: the difference of the two sides' mean
    ranks, plus one half, is the area under the ROC curve.

    Args:
        pair: the two graphs.
        columns: of the counted nodes, ``[nodes, columns]``, also sparse.
    """
    totals, sizes, fold, sampled = _ranked(pair, columns)
    parts = pair.parts
    tested = exchange_test(totals[:, None], sizes, parts.target, strata=fold, seed=pair.seed)
    if tested.t[0] < 0:  # worse than chance is chance
        tested = tested._replace(overall=1.0, evidence=0.0)
    times = drawn_parts(parts.target, seed=pair.seed).astype(np.float64)
    draws = 0.5 + _difference(times, totals, sizes, parts.target)
    auc = 0.5 + float(_difference(np.ones((1, parts.count)), totals, sizes, parts.target)[0])
    low, high = np.clip(interval(draws), 0.0, 1.0)
    return Told(auc, float(low), float(high), tested, sampled)


def _ranked(pair: Pair, columns: Any) -> tuple[Array, Array, NDArray[np.int64], int | None]:
    """The sum of ranks and the number of nodes of each part, its fold, and how many nodes were sampled, if not all."""
    parts, generator = pair.parts, np.random.default_rng([pair.seed, 2])
    chosen = _sampled(parts.number, generator)
    number, target = parts.number[chosen], parts.target_nodes[chosen]
    table = columns[chosen]
    if _few(table):
        table = _binned(table)
    classes = None if pair.counted_classes is None else pair.counted_classes[chosen]
    fold = _folds(parts.target, generator)
    weight = _balanced(target, classes)
    rank = np.zeros(len(chosen))
    for one in range(_FOLDS):
        inside = fold[number] == one
        model = _classifier(table, pair.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(table[~inside], target[~inside], sample_weight=weight[~inside])
        score = model.predict_proba(table[inside])[:, 1]
        rank[inside] = _ranks(score)
    centred = rank - _class_means(rank, target, classes)
    totals: Array = np.bincount(number, weights=centred, minlength=parts.count).astype(np.float64)
    sizes = np.bincount(number, minlength=parts.count).astype(np.float64)
    return totals, sizes, fold, len(chosen) if len(chosen) < len(parts.number) else None


def _difference(times: Array, totals: Array, sizes: Array, target: NDArray[np.bool_]) -> Array:
    """Mean of the target's parts minus mean of the source's, for each row of how often parts are drawn."""
    means = [
        (times[:, side] @ totals[side]) / np.maximum(times[:, side] @ sizes[side], 1) for side in (~target, target)
    ]
    return means[1] - means[0]


def _sampled(number: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    if len(number) <= MOST_NODES:
        return np.arange(len(number))
    return np.sort(generator.permutation(len(number))[:MOST_NODES])


def _folds(target: NDArray[np.bool_], generator: np.random.Generator) -> NDArray[np.int64]:
    """The fold of each part; both sides' parts are spread evenly."""
    fold = np.empty(len(target), dtype=np.int64)
    for side in (~target, target):
        inside = generator.permutation(np.flatnonzero(side))
        fold[inside] = np.arange(len(inside)) % _FOLDS
    return fold


def _balanced(target: NDArray[np.bool_], classes: NDArray[np.int64] | None) -> Array:
    """Weights with which both sides, and every class in both, weigh the same."""
    cell = target.astype(np.int64) if classes is None else classes * 2 + target
    sizes = np.bincount(cell, minlength=int(cell.max()) + 2).astype(np.float64)
    other = sizes[cell ^ 1]
    return np.where(other > 0, (sizes[cell] + other) / np.maximum(sizes[cell], 1), 0.0)


def _class_means(rank: Array, target: NDArray[np.bool_], classes: NDArray[np.int64] | None) -> Array:
    """For each node the mean of its class, both sides weighing the same; without classes one half."""
    if classes is None:
        return np.full(len(rank), 0.5)
    count = int(classes.max()) + 1
    means = np.zeros((2, count))
    sizes = np.zeros((2, count))
    for i, side in enumerate((~target, target)):
        sizes[i] = np.bincount(classes[side], minlength=count)
        means[i] = np.bincount(classes[side], weights=rank[side], minlength=count) / np.maximum(sizes[i], 1)
    there = sizes > 0
    middle = (means * there).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return middle[classes]


def _ranks(score: Array) -> Array:
    """Ranks in (0, 1), equal scores sharing theirs."""
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    after = np.cumsum(counts)
    return ((after - counts / 2) / len(score))[inverse]


def _few(table: Any) -> bool:
    return not scipy.sparse.issparse(table) and table.shape[1] <= _MOST_TREE_COLUMNS


def _binned(table: Array) -> Array:
    """The bin of each value, out of equally full ones: trees see no more, and find weighted bins slowly."""
    cuts = np.quantile(table, np.arange(1, _BINS) / _BINS, axis=0)
    return np.stack([np.searchsorted(cuts[:, i], table[:, i]) for i in range(table.shape[1])], axis=1).astype(
        np.float64
    )


def _classifier(table: Any, seed: int) -> Any:
    if _few(table):
        return HistGradientBoostingClassifier(
            max_iter=40,
            max_leaf_nodes=8,
            min_samples_leaf=40,
            learning_rate=0.15,
            early_stopping=False,
            random_state=seed,
        )
    return _Scaled()


class _Scaled:
    """A ridge-penalised logistic regression on columns in units of their deviation; sparse ones stay sparse."""

    def fit(self, table: Any, target: NDArray[np.bool_], sample_weight: Array) -> _Scaled:
        second = table.multiply(table).mean(axis=0) if scipy.sparse.issparse(table) else np.square(table).mean(axis=0)
        mean = np.asarray(table.mean(axis=0)).ravel()
        self.scale = 1 / np.sqrt(np.maximum(np.asarray(second).ravel() - mean**2, 1e-12))
        self.scale[self.scale > 1e5] = 0.0
        self.model = LogisticRegression(C=0.1 / np.sqrt(table.shape[1]), max_iter=60, tol=1e-3)
        self.model.fit(self._scaled(table), target, sample_weight=sample_weight / sample_weight.mean())
        return self

    def predict_proba(self, table: Any) -> Array:
        return np.asarray(self.model.predict_proba(self._scaled(table)))

    def _scaled(self, table: Any) -> Any:
        if scipy.sparse.issparse(table):
            return scipy.sparse.csr_array(table @ scipy.sparse.diags_array(self.scale))
        return table * self.scale
