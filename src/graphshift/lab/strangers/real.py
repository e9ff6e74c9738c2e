"""Real data as a stranger would write them into two tables: schools, papers, streamers, products."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from graphshift.data.environment import Environment
from graphshift.datasets import load
from graphshift.datasets.facebook100 import SOURCES
from graphshift.datasets.reading.files import require
from graphshift.datasets.reading.mat5 import read_mat5
from graphshift.lab.strangers.making import Stranger, joined
from graphshift.methods.columns import features_of

_SCHOOL = ("status", "gender", "major", "minor", "dorm", "year", "high_school")


def school(name: str, label: str, data_dir: Path | None) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """A school's members as their codes, 0 for "not said"; where the label is not said the cell is empty."""
    source = next(one for one in SOURCES if Path(one.path).stem == name)
    found = read_mat5(next(iter(require("strangers", [source], data_dir).values())), {"A", "local_info"})
    table = pd.DataFrame(found["local_info"].astype(int), columns=list(_SCHOOL))
    table[label] = table[label].replace(0, pd.NA).astype("Int64")
    matrix = found["A"].tocoo()
    once = matrix.row < matrix.col
    edges = pd.DataFrame({"source": matrix.row[once], "target": matrix.col[once]})
    return name.rstrip("0123456789").replace(" ", ""), table, edges


def schools(names: Sequence[str], label: str, data_dir: Path | None) -> Stranger:
    """Several schools; of the years those that are usual, since one with few members is no class."""
    made = [school(name, label, data_dir) for name in names]
    if label == "year":
        for _, table, _ in made:
            table.loc[~table["year"].between(2004, 2009), "year"] = pd.NA
    if label == "status":
        for _, table, _ in made:
            table.loc[~table["status"].isin((1, 2, 5, 6)), "status"] = pd.NA
    return joined(made, "school", label)


def dormitories(name: str, data_dir: Path | None) -> Stranger:
    """One school by year of entry: the label is one of the eight largest dormitories."""
    _, table, edges = school(name, "dorm", data_dir)
    largest = table["dorm"].value_counts().index[:8]
    table.loc[~table["dorm"].isin(largest), "dorm"] = pd.NA
    table = table[table["year"].between(2004, 2009)]
    kept = np.isin(edges["source"], table.index) & np.isin(edges["target"], table.index)
    return Stranger(table.rename_axis("id").reset_index().rename(columns={"dorm": "label"}), edges[kept])


def papers(train: str, data_dir: Path | None) -> Stranger:
    """Papers of three databases, their words as lists; one database trains."""
    whole = load("citation", source=train, target="others", **_at(data_dir))
    parts = []
    for e in (whole.train[0], *whole.tests):
        assert e.y is not None
        y = e.y.numpy() if e.y.ndim == 1 else e.y.numpy().argmax(axis=1)
        table = pd.DataFrame({"words": _lists(e), "topic": [f"topic {i}" for i in y]})
        parts.append((e.name.split()[0], table, _pairs(e)))
    names = [name for name, *_ in parts]
    roles = {"train": names[:1], "val": names[1:2], "tests": names[2:]}
    return replace(
        joined(parts, "database"), changes={role: f"{role} = {json.dumps(own)}" for role, own in roles.items()}
    )


def streamers(data_dir: Path | None, regions: Sequence[str] = ()) -> Stranger:
    """Streamers of regions: lists of habits, explicit language or not."""
    whole = load("twitch", **_at(data_dir))
    parts = []
    for e in whole.environments:
        if not regions or e.name in regions:
            assert e.y is not None
            table = pd.DataFrame({"habits": _lists(e), "mature": np.where(e.y.numpy() > 0, "yes", "no")})
            parts.append((e.name, table, _pairs(e)))
    return joined(parts, "region", "mature")


def papers_by_year(data_dir: Path | None) -> Stranger:
    """Papers on diabetes with the year, TF-IDF words as columns."""
    whole = load("pubmed-temporal", **_at(data_dir)).tests[-1]
    assert whole.time is not None
    assert whole.y is not None
    x = features_of(whole)
    dense = x.toarray() if hasattr(x, "toarray") else x
    table = pd.DataFrame(np.round(dense, 5), columns=[f"w{i}" for i in range(dense.shape[1])])
    table = table.assign(year=whole.time.numpy().astype(int), label=whole.y.numpy())
    return Stranger(table.rename_axis("paper").reset_index(), _pairs(whole))


def split_by(name: str, split: str, data_dir: Path | None) -> Stranger:
    """Cora or Photo as one graph, split by a property of its nodes."""
    e = load(name, **_at(data_dir)).train[0]
    assert e.y is not None
    table = pd.DataFrame({"words": _lists(e), "label": e.y.numpy()}).rename_axis("id").reset_index()
    changes = {"environments": f'environments = "by:{split}"'}
    return Stranger(table, _pairs(e), changes=changes)


def _at(data_dir: Path | None) -> dict[str, Any]:
    return {} if data_dir is None else {"data_dir": data_dir}


def _pairs(e: Environment) -> pd.DataFrame:
    pattern = e.graph.pattern
    source = np.repeat(np.arange(e.num_nodes), pattern.rowptr.diff().numpy())
    target = pattern.col.numpy()
    return pd.DataFrame({"source": source, "target": target})[source < target]


def _lists(e: Environment) -> list[str]:
    x: Any = features_of(e)
    if not hasattr(x, "indptr"):
        return [";".join(f"w{i}" for i in np.flatnonzero(row)) for row in x]
    return [";".join(f"w{i}" for i in x.indices[a:b]) for a, b in zip(x.indptr[:-1], x.indptr[1:], strict=True)]


_CHOICES = {
    "a": ("Caltech36", "Reed98", "Amherst41", "Brandeis99"),
    "b": ("Johns Hopkins55", "Caltech36", "Reed98", "Amherst41"),
    "c": ("Princeton12", "Reed98", "Brandeis99", "Caltech36"),
    "d": ("Carnegie49", "Bingham82", "Amherst41", "Reed98"),
}


def _schools(choice: str, label: str) -> Callable[[Path | None], Stranger]:
    return lambda data_dir: schools(_CHOICES[choice], label, data_dir)


#: By name.
REAL: Mapping[str, Callable[[Path | None], Stranger]] = {
    **{f"schools-{c}-{label}": _schools(c, label) for c in _CHOICES for label in ("status", "gender", "year")},
    "dormitories": lambda data_dir: dormitories("Amherst41", data_dir),
    "papers-acm": lambda data_dir: papers("acm", data_dir),
    "papers-citation": lambda data_dir: papers("citation", data_dir),
    "papers-dblp": lambda data_dir: papers("dblp", data_dir),
    "streamers": streamers,
    "papers-by-year": papers_by_year,
    "cora-popularity": lambda data_dir: split_by("cora", "popularity", data_dir),
    "photo-locality": lambda data_dir: split_by("photo", "locality", data_dir),
}
