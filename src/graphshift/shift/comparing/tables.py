"""Two pairs of tables as two graphs with the same columns, prepared alike."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.files import read_table
from graphshift.datasets.tables.numeric import Unit

_SIDE = "graphshift: which graph"
_NO_LABEL = "graphshift: no label"
_SHOWN = 5


class Tables(NamedTuple):
    """One graph as two tables.

    Attributes:
        nodes, edges: paths to CSV or Parquet.
    """

    nodes: Path
    edges: Path


class Read(NamedTuple):
    """What two pairs of tables became.

    Attributes:
        source, target: the graphs.
        column_names, class_names: of their features and classes.
        column_units: in which values of columns are told.
        remarks: what was left out or filled in.
    """

    source: Environment
    target: Environment
    column_names: list[str]
    column_units: list[Unit]
    class_names: list[str]
    remarks: list[str]


def read_pair(source: Tables, target: Tables, options: Mapping[str, Any]) -> Read:
    """Reads two graphs; columns that only one of them has are left out, and the preparation is learned from the source.

    Args:
        source, target: the tables.
        options: of :func:`graphshift.datasets.own.from_tables`, as ``label``, ``id``, ``separator``. Without ``label``
            labels are not compared; a target without that column has none.
    """
    separator = str(options.get("separator", ","))
    ids = [str(options.get("id", "id"))]
    ends = [str(options.get(end, end)) for end in ("source", "target")]
    frames = [read_table(one.nodes, "node", ids=ids, separator=separator).frame for one in (source, target)]
    edges = [read_table(one.edges, "edge", ids=ends, separator=separator).frame for one in (source, target)]
    for tables, frame in zip((source, target), frames, strict=True):
        if not len(frame):
            raise GraphshiftError(f"{tables.nodes}: the table has no row; expected one for each node.")
    id_, label = ids[0], options.get("label")
    for path, frame, needed in (
        *((t.nodes, f, [id_]) for t, f in zip((source, target), frames, strict=True)),
        *((t.edges, f, ends) for t, f in zip((source, target), edges, strict=True)),
    ):
        for name in needed:
            if name not in frame.columns:
                raise GraphshiftError(
                    f"{path}: there is no column {name!r}; it has {', '.join(map(str, frame.columns))}."
                )
    if label is not None and label not in frames[0].columns:
        raise GraphshiftError(f"{source.nodes}: there is no column {label!r} for the labels (option label).")
    special = {id_, label}
    common = [name for name in frames[0].columns if name in set(frames[1].columns) and name not in special]
    if not common:
        raise GraphshiftError(
            f"{source.nodes} and {target.nodes} have no column in common beside {id_!r}: "
            f"{', '.join(map(str, frames[0].columns[:8]))} and {', '.join(map(str, frames[1].columns[:8]))}. "
            "Rename columns that mean the same."
        )
    remarks = []
    for frame, other, one in ((frames[0], frames[1], source), (frames[1], frames[0], target)):
        alone = [str(name) for name in frame.columns if name not in set(other.columns) and name not in special]
        if alone:
            listed = ", ".join(alone[:_SHOWN]) + ("…" if len(alone) > _SHOWN else "")
            remarks.append(f"only {one.nodes} has the column {listed}: left out")
    if label is not None and label in frames[1].columns and str(options.get("task", "")) != "regression":
        frames[1], more = _without_unknown(frames, str(label), target)
        remarks += more
    read = _made(frames, edges, common, options, remarks)
    named = [one.nodes.stem for one in (source, target)]
    if named[0] == named[1]:
        return read
    return read._replace(source=read.source.replace(name=named[0]), target=read.target.replace(name=named[1]))


def _without_unknown(frames: list[pd.DataFrame], label: str, target: Tables) -> tuple[pd.DataFrame, list[str]]:
    """The target's table without labels that the source does not have, and a remark; values are no classes."""
    known, own = (frame[label].dropna() for frame in frames)
    if pd.api.types.is_float_dtype(known) or pd.api.types.is_float_dtype(own):
        return frames[1], []
    unknown = own[~own.astype(str).isin(set(known.astype(str)))]
    if not len(unknown) or len(unknown) == len(own):
        return frames[1], []
    listed = ", ".join(sorted(set(unknown.astype(str)))[:_SHOWN])
    text = f"{len(unknown):,} nodes of {target.nodes} have classes that the source has not ({listed}): left out"
    return frames[1].assign(**{label: frames[1][label].where(~frames[1].index.isin(unknown.index))}), [text]


def _made(
    frames: list[pd.DataFrame],
    edges: list[pd.DataFrame],
    common: list[str],
    options: Mapping[str, Any],
    remarks: list[str],
) -> Read:
    id_, label = str(options.get("id", "id")), options.get("label")
    ends = [str(options.get(end, end)) for end in ("source", "target")]
    both, links = [], []
    for side, frame, edge in zip(("source", "target"), frames, edges, strict=True):
        part = frame[common].copy()
        part[id_] = side + ":" + frame[id_].astype(str)
        part[_SIDE] = side
        if label is None:
            part[_NO_LABEL] = np.resize([0.0, 1.0], len(part))
        elif label in frame.columns:
            part[label] = frame[label]
        both.append(part)
        named = edge.copy()
        for end in ends:
            named[end] = side + ":" + edge[end].astype(str)
        links.append(named)
    labelled = label is not None and label in frames[1].columns and bool(frames[1][label].notna().any())
    how: dict[str, Any] = {k: v for k, v in options.items() if k not in ("label", "separator")}
    how |= {"environments": _SIDE, "train": "source", "label": _NO_LABEL if label is None else label}
    how |= {"task": "regression"} if label is None else {}
    how |= {"tests": "target"} if labelled else {"unlabelled": "target"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        data = from_tables(pd.concat(both, ignore_index=True), pd.concat(links, ignore_index=True), **how)
    found = [data.train[0], (data.tests or data.target)[0]]
    if label is None:
        found = [environment.replace(y=None) for environment in found]
    preparation = data.facts["preparation"]
    columns = preparation.feature_names, preparation.feature_units
    return Read(found[0], found[1], *columns, list(data.class_names), remarks)
