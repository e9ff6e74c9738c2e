"""What the columns of two tables are, guessed from their names, their values and the edges between their nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.files import Table, is_number, numbers_or_text, plain_text, shown
from graphshift.datasets.tables.graph import matched
from graphshift.datasets.tables.labels import MOST_CLASSES
from graphshift.datasets.tables.small_graphs import in_graphs

_GRAPHS = ("graph", "graph_id", "graphid", "molecule", "id")
_IDS = ("id", "node", "node_id", "nodeid", "name", "key", "user", "user_id", "account", "uid")
_ENDS_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("id1", "id2"), ("head", "tail"))
_WEIGHTS = ("weight", "w", "strength", "count")
_LABELS: tuple[str, ...] = ("label", "labels", "y", "class", "target", "outcome", "category", "gender", "fraud")
_LABELS += (
    "churn",
    "churned",
    "topic",
    "subject",
    "diagnosis",
    "disease",
    "sentiment",
    "spam",
    "bot",
    "activity",
    "kind",
)
_ENVIRONMENTS: tuple[str, ...] = ("environment", "env", "domain", "country", "region", "site", "school", "hospital")
_ENVIRONMENTS += ("city", "language", "university", "source", "dataset", "network", "group", "split")
_TIMES = ("year", "time", "date", "timestamp", "step", "month", "day", "period", "created")
_POSITIVE = ("1", "yes", "true", "y", "t", "fraud", "positive", "pos", "spam", "bad", "illicit", "churned")
_SPLITS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "tests": ("test", "tests", "testing"),
    "unlabelled": ("target", "predict", "unlabelled", "unlabeled"),
}
_NEARLY = 0.5  # so many of a column's values are distinct before it is said to be nearly one of ids
_MOST = 50  # more distinct values than this are no environments
_INSIDE = 0.99  # so many edges must join equal values of a column before it is taken for the environments unasked
_CHANCE = 0.9  # and fewer than so many would by chance
_EDGES = 100_000  # are looked at
_TRIED = 200  # columns
_ENDS = 10_000  # values of a column of the edge table are looked up


class Roles(NamedTuple):
    """The columns that have a role; None where no column looks like it, or where no graphs have labels."""

    id: str
    source: str
    target: str
    weight: str | None
    label: str | None
    environments: str | None
    time: str | None
    graph: str | None = None


def guess_roles(
    nodes: Table, edges: Table, asked: Mapping[str, str | None], graphs: Table | None = None
) -> tuple[Roles, int]:
    """Guesses the roles of columns.

    Args:
        nodes: the node table, with all columns that may have a role.
        edges: the edge table.
        graphs: the table of graphs, where these have the labels.
        asked: the columns that the user has named: ``label``, ``environments``, ``time``, or None.

    Returns:
        The roles, and how many edges have an end that is not among the nodes. It is an error if all have.
    """
    items = nodes if graphs is None else graphs
    for role in ("label", "environments", "time"):
        if asked.get(role) is not None:
            items.column(str(asked[role]), f"--{role}")
    if asked.get("label") is not None and not _varies(items.frame[asked["label"]]):
        raise GraphshiftError(f"{items.where}: column {asked['label']!r} has fewer than two values; it is no label.")
    if asked.get("environments") is not None and asked.get("time") is not None:
        raise GraphshiftError("--environments and --time are both given; the nodes are split by one of them.")
    graph = None if graphs is None else _graph_column(nodes, graphs)
    source, target = _ends(edges, nodes, graph)
    own = graph if graph in edges.frame.columns else None  # ids mean something inside their graph alone
    identity = _identity(nodes, edges, source, target, own)
    if own is not None:
        nodes, edges = in_graphs(nodes, [identity], own), in_graphs(edges, [source, target], own)
    ends = Table(edges.where, edges.frame[[source, target]].dropna())
    pairs = np.stack([matched(ends, pd.Index(nodes.frame[identity]), ends.frame[name]) for name in (source, target)])
    unknown = (pairs < 0).any(axis=0)
    if unknown.size and unknown.all():
        raise GraphshiftError(
            f"{edges.where}: no edge fits. Column {source!r} has {_example(ends, source)} and {target!r} has "
            f"{_example(ends, target)}; {nodes.where} has ids such as {_example(nodes, identity)}, in column "
            f"{identity!r}. Are these the right tables, nodes first?"
        )
    taken = (identity if graph is None else graph, *asked.values())
    items = nodes if graphs is None else graphs
    rest = [name for name in items.frame.columns if name not in taken]
    time = asked.get("time") or _named(items, rest, _TIMES, _is_time)
    label = asked.get("label") or _named(items, [n for n in rest if n != time], _LABELS, _varies)
    environments = asked.get("environments")
    if environments is None and asked.get("time") is None:
        rest = [name for name in rest if name not in (label, time)]
        named = _named(items, rest, _ENVIRONMENTS, _is_environment)
        environments = (_uncrossed(nodes, pairs[:, ~unknown], rest, named) if graph is None else None) or named
    if environments is None and time is None:
        time = _only_dates(items, [name for name in rest if name != label])
    if label is None:
        others = [name for name in rest if name not in (environments, time)]
        label = _unknown_elsewhere(items, others, environments) or _only_words(items, others)
    weights = [name for name in edges.frame.columns if name not in (source, target, graph)]
    weight = _named(edges, weights, _WEIGHTS, lambda column: is_number(column) and bool((column > 0).all()))
    roles = Roles(identity, source, target, weight, label, environments, None if environments else time, graph)
    return roles, int(unknown.sum())


def _example(table: Table, name: str) -> str:
    return shown(plain_text(table.frame[name].iloc[0]))


def _unknown_elsewhere(nodes: Table, names: Sequence[str], environments: str | None) -> str | None:
    """The one column that is empty in whole environments and not in the others: what is to be predicted there."""
    if environments is None or len(names) > _TRIED:
        return None
    known = nodes.frame[names].notna().groupby(nodes.frame[environments]).any()
    found = [name for name in names if known[name].any() and not known[name].all() and _varies(nodes.frame[name])]
    return found[0] if len(found) == 1 else None


def _only_words(nodes: Table, names: Sequence[str]) -> str | None:
    """The one column of a few words among the others, which are numbers: if nothing is called a label, it is that."""
    words = [name for name in names if not is_number(nodes.frame[name])]
    return words[0] if len(words) == 1 and 2 <= nodes.frame[words[0]].nunique() <= _MOST else None


def _only_dates(nodes: Table, names: Sequence[str]) -> str | None:
    """The one column of dates: if nothing is called environments or a time, the nodes are split by it."""
    dates = [name for name in names if not is_number(nodes.frame[name]) and _is_time(nodes.frame[name])]
    return dates[0] if len(dates) == 1 else None


def may_have_role(sample: pd.DataFrame) -> list[str]:
    """The columns of a wide table that must be looked at in full: words, ids, and those with a telling name."""
    known = {*_IDS, *_LABELS, *_ENVIRONMENTS, *_TIMES}
    return [
        name
        for name, column in sample.items()
        if known & {name.lower(), *_words(name)} or column.dtype.kind not in "iufb" or column.is_unique
    ]


def plain_texts(column: pd.Series) -> pd.Series:
    """:func:`plain_text` of every value that is not missing."""
    codes, values = pd.factorize(column)
    texts = np.array([*map(plain_text, values), None], dtype=object)
    return pd.Series(texts[codes], index=column.index, name=column.name, dtype=object)


def as_classes(labels: pd.Series) -> pd.Series:
    """Labels as text; quantities, which are no classes, all alike."""
    column = numbers_or_text(labels)
    distinct = pd.Series(column.dropna().unique())
    quantities = is_number(column) and (len(distinct) > MOST_CLASSES or bool((distinct.astype(float) % 1 != 0).any()))
    texts = plain_texts(column)
    return texts.where(texts.isna(), "a quantity") if quantities else texts


def guess_environments(values: pd.Series, labels: pd.Series | None) -> dict[str, list[str]]:
    """The roles of environments: ``train``, ``val``, ``tests`` and ``unlabelled``, each with its values.

    Values called ``train``, ``test`` and the like have the role that they say. Else values without any label are
    unlabelled. Of the others the largest train, until half of the labelled nodes do and every class is among them; the
    next one validates, and the rest test. If only two have labels, the second validates where there is something
    unlabelled to predict, and tests where there is not.

    Args:
        values: of the column of environments, as text; missing ones are in no environment.
        labels: of the same nodes; None if not known: then all count as labelled.
    """
    known = values.dropna()
    sizes = known.value_counts()
    by_name = {role: [v for v in sizes.index if v.lower() in names] for role, names in _SPLITS.items()}
    if sum(map(len, by_name.values())) == len(sizes) and by_name["train"]:
        return by_name
    labelled = sizes if labels is None else known[labels.reindex(known.index).notna()].value_counts()
    order = list(labelled.index)
    unlabelled = [value for value in sizes.index if value not in labelled.index]
    classes = {} if labels is None else {v: set(labels[values == v].dropna()) for v in order}
    needed: set[str] = set().union(*classes.values())
    held: set[str] = set()
    most = max(1, len(order) - 2)
    count, nodes = 0, 0
    while count < len(order) and (count == 0 or nodes < labelled.sum() / 2 or held != needed):
        if count >= most and held == needed:
            break
        nodes, held = nodes + int(labelled.iloc[count]), held | classes.get(order[count], set())
        count += 1
    train, rest = order[:count], order[count:]
    validates = 1 if len(rest) > 1 or unlabelled else 0
    return {"train": train, "val": rest[:validates], "tests": rest[validates:], "unlabelled": unlabelled}


def guess_positive(labels: pd.Series) -> str | None:
    """Of two labels the one that is called 1, yes, true, fraud or the like, else the rarer one; None if not two."""
    counts = plain_texts(labels).value_counts()
    if len(counts) != 2:
        return None
    called = [name for name in counts.index if name.lower() in _POSITIVE]
    return str(called[0] if len(called) == 1 else counts.index[-1])


def guess_cuts(times: pd.Series, labels: pd.Series | None) -> dict[str, Any]:
    """``train_until``, ``val_until``, ``test_until`` and ``target_until`` by shares of the labelled nodes."""
    labelled = (times if labels is None else times[labels.notna()]).dropna().sort_values(ignore_index=True)
    distinct = labelled.drop_duplicates().tolist()
    cuts: list[Any] = []
    for share in (0.5, 0.65, 0.8, 0.9):
        place = distinct.index(labelled.iloc[int(share * (len(labelled) - 1))])
        # Every cut after this one needs a later time of its own.
        place = max(place, distinct.index(cuts[-1]) + 1 if cuts else 0)
        cuts.append(distinct[max(0, min(place, len(distinct) - 4 + len(cuts)))])
    cuts = list(dict.fromkeys([*cuts[:3], distinct[-1]]))
    last = times.dropna().max()
    until = {"train_until": cuts[0], "val_until": cuts[1] if len(cuts) > 1 else None, "test_until": cuts[2:]}
    return until | {"target_until": [last] if last > distinct[-1] else []}


def _named(table: Table, columns: list[str], names: Sequence[str], fits: Callable[[pd.Series], bool]) -> str | None:
    """The first column that is called by one of the names, or whose name holds one as a word, and that fits."""
    called: tuple[Callable[[str, str], bool], ...] = (
        lambda column, name: column.lower() == name,
        lambda column, name: name in _words(column),
    )
    for is_called in called:
        for name in names:
            for column in columns:
                if is_called(column, name) and fits(table.frame[column]):
                    return column
    return None


def _words(name: str) -> list[str]:
    return name.lower().replace("-", "_").replace(" ", "_").split("_")


def _varies(column: pd.Series) -> bool:
    return bool(column.nunique() > 1)


def _is_environment(column: pd.Series) -> bool:
    return 2 <= column.nunique() <= _MOST


def _is_time(column: pd.Series) -> bool:
    known = column.dropna()
    if known.nunique() < 4:
        return False
    if is_number(known):
        return bool(np.isfinite(known.astype(float)).all())
    return bool(pd.to_datetime(known, format="ISO8601", errors="coerce", utc=True).notna().all())


def _graph_column(nodes: Table, graphs: Table) -> str:
    """The column that both tables have, with a value of its own in each row of ``graphs``."""
    unique = [name for name in graphs.frame.columns if graphs.frame[name].is_unique and name in nodes.frame.columns]
    for name in (*_GRAPHS, *unique):
        if name in unique:
            return name
    raise GraphshiftError(
        f"{graphs.where}: no column with a value of its own in every row is in {nodes.where}, too; both need one that "
        "names the graph, called the same."
    )


def _ends(edges: Table, nodes: Table, graph: str | None = None) -> tuple[str, str]:
    """The columns that are called so; else the first two with values of a column of ``nodes`` that repeats none."""
    lower = {name.lower(): name for name in edges.frame.columns if name != graph}
    for source, target in _ENDS_NAMES:
        if source in lower and target in lower:
            return lower[source], lower[target]
    if len(lower) < 2:
        raise GraphshiftError(f"{edges.where}: there are fewer than two columns; expected the two ends of the edges.")
    step = max(1, len(edges.frame) // _ENDS)
    some = {name: {plain_text(value) for value in edges.frame[name].dropna().iloc[::step]} for name in lower.values()}
    ids = [column for _, column in nodes.frame.items() if column.is_unique]
    found = {
        name: max((int(_among(column, texts).sum()) / max(1, len(texts)) for column in ids), default=0.0)
        for name, texts in some.items()
    }
    likely = [name for name, share in found.items() if share >= max(found.values()) / 2]
    repeated = [name for name in likely if not edges.frame[name].is_unique]  # what numbers the rows is not
    best = [name for name in found if name in sorted(found, key=found.__getitem__)[-2:]]
    first, second, *_ = next(names for names in (repeated, likely, best) if len(names) > 1)
    return first, second


def _among(column: pd.Series, texts: Collection[str]) -> pd.Series:
    """Which values of a column, as text, are among others."""
    return column.isin([float(t) for t in texts if t.lstrip("-").isdigit()] if is_number(column) else list(texts))


def _identity(nodes: Table, edges: Table, source: str, target: str, graph: str | None = None) -> str:
    """The column of distinct values, inside each ``graph`` if there is one, that has most of the edges' ends."""
    ends = {plain_text(value) for name in (source, target) for value in edges.frame[name].iloc[:_ENDS].dropna()}
    best, most = None, -1.0
    for name in nodes.frame.columns:
        column = nodes.frame[name]
        if name == graph or column.isna().any():
            continue
        if not column.is_unique and (graph is None or bool(nodes.frame.duplicated([graph, name]).any())):
            continue
        if is_number(column) and bool((column.iloc[:1000].astype(float) % 1 != 0).any()):
            continue  # fractions name nothing
        found = int(_among(column, ends).sum()) + 0.5 * (name.lower() in _IDS)
        if found > most:
            best, most = name, found
    if best is None:
        hint = _nearly(nodes) if graph is None else ""
        raise GraphshiftError(
            f"{nodes.where}: no column has a value of its own in every row{' of a graph' if graph else ''}, so none "
            f"can be the nodes' ids; add one.{hint or ' The first table is that of nodes.'}"
        )
    return best


def _nearly(nodes: Table) -> str:
    """The column that would be the ids if each of its values was there once, in words; empty if there is none."""
    distinct = {name: int(nodes.frame[name].nunique()) for name in nodes.frame.columns}
    name = max(distinct, key=distinct.__getitem__)
    column = nodes.frame[name]
    again = column[column.duplicated() & column.notna()]
    if again.empty or distinct[name] < _NEARLY * len(column):
        return ""
    value = again.iloc[0]
    return f" Column {name!r} comes closest: {plain_text(value)!r} is in {int((column == value).sum())} rows."


def _uncrossed(nodes: Table, pairs: NDArray[np.int64], columns: list[str], named: str | None) -> str | None:
    """The column whose values (nearly) no edge crosses; of several ``named``, else the one with the finest parts."""
    tried = [name for name in columns if _is_environment(nodes.frame[name])] if len(columns) <= _TRIED else []
    one, other = pairs[:, pairs[0] != pairs[1]][:, :: max(1, pairs.shape[1] // _EDGES)]
    found: dict[str, float] = {}
    for name in tried if len(one) else []:
        codes = pd.factorize(nodes.frame[name])[0]
        inside = float(((codes[one] == codes[other]) & (codes[one] >= 0)).mean())
        shares = [np.bincount(codes[side] + 1, minlength=_MOST + 1) / len(side) for side in (one, other)]
        chance = float((shares[0] * shares[1]).sum())
        if inside >= _INSIDE and chance < _CHANCE:
            found[name] = chance
    return named if named in found else min(found, key=found.__getitem__, default=None)
