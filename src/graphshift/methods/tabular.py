"""What the methods of scikit-learn share: they take nodes as rows of a table, whatever graph they are in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from torch import nn

from graphshift.core.hparams import hparam
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.direct import DirectEstimator, DirectModel
from graphshift.graph.sparse import Sparse
from graphshift.methods.columns import OF_NEIGHBOURS, WITHOUT_EDGES, Table, pooled, table_of, width_of
from graphshift.methods.modules import RowModule

Array = NDArray[Any]


class TabularModel(DirectModel):
    """A model of rows.

    Args:
        columns: what a row holds; see :func:`~graphshift.methods.columns.table_of`.
        classes: those that training has, ``[present]``, in order; None in regression.
        count: how many classes the task has.
    """

    #: Whether a row holds the means of edge features.
    edge_features = False

    def __init__(self, columns: str, classes: Array | None, count: int) -> None:
        self.columns, self.classes, self.count = columns, classes, count
        self.uses_edges = columns not in WITHOUT_EDGES

    @abstractmethod
    def rows(self, table: Table) -> Array:
        """Probabilities of the classes that training has, ``[rows, present]``; in regression values, ``[rows]``."""

    @abstractmethod
    def own_arrays(self) -> dict[str, Array]:
        """Its arrays beside the classes."""

    def rows_module(self) -> nn.Module:
        """What :meth:`rows` does, from rows in float32 to probabilities or values in float64, if exporters know it."""
        raise NotImplementedError(self.no_module)

    def module(self, task: Task) -> nn.Module:
        """With the mean of neighbours as a sum along edges; ranks and places in the graph are no such operations."""
        if self.columns not in ("plain", "neighbours"):
            what = "ranks among its nodes" if self.columns == "ranks" else "places in the graph, as core numbers"
            raise NotImplementedError(f"learned from columns {self.columns!r}: {what}, which no file computes")
        if self.edge_features:
            raise NotImplementedError("uses features of edges, which an exported model cannot take")
        return RowModule(self.columns == "neighbours", self.rows_module(), self.classes, task)

    def predict(self, environment: Environment) -> Array:
        """Of every node; a class that training does not have has probability zero."""
        found = self.rows(table_of(environment, self.columns, edge_features=self.edge_features))
        if self.classes is None:
            return found
        whole = np.zeros((len(found), self.count))
        whole[:, self.classes] = found
        return whole

    def arrays(self) -> dict[str, Array]:
        """All of them."""
        return self.own_arrays() | ({} if self.classes is None else {"classes": self.classes})


@dataclass(eq=False, repr=False)
class TabularEstimator(DirectEstimator):
    """The hyper-parameter that these methods share.

    Args:
        columns: what a node's row holds: ``"plain"``, its features; ``"ranks"``, their ranks in its graph, which no
            change of scale moves, and which say little in a graph of few nodes; ``"structure"``, its features and its
            place in the graph (:mod:`graphshift.data.structure`); ``"neighbours"``, its features and the means of its
            neighbours' features and of its edges'; ``"all"``, all but the ranks.
        selection, seed: as in :class:`~graphshift.estimators.direct.DirectEstimator`.
    """

    columns: Literal["plain", "ranks", "structure", "neighbours", "all"] = hparam(
        "plain",
        search=("plain", "structure", "neighbours", "all"),
        help="columns to learn from: x, its ranks in the graph, or x with structure, with neighbours' means, or both",
    )

    @abstractmethod
    def learn_rows(self, table: Table, labels: Array, classes: Array | None, task: Task) -> TabularModel:
        """Learns from rows. Labels are places among ``classes``, or values."""

    @abstractmethod
    def model_of_rows(self, arrays: Mapping[str, Array], width: int, classes: Array | None, task: Task) -> TabularModel:
        """The model of these arrays, for rows of so many columns; ValueError if they do not fit."""

    def learn(self, training: Sequence[Environment]) -> DirectModel:
        """Pools the counted nodes of all training graphs."""
        table, labels = pooled(training, self.columns)
        task, classes = training[0].task, None
        if task.is_classification:
            classes, labels = np.unique(labels, return_inverse=True)
        model = self.learn_rows(table, labels, classes, task)
        model.edge_features = self.takes_edge_features and training[0].num_edge_features > 0
        return model

    @property
    def takes_edge_features(self) -> bool:
        """Whether its columns hold them."""
        return self.columns in OF_NEIGHBOURS

    def model_of(self, arrays: Mapping[str, Array], features: int, task: Task) -> DirectModel:
        """Checks the classes; the rest is the method's own."""
        classes = arrays["classes"] if task.is_classification else None
        if classes is not None and not _are_classes(classes, task.num_classes):
            raise ValueError(f"classes is not a rising list of classes from 0 to {task.num_classes - 1}")
        width = width_of(features, self.columns, self.n_edge_features_)
        model = self.model_of_rows(arrays, width, classes, task)
        model.edge_features = self.n_edge_features_ > 0
        return model

    def fitting_bytes(self, data: ShiftDataset) -> dict[str, float]:
        """The pooled table, beside that of the graph that is looked at."""
        of_rows = [self._row_bytes(e) for e in data.train]
        pool = sum(e.counted.numel() * size for e, size in zip(data.train, of_rows, strict=True))
        whole = max(e.num_nodes * self._row_bytes(e) for e in data.environments)
        return {"table": pool + whole}

    def _row_bytes(self, environment: Environment) -> float:
        """Of a row, on average: float32, and a 32-bit column for what is sparse."""
        own, x = width_of(environment.num_features, self.columns, environment.num_edge_features), environment.x
        if not isinstance(x, Sparse):
            return 4.0 * own
        nodes = max(environment.num_nodes, 1)
        held, degree = x.value.numel() / nodes, environment.graph.num_edges / nodes
        beside = 0.0
        if self.columns in OF_NEIGHBOURS:
            beside = min(held * degree, environment.num_features) + environment.num_edge_features
        return 8.0 * (held + beside + (8 if self.columns in ("structure", "all") else 0))


def _are_classes(classes: Array, count: int) -> bool:
    whole = classes.ndim == 1 and classes.size > 0 and classes.dtype.kind == "i"
    return bool(whole and classes[0] >= 0 and classes[-1] < count and (np.diff(classes) > 0).all())


def checked_shape(arrays: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """An array of finite numbers with this shape, or a ValueError that names it."""
    found = arrays[name]
    if found.shape != shape or found.dtype.kind != "f" or not np.isfinite(found).all():
        raise ValueError(f"{name} is {found.dtype} {list(found.shape)}; expected finite numbers {list(shape)}")
    return found


def softmax(scores: Array) -> Array:
    """Of every row."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: Array = raised / raised.sum(axis=1, keepdims=True)
    return result


def is_sparse(table: Table) -> bool:
    """Whether a table is a scipy matrix."""
    return bool(scipy.sparse.issparse(table))
