"""From ids in an edge table to a clean ``edge_index``: matched, without self-loops and repetitions, all counted."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.files import Source, Table, plain_text, read_table, shown


class Layout(BaseModel, extra="forbid", frozen=True):
    """How the tables are laid out: the names of their columns and how to read them; ``graph`` if graphs have labels."""

    id: str = "id"
    source: str = "source"
    target: str = "target"
    graph: str | None = None
    weight: str | None = None
    undirected: bool = True
    missing: tuple[str, ...] = ()
    separator: str = Field(",", min_length=1, max_length=1)
    encoding: str | None = None


class Edges(NamedTuple):
    """Edges between node numbers, with the way back of each if they are undirected.

    Attributes:
        edge_index: ``[2, edges]``, int64, sources above targets, sorted by target and source, each once, no self-loops.
        weight: ``[edges]`` or None.
        listed: the row of the table that each edge has its weight and its features from, the first that names it;
            ``[edges]``, or None if nobody asked.
        rows: how the rows of the table became edges, in one sentence.
        remarks: the same sentence if rows were left out or disagree, else none.
    """

    edge_index: Tensor
    weight: Tensor | None
    rows: str
    remarks: list[str]
    listed: Tensor | None = None


def read_both(nodes: Source, edges: Source, layout: Layout, text: Sequence[str]) -> tuple[Table, Table]:
    """The node and the edge table; columns in ``text`` stay text."""
    reading: dict[str, Any] = {"missing": layout.missing, "separator": layout.separator}
    reading["encoding"] = layout.encoding
    graph = [] if layout.graph is None else [layout.graph]
    node_table = read_table(nodes, "node", ids=[layout.id, *graph], text=text, **reading)
    return node_table, read_table(edges, "edge", ids=[layout.source, layout.target, *graph], **reading)


def node_ids(nodes: Table, column: str, *, advice: str = "") -> pd.Index:
    """The ids of nodes, or of graphs, of whatever type they are; each must be there and occur once."""
    hint = "Are the two tables swapped?" if {"source", "target"} <= set(nodes.frame.columns) else ""
    ids = _keys(nodes, nodes.column(column, "the nodes' ids (option id)", hint))
    if ids.has_duplicates:
        second = int(ids.duplicated().argmax())
        codes = pd.factorize(ids.to_numpy())[0]
        raise GraphshiftError(
            f"{nodes.where}: rows {int(nodes.frame.index[(codes == codes[second]).argmax()]) + 1} and "
            f"{int(nodes.frame.index[second]) + 1} have the same {column} {shown(ids[second])} "
            f"({int(ids.duplicated().sum())} repetitions in all); every row needs its own.{advice}"
        )
    return ids


def read_edges(
    edges: Table,
    ids: pd.Index,
    nodes_where: str,
    layout: Layout,
    unknown_ids: str = "error",
    *,
    listed: bool = False,
    graph_of: NDArray[np.int64] | None = None,
) -> Edges:
    """Finds both ends of every edge among the nodes' ids, as :func:`node_ids` gives them.

    ``unknown_ids``: ``"error"``, or ``"drop"`` to leave out and count edges whose ends are not among the nodes.
    ``listed``: also say which row of the table each edge is from. ``graph_of``: the number of each node's graph, where
    these have labels; an edge between two of them is as one with an unknown end.
    """
    source, target, weight = layout.source, layout.target, layout.weight
    hint = "Are the two tables swapped?" if {"id", "label"} & set(edges.frame.columns) else ""
    ends = [
        matched(edges, ids, edges.column(name, f"the edges' ends (option {option})", hint))
        for option, name in (("source", source), ("target", target))
    ]
    pairs = np.stack(ends)
    unknown = (pairs < 0).any(axis=0)
    values = None if weight is None else _weights(edges, weight)
    lost = {"with an end that is not among the nodes": int(unknown.sum())}
    if unknown.any() and unknown_ids == "error":
        raise GraphshiftError(_unknown(edges, ids, nodes_where, (source, target), pairs, int(unknown.sum())))
    if graph_of is not None:
        across = ~unknown & (graph_of[pairs[0]] != graph_of[pairs[1]])
        if across.any() and unknown_ids == "error":
            place, number = int(across.argmax()), int(across.sum())
            raise GraphshiftError(
                f"{edges.where}: row {int(edges.frame.index[place]) + 1} joins {shown(ids[pairs[0, place]])} and "
                f"{shown(ids[pairs[1, place]])}, which are in different graphs ({number} such edges); an edge stays "
                'inside its graph. Correct them, or say unknown_ids="drop" to leave them out.'
            )
        lost["between two graphs"] = int(across.sum())
        unknown |= across
    if unknown.any():
        pairs, values = pairs[:, ~unknown], None if values is None else values[~unknown]
    rows = None
    if listed:  # the rows' numbers take the same way as weights: of each edge the first
        numbers = np.flatnonzero(~unknown).astype(np.float64)
        rows = simple_edges(pairs, numbers, len(ids), undirected=layout.undirected)[1]
    edge_index, kept_weight, counts = simple_edges(pairs, values, len(ids), undirected=layout.undirected)
    lost |= {what: counts[what] for what in ("self-loops", "repeated")}
    count = edge_index.shape[1] // (1 + layout.undirected)
    text = f"{edges.where}: {len(edges.frame):,} rows → {count:,} {'un' * layout.undirected}directed edges"
    left_out = ", ".join(f"{number:,} {what}" for what, number in lost.items() if number)
    text += f": left out {left_out}" * bool(left_out)
    both_ways, differ = counts["listed in both directions"], counts["weights that differ"]
    text += f"; {both_ways:,} are listed in both directions" * bool(both_ways)
    text += f"; {differ:,} weights differ from the first one of their edge, which is taken" * bool(differ)
    kept_weight = None if kept_weight is None else kept_weight.float()
    rows = None if rows is None else rows.long()
    return Edges(edge_index, kept_weight, f"{text}.", [f"{text}."] if left_out or differ else [], rows)


def simple_edges(
    pairs: NDArray[np.int64], weight: NDArray[np.float64] | None, num_nodes: int, *, undirected: bool
) -> tuple[Tensor, Tensor | None, dict[str, int]]:
    """Takes out self-loops and repetitions (the first weight stays) and, if undirected, adds the way back.

    An undirected edge may be listed once or in both directions; that is no repetition.

    Returns:
        ``edge_index`` and the weights, float64, in the order of :class:`Edges`; and counts: of rows that are
        ``self-loops`` or ``repeated``, of edges ``listed in both directions``, and of ``weights that differ`` from
        their edge's first.
    """
    loops = pairs[0] == pairs[1]
    counts = {"self-loops": int(loops.sum()), "weights that differ": 0}
    if counts["self-loops"]:
        pairs, weight = pairs[:, ~loops], None if weight is None else weight[~loops]
    keys = pairs[1] * num_nodes + pairs[0]
    ways = _distinct(np.sort(keys)).size
    counts["repeated"] = keys.size - ways
    if undirected:
        keys = pairs.min(axis=0) * num_nodes + pairs.max(axis=0)
    if weight is None:
        keys = _distinct(np.sort(keys))
    else:
        keys, weight, counts["weights that differ"] = _first_weights(keys, weight)
    counts["listed in both directions"] = ways - keys.size
    if undirected:
        keys = np.concatenate([keys, keys % num_nodes * num_nodes + keys // num_nodes])
        order = None if weight is None else np.argsort(keys)
        keys = np.sort(keys) if order is None else keys[order]
        weight = None if weight is None else np.concatenate([weight, weight])[order]
    tensor = None if weight is None else torch.from_numpy(weight)
    return torch.from_numpy(np.stack([keys % num_nodes, keys // num_nodes])), tensor, counts


def _distinct(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct ones of sorted keys; numpy sorts numbers faster than anything hashes them."""
    return ordered[np.concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])]


def _first_weights(
    keys: NDArray[np.int64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """The distinct keys, sorted, the weight that each has first, and how many weights differ from that."""
    order = np.argsort(keys, kind="stable")
    keys, weight = keys[order], weight[order]
    first = np.concatenate([keys[:1] == keys[:1], keys[1:] != keys[:-1]])
    kept = weight[first]
    return keys[first], kept, int((weight != kept[first.cumsum() - 1]).sum())


def _keys(table: Table, column: pd.Series) -> pd.Index:
    """Ids ready to be matched: whole numbers as numbers, the rest as it is; none may be missing."""
    missing = column.isna().to_numpy()
    if missing.any():
        raise GraphshiftError(
            f"{table.where}: row {int(column.index[missing][0]) + 1}, column {column.name!r} is empty "
            f"({int(missing.sum())} such rows); every row needs an id there."
        )
    if pd.api.types.is_float_dtype(column.dtype) and bool((column % 1 == 0).all()):
        return pd.Index(column.to_numpy(dtype=np.int64))  # numbers become floats where pandas saw a gap once
    if column.dtype == object:
        return pd.Index(column.to_numpy(), dtype=object, tupleize_cols=False)
    return pd.Index(column)


def matched(edges: Table, ids: pd.Index, column: pd.Series) -> NDArray[np.int64]:
    """The node number of every id, -1 for those that are not there."""
    keys = _keys(edges, column)
    numeric = [pd.api.types.is_numeric_dtype(index.dtype) for index in (ids, keys)]
    if numeric[0] != numeric[1]:  # numbers in one file, text in the other
        ids, keys = (index.map(plain_text) for index in (ids, keys))
    found = _matched_text(ids, keys)
    if found is not None:
        return found
    try:
        codes, distinct = pd.factorize(keys.to_numpy() if keys.dtype == object else keys)  # fewer to look up
        places = ids.get_indexer(pd.Index(distinct, tupleize_cols=False))
    except TypeError:
        raise GraphshiftError(
            f"{edges.where}: column {column.name!r} holds {type(keys[0]).__name__} values; expected numbers or text."
        ) from None
    return np.asarray(places[codes], dtype=np.int64)


def _matched_text(ids: pd.Index, keys: pd.Index) -> NDArray[np.int64] | None:
    """The same for text that pyarrow holds, which it looks up without making Python's text of it; None for others."""
    if not all(getattr(index.dtype, "storage", None) == "pyarrow" for index in (ids, keys)):
        return None
    arrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    names, wanted = (arrow.array(index.array) for index in (ids, keys))
    places = compute.index_in(wanted, value_set=names.cast(wanted.type))
    return np.asarray(places.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)


def _unknown(
    edges: Table, ids: pd.Index, nodes_where: str, names: tuple[str, str], pairs: NDArray[np.int64], count: int
) -> str:
    row = int((pairs < 0).any(axis=0).argmax())
    column = names[int(pairs[0, row] >= 0)]
    found = edges.frame[column].iloc[row]
    message = (
        f"{edges.cell(edges.frame[column], row)} is not among the ids of {nodes_where}, such as "
        f"{shown(ids[0])} ({count} of {pairs.shape[1]} edges have such an end); "
    )
    if count == pairs.shape[1]:
        return message + "no edge fits: is this the right pair of tables, and the right column of ids?"
    if isinstance(found, str) and found.strip() != found and found.strip() in ids:
        return message + "it has spaces around it: take them out."
    return message + 'correct the ids, or say unknown_ids="drop" to leave these edges out.'


def _weights(edges: Table, name: str) -> NDArray[np.float64]:
    column = edges.column(name, "the edges' weights (option weight)")
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        row = int(bad.argmax())
        raise GraphshiftError(
            f"{edges.cell(column, row)} is not a weight ({int(bad.sum())} such rows); expected numbers above 0. "
            "Drop edges of weight 0; shift or square negative ones."
        )
    return values
