"""``own``: a user's own graph as a shift dataset: two tables, a PyG ``Data`` or a networkx graph."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.datasets.base import DATASETS
from graphshift.datasets.own_graphs import Lists, from_lists
from graphshift.datasets.tables.files import Source
from graphshift.datasets.tables.from_tables import dataset_from_tables
from graphshift.datasets.tables.options import TableOptions, checked_options
from graphshift.datasets.tables.preparation import remark
from graphshift.datasets.tables.splits import Split, cut, edges_inside, members, split_by, targets
from graphshift.datasets.temporal import subgraph, with_known

Value: TypeAlias = str | int | float | bool
Moment: TypeAlias = str | int | float | datetime.date


@DATASETS.register("own")
def from_tables(
    nodes: Source,
    edges: Source,
    graphs: Source | None = None,
    *,
    id: str = "id",
    label: str = "label",
    features: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    scale: str | Mapping[str, str] = "auto",
    per_environment: bool | Sequence[str] = False,
    dates: Sequence[str] | Mapping[str, str] = (),
    multi_hot: Sequence[str] | Mapping[str, str] = (),
    text: Sequence[str] | Mapping[str, str] = (),
    structure: bool | None = None,
    feature_file: str | Path | None = None,
    feature_ids: str | Path | None = None,
    graph: str | None = None,
    environments: str | None = None,
    train: Value | Sequence[Value] = (),
    val: Value | Sequence[Value] = (),
    tests: Value | Sequence[Value] = (),
    unlabelled: Value | Sequence[Value] = (),
    time: str | None = None,
    train_until: Moment | None = None,
    val_until: Moment | None = None,
    test_until: Moment | Sequence[Moment] = (),
    target_until: Moment | Sequence[Moment] = (),
    task: str | None = None,
    metric: str = "",
    positive: Value | None = None,
    undirected: bool = True,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    edge_features: Sequence[str] = (),
    unknown_ids: str = "error",
    missing: Sequence[str] = (),
    separator: str = ",",
    encoding: str | None = None,
    name: str = "own",
) -> ShiftDataset:
    """Makes a shift dataset of a node table and an edge table.

    Everything is learned from the training nodes. Columns of 0 and 1 stay as they are, other numbers are scaled (see
    ``scale``); a missing number becomes the mean and, if training has missing ones, a 0/1 feature says so. Columns of
    words become one 0/1 feature for each word that training has; an unseen word has zeros. Dates such as 2024-05-31
    become years since 2000. Columns that are constant in training are left out. Features that are many and mostly 0 are
    kept sparse. Whatever was decided, left out or filled in is told in one
    :class:`~graphshift.core.errors.GraphshiftWarning`.

    The environments are either the values of a column, each with the edges among its own nodes, or periods of time,
    each with the graph of all nodes up to its end, of which the nodes of the period count.

    With a table of graphs these have the labels and the environments: each environment is many small graphs.

    Args:
        nodes: a path to CSV or Parquet, or a pandas frame: one row for each node.
        edges: the same with one row for each edge.
        graphs: the same with one row for each graph, where graphs have labels. The label and the column of
            ``environments`` or ``time`` are here; other columns are features of all nodes of their graph.
        id: column of the nodes' ids, numbers or text.
        label: column of what is predicted: words, whole numbers, or quantities. A node without one stays in the graph
            and does not count.
        features: columns to learn from; None takes all that have no other role.
        categorical: columns of numbers to treat as words, such as codes. Codes that the training labels give away are
            found unasked (:func:`~graphshift.datasets.tables.codes.are_codes`); a ``scale`` for the column prevents it.
        scale: of numbers: ``"standard"`` (mean 0, deviation 1), ``"log"`` (the same of logarithms), ``"rank"`` (the
            place among the training nodes), ``"none"``, or ``"auto"``: none for 0/1 and for bags of words, log for
            skewed numbers, standard for the rest. One for all, or by column, as in ``{"age": "log"}``; the others are
            auto.
        per_environment: True ranks the numbers of each column inside each environment, and inside the new graph when
            predicting, in place of ``scale`` (0/1 columns stay); or the columns to do so with.
        dates: columns of dates; by column with a format, as in ``{"born": "%d.%m.%Y"}``. Dates as in 2024-05-31 are
            found unasked.
        multi_hot: columns of lists such as ``a;b;c``: a 0/1 feature for each word; by column with what separates the
            words, as in ``{"tags": "|"}``. Clear ones are found unasked.
        text: columns of text, as sparse TF-IDF of the words that training has; by column ``"tfidf"``, or ``"hash"``:
            words hashed into 4,096 features.
        structure: whether to add structural features (see :func:`~graphshift.data.structure.structural_columns`); None
            does so if there are no others.
        feature_file: a path to further features, sparse, used as they are: SciPy's ``.npz`` or MatrixMarket's ``.mtx``,
            ``[nodes, features]``, rows in the order of the node table.
        feature_ids: a path to a text file with the node's id for each row of ``feature_file``, if the order differs.
        graph: column of the graphs' ids, in the table of graphs and in that of nodes; None with a table of graphs:
            ``"graph"``. If the edge table has it too, ids of nodes need to differ inside their graph alone.
        environments: column whose values are environments, such as a country; or ``"by:PROPERTY"``, as
            ``"by:locality"``: nodes with a label are split by a property of theirs, and all environments share the
            graph (:func:`~graphshift.datasets.node_split.split_by`).
        train, val, tests: which of these values train, validate and test; one value or several. All but train may be
            empty.
        unlabelled: which of these values are to be predicted: the dataset's ``target``. Labels there are not read, and
            none are needed.
        time: column of numbers, or of dates as in 2024-05-31, instead of ``environments``.
        train_until: the last time that trains.
        val_until: the last time that validates, after ``train_until``.
        test_until: the last time of each test period, increasing.
        target_until: the last time of each period that is to be predicted, after the test periods.
        task: ``"binary"``, ``"multiclass"`` or ``"regression"``; None decides by the labels.
        metric: a name from :data:`graphshift.data.metrics.METRICS`; empty for the task's usual one.
        positive: the label that is class 1 in a binary task; None takes the second in order.
        undirected: whether an edge goes both ways.
        source, target: columns of the edges' ends.
        weight: column of the edges' weights, above 0.
        edge_features: columns of the edge table that become features of edges, as columns of nodes do; what is learned
            for it (scales, words) is learned from the edges inside training. If the table names an edge several times,
            or undirected in both directions, the first row counts for all, as for weights.
        unknown_ids: ``"error"``, or ``"drop"`` to leave out edges whose ends are not among the nodes.
        missing: words that mean missing beside an empty field, such as ``["unknown"]``.
        separator: between the fields of a CSV. Where it does not split the header and another one does, that is taken.
        encoding: of the CSV files, such as ``"latin-1"``; None finds out: UTF-8, UTF-16 or cp1252.
        name: of the dataset.

    Returns:
        The dataset. Its ``facts`` hold ``"preparation"`` (to be saved beside a model, see
        :class:`~graphshift.datasets.tables.preparation.Preparation`), ``"report"`` (the remarks) and ``"ids"`` (the
        nodes' ids in each environment, by name), ``"rows"`` (how the tables' rows became nodes and edges) and
        ``"class_names"``.
    """
    given = {key: value for key, value in locals().items() if key not in ("nodes", "edges", "graphs")}
    return dataset_from_tables(nodes, edges, checked_options(given, graphs=graphs is not None), graphs)


def from_pyg(
    data: Data | Lists,
    *,
    train_mask: str = "train_mask",
    val_mask: str = "val_mask",
    test_mask: str = "test_mask",
    target_mask: str = "target_mask",
    domain: str | None = None,
    train: Any = (),
    val: Any = (),
    tests: Any = (),
    unlabelled: Any = (),
    time: str | None = None,
    train_until: float | None = None,
    val_until: float | None = None,
    test_until: float | Sequence[float] = (),
    target_until: float | Sequence[float] = (),
    task: str | None = None,
    metric: str = "",
    name: str = "own",
) -> ShiftDataset:
    """Makes a shift dataset of a PyG graph.

    Without ``domain`` and ``time``, masks say which nodes train, validate and test in one graph that all share. With
    ``domain`` each value that is named is an environment with the edges among its own nodes. With ``time`` each period
    is one, with the graph of all nodes up to its end.

    Nodes whose class is below 0 or whose value is NaN are unlabelled: they stay in the graph and do not count.

    Where graphs have labels, give a dict with a list of them for each environment, and say which are for what::

        gs.from_pyg({"2022": graphs, "2023": more, "2024": new}, train="2022", val="2023", tests="2024")

    Args:
        data: with ``x``, ``edge_index``, ``y`` and, if need be, ``edge_weight`` and ``edge_attr``. Or lists of such
            graphs by the name of their environment, each with one label ``y``.
        train_mask, val_mask, test_mask, target_mask: attributes of ``data``, bool ``[nodes]``. All but the first may be
            absent. The nodes of ``target_mask`` are to be predicted; their labels are not read.
        domain: attribute of ``data``, ``[nodes]``: the domain of each node.
        train, val, tests: which domains, or lists, train, validate and test; one value or several.
        unlabelled: which are to be predicted: the dataset's ``target``. They need no labels.
        time: attribute of ``data``, ``[nodes]``: the time of each node.
        train_until, val_until, test_until, target_until: the last time of each period, as in :func:`from_tables`.
        task: ``"binary"``, ``"multiclass"`` or ``"regression"``; None decides by ``y``: floating is regression.
        metric: a name from :data:`graphshift.data.metrics.METRICS`; empty for the task's usual one.
        name: of the dataset.
    """
    if isinstance(data, Mapping):
        if domain is not None or time is not None:
            raise GraphshiftError("from_pyg: lists of graphs are environments already; leave out domain and time.")
        roles_of = {"train": train, "val": val, "tests": tests, "unlabelled": unlabelled}
        return from_lists(data, roles_of, kind=task, metric=metric, name=name)
    if not isinstance(data, Data):
        raise GraphshiftError(
            f"from_pyg: expected a torch_geometric.data.Data, found {type(data).__name__}; take one graph out of a "
            "dataset with dataset[0], or, where every graph has a label, give a dict of lists."
        )
    labelled = _labelled(data)
    if domain is None and time is None:
        names = {"train": train_mask, "val": val_mask, "test": test_mask, "target": target_mask}
        roles = _masks(data, names)
        if "target" in roles:
            labelled = labelled & ~roles["target"]
        return _by_masks(data, labelled, roles, _task(data, labelled, task, metric), name)
    chosen = {"train": train, "val": val, "tests": tests, "unlabelled": unlabelled}
    cuts = {"train_until": train_until, "val_until": val_until, "test_until": test_until}
    cuts |= {"target_until": target_until}
    split = _split(data, checked_options({"environments": domain, "time": time, **chosen, **cuts}))
    part = data.clone()
    hidden = torch.from_numpy(targets(split))
    labelled = labelled & ~hidden
    part.mask = labelled & torch.from_numpy(split.group >= 0) | hidden
    part.y = data.y.reshape(-1).masked_fill(hidden, 0)  # no label of a target is read
    whole = Environment(name, part, _task(data, labelled, task, metric))
    graph = whole.graph
    remarks = [*split.remarks, *edges_inside(split, graph.edge_index, "from_pyg", undirected=graph.undirected)[1]]
    kept = torch.from_numpy(split.group >= 0)
    facts = {"report": tuple(remarks), "ids": {n: np.flatnonzero(rows) for n, rows in members(split).items()}}
    made = cut(subgraph(whole, kept, name), split.of(kept.numpy()))
    remark(name, remarks)
    return ShiftDataset(name, **made, facts=facts)


def from_networkx(
    graph: Any,
    *,
    features: Sequence[str] | None = None,
    label: str = "label",
    weight: str | None = None,
    edge_features: Sequence[str] = (),
    id: str = "node",
    **options: Any,
) -> ShiftDataset:
    """Makes a shift dataset of a networkx graph whose nodes carry attributes.

    Args:
        graph: directed or not; several edges between the same nodes count once.
        features: node attributes to learn from; None takes all that have no other role.
        label: the node attribute that is predicted.
        weight: the edge attribute that is the edges' weight.
        edge_features: edge attributes that are features of edges.
        id: what to call the nodes themselves in messages and in tables of predictions.
        options: ``environments`` or ``time``, both node attributes, and what goes with them, ``task``, ``metric`` and
            the other options of :func:`from_tables`.
    """
    if not all(hasattr(graph, part) for part in ("nodes", "edges", "is_directed")):
        raise GraphshiftError(f"from_networkx: expected a networkx graph, found {type(graph).__name__}.")
    for option in ("source", "target", "undirected", "unknown_ids", "separator", "encoding", "graph"):
        if option in options:
            raise GraphshiftError(f"from_networkx has no option {option!r}: the graph itself says it.")
    found = {"features": features, "label": label, "weight": weight, "undirected": not graph.is_directed(), "id": id}
    found |= {"edge_features": edge_features}
    checked = checked_options({**options, **found})
    nodes = pd.DataFrame.from_records([attributes for _, attributes in graph.nodes(data=True)])
    if id in nodes.columns:
        raise GraphshiftError(f"from_networkx: nodes have an attribute {id!r}; call the nodes otherwise by option id.")
    nodes[id] = pd.Series(list(graph.nodes), dtype=object)
    wanted = [*([weight] if weight else []), *checked.edge_features]
    ends = list(graph.edges(data=True)) if wanted else [(*edge[:2], {}) for edge in graph.edges()]
    sides = {name: pd.Series([edge[i] for edge in ends], dtype=object) for i, name in enumerate(("source", "target"))}
    edges = pd.DataFrame(sides)
    for name in wanted:
        edges[name] = [edge[2].get(name) for edge in ends]
    return dataset_from_tables(nodes, edges, checked)


def _labelled(data: Data) -> Tensor:
    y = data.y
    if not isinstance(y, Tensor):
        raise GraphshiftError("from_pyg: there is no `y`; train, val and tests need labels.")
    y = y.squeeze(1) if y.dim() == 2 and y.shape[1] == 1 else y
    if y.dim() != 1 or y.shape[0] != data.num_nodes:
        raise GraphshiftError(
            f"from_pyg: `y` is {list(y.shape)}; expected [{data.num_nodes}], one label per node. For several labels a "
            "node make one dataset for each."
        )
    return ~y.isnan() if y.is_floating_point() else y >= 0


def _task(data: Data, labelled: Tensor, kind: str | None, metric: str) -> Task:
    y = data.y.reshape(-1)[labelled]
    if kind is None and y.is_floating_point():
        kind = "regression"
    if kind == "regression":
        return Task("regression", 0, metric)
    classes = int(y.max()) + 1 if y.numel() else 2
    return Task(kind or ("binary" if classes <= 2 else "multiclass"), max(classes, 2), metric)


def _attribute(data: Data, attribute: str, meaning: str) -> Any:
    if attribute not in data:
        raise GraphshiftError(
            f"from_pyg: there is no `{attribute}` for {meaning}; the graph has {', '.join(map(str, data.keys()))}."
        )
    values = data[attribute]
    if not isinstance(values, Tensor) or values.shape != (data.num_nodes,):
        found = f"{values.dtype} {list(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        hint = f" For one of several splits, set data.{attribute} = data.{attribute}[:, 0]." * ("mask" in meaning)
        raise GraphshiftError(f"from_pyg: `{attribute}` is {found}; expected [{data.num_nodes}], one per node.{hint}")
    return values


def _masks(data: Data, names: dict[str, str]) -> dict[str, Tensor]:
    roles: dict[str, Tensor] = {}
    for role, attribute in names.items():
        if role != "train" and attribute not in data and attribute == f"{role}_mask":
            continue  # the usual name; one that the user chose must be there
        mask = _attribute(data, attribute, f"the {role} mask (or say domain or time)")
        if mask.dtype != torch.bool:
            raise GraphshiftError(f"from_pyg: `{attribute}` is {mask.dtype}; expected bool.")
        for other, earlier in roles.items():
            if bool((mask & earlier).any()):
                raise GraphshiftError(
                    f"from_pyg: {int((mask & earlier).sum())} nodes are in `{names[other]}` and in `{attribute}`; "
                    "a node has one role."
                )
        roles[role] = mask
    return roles


def _by_masks(data: Data, labelled: Tensor, roles: dict[str, Tensor], task: Task, name: str) -> ShiftDataset:
    whole = data.clone()
    whole.mask = labelled
    shared = Environment(name, whole, task)
    made: dict[str, list[Environment]] = {"train": [], "val": [], "test": [], "target": []}
    shared = with_known(shared, roles["train"] & labelled)  # in one graph that all share, these labels are known
    for role, mask in roles.items():
        if role == "target":
            made[role] = [shared.replace(name=role, mask=mask, y=None)] if bool(mask.any()) else []
            continue
        if not bool((mask & labelled).any()):
            hint = " If its nodes are there to be predicted, call it target_mask." * bool(mask.any())
            raise GraphshiftError(f"from_pyg: the {role} mask has no node with a label.{hint}")
        made[role] = [shared.replace(name=role, mask=mask & labelled)]
    return ShiftDataset(name, made["train"], made["val"], made["test"], target=made["target"])


def _split(data: Data, o: TableOptions) -> Split:
    attribute = o.environments or o.time
    assert attribute is not None
    values = _attribute(data, attribute, "the domain" if o.environments else "the time")
    column = pd.Series(values.numpy(), name=attribute)
    return split_by(column if o.environments else column.astype(np.float64), "from_pyg", o)
