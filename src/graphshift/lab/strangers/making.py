"""Made tables as strangers bring them: airports, web pages, transactions, markets, tissues and more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Random = np.random.Generator
Array = NDArray[Any]


@dataclass(frozen=True)
class Stranger:
    """Two tables, and what a user changes in the file that ``init`` writes.

    Attributes:
        nodes, edges: the tables.
        asked: options of ``init``, such as ``--label``.
        changes: lines of the file by option, for what no ``init`` could know.
    """

    nodes: pd.DataFrame
    edges: pd.DataFrame
    asked: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)


def edges_between(random: Random, kind: Array, degree: float, alike: float, heavy: float = 0.0) -> pd.DataFrame:
    """Random edges; a share ``alike`` of them joins nodes of one kind. ``heavy``: how unequal the degrees are."""
    weight = random.pareto(2.5, len(kind)) * heavy + 1
    first = random.choice(len(kind), round(len(kind) * degree / 2), p=weight / weight.sum())
    stays, second = random.random(len(first)) < alike, np.zeros(len(first), dtype=int)
    for one in np.unique(kind):
        for same in (True, False):
            asking = (kind[first] == one) & (stays == same)
            able = np.flatnonzero((kind == one) == same)
            if len(able):
                second[asking] = random.choice(able, asking.sum(), p=weight[able] / weight[able].sum())
    pairs = np.unique(np.sort(np.stack([first, second], axis=1)[first != second], axis=1), axis=0)
    return pd.DataFrame(pairs, columns=["source", "target"])


def joined(parts: Sequence[tuple[str, pd.DataFrame, pd.DataFrame]], column: str, label: str | None = None) -> Stranger:
    """Graphs beside each other, with ids of their own and a column that names the graph.

    ``label`` is named to ``init`` where no name gives it away.
    """
    nodes, edges = [], []
    for name, of_nodes, of_edges in parts:
        ids = np.array([f"{name}-{i}" for i in range(len(of_nodes))])
        nodes.append(of_nodes.assign(id=ids, **{column: name}))
        edges.append(of_edges.assign(source=ids[of_edges["source"]], target=ids[of_edges["target"]]))
    table = pd.concat(nodes, ignore_index=True)
    first = ["id", column]
    asked = {} if label is None else {"label": label}
    return Stranger(table[[*first, *(c for c in table if c not in first)]], pd.concat(edges, ignore_index=True), asked)


def airports(random: Random) -> Stranger:
    """Airports of regions: the label is the quarter of the region's traffic; sizes differ between regions."""
    parts = []
    for name, count, degree, scale in (("americas", 900, 18, 3.0), ("europe", 400, 28, 1.0), ("asia", 250, 14, 8.0)):
        hub = random.pareto(1.3, count) + 1
        first = random.choice(count, round(count * degree / 2), p=hub / hub.sum())
        second = random.choice(count, len(first), p=hub / hub.sum())
        pairs = np.unique(np.sort(np.stack([first, second], axis=1)[first != second], axis=1), axis=0)
        degrees = np.bincount(pairs.ravel(), minlength=count)
        traffic = hub * random.lognormal(0, 0.5, count)
        quarter = np.argsort(np.argsort(traffic)) * 4 // count
        table: dict[str, Array] = {"activity": quarter, "routes": degrees}
        table["departures"] = (scale * traffic * 100).round() * random.lognormal(0, 0.9, count)
        table |= {"lat": random.uniform(-50, 65, count), "lon": random.uniform(-170, 170, count)}
        table["runways"] = np.maximum(1, random.poisson(1 + np.log(hub)))
        parts.append((name, pd.DataFrame(table), pd.DataFrame(pairs, columns=["source", "target"])))
    return joined(parts, "region", "activity")


def web_pages(random: Random) -> Stranger:
    """Web pages of universities: words tell the kind of page, links join other kinds."""
    kinds, words = np.array(["student", "course", "faculty", "project", "staff"]), 800
    topics = random.gamma(0.15, 1.0, (5, words)) + 0.02
    parts = []
    for name, count in (("cornell", 260), ("texas", 200), ("washington", 240), ("wisconsin", 270)):
        kind = random.choice(5, count, p=(0.45, 0.2, 0.15, 0.12, 0.08))
        own = topics * random.lognormal(0, 0.5, words)
        bag = random.random((count, words)) < 1 - np.exp(-9 * own[kind] / own[kind].sum(1, keepdims=True))
        table = pd.DataFrame(bag.astype(int), columns=[f"word{i}" for i in range(words)])
        parts.append((name, table.assign(label=kinds[kind]), edges_between(random, kind, 4, 0.15, 2.0)))
    return joined(parts, "university")


def fraud(random: Random) -> Stranger:
    """Transactions by day: 3 % are fraud, in patterns that come and go; sums have a heavy tail."""
    count, days = 9_000, 30
    day = np.sort(random.integers(1, days + 1, count))
    bad = random.random(count) < 0.03
    rush = bad & (random.random(count) < np.where(day < 20, 0.7, 0.4))
    table = pd.DataFrame({"id": np.arange(count) + 100_000, "day": day})
    table["amount"] = np.round(random.lognormal(3.5 + 1.0 * bad, 1.2), 2)
    table["hour"] = np.where(rush, random.integers(0, 6, count), random.integers(0, 24, count))
    table["account_age"] = random.gamma(np.where(bad, 1.2, 2.5), 300).round()
    table.loc[random.random(count) < 0.1, "account_age"] = np.nan
    shops = np.array(["grocer", "travel", "games", "fuel", "other"])
    table["merchant"] = np.where(bad, random.choice(shops, count, p=(0.1, 0.25, 0.4, 0.05, 0.2)), "")
    table.loc[~bad, "merchant"] = random.choice(shops, (~bad).sum(), p=(0.4, 0.1, 0.1, 0.25, 0.15))
    table["country_code"] = np.where(bad & (random.random(count) < 0.5), 31, random.choice([1, 7, 31, 44, 49], count))
    table["fraud"] = bad.astype(int)
    edges = edges_between(random, bad.astype(int), 5, 0.93)
    ids = table["id"].to_numpy()
    return Stranger(table, edges.assign(source=ids[edges["source"]], target=ids[edges["target"]]))


def useless_columns(random: Random) -> Stranger:
    """One graph by year: columns are noise, but neighbours have one label, and old labels are known."""
    count = 2_500
    kind, year = random.choice(4, count), np.sort(random.integers(2001, 2013, count))
    table = pd.DataFrame(random.normal(size=(count, 8)), columns=[f"f{i}" for i in range(8)])
    table = table.assign(id=np.arange(count), year=year, label=np.array(list("abcd"))[kind])
    return Stranger(table, edges_between(random, kind, 8, 0.85))


def other_kinds(random: Random) -> Stranger:
    """Links join different kinds; a node's own columns say little, its neighbours' columns much."""
    parts = []
    for name, count, moved in (("north", 900, 0.0), ("east", 700, 0.3), ("south", 500, -0.3), ("west", 600, 0.6)):
        kind = random.choice(3, count)
        role = np.where(random.random(count) < 0.9, (kind + 1) % 3, random.choice(3, count))
        pairs = edges_between(random, kind, 7, 0.1)
        signal = np.eye(3)[role] * 0.8 + random.normal(size=(count, 3)) + moved
        table = pd.DataFrame(signal, columns=["p", "q", "r"]).assign(noise=random.normal(size=count), group_label=kind)
        parts.append((name, table.rename(columns={"group_label": "label"}), pairs))
    return joined(parts, "site")


def mixed(random: Random) -> Stranger:
    """Customers of countries: text, dates, words, codes, sums, gaps."""
    goods = ["slow delivery refund", "great price thanks", "broken screen return", "where is my parcel", "love it"]
    parts = []
    for name, count, rate in (("fr", 900, 0.9), ("de", 800, 1.0), ("es", 500, 1.2), ("it", 600, 0.8)):
        risk = random.normal(size=count)
        leaves = random.random(count) < 1 / (1 + np.exp(-(2 * risk - 0.5)))
        table = pd.DataFrame({"churned": np.where(leaves, "yes", "no")})
        text = np.where(leaves, random.choice([0, 2, 3, 1], count), random.choice([1, 4, 0, 3], count))
        extra = random.choice(["today", "please", "monday", "the box", "again"], count)
        table["review"] = [f"{goods[i]} {word} {n % 97}" for n, (i, word) in enumerate(zip(text, extra, strict=True))]
        joined_on = np.datetime64("2019-01-01") + random.integers(0, 1500, count) + (risk * -150).astype(int)
        table["joined_on"] = joined_on.astype(str)
        table["plan"] = random.choice(["basic", "plus", "pro"], count, p=(0.5, 0.3, 0.2))
        table["spent"] = np.round(rate * random.lognormal(4 - 0.4 * risk, 1.0), 2)
        table["branch"] = np.where(random.random(count) < 0.4, 17 + 30 * (risk > 0), random.integers(1, 60, count))
        table["calls"] = random.poisson(np.exp(0.5 * risk)).astype(float)
        table.loc[random.random(count) < 0.2, ["calls"]] = np.nan
        table.loc[random.random(count) < 0.1, ["plan"]] = None
        parts.append((name, table, edges_between(random, leaves.astype(int), 6, 0.65, 1.0)))
    return joined(parts, "country", "churned")


def bought_together(random: Random) -> Stranger:
    """Products by markets: six shelves, words of a review, links within the shelf; words differ by market."""
    words = 300
    topics = random.gamma(0.3, 1.0, (6, words)) + 0.05
    parts = []
    for name, count in (("us", 1300), ("uk", 800), ("jp", 700), ("br", 600)):
        kind = random.choice(6, count, p=(0.3, 0.2, 0.2, 0.1, 0.1, 0.1))
        own = topics * random.lognormal(0, 0.8, words)
        counts = random.poisson(12 * own[kind] / own[kind].sum(1, keepdims=True))
        table = pd.DataFrame(counts, columns=[f"w{i}" for i in range(words)]).assign(category=kind)
        table["price"] = np.round(random.lognormal(2 + 0.3 * kind, 0.8), 2)
        parts.append((name, table, edges_between(random, kind, 12, 0.8, 2.0)))
    return joined(parts, "market")


def tissues(random: Random) -> Stranger:
    """Proteins in tissues: expression with an offset and a scale of the laboratory, a function that is yes or no."""
    direction = random.normal(size=30)
    parts = []
    for name, count in (("liver", 800), ("brain", 700), ("lung", 500), ("skin", 400), ("heart", 450)):
        hidden = random.normal(size=(count, 30))
        active = hidden @ direction / np.linalg.norm(direction) + 0.7 * random.normal(size=count) > 0.3
        offset, scale = random.normal(0, 0.7, 30), random.lognormal(0, 0.35)
        table = pd.DataFrame((hidden + offset) * scale, columns=[f"gene{i}" for i in range(30)])
        table["active"] = active.astype(int)
        parts.append((name, table, edges_between(random, active.astype(int), 10, 0.6, 2.0)))
    return joined(parts, "tissue", "active")


def visits(random: Random) -> Stranger:
    """Pages of a wiki by language: how many visits, a quantity with a heavy tail."""
    parts = []
    for name, count in (("en", 900), ("fr", 600), ("sv", 500), ("pl", 400)):
        fame = random.normal(size=count)
        table = pd.DataFrame({"length": random.lognormal(7 + 0.5 * fame, 0.6).round()})
        table["pictures"] = random.poisson(np.exp(0.4 * fame))
        table["age"] = random.integers(1, 20, count)
        table["target"] = np.round(fame * 2 + 0.05 * table["age"] + 0.5 * random.normal(size=count), 3)
        parts.append((name, table, edges_between(random, np.digitize(fame, [-0.5, 0.5]), 8, 0.6, 2.0)))
    return replace(joined(parts, "language"), changes={"metric": 'metric = "r2"'})


#: By name.
MADE: Mapping[str, Callable[[Random], Stranger]] = {
    one.__name__: one
    for one in (*(airports, web_pages, fraud, useless_columns, other_kinds), *(mixed, bought_together, tissues, visits))
}
