"""Environments: one named graph each. Everything that enters graphshift is checked here, once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.core.html import html_table
from graphshift.data import checks
from graphshift.data.tasks import Task
from graphshift.graph.blocks import Blocks
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse


class Stored(Protocol):
    """Where the parts of an environment are whose arrays are memory-mapped."""

    #: The first row of each part, and at last the number of rows.
    begin: NDArray[np.int64]
    #: Of everything that training uses.
    digest: str

    def halo(self, part: int) -> NDArray[np.int64]:
        """The rows outside a part that its nodes receive from, within as many hops as the partition says."""

    def rows(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Some rows of one of its arrays, as ``"x"``, in memory."""

    def release(self) -> None:
        """Gives back the memory of what was read; it is read again when it is used again."""


class Environment:
    """One named graph under one distribution, checked and ready to compute with.

    Args:
        name: its name in tables and messages.
        data: a PyG ``Data`` with ``x`` (``[nodes, features]``, dense or ``torch.sparse``, floating), ``edge_index``
            (``[2, edges]``, int64) and, unless only predictions are wanted, ``y`` (``[nodes]``: int64 classes or
            floating values). Optional: ``edge_weight`` (``[edges]``, positive); ``edge_attr`` (``[edges]`` or
            ``[edges, any]``, floating), features of edges; ``mask`` (``[nodes]``, bool), the nodes that count in the
            loss and the score, by default all; ``time`` (``[nodes]``), when each node appeared, for methods that group
            nodes by it; ``known_y`` (``[nodes]``), the labels of training nodes in this graph (-1 or
            NaN for others), for methods that spread them; ``further_y`` (``[nodes, k]``, int64), the further classes of
            nodes that have several, -1 where there is none. Labels outside the mask are never used. Many small graphs
            with a label each are one ``Data`` as PyG's ``Batch.from_data_list`` makes it: ``batch`` (``[nodes]``,
            int64, in order) is the number of each node's graph, and ``y``, ``mask``, ``time`` and ``further_y`` have a
            row for each graph instead.
        task: what is predicted. Default: inferred from ``y``, see :func:`infer_task`.

    Attributes:
        x: features ``[nodes, features]``, float32, a ``Tensor`` or a :class:`~graphshift.graph.sparse.Sparse`.
        graph: the edges, a :class:`~graphshift.graph.graph.Graph`; of many small graphs its ``blocks`` say which nodes
            are whose.
        y: labels ``[items]``, int64 or float32; None without labels. Items are nodes, or graphs if these have labels.
        mask: bool ``[items]``.
        time: ``[items]`` or None.
        known_y: ``[nodes]`` or None: the labels that are known when this graph is predicted, those of training nodes;
            -1, or NaN in regression, for the others. Datasets whose graphs hold training nodes set it: masks in one
            graph, and splits by time.
        further_y: ``[nodes, k]`` or None: the classes beside ``y`` of nodes that have several, -1 where there is none.
            The loss takes ``y``. A metric of several classes, as ``micro_f1``, takes all; every other metric leaves
            these nodes out.
        task: a :class:`~graphshift.data.tasks.Task`.
        ids: what the user calls each item, ``[items]``, in their order; None where they have no names.
        whole: of a batch, the environment that it is a part of; else None.
        rows: of a batch, which node of the whole each of its nodes is, ``[nodes]``, int64; else None.
        stored: of an environment in a partition folder, where its parts are; else None.

    Duplicate edges and self-loops are removed, and a :class:`~graphshift.core.errors.GraphshiftWarning` says how many.
    Every other mistake in the data is a :class:`~graphshift.core.errors.GraphshiftError`.

    >>> data = Data(x=torch.rand(4, 3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), y=torch.tensor([0, 1, 1, 0]))
    >>> Environment("town", data)
    Environment('town', 4 nodes, 3 edges, 3 features, 4 counted)
    """

    ids: NDArray[Any] | None = None
    whole: Environment | None = None
    rows: Tensor | None = None
    stored: Stored | None = None
    _masked = False  # whether labels or masks differ from what is stored

    def __init__(self, name: str, data: Data, task: Task | None = None) -> None:
        self.name = str(name)
        data = checks.on_cpu(data)
        checks.refuse_ambiguity(self.name, data)
        self.x = checks.checked_features(self.name, data)
        self.graph = checks.checked_graph(self.name, data, self.num_nodes)
        if checks.has_graph_labels(self.name, data, self.num_nodes, task):
            self.graph = checks.checked_blocks(self.name, data, self.graph)
        self.mask = checks.checked_mask(self.name, data, self.num_items)
        self.time = checks.node_times(data, self.num_items)
        self.y: Tensor | None = None
        if data.y is not None:
            self.task = infer_task(data, self.mask, self.graph.blocks) if task is None else task
            self.y = checks.checked_labels(self.name, data.y, self.mask, self.task)
        elif task is None:
            raise GraphshiftError(
                f"environment {self.name!r}: there is no `y`, so the task cannot be inferred; pass `task`, "
                "or use a fitted model's `predict`, which knows it."
            )
        else:
            self.task = task
        self.known_y = checks.known_labels(self.name, data, self.num_items, self.task)
        self.further_y = checks.further_labels(self.name, data, self.y, self.task)

    @property
    def num_nodes(self) -> int:
        """How many nodes, counted or not."""
        return int(self.x.shape[0])

    @property
    def home(self) -> Environment:
        """Of a batch the whole that it is a part of, else itself: what is learned of a graph belongs to it."""
        return self if self.whole is None else self.whole

    @property
    def num_items(self) -> int:
        """How many nodes have labels, or would: the nodes, or the graphs where an environment is many small ones."""
        return self.num_nodes if self.graph.blocks is None else self.graph.blocks.count

    @property
    def items(self) -> str:
        """What has a label each, for messages: ``"nodes"`` or ``"graphs"``."""
        return "nodes" if self.graph.blocks is None else "graphs"

    @property
    def item_graph(self) -> Graph:
        """The graph between items: the graph itself, or none of many small graphs an edge."""
        if self.graph.blocks is None:
            return self.graph
        return Graph.from_keys(self.num_items, self.graph.keys[:0], undirected=True)

    @property
    def num_features(self) -> int:
        """The width of ``x``."""
        return int(self.x.shape[1])

    @property
    def num_edge_features(self) -> int:
        """The width of the edges' features; 0 if they have none."""
        return 0 if self.graph.edge_features is None else self.graph.edge_features.width

    @cached_property
    def counted(self) -> Tensor:
        """The indices of the items that count."""
        return self.mask.nonzero().squeeze(1)

    @cached_property
    def labels(self) -> Tensor:
        """The labels of the items that count."""
        if self.y is None:
            raise GraphshiftError(f"environment {self.name!r} has no labels `y`; they are needed here.")
        return self.y[self.counted]

    @cached_property
    def members(self) -> Tensor:
        """Which classes each counted node has, bool ``[counted, classes]``."""
        member = torch.nn.functional.one_hot(self.labels, self.task.num_classes).bool()
        if self.further_y is not None:
            node, place = (self.further_y[self.counted] >= 0).nonzero(as_tuple=True)
            member[node, self.further_y[self.counted][node, place]] = True
        return member

    @cached_property
    def single(self) -> Tensor:
        """The indices of the counted nodes that have one label."""
        return self.counted if self.further_y is None else self.counted[self.members.sum(dim=1) == 1]

    @property
    def majority(self) -> float | None:
        """The share of the largest class among the counted nodes; None in regression."""
        if not self.task.is_classification:
            return None
        return float(torch.bincount(self.labels).max()) / self.labels.numel()

    @property
    def data(self) -> Data:
        """The environment as a PyG ``Data``, repairs included."""
        x = self.x.to_torch() if isinstance(self.x, Sparse) else self.x
        times = {name: getattr(self, name) for name in ("time", "known_y", "further_y")}
        times = {name: part for name, part in times.items() if part is not None}
        edges = {"edge_index": self.graph.edge_index, "edge_weight": self.graph.weight}
        edges |= {} if self.graph.edge_attr is None else {"edge_attr": self.graph.edge_attr}
        edges |= {} if self.graph.blocks is None else {"batch": self.graph.blocks.batch}
        return Data(x=x, **edges, y=self.y, mask=self.mask, num_nodes=self.num_nodes, **times)

    def risk(self, output: Tensor) -> Tensor:
        """L(G, Y; θ): the mean loss over the counted items of a backbone's output for all of them."""
        return self.task.loss(output[self.counted], self.labels)

    def score(self, output: Tensor) -> float:
        """The task's metric over the counted items of a backbone's output for all of them."""
        try:
            if self.further_y is None:
                return self.task.score(output[self.counted], self.labels)
            if self.task.scorer.several:
                return self.task.score(output[self.counted], self.members)
            one = self.members.sum(dim=1) == 1
            if not bool(one.any()):
                raise GraphshiftError(f"every counted node has several labels, and {self.task.metric} needs one.")
            return self.task.score(output[self.counted][one], self.labels[one])
        except GraphshiftError as error:
            raise GraphshiftError(f"environment {self.name!r}: {error}") from None

    def fingerprint(self) -> str:
        """A digest of everything that training uses; equal digests mean equal environments."""
        if self.stored is not None and not self._masked:
            return self.stored.digest
        digest = hashlib.blake2b(f"{self.name} {self.task} {self.x.shape}".encode(), digest_size=16)
        large: list[Tensor | None] = []
        if self.stored is not None:
            digest.update(self.stored.digest.encode())
        else:
            x = self.x
            large += [x.value, x.pattern.col, x.pattern.rowptr] if isinstance(x, Sparse) else [x]
            large += [self.graph.keys, self.graph.weight, self.graph.edge_attr]
            large += [] if self.graph.blocks is None else [self.graph.blocks.begin]
        for tensor in (*large, self.mask, self.y, self.time, self.further_y):
            if tensor is not None:
                digest.update(tensor.detach().cpu().contiguous().numpy().reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def replace(self, **changes: Any) -> Environment:
        """A copy with some attributes changed; nothing is checked again.

        Args:
            changes: any of ``name``, ``x``, ``graph``, ``mask``, ``time``, ``known_y``, ``y``, ``further_y``,
                ``task``, ``ids``.
        """
        copy = object.__new__(Environment)
        copy.whole, copy.rows = self.whole, self.rows
        copy.stored = None if {"x", "graph"} & changes.keys() else self.stored
        copy._masked = self._masked or bool({"mask", "y", "known_y", "time", "further_y"} & changes.keys())
        for part in ("name", "x", "graph", "mask", "time", "known_y", "y", "further_y", "task", "ids"):
            setattr(copy, part, changes.pop(part, getattr(self, part)))
        if changes:
            raise TypeError(f"an Environment has no {', '.join(changes)}")
        if copy.y is None:
            copy.further_y = None
        if copy.ids is not None and len(copy.ids) != copy.num_items:  # other items, whose ids nobody said
            copy.ids = None
        return copy

    def unlabelled(self) -> Environment:
        """A copy without anything that tells labels: neither its own nor those that are known at prediction."""
        found = self.replace(y=None, known_y=None)
        found.whole = found.rows = None  # whose labels could be asked for
        return found

    def without(self, columns: Sequence[int]) -> Environment:
        """A copy whose features are zero in some columns: it shows how much a model depends on them."""
        gone = torch.zeros(self.num_features, dtype=torch.bool, device=self.mask.device)
        gone[torch.as_tensor(list(columns), dtype=torch.int64, device=gone.device)] = True
        if isinstance(self.x, Sparse):
            return self.replace(x=Sparse(self.x.pattern, self.x.value.masked_fill(gone[self.x.pattern.col], 0)))
        return self.replace(x=self.x.masked_fill(gone, 0))

    def to(self, device: torch.device) -> Environment:
        """The same environment on another device."""
        if device == self.mask.device:
            return self
        optional = {name: getattr(self, name) for name in ("y", "time", "known_y", "further_y")}
        moved = {name: None if part is None else part.to(device) for name, part in optional.items()}
        return self.replace(x=self.x.to(device), graph=self.graph.to(device), mask=self.mask.to(device), **moved)

    def _repr_html_(self) -> str:
        """For Jupyter."""
        rows = [["nodes", self.num_nodes], ["edges", self.graph.num_edges], ["features", self.num_features]]
        rows = rows if self.graph.blocks is None else [["graphs", self.num_items], *rows]
        rows += [["counted", int(self.mask.sum())], ["task", f"{self.task.kind}, {self.task.metric}"]]
        return html_table(f"environment {self.name}", ["", ""], rows)

    def __repr__(self) -> str:
        many = "" if self.graph.blocks is None else f"{self.num_items} graphs, "
        return (
            f"Environment({self.name!r}, {many}{self.num_nodes} nodes, {self.graph.num_edges} edges, "
            f"{self.num_features} features, {int(self.mask.sum())} counted)"
        )


def infer_task(data: Data, mask: Tensor, blocks: Blocks | None = None) -> Task:
    """Floating labels: regression. Classes 0 and 1: binary. More classes: multiclass. In blocks, graphs have them."""
    y, level = data.y, "node" if blocks is None else "graph"
    if not isinstance(y, Tensor) or y.dim() == 0 or y.shape[0] != mask.shape[0] or y.is_floating_point():
        return Task("regression", 0, level=level)  # of labels that cannot be, the label check says what is wrong
    counted = y[mask]
    classes = int(counted.max()) + 1 if counted.numel() else 2
    return Task("binary" if classes <= 2 else "multiclass", max(classes, 2), level=level)


def as_environment(
    graph: Environment | Data, task: Task | None = None, name: str = "graph", *, labelled: bool = True
) -> Environment:
    """Makes an environment of what a user may pass for a graph: an :class:`Environment` or a PyG ``Data``.

    Args:
        graph: what was passed.
        task: what is predicted, where it is known.
        name: for a ``Data``, which has none.
        labelled: False ignores the labels of a ``Data``, for predictions, and a mask that is empty or not boolean.

    Where the task is of graphs, a ``Data`` without ``batch`` is one graph.
    """
    if isinstance(graph, Environment):
        return graph
    if isinstance(graph, Data):
        if not labelled:
            edges = {key: graph[key] for key in ("edge_index", "edge_weight", "edge_attr", "batch") if key in graph}
            mask = graph.mask if "mask" in graph else None
            usable = isinstance(mask, Tensor) and mask.dtype == torch.bool and bool(mask.any())
            # What is learned from the graph (a class prior) is learned from the nodes that are scored.
            kept = {"mask": mask} if usable else {}
            kept |= {"known_y": graph.known_y} if "known_y" in graph else {}
            graph = Data(x=graph.x, **edges, **kept)
        return Environment(name, graph, task)
    raise GraphshiftError(
        f"expected an Environment or a torch_geometric.data.Data, found {type(graph).__name__}; wrap tensors as "
        "Data(x=..., edge_index=..., y=...), and pass the parts of a ShiftDataset, such as data.tests."
    )


def as_environments(
    graphs: Environment | Data | Iterable[Environment | Data],
    task: Task | None = None,
    name: str = "graph",
    *,
    labelled: bool = True,
) -> list[Environment]:
    """The same for one graph or several. A ``Data`` is called ``name``, with a number if there are several."""
    if isinstance(graphs, Environment | Data) or not isinstance(graphs, Iterable):
        return [as_environment(graphs, task, name, labelled=labelled)]
    result: list[Environment] = []
    for i, graph in enumerate(graphs):
        known = task or (result[0].task if result else None)
        result.append(as_environment(graph, known, f"{name}{i}", labelled=labelled))
    return result
