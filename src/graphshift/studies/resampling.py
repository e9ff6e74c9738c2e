"""Scores of resampled communities (a bootstrap): how far a score depends on which nodes there happened to be."""

from collections.abc import Callable, Sequence
from statistics import stdev
from typing import Any
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.data.communities import communities
from graphshift.data.environment import Environment
from graphshift.data.metrics import METRICS
from graphshift.estimators.predictor import Predictor
from graphshift.graph.graph import Graph

#: Communities of a graph, and the fewest nodes that one has on average: a small graph has fewer communities.
_COMMUNITIES, _MEMBERS = 100, 8

#: How many times the nodes are drawn. The draws are the same for every model, so that differences can be taken.
DRAWS = 100

#: The same for metrics that take their time.
SLOW_DRAWS = 30

_QUICK = ("accuracy", "roc_auc")

#: More nodes than these are not drawn; the deviations are then scaled to the size of the graph.
_MOST = 20_000

_known: WeakKeyDictionary[Graph, NDArray[np.int64]] = WeakKeyDictionary()  # every model and metric asks again


def resampled_scores(model: Predictor, environments: Sequence[Environment], *, adapt: str | None = None) -> list[float]:
    """The mean score over environments, of which communities are drawn with replacement; one for each draw.

    A model errs on neighbours together: nodes drawn one by one, as if they were independent, would make the spread too
    small. So about a hundred communities of each graph are drawn, each with all its counted nodes.

    Args:
        model: fitted.
        environments: with labels.
        adapt: as in :meth:`~graphshift.estimators.predictor.Predictor.predict`.
    """
    found = [_draws(e, _predicted(model, e, adapt)) for e in environments]
    return [round(float(score), 6) for score in np.mean(found, axis=0)] if found else []


def nodes_error(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> float | None:
    """The standard error over nodes of the difference of two models' mean scores; None where it is not known.

    Args:
        ours, theirs: for each run of either model, or each place of its score, the scores draw by draw.
    """
    if not ours or not theirs or not all(map(len, (*ours, *theirs))):
        return None
    gains = np.mean(ours, axis=0) - np.mean(theirs, axis=0)
    return stdev(gains.tolist())


def _predicted(model: Predictor, environment: Environment, adapt: str | None) -> NDArray[np.floating]:
    predict = model.predict_proba if environment.task.is_classification else model.predict
    whole: NDArray[np.floating] = np.asarray(predict(environment, adapt=adapt))
    return whole[environment.counted.cpu().numpy()]


def _draws(environment: Environment, predicted: NDArray[np.floating]) -> NDArray[np.floating]:
    y = environment.labels.cpu().numpy()
    groups = _groups(environment)
    count = max(round(len(groups) * min(_MOST / y.size, 1.0)), 1)
    random = np.random.default_rng([crc32(environment.name.encode()), y.size])
    score = _scorer(environment.task.metric, y, predicted)
    whole = score(np.arange(y.size))
    draws = DRAWS if environment.task.metric in _QUICK else SLOW_DRAWS
    drawn = np.empty(draws)
    for i in range(draws):
        drawn[i] = score(np.concatenate([groups[k] for k in random.integers(0, len(groups), count)]))
    drawn = np.where(np.isfinite(drawn), drawn, whole)
    return whole + (count / len(groups)) ** 0.5 * (drawn - whole)


def _groups(environment: Environment) -> list[NDArray[np.intp]]:
    """The counted nodes of each community, by their place among the counted ones; communities without any stay out."""
    graph = environment.graph
    if graph not in _known:
        _known[graph] = communities(graph, max(min(_COMMUNITIES, graph.num_nodes // _MEMBERS), 1))
    own = _known[graph][environment.counted.cpu().numpy()]
    order = np.argsort(own, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(own[order])) + 1)


def _scorer(metric: str, y: NDArray[Any], predicted: NDArray[np.floating]) -> Callable[[NDArray[np.integer]], float]:
    """Gives the score of some nodes, by their numbers, of which some may be there several times."""
    if metric == "accuracy":
        hits = predicted.argmax(axis=1) == y
        return lambda nodes: float(hits[nodes].mean())
    if metric == "roc_auc":
        return _area_under_roc(y, predicted[:, 1])
    compute = METRICS[metric].compute

    def score(nodes: NDArray[np.integer]) -> float:
        try:
            return compute(y[nodes], predicted[nodes])
        except GraphshiftError:  # a draw without one of the classes
            return float("nan")

    return score


def _area_under_roc(y: NDArray[Any], scores: NDArray[np.floating]) -> Callable[[NDArray[np.integer]], float]:
    """The area under the ROC curve as a function of the nodes: they are sorted once, and not for every draw."""
    _, place = np.unique(scores, return_inverse=True)
    groups = int(place.max()) + 1

    def area(nodes: NDArray[np.integer]) -> float:
        positive, negative = (np.bincount(place[nodes[y[nodes] == label]], minlength=groups) for label in (1, 0))
        pairs = float(positive.sum()) * float(negative.sum())
        below = np.cumsum(negative) - negative / 2  # of equal scores half the pairs count
        return float((positive * below).sum()) / pairs if pairs else float("nan")

    return area
