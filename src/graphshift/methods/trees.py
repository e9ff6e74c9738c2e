"""Decision trees as plain arrays: read off scikit-learn's, checked, and walked down for many rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.tree._tree import Tree

from graphshift.methods.columns import Table

_Array = NDArray[Any]

_CELLS = 16_000_000  # of the table that are made dense at once


@dataclass(frozen=True)
class Trees:
    """Trees one after the other in shared arrays; a child stands after its parent.

    Attributes:
        left, right: children of each node, ``[nodes]``, int32. A leaf has -1 on the left and on the right its row of
            ``value``.
        feature: the column that a node looks at, ``[nodes]``, int32.
        threshold: rows with at most this value go left, ``[nodes]``, float64.
        value: what the leaves say, ``[leaves, outputs]``.
        roots: where trees begin, ``[trees]``, int32.
    """

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    value: _Array
    roots: NDArray[np.int32]

    @classmethod
    def joined(cls, trees: Sequence[Trees]) -> Trees:
        """Several in one."""
        parts: dict[str, list[_Array]] = {name: [] for name in cls.__dataclass_fields__}
        nodes = leaves = 0
        for tree in trees:
            is_leaf = tree.left < 0
            moved = {"left": np.where(is_leaf, -1, tree.left + nodes), "roots": tree.roots + nodes}
            moved["right"] = tree.right + np.where(is_leaf, leaves, nodes)
            for name, found in parts.items():
                one = getattr(tree, name)
                found.append(moved.get(name, one).astype(one.dtype))
            nodes, leaves = nodes + tree.left.size, leaves + len(tree.value)
        return cls(**{name: np.concatenate(found) for name, found in parts.items()})

    @classmethod
    def single(cls, left: _Array, right: _Array, feature: _Array, threshold: _Array, value: _Array) -> Trees:
        """One tree, of arrays as scikit-learn has them: a value for every node, and a leaf has no left child (-1)."""
        leaf = left < 0
        row = np.cumsum(leaf) - 1
        return cls(
            left=np.where(leaf, -1, left).astype(np.int32),
            right=np.where(leaf, row, right).astype(np.int32),
            feature=np.where(leaf, 0, feature).astype(np.int32),
            threshold=np.where(leaf, 0.0, threshold).astype(np.float64),
            value=value[leaf],
            roots=np.zeros(1, dtype=np.int32),
        )

    def arrays(self) -> dict[str, _Array]:
        """By name; see :meth:`of_arrays`."""
        return {f"trees.{name}": one for name, one in vars(self).items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, _Array], columns: int, outputs: int) -> Trees:
        """What :meth:`arrays` gave, checked: every walk ends at a leaf, and every index is inside.

        Args:
            arrays: as they were read.
            columns: of the table that the trees look at.
            outputs: how many numbers a leaf holds.
        """
        found = cls(**{name: arrays[f"trees.{name}"] for name in cls.__dataclass_fields__})
        count = found.left.shape[0] if found.left.ndim == 1 else -1
        whole = ("left", "right", "feature", "roots")
        for name in (*whole, "threshold"):
            one = getattr(found, name)
            right_kind = one.ndim == 1 and one.dtype.kind == ("i" if name in whole else "f")
            if not right_kind or (name != "roots" and one.shape[0] != count):
                raise ValueError(f"trees.{name} is {one.dtype} {list(one.shape)}; expected one number for each node")
        whole_values = found.value.ndim == 2 and found.value.shape[1] == outputs and found.value.dtype.kind == "f"
        if not whole_values or not np.isfinite(found.value).all():
            raise ValueError(
                f"trees.value is {list(found.value.shape)}; expected finite numbers, {outputs} for each leaf"
            )
        leaf, own = found.left < 0, np.arange(count)
        # A child after its parent: no walk can go in a circle.
        astray = ~leaf & ((found.left <= own) | (found.right <= own) | (found.left >= count) | (found.right >= count))
        astray |= leaf & ((found.right < 0) | (found.right >= len(found.value)))
        if astray.any():
            raise ValueError(f"trees: node {int(astray.argmax())} leads to a place that is not after it in the trees")
        if (~leaf & ((found.feature < 0) | (found.feature >= columns))).any() or np.isnan(found.threshold).any():
            raise ValueError(f"trees: a node looks at a column that is not among the {columns}, or has no threshold")
        if found.roots.size and (found.roots.min() < 0 or found.roots.max() >= count):
            raise ValueError(f"trees.roots lie outside of the {count} nodes")
        return found

    def leaves(self, table: _Array, root: int) -> NDArray[np.int32]:
        """The row of ``value`` that each row of a dense table reaches in the tree at a root."""
        reached = np.full(len(table), root, dtype=np.int32)
        if self.left[root] >= 0:
            flat, places = np.ascontiguousarray(table).reshape(-1), np.arange(len(table))
            begin, at = places * table.shape[1], reached.copy()  # of the rows that are on their way
            while places.size:
                goes_left = flat.take(begin + self.feature.take(at)) <= self.threshold.take(at)
                at = np.where(goes_left, self.left.take(at), self.right.take(at))
                further = self.left.take(at) >= 0
                if not further.all():
                    reached[places[~further]] = at[~further]
                    places, begin, at = places[further], begin[further], at[further]
        return self.right[reached]

    def total(self, table: Table, add: Callable[[_Array, int, _Array], None], outputs: int) -> _Array:
        """Sums over trees, ``[rows, outputs]``, float64: ``add(sums, number, values)`` takes the values of one."""
        used, renumbered = self._renumbered()
        sums = np.zeros((table.shape[0], outputs))
        for rows, part in dense_parts(table, used):
            own = sums[rows]
            for number, root in enumerate(renumbered.roots):
                add(own, number, renumbered.value[renumbered.leaves(part, int(root))])
        return sums

    def reached(self, table: Table) -> Iterator[NDArray[np.int32]]:
        """For each tree the row of ``value`` that every row of the table reaches.

        By scikit-learn's compiled walk, which takes sparse tables as they are. Cells count in float32, as they did when
        a forest of scikit-learn was grown.
        """
        if scipy.sparse.issparse(table):
            cells: Any = scipy.sparse.csr_matrix(table, dtype=np.float32)
        else:
            cells = np.ascontiguousarray(table, dtype=np.float32)
        ends = np.append(np.sort(self.roots), self.left.size)
        for root in self.roots:
            first, end = int(root), int(ends[np.searchsorted(ends, root, side="right")])
            inner = self.left[first:end] >= 0
            if inner.any() and max(self.left[first:end][inner].max(), self.right[first:end][inner].max()) >= end:
                end = self.left.size  # trees that share nodes: not ours, and allowed
            yield self.right[first + _compiled(self, first, end, table.shape[1]).apply(cells)]

    def _renumbered(self) -> tuple[NDArray[np.intp], Trees]:
        """The columns that some node looks at, and the trees with their numbers among these."""
        used = np.unique(self.feature[self.left >= 0])
        place = np.searchsorted(used, self.feature).astype(np.int32)
        changed = {**vars(self), "feature": np.where(self.left >= 0, place, 0)}
        return used.astype(np.intp), Trees(**changed)


def _compiled(trees: Trees, first: int, end: int, columns: int) -> Any:
    """The tree with the nodes from ``first`` to ``end`` as scikit-learn's own; the arrays have been checked."""
    found = Tree(columns, np.ones(1, dtype=np.intp), 1)
    nodes = np.zeros(end - first, dtype=found.__getstate__()["nodes"].dtype)
    leaf = trees.left[first:end] < 0
    nodes["left_child"] = np.where(leaf, -1, trees.left[first:end] - first)
    nodes["right_child"] = np.where(leaf, -1, trees.right[first:end] - first)
    nodes["feature"], nodes["threshold"] = trees.feature[first:end], trees.threshold[first:end]
    values = np.zeros((end - first, 1, 1))
    found.__setstate__({"max_depth": 0, "node_count": end - first, "nodes": nodes, "values": values})
    return found


def dense_parts(table: Table, columns: NDArray[np.intp]) -> Iterator[tuple[slice, _Array]]:
    """The table's rows in parts, dense, with some columns alone."""
    step = max(1, _CELLS // max(columns.size, 1))
    few = table[:, columns] if scipy.sparse.issparse(table) else table
    for first in range(0, table.shape[0], step):
        rows = slice(first, min(first + step, table.shape[0]))
        part = few[rows].toarray() if scipy.sparse.issparse(few) else few[rows][:, columns]
        yield rows, part
