"""Columns of numbers turned into features, as they were fitted."""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.data.structure import ranks
from graphshift.datasets.tables.cells import (
    Findings,
    as_array,
    is_plain,
    loose_dates,
    loose_numbers,
    some_rows,
    together,
)
from graphshift.datasets.tables.files import Table
from graphshift.datasets.tables.numeric import Numbers, signed_log

#: Features of some nodes, ``[nodes, features]``, float32.
Part: TypeAlias = NDArray[np.float32] | scipy.sparse.csc_array

_RANK_SCALE = 12**0.5  # of ranks in (0, 1), so that they have deviation 1


def number_parts(spec: Numbers, nodes: Table, rows: NDArray[np.bool_] | None, findings: Findings) -> Iterator[Part]:
    """The features of a block of columns, some at a time."""
    first, flags = 0, set(spec.flags)
    for names in together(nodes, spec.names, "a feature that the model was trained with"):
        part = slice(first, first + len(names))
        flagged = [i for i in range(len(names)) if first + i in flags]
        first = part.stop
        values, missing = _read(spec, nodes, names, rows, findings)
        yield _features(spec, nodes, names, values, missing, part, flagged, rows)


def ranked_here(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Ranks among the nodes of one graph, ``[nodes, columns]``, with mean 0 and deviation 1; 0 where missing."""
    placed = [np.nan_to_num(ranks(values[:, i]), nan=0.5) for i in range(values.shape[1])]
    return scaled_ranks(np.stack(placed, axis=1)) if placed else np.zeros((len(values), 0), dtype=np.float32)


def values_here(spec: Numbers, nodes: Table, rows: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """The numbers that ``"rank here"`` ranks once the graph is known, ``[nodes, columns]``, NaN where missing."""
    found = [
        _read(spec, nodes, names, rows, None)[0].astype(np.float64)
        for names in together(nodes, spec.names, "a feature that the model was trained with")
    ]
    return np.concatenate(found).T


def scaled_ranks(places: NDArray[np.float64]) -> NDArray[np.float32]:
    """Ranks in (0, 1) with mean 0 and deviation 1."""
    return ((places - 0.5) * _RANK_SCALE).astype(np.float32)


def _read(
    spec: Numbers, nodes: Table, names: list[str], rows: NDArray[np.bool_] | None, findings: Findings | None
) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
    """The columns ``[columns, rows]`` and where they are missing; a cell that does not fit is missing and counted."""
    if is_plain(nodes.frame.dtypes[names[0]]) and spec.dates is None:
        values = as_array(nodes, names, rows)
        if values.dtype.kind != "f" and spec.none is None:
            return values, None
        bad = np.isinf(values)
        values = np.where(bad, np.nan, values) if bad.any() else values
    else:
        column = some_rows(nodes.frame[names[0]], rows)
        found, wrong = loose_numbers(column) if spec.dates is None else loose_dates(column, spec.dates)
        if wrong.any() and bool(np.isnan(found).all()):
            what = "a finite number" if spec.dates is None else "a date"
            raise GraphshiftError(
                f"{nodes.cell(column, int(wrong.argmax()))} is not {what} ({int(wrong.sum())} such rows, and no other "
                "value); the training table had them there."
            )
        values, bad = found[None], wrong[None]
    if spec.none is not None:
        values = np.where(values == spec.none, np.nan, values)
    missing = np.isnan(values)
    if findings is not None and missing.any():
        _tell(spec, names, missing, bad, findings)
    return values, missing if missing.any() else None


def _tell(
    spec: Numbers, names: list[str], missing: NDArray[np.bool_], bad: NDArray[np.bool_], findings: Findings
) -> None:
    filled = "set to 0" if spec.zeros_stay and not spec.mean else "set to the training mean"
    filled = "set to the middle rank" if spec.how.startswith("rank") else filled
    filled = "which a feature says" if spec.how == "flag" else filled
    what = "finite numbers" if spec.dates is None else "dates"
    for i in np.flatnonzero(missing.any(axis=1)):
        findings.add(names[i], f"values that are not {what}, as those of training are; taken as missing", bad[i])
        findings.add(names[i], f"missing values, {filled}", missing[i] & ~bad[i])


def _features(
    spec: Numbers,
    nodes: Table,
    names: list[str],
    values: NDArray[np.generic],
    missing: NDArray[np.bool_] | None,
    part: slice,
    flagged: list[int],
    rows: NDArray[np.bool_] | None,
) -> Part:
    gone = np.zeros((len(flagged), values.shape[1]), dtype=np.float32)
    if missing is not None:
        gone = missing[flagged].astype(np.float32)
    if spec.how in ("flag", "rank here"):
        return gone.T
    if spec.zeros_stay and missing is None:
        result: Part = _by_column(values if spec.how == "none" else signed_log(values.astype(np.float64)))
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = _scaled(spec, values.astype(np.float64), missing, part)
            result = scaled.astype(np.float32).T
    data = result if isinstance(result, np.ndarray) else result.data
    if not np.isfinite(data).all():
        _too_far(spec, nodes, names, values, part, rows)
    if not flagged:
        return result
    # The flag of a column stands beside it.
    order = np.argsort(np.concatenate([np.arange(len(names)), np.array(flagged) + 0.5]), kind="stable")
    if isinstance(result, np.ndarray):
        return np.concatenate([result, gone.T], axis=1)[:, order]
    return scipy.sparse.hstack([result, scipy.sparse.csc_array(gone.T)], format="csc")[:, order]


def _by_column(values: NDArray[np.generic]) -> scipy.sparse.csc_array:
    """``[columns, rows]`` as a sparse ``[rows, columns]``."""
    column, row = np.nonzero(values != 0)  # several times faster for bools
    starts = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=len(values)))])
    filled = values[column, row].astype(np.float32)
    return scipy.sparse.csc_array((filled, row.astype(np.int32), starts), shape=values.shape[::-1])


def _scaled(
    spec: Numbers, values: NDArray[np.float64], missing: NDArray[np.bool_] | None, part: slice
) -> NDArray[np.float64]:
    if spec.how == "rank":
        places = [np.interp(values[i], spec.knots[part][i], spec.places[part][i]) for i in range(len(values))]
        scaled = (np.stack(places) - 0.5) * _RANK_SCALE
    else:
        scaled = signed_log(values) if spec.how == "log" else values
        if spec.scale:
            mean, scale = (np.array(numbers[part])[:, None] for numbers in (spec.mean, spec.scale))
            scaled = (scaled - mean) / scale
    if missing is None:
        return scaled
    fill = np.array(spec.mean[part])[:, None] if spec.how == "none" and spec.mean else 0.0
    return np.where(missing, fill, scaled)


def _too_far(
    spec: Numbers,
    nodes: Table,
    names: list[str],
    values: NDArray[np.generic],
    part: slice,
    rows: NDArray[np.bool_] | None,
) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = _scaled(spec, values.astype(np.float64), None, part).astype(np.float32)
    far = np.isinf(scaled) | (np.isnan(scaled) & ~np.isnan(values.astype(np.float64)))
    i, place = (int(found[0]) for found in np.nonzero(far))
    column = some_rows(nodes.frame[names[i]], rows)
    known = f"mean {spec.mean[part][i]:.4g}, deviation {spec.scale[part][i]:.4g}" if spec.scale else "left as they are"
    raise GraphshiftError(f"{nodes.cell(column, place)} is too far from the training values to compute with ({known}).")
