"""A user's own tables as a shift dataset: one of nodes, one of edges, and a column that says how they are split."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.structure import STRUCTURAL_NAMES, structural_columns
from graphshift.datasets.node_split import property_values
from graphshift.datasets.statistics import class_remarks
from graphshift.datasets.tables.columns import Column, here, transform
from graphshift.datasets.tables.feature_file import fit_matrix, matrix_part, read_matrix
from graphshift.datasets.tables.files import NA_WORDS, Source, Table, is_number, shown
from graphshift.datasets.tables.fit_columns import Labels, Wishes, fit_columns
from graphshift.datasets.tables.graph import Edges, Layout, node_ids, read_both, read_edges
from graphshift.datasets.tables.labels import Encoded, encode, fit_label, hide_labels
from graphshift.datasets.tables.local import fit_structure, placeholder, with_local
from graphshift.datasets.tables.options import TableOptions
from graphshift.datasets.tables.preparation import Preparation, remark
from graphshift.datasets.tables.small_graphs import batch_of, read_graphs, small_graphs
from graphshift.datasets.tables.splits import Split, cut, edges_inside, members, split_by, split_by_property, targets
from graphshift.graph.edge_features import EdgeFeatures
from graphshift.graph.graph import Graph

_ADVICE = " If ids mean something inside their graph alone, let the edge table name the graph of each edge, too."


def dataset_from_tables(
    nodes: Source, edges: Source, options: TableOptions, graphs: Source | None = None
) -> ShiftDataset:
    """Makes a shift dataset of tables; see :func:`graphshift.datasets.own.from_tables` for the options.

    Items are what has a label and an environment each: rows of ``nodes``, or of ``graphs`` if there is such a table.
    """
    o = options
    split_column = o.time or (o.environments if o.split_property is None else None)
    wishes = _wishes(o)
    text = [o.label, *wishes.special, *([split_column] if split_column and o.environments else [])]
    layout = Layout(**{field: getattr(o, field) for field in Layout.model_fields})
    node_table, edge_table = read_both(nodes, edges, layout, text)
    small = None
    if graphs is not None:
        apart = [o.label, *([split_column] if split_column else [])]
        small = small_graphs(
            node_table, edge_table, read_graphs(graphs, layout, text), layout, o.unknown_ids, apart=apart
        )
        node_table, edge_table = small.nodes, small.edges
    items = node_table if small is None else small.graphs
    ids = node_ids(node_table, o.id, advice=_ADVICE if small is not None and o.graph not in edge_table.frame else "")
    of_edges = _edge_columns(edge_table, o)
    how: Any = {"listed": bool(of_edges), "graph_of": None if small is None else small.number}
    found = read_edges(edge_table, ids, node_table.where, layout, o.unknown_ids, **how)
    if split_column is None:
        split = _by_property(node_table, found, o)
    else:
        meaning = "the environments (option environments)" if o.environments else "the time (option time)"
        split = split_by(items.column(split_column, meaning), items.where, o)
    of_nodes = split if small is None else split.of(small.number)
    stays, left_out = edges_inside(of_nodes, found.edge_index, edge_table.where, undirected=o.undirected)

    kept, kept_items = of_nodes.group >= 0, split.group >= 0
    training = kept & (of_nodes.group < split.train)
    edge_columns, attr, edge_remarks = _edge_attr(edge_table, of_edges, found, training, o)
    graph = _within(found, kept, stays, attr, undirected=o.undirected)
    read_remarks = [*node_table.remarks, *edge_table.remarks]
    read_remarks += [] if small is None else [*small.graphs.remarks, *small.remarks]
    rows = [] if small is None else [f"{items.where}: {len(small.ids):,} graphs."]
    rows += [f"{node_table.where}: {len(ids):,} rows.", found.rows]
    batch = None if small is None else batch_of(small.number, kept_items)
    item_ids = ids if small is None else small.ids
    del edge_table, stays, attr, small  # as large as all that follows
    split, of_nodes = split.of(kept_items), of_nodes.of(kept)
    labels = Table(items.where, items.column(o.label, "the labels (option label)").to_frame()).take(kept_items)
    unlabelled = targets(split)
    visible, hidden = hide_labels(labels, o.label, unlabelled)
    fitted_on = split.group < split.train
    how = {"kind": o.task, "metric": o.metric, "positive": o.positive, "level": "node" if batch is None else "graph"}
    label, label_remarks = fit_label(visible, o.label, fitted_on, **how)
    names = _feature_columns(node_table, o, wishes, split_column)
    columns: tuple[Column, ...]
    encoded = encode(label, visible)
    trains = of_nodes.group < split.train
    known_labels = _training_labels(encoded, batch, trains, classes=label.task.is_classification)
    columns, column_remarks = fit_columns(
        node_table, names, training, wishes, chosen=o.features is not None, labels=known_labels
    )
    matrix = None
    if o.feature_file is not None:
        path, id_path = Path(o.feature_file), None if o.feature_ids is None else Path(o.feature_ids)
        matrix = read_matrix(path, id_path, ids, node_table.where)
        fitted_matrix = fit_matrix(path, id_path, matrix, training)
        column_remarks += fitted_matrix.remarks(path)
        columns, matrix = (*columns, fitted_matrix), matrix_part(fitted_matrix, matrix.tocsr()[kept].tocsc(), path)
    use_structure = _use_structure(o, columns, node_table, column_remarks)
    x, value_remarks = transform(columns, node_table, kept, matrix=matrix, sparse=trains)
    shared = x.shape[1]
    if encoded.unseen.any():
        raise GraphshiftError(_unseen_label(labels, o.label, encoded.unseen, split))
    known = encoded.known | torch.from_numpy(unlabelled)
    no_edges = torch.empty(2, 0, dtype=torch.int64)
    data = Data(x=x if shared else placeholder(len(x)), edge_index=no_edges, y=encoded.y, mask=known)
    if batch is not None:
        data.batch = torch.from_numpy(batch)
    whole = Environment(o.name, data, label.task)
    if count := int((~data.mask).sum()):
        stay = "they stay in the graph and do not count" if batch is None else "they do not count"
        label_remarks.append(f"{labels.where}: {count} {whole.items} have no label; {stay}.")
    blocks = whole.graph.blocks
    roles = cut(whole.replace(graph=graph if blocks is None else graph.in_blocks(blocks)), split)

    inside = members(split)
    made = [environment for role in roles.values() for environment in role]
    structural = {e.name: structural_columns(e.graph) for e in made} if use_structure else {}
    structure = fit_structure([structural[e.name] for e in roles["train"]]) if use_structure else None
    ranked = here(columns, node_table, kept)

    def completed(e: Environment) -> Environment:
        scaled = None if structure is None else structure.scaled(structural[e.name])
        own = inside[e.name] if batch is None else inside[e.name][batch]
        return with_local(e, shared, ranked[own], scaled)

    roles = {role: [completed(e) for e in found] for role, found in roles.items()}
    sparse = x.layout == torch.sparse_csr
    preparation = Preparation(
        layout=layout, columns=columns, edge_columns=edge_columns, label=label, structure=structure, sparse=sparse
    )
    report = [*read_remarks, *split.remarks, *found.remarks, *left_out, *edge_remarks]
    class_names = tuple(map(str, label.classes))
    report += [*column_remarks, *value_remarks, *label_remarks, *hidden]
    report += class_remarks(roles["train"], [*roles["val"], *roles["tests"]], class_names)
    remark(o.name, report, level=3)
    own_ids = {environment: item_ids[kept_items][own].to_numpy() for environment, own in inside.items()}
    facts = {
        "class_names": class_names,
        "preparation": preparation,
        "report": tuple(report),
        "ids": own_ids,
        "rows": tuple(rows),
    }
    return ShiftDataset(o.name, **roles, facts=facts)


def _training_labels(
    encoded: Encoded, batch: NDArray[np.int64] | None, training: NDArray[np.bool_], *, classes: bool
) -> Labels:
    """The labels of the training nodes; where graphs have them, that of the node's graph."""
    y, known = encoded.y.numpy(), encoded.known.numpy()
    y, known = (part[training] if batch is None else part[batch[training]] for part in (y, known))
    return Labels(np.where(known, y, -1 if classes else np.nan), classes)


def _wishes(o: TableOptions) -> Wishes:
    asked: dict[str, str] = {}
    for option in ("categorical", "text", "multi_hot", "dates"):
        for name in getattr(o, option):
            if name in asked:
                raise GraphshiftError(f"{option} names {name!r}, and so does {asked[name]}; a column is of one kind.")
            asked[name] = option
    return Wishes(
        categorical=o.categorical,
        scale=o.scale,
        per_environment=o.per_environment,
        text=o.text,
        multi_hot=o.multi_hot,
        dates=o.dates,
    )


def _feature_columns(nodes: Table, o: TableOptions, wishes: Wishes, split_column: str | None) -> Sequence[str]:
    taken = (o.id, o.label, split_column, o.graph)
    names = [name for name in nodes.frame.columns if name not in taken] if o.features is None else o.features
    known = set(names)
    for role, column in (("id", o.id), ("label", o.label), ("graph", o.graph)):
        if column in known:
            raise GraphshiftError(f"features names {column!r}, which is the {role}; nothing could be learned from it.")
    asked: dict[str, Iterable[str]] = {
        "categorical": wishes.categorical,
        "text": wishes.text,
        "multi_hot": wishes.multi_hot,
        "dates": wishes.dates,
        "scale": () if isinstance(wishes.scale, str) else wishes.scale,
        "per_environment": () if isinstance(wishes.per_environment, bool) else wishes.per_environment,
    }
    for option, columns in asked.items():
        for name in columns:
            if name not in known:
                some = ", ".join(names[:30]) + ("…" if len(names) > 30 else "")
                raise GraphshiftError(f"{option} names {name!r}, which is not among the features {some}.")
    return names


def _by_property(nodes: Table, edges: Edges, o: TableOptions) -> Split:
    """The split by a property of the nodes; ``feature`` is that of the columns of numbers, missing ones at the mean."""
    by, label = o.split_property, nodes.column(o.label, "the labels (option label)")
    assert by is not None
    count = len(nodes.frame)
    graph = _within(
        edges, np.ones(count, dtype=bool), np.ones(edges.edge_index.shape[1], bool), undirected=o.undirected
    )
    x = torch.zeros(count, 1)
    if by == "feature":
        names = [name for name in nodes.frame if name not in (o.id, o.label) and is_number(nodes.frame[name])]
        if not names:
            raise GraphshiftError(
                f"{nodes.where}: there is no column of numbers to split by 'by:feature'; use another."
            )
        columns = nodes.frame[names].astype(np.float64).replace([np.inf, -np.inf], np.nan)
        scaled = (columns - columns.mean()) / columns.std().replace(0.0, 1.0)
        x = torch.from_numpy(scaled.fillna(0.0).to_numpy(copy=True))
    labelled = ~(label.isna() | label.astype(str).isin({*NA_WORDS, *o.missing})).to_numpy()
    return split_by_property(property_values(graph, x, by, seed=0), labelled, by)


def _use_structure(o: TableOptions, columns: Sequence[Column], nodes: Table, remarks: list[str]) -> bool:
    """Structural features if they are asked for, or if there are no others and they are not refused."""
    if o.structure or columns:
        return bool(o.structure)
    if o.structure is False:
        raise GraphshiftError(
            f"{nodes.where}: no column is left to make features of; add one, or let structure be true."
            + "".join(f"\n{text}" for text in remarks)
        )
    remarks.append(
        f"{nodes.where}: no column is left to make features of; the place of each node in the graph is used instead "
        f"({', '.join(STRUCTURAL_NAMES[: len(STRUCTURAL_NAMES) // 2])}, and their ranks in each graph)."
    )
    return True


def _edge_columns(edges: Table, o: TableOptions) -> Sequence[str]:
    """The columns of the edge table that are features."""
    for name in o.edge_features:
        edges.column(name, "a feature of edges (option edge_features)")
        for role in ("source", "target", "weight"):
            if name == getattr(o, role):
                raise GraphshiftError(f"edge_features names {name!r}, which is the {role}; name it in one of the two.")
    return o.edge_features


def _edge_attr(
    table: Table, names: Sequence[str], edges: Edges, training: NDArray[np.bool_], o: TableOptions
) -> tuple[tuple[Column, ...], Tensor | None, list[str]]:
    """The fitted columns of edges, the features of every edge, and remarks; learned from edges inside training."""
    if edges.listed is None:
        return (), None, []
    inside = training[edges.edge_index.numpy()].all(axis=0)
    rows = np.zeros(len(table.frame), dtype=bool)
    rows[edges.listed.numpy()[inside]] = True
    if not rows.any():
        raise GraphshiftError(f"{table.where}: edge_features need edges among the training nodes, and there are none.")
    wishes = Wishes(scale=o.scale if isinstance(o.scale, str) else "auto")
    columns, remarks = fit_columns(table, names, rows, wishes, chosen=True)
    if not columns:
        raise GraphshiftError(
            f"{table.where}: edge_features ({', '.join(names)}) say nothing inside training; name others."
            + "".join(f"\n{text}" for text in remarks)
        )
    values, found = transform(columns, table, sparse=False)
    return columns, values[edges.listed], [*remarks, *found]


def _within(
    edges: Edges, kept: NDArray[np.bool_], stays: NDArray[np.bool_], attr: Tensor | None = None, *, undirected: bool
) -> Graph:
    """The edges that stay, in the numbers of the nodes that are kept; these rise with the old ones, so keys do too."""
    number, count = kept.cumsum() - 1, int(kept.sum())
    source, target = number[edges.edge_index.numpy()[:, stays]]
    weight = None if edges.weight is None else edges.weight[torch.from_numpy(stays)]
    features = None if attr is None else EdgeFeatures.of(attr[torch.from_numpy(stays)])
    keys = torch.from_numpy(target * count + source)
    return Graph.from_keys(count, keys, weight, undirected=undirected, edge_features=features)


def _unseen_label(nodes: Table, name: str, unseen: NDArray[np.bool_], split: Split) -> str:
    row = int(unseen.argmax())
    column = nodes.frame[name]
    return (
        f"{nodes.where}: row {int(column.index[row]) + 1}, column {name!r}: label {shown(column.iloc[row])} is in "
        f"environment {split.names[split.group[row]]!r} and never in training ({int(unseen.sum())} such nodes), so no "
        "method can learn it; move nodes of it into training or empty the field."
    )
