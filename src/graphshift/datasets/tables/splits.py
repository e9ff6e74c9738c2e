"""Which node belongs to which environment: by a column's values, or by periods of time with inductive graphs."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.datasets.node_split import PROPERTIES, grouped
from graphshift.datasets.tables.files import NA_WORDS, Table, is_number, plain_text
from graphshift.datasets.tables.options import TableOptions
from graphshift.datasets.temporal import Period, inductive_environments, subgraph, with_known

_TESTS = 3  # test environments beyond the one that is like training, where nodes are split by a property

Group = NDArray[np.int64]


class Split(NamedTuple):
    """Environments by number: the training ones first, then validation, tests, and the unlabelled targets.

    Attributes:
        group: the environment of each node, ``[nodes]``; -1 for nodes that are in none.
        names: of the environments.
        train: how many of them train.
        val: how many validate.
        tests: how many test; the others are targets.
        inductive: whether an environment's graph holds the nodes of all environments before it.
        remarks: what was left out.
        times: of each node, ``[nodes]``, where periods of time were cut: numbers, or nanoseconds for dates.
        shared: whether all environments have one graph, with all nodes, and differ in the nodes that count.
    """

    group: Group
    names: list[str]
    train: int
    val: int
    tests: int
    inductive: bool
    remarks: list[str]
    times: NDArray[Any] | None = None
    shared: bool = False

    @property
    def labelled(self) -> int:
        """How many environments are no targets; they come first."""
        return self.train + self.val + self.tests

    def of(self, nodes: NDArray[np.bool_] | NDArray[np.int64]) -> Split:
        """The same for some of the nodes; or, of graphs, for the graph of each node."""
        return self._replace(group=self.group[nodes], times=None if self.times is None else self.times[nodes])


def split_by(column: pd.Series, where: str, o: TableOptions) -> Split:
    """Splits nodes by the column of ``environments`` or of ``time``, whichever the options name.

    So it does graphs that have labels. These go by periods, too; no graph holds what was there before.
    """
    items = "nodes" if o.graph is None else "graphs"
    if o.environments:
        return split_by_value(column, where, o.train, o.val, o.tests, o.unlabelled, items)
    split = split_by_time(column, where, o.train_until, o.val_until, o.test_until, o.target_until, items)
    return split._replace(inductive=o.graph is None)


def split_by_property(values: NDArray[np.float64], labelled: NDArray[np.bool_], by: str) -> Split:
    """Splits by a property of the nodes, as :func:`graphshift.datasets.node_split.split_by` does."""
    group, names = grouped(values, labelled, _TESTS, seed=0)
    remarks = [f"split by {by}: train has {PROPERTIES[by]}; {', '.join(names[3:])} are further and further from them."]
    # Nodes without a label are in the graph that all share, and count nowhere.
    group = np.where(group < 0, len(names), group)
    return Split(group, names, 1, 1, len(names) - 2, False, remarks, shared=True)


def split_by_value(
    column: pd.Series,
    where: str,
    train: Sequence[Any],
    val: Sequence[Any],
    tests: Sequence[Any],
    unlabelled: Sequence[Any],
    items: str = "nodes",
) -> Split:
    """One environment for each value that is named; nodes with other values, or none, are in no environment."""
    codes, values = pd.factorize(column)
    present = [plain_text(value) for value in values]
    names = [plain_text(value) for value in (*train, *val, *tests, *unlabelled)]
    for name in names:
        if names.count(name) > 1:
            raise GraphshiftError(
                f"environment {name!r} is named twice among train, val, tests and unlabelled; each has one role: take "
                "one out."
            )
        if name not in present:
            shown = ", ".join(map(repr, sorted(present)[:20])) + ("…" if len(present) > 20 else "")
            raise GraphshiftError(
                f"{where}: no {items[:-1]} has {name!r} in column {column.name!r}, which train, val, tests or "
                f"unlabelled names; it holds {shown}."
            )
    number = {name: i for i, name in enumerate(names)}
    lookup = np.array([number.get(name, -1) for name in present] + [-1])  # the last entry is for a missing value
    group = lookup[codes]
    rest = [name for name in present if name not in number]
    remarks = []
    if (group < 0).any():
        shown = ", ".join(rest[:8]) + ("…" if len(rest) > 8 else "")
        remarks.append(
            f"{where}: left out {int((group < 0).sum())} {items} whose {column.name} is in no role"
            + (f" ({shown})." if rest else ": it is empty.")
        )
    return Split(group, names, len(train), len(val), len(tests), False, remarks)


def split_by_time(
    column: pd.Series,
    where: str,
    train_until: Any,
    val_until: Any,
    test_until: Sequence[Any],
    target_until: Sequence[Any],
    items: str = "nodes",
) -> Split:
    """One environment for each period; a period ends at its cut, which it includes, and begins after the cut before.

    Times are numbers, or dates as in 2024-05-31; a cut that is a date includes the whole day, one that is a month as in
    2024-05 the whole month.
    """
    roles = [("train_until", train_until), ("val_until", val_until)]
    roles += [("test_until", cut) for cut in test_until] + [("target_until", cut) for cut in target_until]
    cuts = [(option, value) for option, value in roles if value is not None]
    times, missing, dates = _times(column, where)
    ends = [_cut(value, dates, f"{option} is {value!r}", column) for option, value in cuts]
    for (option, value), before, after in zip(cuts[1:], ends, ends[1:], strict=False):
        if after <= before:
            raise GraphshiftError(
                f"{option} has {value!r}, which is not after the cut before it; cuts must increase from train_until "
                "over val_until and test_until to the last of target_until."
            )
    group = np.searchsorted(np.array(ends), times).astype(np.int64)
    group[missing | (group == len(ends))] = -1
    names = _period_names([value for _, value in cuts], whole=not dates and bool((times[~missing] % 1 == 0).all()))
    for number, name in enumerate(names):
        if not (group == number).any():
            known = column.dropna()
            raise GraphshiftError(
                f"{where}: no {items[:-1]} has its {column.name} in the period {name}; the column goes from "
                f"{known.min()} to {known.max()}: move the cuts."
            )
    remarks = []
    if missing.any():
        remarks.append(f"{where}: left out {int(missing.sum())} {items} without a {column.name}.")
    late = int(((group < 0) & ~missing).sum())
    if late:
        remarks.append(f"{where}: left out {late} {items} whose {column.name} is after the last cut.")
    return Split(group, names, 1, int(val_until is not None), len(test_until), True, remarks, times)


def targets(split: Split) -> NDArray[np.bool_]:
    """Which nodes are in a target: they are there to be predicted, and no label of theirs is read."""
    return (split.group >= split.labelled) & (split.group < len(split.names))


def cut(whole: Environment, split: Split) -> dict[str, Any]:
    """Cuts the environments of each role out of one graph, whose nodes (or graphs) are all in some environment.

    Those of targets count in the mask of ``whole``, whatever stands in its ``y``; the targets get no ``y``.
    """
    group = torch.from_numpy(split.group)
    for number, name in enumerate(split.names[: split.labelled]):
        if not bool((whole.mask & (group == number)).any()):
            option = "target_until" if split.times is not None else "unlabelled"
            raise GraphshiftError(
                f"environment {name!r} has no {whole.items[:-1]} with a label; train, val and tests need some to learn "
                f"from or score. If it is there to be predicted, name it under `{option}`."
            )
    if split.times is not None:
        whole = whole.replace(time=torch.from_numpy(split.times))
    if split.shared:
        known = with_known(whole, whole.mask & (group == 0))
        made = [known.replace(name=name, mask=whole.mask & (group == i)) for i, name in enumerate(split.names)]
    elif split.inductive:  # cut by the number of a node's period
        periods = [Period(name, number or None, number) for number, name in enumerate(split.names)]
        made = inductive_environments(whole, group, periods)
    else:
        made = [subgraph(whole, group == number, name) for number, name in enumerate(split.names)]
    train, val, tests = split.train, split.train + split.val, split.labelled
    unlabelled = [environment.replace(y=None) for environment in made[tests:]]
    return {"train": made[:train], "val": made[train:val], "tests": made[val:tests], "target": unlabelled}


def members(split: Split) -> dict[str, NDArray[np.bool_]]:
    """Which nodes are in the graph of each environment, by name."""
    if split.shared:
        return {name: np.ones(split.group.size, dtype=bool) for name in split.names}
    inside = (np.less_equal if split.inductive else np.equal).outer(split.group, np.arange(len(split.names)))
    return {name: inside[:, number] & (split.group >= 0) for number, name in enumerate(split.names)}


def edges_inside(
    split: Split, edge_index: Tensor, where: str, *, undirected: bool
) -> tuple[NDArray[np.bool_], list[str]]:
    """Which edges some environment gets, and remarks that count the others."""
    one, other = split.group[edge_index.numpy()]
    outside = (one < 0) | (other < 0)
    across = ~outside & (one != other) & (not split.inductive) & (not split.shared)
    remarks = []
    for lost, what in ((outside, "with an end in no environment"), (across, "between different environments")):
        if lost.any():
            remarks.append(f"{where}: left out {int(lost.sum()) // (1 + undirected)} edges {what}.")
    return ~outside & ~across, remarks


def _times(column: pd.Series, where: str) -> tuple[NDArray[Any], NDArray[np.bool_], bool]:
    """Numbers as float64, or dates as nanoseconds; where they are missing; and whether they are dates."""
    if is_number(column):
        times = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isinf(times).any():
            row = int(column.index[np.isinf(times)][0]) + 1
            raise GraphshiftError(f"{where}: row {row}, column {column.name!r} is infinite; expected a time.")
        return times, np.isnan(times), False
    missing = column.isna() | column.isin(NA_WORDS)
    try:
        dates = pd.to_datetime(column.mask(missing), format="ISO8601", errors="coerce", utc=True)
    except (TypeError, ValueError):
        dates = pd.Series(pd.NaT, index=column.index)
    bad = (dates.isna() & ~missing).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise GraphshiftError(
            f"{Table(where).cell(column, row)} is not a time ({int(bad.sum())} such rows); expected numbers, "
            "or dates as in 2024-05-31."
        )
    return dates.dt.as_unit("ns").astype("int64").to_numpy(), missing.to_numpy(), True


def _cut(value: Any, dates: bool, found: str, column: pd.Series) -> float | int:
    if not dates:
        if isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value):
            return value
        raise GraphshiftError(f"{found}; column {column.name!r} holds numbers: expected a number.")
    text = value.isoformat() if isinstance(value, datetime.date) else str(value)
    try:
        moment = pd.to_datetime(text, format="ISO8601", utc=True).as_unit("ns").value
    except (ValueError, OverflowError):
        moment = None
    if moment is None or not re.match(r"\d{4}-\d\d(-\d\d|$)", text):
        raise GraphshiftError(
            f"{found}; column {column.name!r} holds dates: expected one as in 2024-05-31, or a month as in 2024-05."
        )
    if re.fullmatch(r"\d{4}-\d\d", text):
        return int((pd.Timestamp(text) + pd.offsets.MonthBegin(1)).as_unit("ns").value) - 1
    end_of_day = 86_400_000_000_000 - 1 if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else 0
    return int(moment) + end_of_day


def _period_names(cuts: list[Any], *, whole: bool) -> list[str]:
    names = [f"≤{plain_text(cuts[0])}"]
    for before, after in pairwise(cuts):
        first = plain_text(int(before) + 1) if whole else plain_text(before)
        names.append(first if first == plain_text(after) else f"{first}–{plain_text(after)}")
    return names
