"""The two graphs as the blocks of a comparison need them: counted nodes, features, classes, neighbours."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from graphshift.data.environment import Environment
from graphshift.data.structure import clustering, core_numbers, undirected_matrix
from graphshift.graph.sparse import Sparse
from graphshift.shift.comparing.parts import Array, Parts, parts_of

#: The structural columns of each node.
STRUCTURE = ("log degree", "clustering", "log core number")


@dataclass
class Side:
    """One of the two graphs."""

    environment: Environment

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Which nodes count."""
        return self.environment.mask.cpu().numpy()

    @cached_property
    def matrix(self) -> scipy.sparse.csr_array:
        """The adjacency matrix, both ways, of all nodes."""
        return undirected_matrix(self.environment.graph)

    @cached_property
    def degree(self) -> Array:
        """The neighbours of every node."""
        return np.diff(self.matrix.indptr).astype(np.float64)

    @cached_property
    def x(self) -> Any:
        """The features of all nodes, float32: a numpy array, or scipy CSR."""
        x = self.environment.x
        if not isinstance(x, Sparse):
            return x.cpu().numpy()
        parts = (part.cpu().numpy() for part in (x.value, x.pattern.col, x.pattern.rowptr))
        return scipy.sparse.csr_array(tuple(parts), shape=x.shape)

    @cached_property
    def structure(self) -> Array:
        """The columns of :data:`STRUCTURE` of all nodes."""
        return np.column_stack([self.local_structure, np.log1p(core_numbers(self.matrix))])

    @cached_property
    def local_structure(self) -> Array:
        """Those that depend on a node's neighbourhood only: log degree and clustering."""
        return np.stack([np.log1p(self.degree), clustering(self.matrix)], axis=1)

    @cached_property
    def component_sizes(self) -> NDArray[np.int64]:
        """Of every node how many are in its component."""
        _, label = scipy.sparse.csgraph.connected_components(self.matrix, directed=False)
        return np.bincount(label)[label]

    @property
    def labels(self) -> NDArray[Any] | None:
        """The labels of all nodes; only those of counted nodes mean something."""
        return None if self.environment.y is None else self.environment.y.cpu().numpy()


@dataclass
class Pair:
    """Source and target, with their parts.

    Attributes:
        source, target: the two graphs.
        parts: of their counted nodes.
        classes: of every node of each side, -1 where none is known; None where a side has no classes. Predicted ones if
            ``predicted``.
        predicted: whether classes of both sides are predictions.
        class_names: what classes are called.
        seed: of everything that is drawn.
    """

    source: Side
    target: Side
    parts: Parts
    class_names: tuple[str, ...] = ()
    classes: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    predicted: bool = False
    seed: int = 0
    caveats: list[str] = field(default_factory=list)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Source and target."""
        return self.source, self.target

    @cached_property
    def counted_classes(self) -> NDArray[np.int64] | None:
        """The classes of the counted nodes of both sides; None unless both have true ones."""
        if self.classes is None or self.predicted:
            return None
        return np.concatenate([own[side.counted] for own, side in zip(self.classes, self.sides, strict=True)])

    def counted(self, columns: tuple[Any, Any]) -> Any:
        """Columns of all nodes of each side, as one table of the counted nodes of both."""
        kept = [own if side.counted.all() else own[side.counted] for own, side in zip(columns, self.sides, strict=True)]
        return scipy.sparse.vstack(kept, format="csr") if scipy.sparse.issparse(kept[0]) else np.concatenate(kept)

    def sampled(self, columns: tuple[Any, Any], most: int, generator: np.random.Generator) -> Any:
        """As :meth:`counted`, of ``most`` nodes at most, drawn from both sides together."""
        places = [np.flatnonzero(side.counted) for side in self.sides]
        first, count = len(places[0]), sum(map(len, places))
        if count <= most:
            return self.counted(columns)
        rows = np.sort(generator.permutation(count)[:most])
        own = (places[0][rows[rows < first]], places[1][rows[rows >= first] - first])
        kept = [one[chosen] for one, chosen in zip(columns, own, strict=True)]
        return scipy.sparse.vstack(kept, format="csr") if scipy.sparse.issparse(kept[0]) else np.concatenate(kept)

    def given_classes(self, totals: Array, values: Any) -> Array:
        """Part totals of what is left of columns when the mean of each class, over both sides, is taken away.

        Args:
            totals: of the columns, ``[parts, columns]``.
            values: the columns of the counted nodes, ``[nodes, columns]``, also sparse.
        """
        classes = self.counted_classes
        if classes is None:
            return totals
        count = len(self.class_names)
        cell = classes + count * self.parts.target_nodes
        cells = Parts(cell, np.arange(2 * count) >= count, self.parts.everyone)
        return self.less_class_means(totals, cells.total(values))

    def less_class_means(self, totals: Array, sums: Array) -> Array:
        """As :meth:`given_classes`, from the columns' sums over each class of source, then target.

        Args:
            totals: of the columns, ``[parts, columns]``.
            sums: ``[2 * classes, columns]``.
        """
        classes = self.counted_classes
        if classes is None:
            return totals
        count = len(self.class_names)
        sizes = np.bincount(classes + count * self.parts.target_nodes, minlength=2 * count).astype(np.float64)
        there = sizes > 0
        means = sums / np.maximum(sizes, 1)[:, None]
        weight = there.reshape(2, count, 1) / np.maximum(there.reshape(2, count).sum(axis=0), 1)[None, :, None]
        middle = (means.reshape(2, count, -1) * weight).sum(axis=0)
        held = self.parts.total(np.eye(count)[classes])
        return totals - held @ middle


def make_pair(source: Environment, target: Environment, class_names: tuple[str, ...], seed: int) -> Pair:
    """Cuts both graphs into parts; true classes are taken where both sides have them."""
    pair = Pair(Side(source), Side(target), parts_of(source, target, seed=seed), class_names, seed=seed)
    if source.y is not None and target.y is not None and source.task.is_classification:
        known = [
            np.where(side.counted, side.environment.y.cpu().numpy(), -1)  # type: ignore[union-attr]
            for side in pair.sides
        ]
        pair.classes = (known[0], known[1])
    return pair
