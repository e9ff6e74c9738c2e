"""A graph with a column of times, cut into one snapshot for each time: what had been seen by then."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.datasets.tables.files import is_number, read_table
from graphshift.datasets.tables.graph import Layout
from graphshift.datasets.temporal import Period, inductive_environments

_MOST = 400  # snapshots


def by_period(
    whole: Environment, nodes: Path, column: str, since: str | None, layout: Layout, options: Mapping[str, Any]
) -> list[Environment]:
    """One environment for each value of a column: the graph with all nodes up to it, counting those of that value.

    Args:
        whole: the graph of the tables, its nodes in the order of the node table.
        nodes: the node table.
        column: of times: numbers, or text that sorts by time, such as 2024-05 or 2024-05-17.
        since: the first value to make a snapshot of; None for all.
        layout: of the tables that the model was trained on.
        options: in which these tables differ from it.
    """
    layout = Layout.model_validate(
        {**layout.model_dump(), **{k: options[k] for k in Layout.model_fields if k in options}}
    )
    reading: dict[str, Any] = {"missing": layout.missing, "separator": layout.separator, "encoding": layout.encoding}
    table = read_table(nodes, "node", ids=[layout.id], **reading)
    values = table.column(column, "the times (option --time)")
    if values.isna().any():
        row = int(values.isna().argmax()) + 1
        raise GraphshiftError(
            f"{table.where}: row {row}, column {column!r}: there is no time ({int(values.isna().sum())} rows in all); "
            "every node needs one."
        )
    numbers = is_number(values)
    times = values.astype(float if numbers else str)
    if numbers and not np.isfinite(times).all():
        raise GraphshiftError(f"{table.where}: column {column!r} has times that are infinite; give numbers.")
    known, code = np.unique(times.to_numpy(), return_inverse=True)
    first = 0 if since is None else int(np.searchsorted(known, _as_time(since, column, numbers=numbers)))
    if first == len(known):
        raise GraphshiftError(f"--since {since}: no time in column {column!r} is as late; the last is {known[-1]}.")
    if len(known) - first > _MOST:
        raise GraphshiftError(
            f"{table.where}: column {column!r} has {len(known) - first:,} different times, and each makes a snapshot; "
            f"give a column of periods, such as months, with at most {_MOST}, or --since."
        )
    periods = [Period(_name(known[i]), i, i) for i in range(first, len(known))]
    inside = np.unique(code[whole.mask.cpu().numpy()])
    periods = [one for one in periods if one.last in inside]
    return inductive_environments(whole, torch.from_numpy(code), periods)


def _as_time(text: str, column: str, *, numbers: bool) -> Any:
    if not numbers:
        return text
    try:
        return float(text)
    except ValueError:
        raise GraphshiftError(f"--since is {text!r}, and column {column!r} has numbers; give a number.") from None


def _name(time: Any) -> str:
    return f"{time:g}" if isinstance(time, float) else str(time)
