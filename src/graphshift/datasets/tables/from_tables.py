"""A user's own tables as a shift dataset: one of nodes, one of edges, and a column that says how they are split."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.datasets.tables.columns import fit_columns, transform
from graphshift.datasets.tables.files import Source, Table, shown
from graphshift.datasets.tables.graph import Edges, Layout, node_ids, read_both, read_edges
from graphshift.datasets.tables.labels import encode, fit_label, hide_labels
from graphshift.datasets.tables.options import TableOptions
from graphshift.datasets.tables.preparation import Preparation, remark
from graphshift.datasets.tables.splits import Split, cut, edges_inside, members, split_by, targets
from graphshift.graph.graph import Graph


def dataset_from_tables(nodes: Source, edges: Source, options: TableOptions) -> ShiftDataset:
    """Makes a shift dataset of two tables; see :func:`graphshift.datasets.own.from_tables` for the options."""
    o = options
    split_column = o.environments or o.time
    assert split_column is not None
    text = [o.label, *o.categorical, *([o.environments] if o.environments else [])]
    layout = Layout(**{field: getattr(o, field) for field in Layout.model_fields})
    node_table, edge_table = read_both(nodes, edges, layout, text)
    ids = node_ids(node_table, o.id)
    meaning = "the environments (option environments)" if o.environments else "the time (option time)"
    split = split_by(node_table.column(split_column, meaning), node_table.where, o)
    found = read_edges(edge_table, ids, node_table.where, layout, o.unknown_ids)
    stays, left_out = edges_inside(split, found.edge_index, edge_table.where, undirected=o.undirected)

    kept = split.group >= 0
    graph = _within(found, kept, stays, undirected=o.undirected)
    read_remarks = [*node_table.remarks, *edge_table.remarks]
    rows = (f"{node_table.where}: {len(ids):,} rows.", found.rows)
    del edge_table, stays  # as large as all that follows
    table, split = node_table.take(kept), split.of(kept)
    training = split.group < split.train
    unlabelled = targets(split)
    visible, hidden = hide_labels(table, o.label, unlabelled)
    label, label_remarks = fit_label(visible, o.label, training, kind=o.task, metric=o.metric, positive=o.positive)
    names = _feature_columns(table, o, split_column)
    chosen = o.features is not None
    columns, column_remarks = fit_columns(table, names, training, categorical=o.categorical, chosen=chosen)
    preparation = Preparation(layout=layout, columns=columns, label=label)
    x, value_remarks = transform(columns, table)
    encoded = encode(label, visible)
    if encoded.unseen.any():
        raise GraphshiftError(_unseen_label(table, o.label, encoded.unseen, split))
    no_edges = torch.empty(2, 0, dtype=torch.int64)
    data = Data(x=x, edge_index=no_edges, y=encoded.y, mask=encoded.known | torch.from_numpy(unlabelled))
    if count := int((~data.mask).sum()):
        label_remarks.append(f"{table.where}: {count} nodes have no label; they stay in the graph and do not count.")
    roles = cut(Environment(o.name, data, label.task).replace(graph=graph), split)
    report = [*read_remarks, *split.remarks, *found.remarks, *left_out]
    report += [*column_remarks, *value_remarks, *label_remarks, *hidden]
    remark(o.name, report, level=3)
    inside = {environment: ids[kept][rows].to_numpy() for environment, rows in members(split).items()}
    facts = {"preparation": preparation, "report": tuple(report), "ids": inside, "rows": rows}
    return ShiftDataset(o.name, **roles, facts=facts)


def _feature_columns(nodes: Table, o: TableOptions, split_column: str) -> Sequence[str]:
    taken = (o.id, o.label, split_column)
    names = [name for name in nodes.frame.columns if name not in taken] if o.features is None else o.features
    for role, column in (("id", o.id), ("label", o.label)):
        if column in names:
            raise GraphshiftError(f"features names {column!r}, which is the {role}; nothing could be learned from it.")
    for name in o.categorical:
        if name not in names:
            raise GraphshiftError(f"categorical names {name!r}, which is not among the features {', '.join(names)}.")
    return names


def _within(edges: Edges, kept: NDArray[np.bool_], stays: NDArray[np.bool_], *, undirected: bool) -> Graph:
    """The edges that stay, in the numbers of the nodes that are kept; these rise with the old ones, so keys do too."""
    number, count = kept.cumsum() - 1, int(kept.sum())
    source, target = number[edges.edge_index.numpy()[:, stays]]
    weight = None if edges.weight is None else edges.weight[torch.from_numpy(stays)]
    return Graph.from_keys(count, torch.from_numpy(target * count + source), weight, undirected=undirected)


def _unseen_label(nodes: Table, name: str, unseen: NDArray[np.bool_], split: Split) -> str:
    row = int(unseen.argmax())
    column = nodes.frame[name]
    return (
        f"{nodes.where}: row {int(column.index[row]) + 1}, column {name!r}: label {shown(column.iloc[row])} is in "
        f"environment {split.names[split.group[row]]!r} and never in training ({int(unseen.sum())} such nodes), so no "
        "method can learn it; move nodes of it into training or empty the field."
    )
