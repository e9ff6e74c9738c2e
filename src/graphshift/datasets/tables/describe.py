"""A first TOML file for a user's tables: looks at them, guesses what each column is, and says so in comments."""

import json
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.metrics import METRICS
from graphshift.datasets.tables.files import Source, Table, is_number, plain_text, read_table, shown
from graphshift.datasets.tables.guess import (
    Roles,
    as_classes,
    guess_cuts,
    guess_environments,
    guess_positive,
    guess_roles,
    may_have_role,
    plain_texts,
)

_ROWS = 2000  # of a wide table are looked at in all columns
_WIDE = 200  # columns
_LINES = 40  # columns with a line of their own
#: Of nodes, and of graphs with labels, where one edit a node is much (docs/how-to/graphs.md).
_METHODS = ('"eerm"    # or "erm", the baseline', '"erm"    # or "eerm"')
_PERIODS = (
    [
        "# Periods of time; a cut is the last time of its period. An environment's graph holds all nodes up to",
        "# its cut, and the nodes of its period count. Proposed: half of the nodes train, the rest is later.",
    ],
    ["# Periods of time; a cut is the last time of its period. Proposed: half of the graphs train, the rest is later."],
)
_RARE, _OF_RARE = 0.1, "average_precision"  # the metric where class 1 has a smaller share than this


def describe_tables(
    nodes: Source,
    edges: Source,
    graphs: Source | None = None,
    *,
    base: str | Path | None = None,
    separator: str = ",",
    encoding: str | None = None,
    label: str | None = None,
    environments: str | None = None,
    time: str | None = None,
    positive: str | None = None,
) -> str:
    """Guesses the roles of the columns of tables and writes a commented TOML file for graphshift's commands.

    Args:
        nodes, edges: paths of the tables.
        graphs: path of the table of graphs, where these have labels.
        base: the folder that the TOML will be in; paths are made relative to it. None leaves them as given.
        separator, encoding: of the CSV files, as in :func:`~graphshift.datasets.own.from_tables`.
        label, environments, time: columns with these roles; None guesses.
        positive: the label of class 1; None guesses, if there are two labels.
    """
    _check_two(nodes, edges)
    reading: dict[str, Any] = {"separator": separator, "encoding": encoding}
    start = read_table(nodes, "node", rows=_ROWS, **reading)
    edge_table = read_table(edges, "edge", **reading)
    asked = {"label": label, "environments": environments, "time": time}
    narrow = len(start.frame.columns) <= _WIDE
    graph_table = None if graphs is None else read_table(graphs, "graph", **reading)
    of_graphs = () if graph_table is None else (name for name in graph_table.frame if name in start.frame)
    wanted = (
        None if narrow else [*dict.fromkeys([*may_have_role(start.frame), *filter(None, asked.values()), *of_graphs])]
    )
    node_table = start if len(start.frame) < _ROWS else read_table(nodes, "node", columns=wanted, **reading)
    roles, unknown = guess_roles(node_table, edge_table, asked, graph_table)
    items, of_items = (node_table, nodes) if graphs is None or graph_table is None else (graph_table, graphs)
    if unknown:
        warnings.warn(
            f"{edge_table.where}: {unknown:,} of {len(edge_table.frame):,} edges name nodes that {node_table.where} "
            "does not have; they are left out.",
            GraphshiftWarning,
            stacklevel=2,
        )
    # Names stay as they are written: 007 is not 7.
    kept = [name for name in (roles.environments, roles.label) if name]
    if any(is_number(items.frame[name]) for name in kept):
        texts = read_table(of_items, "node", columns=kept, text=kept, **reading).frame
        items = Table(items.where, items.frame.assign(**{name: texts[name] for name in kept}))
    if graph_table is None:
        node_table = items
    seen = node_table if narrow else start
    looked_at = "" if narrow else f"; the first {len(start.frame):,} are looked at in all columns"
    lines = [
        "# graphshift: what to learn from which tables. Check the guesses, then run",
        "#   graphshift recommend THIS_FILE    # which method, measured on your data",
        "#   graphshift fit THIS_FILE          # train the method below",
        "",
        f"method = {_METHODS[graphs is not None]}; any other option of `graphshift fit` can be set here",
        "seed = 0",
        "",
        "[data]",
        f"nodes = {_toml(_relative(nodes, base))}    # paths are relative to this file",
        f"edges = {_toml(_relative(edges, base))}",
        *([] if graphs is None else [f"graphs = {_toml(_relative(graphs, base))}    # one row for each graph"]),
        *_reading_lines(start, edge_table, reading),
        "",
        f"# The node table has {len(node_table.frame):,} rows{looked_at}:",
        *_columns(seen.frame),
        f"# The edge table has {len(edge_table.frame):,} rows:",
        *_columns(edge_table.frame),
        *_graph_lines(graph_table),
        "",
        *([f"graph = {_toml(roles.graph)}    # names the graph, in the table of nodes too"] if roles.graph else []),
        f"id = {_toml(roles.id)}    # names each node; the edges' ends are values of it",
        f"source = {_toml(roles.source)}",
        f"target = {_toml(roles.target)}",
        "undirected = true    # false if an edge goes from source to target only",
        f"weight = {_toml(roles.weight)}"
        if roles.weight
        else '# weight = "…"    # a column of the edge table, above 0',
        *_edge_feature_lines(edge_table.frame, roles),
        "",
        *_label_lines(items, roles, positive),
        "",
        *_split_lines(items, roles),
        "",
        *_feature_lines([*start.frame, *(() if graph_table is None else graph_table.frame)], roles),
        "# categorical = []    # columns of numbers that are codes: a 0/1 feature each; clear ones are found unasked",
        '# missing = []    # words that mean missing beside an empty field, as in ["unknown"]',
        'unknown_ids = "drop"'
        + f"    # {unknown:,} edges name nodes that the node table does not have; they are left out"
        if unknown
        else '# unknown_ids = "drop"    # leave out edges to nodes that the node table does not have',
    ]
    return "\n".join(lines) + "\n"


def _check_two(nodes: Source, edges: Source) -> None:
    if isinstance(nodes, pd.DataFrame) or isinstance(edges, pd.DataFrame):
        return
    if Path(nodes).exists() and Path(edges).exists() and Path(nodes).samefile(edges):
        raise GraphshiftError(f"{nodes} is given twice; expected a table of nodes and then another one of edges.")


def _reading_lines(nodes: Table, edges: Table, asked: dict[str, Any]) -> list[str]:
    """Options that say how the files are read, where the usual ones do not fit both."""
    lines = []
    for option, usual in (("separator", ","), ("encoding", None)):
        found = {table.found[option][0] for table in (nodes, edges) if option in table.found}
        same = len(found) == 1 and all(option in table.found for table in (nodes, edges))
        value = found.pop() if same else asked[option]
        lines += [] if value == usual else [f"{option} = {_toml(value)}"]
    return lines


def _graph_lines(graphs: Table | None) -> list[str]:
    return [] if graphs is None else [f"# The table of graphs has {len(graphs.frame):,} rows:", *_columns(graphs.frame)]


def _columns(frame: pd.DataFrame) -> list[str]:
    if len(frame.columns) <= _LINES:
        return [_comment(f"  {name}: {_kind(frame[name])}{_values(frame[name])}") for name in frame.columns]
    groups: dict[tuple[str, str], list[str]] = {}
    for name in frame.columns:
        stem = re.sub(r"\d+$", "", name)
        groups.setdefault((stem, _kind(frame[name])), []).append(name)
    if len(groups) > _LINES:  # no common beginnings: by kind alone
        merged: dict[tuple[str, str], list[str]] = {}
        for (_, kind), names in groups.items():
            merged.setdefault(("", kind), []).extend(names)
        groups = merged
    return [_comment(_group_line(frame, kind, names)) for (_, kind), names in groups.items()]


def _group_line(frame: pd.DataFrame, kind: str, names: list[str]) -> str:
    if len(names) == 1:
        return f"  {names[0]}: {kind}{_values(frame[names[0]])}"
    return f"  {names[0]} … {names[-1]} ({len(names):,} columns): {kind}"


def _kind(column: pd.Series) -> str:
    if not is_number(column):
        return "text"
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    known = values[~np.isnan(values)]
    if bool(((known == 0) | (known == 1)).all()):
        return "numbers 0 and 1"
    return "whole numbers" if bool((known % 1 == 0).all()) else "numbers"


def _values(column: pd.Series) -> str:
    some = column.dropna().iloc[:_ROWS].unique()
    examples = ", ".join(shown(value) for value in some[:3])
    missing = f", {int(column.isna().sum())} missing" if column.isna().any() else ""
    return f", {column.nunique()} distinct{missing}, such as {examples}"


def _edge_feature_lines(edges: pd.DataFrame, roles: Roles) -> list[str]:
    """What else the edge table says of an edge; what is constant or numbers the rows says nothing."""
    taken = (roles.source, roles.target, roles.weight, roles.graph)
    rest = [edges[name] for name in edges.columns if name not in taken]
    names = [
        column.name for column in rest if column.nunique() > 1 and (_kind(column) == "numbers" or not column.is_unique)
    ]
    if not names:
        return []
    return [
        f"# edge_features = {_toml(names[:_LINES])}    # for backbones gine and gat, and for recommend; off unless set"
    ]


def _label_lines(nodes: Table, roles: Roles, positive: str | None) -> list[str]:
    if roles.label is None:
        if positive is not None:
            raise GraphshiftError("--positive needs a label, and no column looks like it; name it by --label.")
        line = "# What to predict: no column looks like it. Name one; nodes without a value are unlabelled."
        return [line, '# label = "…"']
    column, names = nodes.frame[roles.label], list(METRICS)
    count = column.nunique()
    unlabelled = int(column.isna().sum())
    kinds = '# task = "multiclass"    # or "binary", "regression"; decided by the labels unless given'
    lines = [
        _comment(f" What to predict: {count:,} distinct values; {unlabelled:,} {_items(roles)} have none."),
        "# Nodes without a value stay in the graph, unlabelled."
        if roles.graph is None
        else "# Graphs without a value do not count.",
        f"label = {_toml(roles.label)}",
    ]
    chosen = positive if positive is not None else guess_positive(column)
    if positive is not None and (count != 2 or positive not in set(plain_texts(column))):
        found = ", ".join(shown(plain_text(value)) for value in column.dropna().unique()[:10])
        raise GraphshiftError(
            f"{nodes.where}: --positive is {positive!r}; expected one of two labels, and column {roles.label!r} has "
            f"{found}."
        )
    if chosen is not None:
        share = float((plain_texts(column.dropna()) == chosen).mean())
        reason = f"    # class 1: {100 * share:.1f} % of the labels"
        lines += ['task = "binary"', f"positive = {_toml(chosen)}{reason}"]
        if share < _RARE:  # accuracy would be that of the largest class, whatever the model
            names.remove(_OF_RARE)
            others = f"    # class 1 is rare, so that accuracy says little; or {', '.join(names)}"
            return [*lines, f"metric = {_toml(_OF_RARE)}{others}"]
    else:
        lines.append(kinds)
    return [*lines, _comment(f' metric = "{names[0]}"    # or {", ".join(names[1:])}; each fits some tasks')]


def _split_lines(nodes: Table, roles: Roles) -> list[str]:
    labels = None if roles.label is None else nodes.frame[roles.label]
    if roles.environments is not None:
        values = plain_texts(nodes.frame[roles.environments])
        found = guess_environments(values, None if labels is None else as_classes(labels))
        sizes = ", ".join(f"{shown(name)} ({count:,} {_items(roles)})" for name, count in values.value_counts().items())
        return [
            _comment(f" Each value is an environment: {sizes}"),
            "# Proposed: the largest train, the next one validates, the others test; those without any label are",
            "# unlabelled: they are predicted. Change the roles as you like; tests and unlabelled may be empty.",
            f"environments = {_toml(roles.environments)}",
            *(f"{role} = {_toml(found[role])}" for role in ("train", "val", "tests", "unlabelled")),
        ]
    if roles.time is not None:
        cuts = guess_cuts(nodes.frame[roles.time], labels)
        return [
            *_PERIODS[roles.graph is not None],
            "# What is after the last label is a target: it is predicted.",
            f"time = {_toml(roles.time)}",
            *(f"{option} = {_toml(value)}" for option, value in cuts.items() if value is not None),
        ]
    return [
        f"# How the {_items(roles)} are split: no column looks like it. Name one, in one of these two ways:",
        '# environments = "…"    # a column such as a country',
        "# train = []    # its values that train, validate, test, and are to be predicted",
        "# val = []",
        "# tests = []",
        "# unlabelled = []",
        '# time = "…"    # a column such as a year',
        "# train_until = 2010    # the last time that trains, and so on",
        "# val_until = 2012",
        "# test_until = [2014, 2016]",
        "# target_until = []",
    ]


def _items(roles: Roles) -> str:
    """What has a label each."""
    return "nodes" if roles.graph is None else "graphs"


def _feature_lines(columns: Sequence[str], roles: Roles) -> list[str]:
    taken = (roles.id, roles.label, roles.environments, roles.time, roles.graph)
    names = [name for name in columns if name not in taken]
    if len(names) > _LINES:
        line = f"# Columns to learn from: all {len(names):,} that have no other role, unless you list them:"
        return [line, "# features = []"]
    return [
        "# Columns to learn from. All that have no other role, unless you list them:",
        f"# features = {_toml(names)}",
    ]


def _relative(source: Source, base: str | Path | None) -> str:
    if isinstance(source, pd.DataFrame):
        raise GraphshiftError("describe_tables: expected paths of the tables, so that the TOML can name them.")
    path = Path(source)
    return path.as_posix() if base is None else Path(os.path.relpath(path, base)).as_posix()


def _toml(value: Any) -> str:
    """A value as TOML writes it; JSON's strings and lists are TOML's, but for one character."""
    if not isinstance(value, str) and isinstance(value, Iterable):
        return f"[{', '.join(map(_toml, value))}]"
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, pd.Timestamp):
        value = value.date().isoformat()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    """One line, whatever the table holds: nothing in a name may end the comment."""
    return "#" + "".join(c if c.isprintable() else " " for c in text)
