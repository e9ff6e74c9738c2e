"""Tables of many small graphs that have a label each: which node is in which graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.files import Source, Table, plain_text, read_table, shown
from graphshift.datasets.tables.graph import Layout, matched, node_ids


class SmallGraphs(NamedTuple):
    """The tables, with the nodes of each graph next to each other, in the order of the graphs.

    Attributes:
        nodes: the node table, with the columns of the graphs beside those of their nodes.
        edges: the edge table.
        graphs: a row for each graph that has a node.
        number: the row of each node's graph there, ``[nodes]``, growing.
        ids: of the graphs, as the tables name them.
        remarks: what was left out.
    """

    nodes: Table
    edges: Table
    graphs: Table
    number: NDArray[np.int64]
    ids: pd.Index
    remarks: list[str]


def read_graphs(source: Source, layout: Layout, text: Sequence[str]) -> Table:
    """The table of graphs; columns in ``text`` stay text."""
    assert layout.graph is not None
    reading: dict[str, Any] = {"missing": layout.missing, "separator": layout.separator}
    return read_table(source, "graph", ids=[layout.graph], text=text, encoding=layout.encoding, **reading)


def small_graphs(
    nodes: Table, edges: Table, graphs: Table | None, layout: Layout, unknown_ids: str, *, apart: Sequence[str] = ()
) -> SmallGraphs:
    """Finds each node's graph, and puts what is known of a graph beside each of its nodes.

    Nodes have ids of their own, or, where the edge table names the graph of each edge, ids that other graphs may have
    too.

    Args:
        nodes, edges, graphs: the tables; without one of graphs these are in the order in which nodes name them.
        layout: of the tables.
        unknown_ids: ``"drop"`` leaves out nodes of graphs that are not in their table.
        apart: columns of ``graphs`` that are no features, such as the label.
    """
    column = layout.graph
    assert column is not None
    names = nodes.column(column, "each node's graph (option graph)")
    if graphs is None:
        first = names.drop_duplicates()
        graphs = Table(nodes.where, first.to_frame())
    graphs.column(column, "the graphs' ids (option graph)")
    for name in graphs.frame.columns:
        if name != column and name in nodes.frame.columns:
            raise GraphshiftError(
                f"{graphs.where} and {nodes.where} both have a column {name!r}; call one of them otherwise, or take it "
                "out."
            )
    ids = node_ids(graphs, column)
    number = matched(nodes, ids, names)
    remarks, known = [], number >= 0
    if not known.all():
        place = int((~known).argmax())
        if unknown_ids == "error" or not known.any():
            raise GraphshiftError(
                f"{nodes.cell(names, place)} is not among the graphs of {graphs.where}, such as {shown(ids[0])} "
                f"({int((~known).sum())} of {len(number)} nodes name such a graph); correct the ids, or say "
                'unknown_ids="drop" to leave these nodes out.'
            )
        remarks.append(f"{nodes.where}: left out {int((~known).sum())} nodes of graphs that {graphs.where} lacks.")
    order = np.flatnonzero(known)[np.argsort(number[known], kind="stable")]
    there = np.zeros(len(ids), dtype=bool)
    there[number[order]] = True
    if not there.all():
        remarks.append(
            f"{graphs.where}: left out {int((~there).sum())} graphs without a node, first {shown(ids[~there][0])}."
        )
    graphs, ids, number = graphs.take(there), ids[there], (there.cumsum() - 1)[number[order]]
    frame = nodes.frame.iloc[order]
    beside = graphs.frame.drop(columns=[column, *(name for name in apart if name in graphs.frame)])
    if len(beside.columns):
        frame = pd.concat([frame, beside.iloc[number].set_axis(frame.index)], axis=1)
    node_table = Table(nodes.where, frame, nodes.found)
    if column in edges.frame.columns:  # ids mean something inside their graph alone
        node_table, edges = (
            in_graphs(node_table, [layout.id], column),
            in_graphs(edges, [layout.source, layout.target], column),
        )
    return SmallGraphs(node_table, edges, graphs, number, ids, remarks)


def batch_of(number: NDArray[np.int64], kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The numbers, from 0, that the graphs of nodes have among those that are kept; both in the old order."""
    return np.asarray((kept.cumsum() - 1)[number[kept[number]]])


def in_graphs(table: Table, columns: Sequence[str], graph: str) -> Table:
    """The table with ids such as ``3 in molecule-7``; missing ones stay missing."""
    graphs, new = " in " + _texts(table.frame[graph]), {}
    for name in columns:
        found = table.column(name, "ids")
        named = pd.Series(_texts(found) + graphs, index=found.index, dtype=object)
        new[name] = named.where(found.notna() & table.frame[graph].notna(), None)
    return Table(table.where, table.frame.assign(**new), table.found)


def _texts(column: pd.Series) -> NDArray[np.object_]:
    codes, values = pd.factorize(column)
    return np.array([*map(plain_text, values), ""], dtype=object)[codes]
