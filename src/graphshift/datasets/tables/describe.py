"""A first TOML file for a user's tables: looks at them, guesses what each column is, and says so in comments."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from graphshift.core.errors import GraphshiftError
from graphshift.data.metrics import METRICS
from graphshift.datasets.tables.files import Source, Table, is_number, plain_text, read_table, shown

_IDS = ("id", "node", "node_id", "nodeid", "name", "key", "user", "user_id", "account", "uid")
_ENDS = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("id1", "id2"), ("head", "tail"))
_WEIGHTS = ("weight", "w", "strength", "count")
_LABELS = ("label", "y", "class", "target", "outcome", "category", "gender")
_ENVIRONMENTS = "environment env domain country region site school hospital city language group split"
_TIMES = ("year", "time", "date", "timestamp", "step", "month", "day", "period", "created")
_MOST = 50  # more distinct values than this are no environments


class _Guess(NamedTuple):
    id: str
    source: str
    target: str
    weight: str | None
    label: str | None
    environments: str | None
    time: str | None


def describe_tables(nodes: Source, edges: Source, *, base: str | Path | None = None, separator: str = ",") -> str:
    """Guesses the roles of the columns of two tables and writes a commented TOML file for ``graphshift fit``.

    Paths are made relative to ``base``, the folder that the TOML will be in; None leaves them as given.
    """
    node_table = read_table(nodes, "node", separator=separator)
    edge_table = read_table(edges, "edge", separator=separator)
    guess = _guess(node_table, edge_table)
    if guess.environments:  # names stay as they are written: 007 is not 7
        node_table = read_table(nodes, "node", text=[guess.environments], separator=separator)
    lines = [
        "# graphshift: what to learn from which tables. Check the guesses, then run: graphshift fit THIS_FILE",
        "",
        'method = "eerm"    # or "erm", the baseline; any other option of `graphshift fit` can be set here',
        "seed = 0",
        "",
        "[data]",
        f"nodes = {_toml(_relative(nodes, base))}    # paths are relative to this file",
        f"edges = {_toml(_relative(edges, base))}",
        *([] if separator == "," else [f"separator = {_toml(separator)}"]),
        "",
        f"# The node table has {len(node_table.frame)} rows:",
        *_columns(node_table),
        f"# The edge table has {len(edge_table.frame)} rows:",
        *_columns(edge_table),
        "",
        f"id = {_toml(guess.id)}    # names each node; the edges' ends are values of it",
        f"source = {_toml(guess.source)}",
        f"target = {_toml(guess.target)}",
        "undirected = true    # false if an edge goes from source to target only",
        f"weight = {_toml(guess.weight)}"
        if guess.weight
        else '# weight = "…"    # a column of the edge table, above 0',
        "",
        *_label_lines(node_table, guess),
        "",
        *_split_lines(node_table, guess),
        "",
        "# Columns to learn from. All that have no other role, unless you list them:",
        f"# features = {_toml(_features(node_table, guess))}",
        "# categorical = []    # columns of numbers that are codes: one 0/1 feature for each value",
        '# missing = []    # words that mean missing beside an empty field, as in ["unknown"]',
        '# unknown_ids = "drop"    # leave out edges to nodes that the node table does not have',
    ]
    return "\n".join(lines) + "\n"


def _guess(nodes: Table, edges: Table) -> _Guess:
    source, target = _ends(edges)
    identity = _identity(nodes, edges, source, target)
    rest = [name for name in nodes.frame.columns if name != identity]
    time = _named(nodes, rest, _TIMES, _is_time)
    label = _named(nodes, [name for name in rest if name != time], _LABELS, lambda column: column.nunique() > 1)
    rest = [name for name in rest if name not in (label, time)]
    environments = _named(nodes, rest, _ENVIRONMENTS.split(), lambda column: 2 <= column.nunique() <= _MOST)
    weights = [name for name in edges.frame.columns if name not in (source, target)]
    weight = _named(edges, weights, _WEIGHTS, lambda column: is_number(column) and bool((column > 0).all()))
    return _Guess(identity, source, target, weight, label, environments, None if environments else time)


def _named(table: Table, columns: list[str], names: Sequence[str], fits: Any) -> str | None:
    """The first column that is called by one of the names, or whose name holds one as a word, and that fits."""
    for exact in (True, False):
        for name in names:
            for column in columns:
                words = column.lower().replace("-", "_").replace(" ", "_")
                called = words == name if exact else name in words.split("_")
                if called and fits(table.frame[column]):
                    return column
    return None


def _ends(edges: Table) -> tuple[str, str]:
    lower = {name.lower(): name for name in edges.frame.columns}
    for source, target in _ENDS:
        if source in lower and target in lower:
            return lower[source], lower[target]
    if len(edges.frame.columns) < 2:
        raise GraphshiftError(f"{edges.where}: there are fewer than two columns; expected the two ends of the edges.")
    return edges.frame.columns[0], edges.frame.columns[1]


def _identity(nodes: Table, edges: Table, source: str, target: str) -> str:
    """The column of distinct values that has most of the edges' ends."""
    ends = {plain_text(value) for name in (source, target) for value in edges.frame[name].iloc[:10_000].dropna()}
    best, most = None, -1.0
    for name in nodes.frame.columns:
        column = nodes.frame[name]
        if column.isna().any() or not column.is_unique:
            continue
        found = len(ends & {plain_text(value) for value in column}) + 0.5 * (name.lower() in _IDS)
        if found > most:
            best, most = name, found
    if best is None:
        raise GraphshiftError(
            f"{nodes.where}: no column has a value of its own in every row, so none can be the nodes' ids; add one."
        )
    return best


def _columns(table: Table) -> list[str]:
    lines = []
    for name in table.frame.columns:
        column = table.frame[name]
        kind = "numbers" if is_number(column) else "text"
        examples = ", ".join(shown(value) for value in column.dropna().unique()[:3])
        missing = f", {int(column.isna().sum())} missing" if column.isna().any() else ""
        lines.append(_comment(f"  {name}: {kind}, {column.nunique()} distinct{missing}, such as {examples}"))
    return lines


def _label_lines(nodes: Table, guess: _Guess) -> list[str]:
    if guess.label is None:
        line = "# What to predict: no column looks like it. Name one; nodes without a value are unlabelled."
        return [line, '# label = "…"']
    count, names = nodes.frame[guess.label].nunique(), list(METRICS)
    return [
        _comment(f" What to predict ({count} distinct values); nodes without a value stay in the graph, unlabelled."),
        f"label = {_toml(guess.label)}",
        '# task = "multiclass"    # or "binary", "regression"; decided by the labels unless given',
        _comment(f' metric = "{names[0]}"    # or {", ".join(names[1:])}; each fits some tasks'),
    ]


def _split_lines(nodes: Table, guess: _Guess) -> list[str]:
    if guess.environments is not None:
        counts = nodes.frame[guess.environments].map(plain_text, na_action="ignore").value_counts()
        names, rest = list(counts.index), 2 if len(counts) > 2 else 1
        sizes = ", ".join(f"{shown(name)} ({count} nodes)" for name, count in counts.items())
        return [
            _comment(f" Each value is an environment: {sizes}"),
            "# The largest is proposed to train, the next to validate, the others to test. Several may train.",
            f"environments = {_toml(guess.environments)}",
            f"train = {_toml(names[:1])}",
            f"val = {_toml(names[1:rest])}",
            f"tests = {_toml(names[rest:])}",
        ]
    if guess.time is not None:
        cuts = _cuts(nodes.frame[guess.time])
        return [
            "# Periods of time; a cut is the last time of its period. An environment's graph holds all nodes up to",
            "# its cut, and the nodes of its period count. Proposed: half of the nodes train, the rest is later.",
            f"time = {_toml(guess.time)}",
            f"train_until = {_toml(cuts[0])}",
            f"val_until = {_toml(cuts[1])}",
            f"test_until = {_toml(cuts[2:])}",
        ]
    return [
        "# How the nodes are split: no column looks like it. Name one, in one of these two ways:",
        '# environments = "…"    # a column such as a country',
        "# train = []    # its values that train, validate and test",
        "# val = []",
        "# tests = []",
        '# time = "…"    # a column such as a year',
        "# train_until = 2010    # the last time that trains, and so on",
        "# val_until = 2012",
        "# test_until = [2014, 2016]",
    ]


def _is_time(column: pd.Series) -> bool:
    known = column.dropna()
    if known.nunique() < 4:
        return False
    if is_number(known):
        return bool(np.isfinite(known.astype(float)).all())
    return bool(pd.to_datetime(known, format="ISO8601", errors="coerce", utc=True).notna().all())


def _cuts(column: pd.Series) -> list[Any]:
    """Cuts at shares of the nodes, increasing; the last is the end."""
    known = column.dropna().sort_values(ignore_index=True)
    distinct = known.drop_duplicates().tolist()
    cuts: list[Any] = []
    for share in (0.5, 0.65, 0.8, 0.9):
        place = distinct.index(known.iloc[int(share * (len(known) - 1))])
        # Every cut after this one needs a later time of its own.
        place = max(place, distinct.index(cuts[-1]) + 1 if cuts else 0)
        cuts.append(distinct[min(place, len(distinct) - 4 + len(cuts))])
    return [*dict.fromkeys([*cuts[:3], distinct[-1]])]


def _features(nodes: Table, guess: _Guess) -> list[str]:
    return [name for name in nodes.frame.columns if name not in (guess.id, guess.label, guess.environments, guess.time)]


def _relative(source: Source, base: str | Path | None) -> str:
    if isinstance(source, pd.DataFrame):
        raise GraphshiftError("describe_tables: expected paths of the tables, so that the TOML can name them.")
    path = Path(source)
    return path.as_posix() if base is None else Path(os.path.relpath(path, base)).as_posix()


def _toml(value: Any) -> str:
    """A value as TOML writes it; JSON's strings and lists are TOML's, but for one character."""
    if isinstance(value, pd.Timestamp):
        value = value.date().isoformat()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    """One line, whatever the table holds: nothing in a name may end the comment."""
    return "#" + "".join(c if c.isprintable() else " " for c in text)
