"""``compare_graphs``: what has moved between two graphs, and what to do about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.core.html import html_table
from graphshift.core.progress import progress_bar
from graphshift.data.environment import Environment
from graphshift.data.pieces import standing_for
from graphshift.data.remarks import check_squares
from graphshift.data.side_by_side import side_by_side
from graphshift.data.tasks import Task, refuse_graph_level
from graphshift.datasets.tables.numeric import Unit
from graphshift.datasets.tables.preparation import Preparation
from graphshift.shift.comparing.advice import advice_for, verdict_of
from graphshift.shift.comparing.block import Block
from graphshift.shift.comparing.edges import edges_block
from graphshift.shift.comparing.features import features_block
from graphshift.shift.comparing.halving import Halves, halvings
from graphshift.shift.comparing.labels import labels_block
from graphshift.shift.comparing.parts import holm
from graphshift.shift.comparing.sides import make_pair
from graphshift.shift.comparing.structure import structure_block
from graphshift.shift.comparing.surroundings import surroundings_block

#: The chance of an alarm where nothing has moved.
LEVEL = 0.05
FEWEST_NODES = 60  # that count: below, parts have no size


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare_graphs` found.

    Attributes:
        source, target: names of the graphs.
        blocks: in the order features, structure, surroundings, labels, edges.
        parts: how many communities of source and target were resampled.
        level: the chance of naming any block if nothing has moved.
        caveats: what limits the comparison as a whole.
    """

    source: str
    target: str
    blocks: tuple[Block, ...]
    parts: tuple[int, int]
    level: float
    caveats: tuple[str, ...] = ()

    @property
    def moved(self) -> tuple[Block, ...]:
        """The blocks that moved, the one with most evidence first."""
        return tuple(sorted((b for b in self.blocks if b.moved), key=lambda b: -b.evidence))

    @property
    def verdict(self) -> str:
        """What has moved, in a sentence."""
        return verdict_of(self.moved, [b for b in self.blocks if b.p is None])

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do about it, one sentence for each block that moved."""
        return advice_for(self.moved)

    def __getitem__(self, name: str) -> Block:
        return next(block for block in self.blocks if block.name == name)

    def _repr_html_(self) -> str:
        """For Jupyter."""
        rows = [
            [b.name, "?" if b.p is None else "moved" if b.moved else "–", "–" if b.effect is None else b.effect, b.says]
            for b in self.blocks
        ]
        title = f"{self.source} → {self.target}"
        return html_table(title, ["block", "", "effect", "in words"], rows, note=self.verdict)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "source": self.source,
            "target": self.target,
            "verdict": self.verdict,
            "moved": [block.name for block in self.moved],
            "level": self.level,
            "parts": list(self.parts),
            "blocks": [dataclasses.asdict(block) for block in self.blocks],
            "advice": list(self.advice),
            "caveats": list(self.caveats),
        }

    def __repr__(self) -> str:
        return f"Comparison({self.source!r} → {self.target!r}: {self.verdict})"


def compare_graphs(
    source: Environment | Data | Sequence[Environment | Data],
    target: Environment | Data,
    *,
    column_names: Sequence[str] | None = None,
    column_units: Sequence[Unit] | None = None,
    class_names: Sequence[str] | None = None,
    level: float = LEVEL,
    seed: int = 0,
    progress: bool = False,
) -> Comparison:
    """Says what has moved between two graphs, in five blocks.

    ``features`` (every column, and a classifier that tells nodes apart by all of them), ``structure`` (degree,
    clustering, core number, and a classifier by these), ``surroundings`` (how alike neighbours' features are),
    ``labels`` (class shares) and ``edges`` (which classes edges join). Where both graphs have labels, features and
    structure are compared between nodes of one class, so that other class shares alone are a shift of the labels only.
    Without labels of the target, its classes are predicted from features.

    Nodes of one community are alike. So tests exchange communities of both graphs, not nodes, and p values are
    corrected for the number of columns and blocks: if nothing has moved, the chance that any block is named is at most
    ``level``. Only counted nodes are compared; the others are there as neighbours. For a graph in a partition folder
    parts stand that fit into memory (:func:`~graphshift.data.pieces.standing_for`).

    Args:
        source: what is known: a PyG ``Data`` or an :class:`~graphshift.data.environment.Environment`, or several, which
            are taken together, as a model is trained on them.
        target: what is new, with the same columns; labels are not needed.
        column_names: of the features; None numbers them.
        column_units: in which values of columns are told, as a table's ``preparation.feature_units``; None for those
            that the features have.
        class_names: of the classes; None numbers them.
        level: the chance of a false alarm.
        seed: of communities, exchanges and folds.
        progress: show a progress bar.

    >>> import graphshift as gs
    >>> data = gs.load("planted-structure", nodes=600)
    >>> gs.compare_graphs(data.train[0], data.tests[7]).moved[0].name
    'edges'
    """
    first, second = _environments(source, target)
    check_squares([first, second])
    columns = tuple(column_names or (f"column {i}" for i in range(first.num_features)))
    if len(columns) != first.num_features:
        raise GraphshiftError(f"compare_graphs: {len(columns)} column names for {first.num_features} columns.")
    if column_units is not None and len(column_units) != len(columns):
        raise GraphshiftError(f"compare_graphs: {len(column_units)} column units for {len(columns)} columns.")
    if not 0 < level < 1:
        raise GraphshiftError(f"compare_graphs: level is {level}; expected a chance between 0 and 1, as 0.05.")
    classes = tuple(map(str, class_names or range(first.task.num_classes)))
    found: dict[str, Block] = {}
    halves: Halves = ([], [])
    with progress_bar("compare", 6, unit="steps") if progress else nullcontext(_silent) as report:
        pair = make_pair(first, second, classes, seed)
        # Labels first: without labels of the target the block predicts classes, which the edges' block uses.
        makers: dict[str, Callable[[], Block]] = {
            "labels": lambda: labels_block(pair),
            "features": lambda: features_block(pair, columns, column_units),
            "structure": lambda: structure_block(pair, halves),
            "surroundings": lambda: surroundings_block(pair, halves),
            "edges": lambda: edges_block(pair, halves),
        }
        for name, make in makers.items():
            report({"epoch": len(found) + 1})
            found[name] = make()
            if name == "labels":  # the halves know the classes that it predicts
                halves = halvings(pair)
    order = ("features", "structure", "surroundings", "labels", "edges")
    tested = [name for name in order if found[name].p is not None]
    corrected = holm([p for name in tested if (p := found[name].p) is not None])
    for name, p in zip(tested, corrected, strict=True):
        found[name] = dataclasses.replace(found[name], corrected=p, moved=p < level)
    target_parts = int(pair.parts.target.sum())
    parts = (pair.parts.count - target_parts, target_parts)
    caveats = _caveats(first, second, classes)
    return Comparison(first.name, second.name, tuple(found[name] for name in order), parts, level, caveats)


def columns_of(preparation: Preparation | None) -> dict[str, Any]:
    """What :func:`compare_graphs` is told of the columns of tables, by its arguments; nothing without tables."""
    if preparation is None:
        return {}
    return {"column_names": preparation.feature_names, "column_units": preparation.feature_units}


def _silent(row: Mapping[str, Any]) -> None:
    """No progress bar."""


def _environments(source: Any, target: Any) -> tuple[Environment, Environment]:
    known = list(source) if isinstance(source, list | tuple) else [source]
    if not known:
        raise GraphshiftError("compare_graphs: source is empty; expected a graph, or several.")
    several = [f"source {i + 1}" for i in range(len(known))] if len(known) > 1 else ["source"]
    first = _together([standing_for(_as(one, name, None)) for one, name in zip(known, several, strict=True)])
    second = standing_for(_as(target, "target", None))
    if second.y is None and second.task != first.task:
        second = second.replace(task=first.task)
    for e in (first, second):
        refuse_graph_level(e.task, "comparing two graphs node by node")
    if first.num_features != second.num_features:
        raise GraphshiftError(
            f"compare_graphs: {first.name!r} has {first.num_features} columns and {second.name!r} has "
            f"{second.num_features}; expected the same columns in the same order."
        )
    kinds = [(e.task.kind, e.task.num_classes) for e in (first, second)]
    if second.y is not None and first.y is not None and kinds[0] != kinds[1]:
        classes = max(count for _, count in kinds)
        if "regression" in (kinds[0][0], kinds[1][0]):
            raise GraphshiftError("compare_graphs: one graph has classes, the other values; give both the same labels.")
        task = Task("binary" if classes == 2 else "multiclass", classes)
        first, second = first.replace(task=task), second.replace(task=task)
    for e in (first, second):
        count = int(e.mask.sum())
        if count < FEWEST_NODES:
            raise GraphshiftError(
                f"compare_graphs: {e.name!r} has {count} nodes that count; expected at least {FEWEST_NODES}: fewer do "
                "not show what has moved."
            )
    return first, second


def _together(graphs: Sequence[Environment]) -> Environment:
    for e in graphs:
        refuse_graph_level(e.task, "comparing two graphs node by node")
        if e.num_features != graphs[0].num_features:
            raise GraphshiftError(
                f"compare_graphs: {graphs[0].name!r} has {graphs[0].num_features} columns and {e.name!r} has "
                f"{e.num_features}; expected the same columns in the same order."
            )
    return side_by_side(graphs)


def _as(graph: Any, name: str, task: Task | None) -> Environment:
    if isinstance(graph, Environment):
        return graph
    if not isinstance(graph, Data):
        raise GraphshiftError(
            f"compare_graphs: {name} is {type(graph).__name__}; expected an Environment or a torch_geometric.data.Data."
        )
    if not graph.num_nodes:
        raise GraphshiftError(f"compare_graphs: {name} is empty; expected a graph with nodes.")
    return Environment(name, graph, task or (Task("binary", 2) if graph.y is None else None))


def _caveats(source: Environment, target: Environment, names: Sequence[str]) -> tuple[str, ...]:
    found = []
    sizes = [int(e.mask.sum()) for e in (source, target)]
    if max(sizes) > 20 * min(sizes):
        small = (source if sizes[0] < sizes[1] else target).name
        found.append(f"{small!r} is much the smaller graph ({min(sizes):,} nodes): only large shifts can be seen in it")
    if not source.graph.num_edges or not target.graph.num_edges:
        found.append("a graph has no edge, so nothing can be said of structure and neighbours")
    if source.y is not None and target.y is not None and source.task.is_classification:
        there, here = (sorted(torch.unique(e.labels).tolist()) for e in (source, target))
        gone, fresh = ([names[c] for c in one if c not in other] for one, other in ((there, here), (here, there)))
        if gone:
            found.append(f"classes of the source that are not in the target: {_listed(gone)}")
        if fresh:
            found.append(f"classes of the target that are not in the source, so no model knows them: {_listed(fresh)}")
    return tuple(found)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
