"""What a labelled graph says of features, classes and edges, and what an unlabelled one then shows of its edges.

A plain classifier of a node's features alone looks at neither graph's edges. So it can say which classes the edges of
an unlabelled graph join even where edges have changed what they say, once its confusions are taken out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from graphshift.data.environment import Environment
from graphshift.shift.comparing.labels import learned_classifier
from graphshift.shift.comparing.sides import Side
from graphshift.shift.moving import class_pairs, moved_features, stored_as

Array = NDArray[np.float64]

_FOLDS, _MOST = 3, 3_000  # of labelled nodes that the classifier is learned from
_BETTER = 0.02  # than the share of the largest class
_LEAST_EDGES = 50  # between labelled nodes
_ROUNDS = 300  # of expectation maximisation
_FLOOR = 1e-3  # of the largest share: no pair of classes is impossible


@dataclass(frozen=True, eq=False)
class Reference:
    """A labelled graph, as a reference for others.

    Attributes:
        rows: its counted nodes that have one label.
        labels: theirs.
        classes: of every node; −1 where it is not known.
        pairs: shares of edges by class of both ends, symmetric, ``[classes, classes]``.
        degree: the mean degree of counted nodes.
        model: a logistic regression of features alone; None if it does no better than the largest class.
        confusion: C[y, r], mean of what it says of nodes of class y that it had not seen.
        believed: the same with its own probabilities in place of labels.
        solved: ``pairs`` as they are found without labels; ``known`` is the truth.
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    classes: NDArray[np.int64]
    pairs: Array
    degree: float
    model: Any = None
    confusion: Array | None = None
    believed: Array | None = None
    solved: Array | None = None
    known: Array | None = None

    def pairs_of(self, target: Environment, own: Environment) -> Array | None:
        """Shares of the target's edges by class of both ends, as far as can be told; None if not at all.

        The classifier's confusion on the target is estimated too: by as much as its own belief in its predictions
        falls (as DoC does for the score). What is found without labels on the labelled graph is compared with the
        truth there, and the difference is added.

        Args:
            target: labels are not looked at.
            own: the graph that this is the reference of.
        """
        if self.model is None or self.confusion is None or self.believed is None:
            return None
        assert self.solved is not None
        assert self.known is not None
        like = stored_as(target, own)  # the classifier knows features as they were there
        side = Side(moved_features(like, own, np.random.default_rng(0)))
        said = _said(self.model, side.x, len(self.confusion))
        seen = said_pairs(side.matrix, said)
        if seen is None:
            return None
        confusion = np.maximum(self.confusion + _belief(said[side.counted]) - self.believed, _FLOOR)
        solved = true_pairs(seen, confusion / confusion.sum(axis=1, keepdims=True), self.known)
        found = np.maximum(self.known + solved - self.solved, _FLOOR * self.known.max())
        return np.asarray(found / found.sum())


_kept: WeakKeyDictionary[Environment, Reference] = WeakKeyDictionary()  # several models ask for it


def reference_of(environment: Environment) -> Reference:
    """The reference of a labelled graph; learned once, and kept as long as the graph is.

    >>> import graphshift as gs
    >>> data = gs.load("planted-structure", nodes=600)
    >>> found = reference_of(data.val[0]).pairs_of(data.tests[-1], data.val[0])
    >>> bool(found.trace() < 0.3 < reference_of(data.val[0]).pairs.trace())  # edges join fewer nodes of one class
    True
    """
    if environment not in _kept:
        _kept[environment] = _learned(environment)
    return _kept[environment]


def _learned(environment: Environment) -> Reference:
    side, count, rows = Side(environment), environment.task.num_classes, environment.single.cpu().numpy()
    assert environment.y is not None
    labels = environment.y.cpu().numpy()[rows]
    shown = np.full(environment.num_nodes, -1)
    shown[rows] = labels
    classes = shown
    if environment.known_y is not None:  # training nodes in the same graph
        known = environment.known_y.cpu().numpy()
        classes = np.where((shown < 0) & (known >= 0), known, shown)
    pairs = class_pairs(environment.graph, classes, count)
    smooth = (pairs + pairs.T) / 2 + 0.5
    degree = float(environment.graph.degree.cpu()[environment.counted.cpu()].mean()) if len(rows) else 0.0
    plain = Reference(rows, labels, classes, smooth / smooth.sum(), degree)
    held = _unseen(side.x[rows], labels, count)
    right = 0.0 if held is None else float((held.argmax(axis=1) == labels).mean())
    if held is None or pairs.sum() < _LEAST_EDGES or right < np.bincount(labels).max() / len(labels) + _BETTER:
        return plain
    member = np.eye(count)[labels]
    confusion = (member.T @ held + 1) / (member.sum(axis=0) + count)[:, None]
    model = learned_classifier(side.x[rows], labels, seed=0, most=_MOST)
    said = _said(model, side.x, count)
    said[rows] = held
    said[classes < 0] = 0.0  # the truth is not known of their edges
    seen = said_pairs(side.matrix, said)
    assert seen is not None  # of at least so many edges
    truth = (pairs + pairs.T) / (2 * pairs.sum())
    return Reference(
        rows, labels, classes, plain.pairs, degree,
        model=model, confusion=confusion,
        believed=_belief(held), solved=true_pairs(seen, confusion, truth), known=truth,
    )  # fmt: skip


def _unseen(x: Any, labels: NDArray[np.int64], classes: int) -> Array | None:
    """Probabilities of every node by a classifier that had not seen it; None if some part has one class only."""
    fold = np.random.default_rng(0).permutation(len(labels)) % _FOLDS
    held = np.zeros((len(labels), classes))
    for one in range(_FOLDS):
        model = learned_classifier(x[fold != one], labels[fold != one], seed=0, most=_MOST)
        if model is None or not (fold == one).any():
            return None
        held[fold == one] = _said(model, x[fold == one], classes)
    return held


def _said(model: Any, x: Any, classes: int) -> Array:
    """Probabilities, with a column for every class."""
    found = np.zeros((x.shape[0], classes))
    found[:, model.classes_] = model.predict_proba(x)
    return found


def _belief(said: Array) -> Array:
    """The confusion that calibrated probabilities expect of themselves: E[q_y q_r] / E[q_y]."""
    return np.asarray(said.T @ said / np.maximum(said.sum(axis=0), 1e-12)[:, None])


def said_pairs(matrix: scipy.sparse.csr_array, said: Array) -> Array | None:
    """The share of edges between nodes of which two classes are said, ``[classes, classes]``; None without edges.

    Args:
        matrix: adjacency, symmetric.
        said: class probabilities, ``[nodes, classes]``; rows of zeros are left out.
    """
    pairs = said.T @ (matrix @ said)
    return np.asarray(pairs / pairs.sum()) if pairs.sum() >= _LEAST_EDGES else None


def true_pairs(seen: Array, confusion: Array, start: Array, *, rounds: int = _ROUNDS) -> Array:
    """What edges join if this is said of their ends: P(r, s) = Σ_yz C[y, r] P(y, z) C[z, s], solved for P(y, z).

    By expectation maximisation, which keeps P positive and begins with ``start``.

    Args:
        seen: shares of edges by what is said of their ends, ``[classes, classes]``.
        confusion: C, ``[classes, classes]``; rows add up to 1.
        start: shares to begin with.
        rounds: of expectation maximisation.
    """
    table = start / start.sum()
    for _ in range(rounds):
        expected = confusion.T @ table @ confusion
        table = table * (confusion @ (seen / np.maximum(expected, 1e-12)) @ confusion.T)
        table = table / max(table.sum(), 1e-300)
    return np.asarray(table)
