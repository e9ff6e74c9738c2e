"""Columns of a table as features and labels: fitted on the training nodes, applied to any table, written as JSON."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.files import NA_WORDS, Table, is_number, plain_text, shown

#: Features are kept sparse from this width on, if fewer than this share of the values can be other than 0.
_SPARSE_WIDTH, _SPARSE_SHARE = 200, 0.1

_FEWEST = 20  # so many values before a column is called a name or a column of numbers with a slip


class Number(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """A column of numbers, scaled to mean 0 and deviation 1 over the training nodes; a missing value gets the mean.

    Attributes:
        name: the column.
        mean, scale: over the training nodes; scale 0 means constant there: only the flag is used.
        flag: whether a second feature says 1 where the value is missing (it was, somewhere in training).
    """

    kind: Literal["number"] = "number"
    name: str
    mean: float
    scale: float = Field(ge=0)
    flag: bool


class Category(BaseModel, extra="forbid", frozen=True):
    """A column of words, one 0/1 feature for each word seen in training; an unseen word has zeros in all.

    Attributes:
        name: the column.
        levels: the words, sorted.
        missing: whether missing values, which training had, get a feature of their own; if not, they have zeros.
    """

    kind: Literal["category"] = "category"
    name: str
    levels: tuple[str, ...]
    missing: bool


Column: TypeAlias = Annotated[Number | Category, Field(discriminator="kind")]


def fit_columns(
    nodes: Table, names: Sequence[str], rows: NDArray[np.bool_], *, categorical: Collection[str] = (), chosen: bool
) -> tuple[tuple[Number | Category, ...], list[str]]:
    """Learns how to turn columns into features from the training nodes, ``rows``, alone; with remarks on the rest.

    Unless the user has ``chosen`` the columns, dates and columns that give every node a word of its own are left out.
    """
    fitted: list[Number | Category] = []
    remarks: list[str] = []
    for name in names:
        column = nodes.column(name, "the features (option features)")
        words = name in categorical or not is_number(column)
        if words and _is_date(column):
            if chosen:
                raise GraphshiftError(
                    f"{nodes.where}: column {name!r} holds dates; make numbers of them (days since some day, say)."
                )
            remarks.append(f"{nodes.where}: left out column {name!r}: it holds dates. Make numbers of them to use it.")
            continue
        result: Number | Category | None
        if words:
            result, remark = _fit_category(nodes, column, rows, slips=name not in categorical, chosen=chosen)
        else:
            result, remark = _fit_number(nodes, column, rows)
        remarks += [f"{nodes.where}: {remark}"] if remark else []
        fitted += [] if result is None else [result]
    if not fitted:
        raise GraphshiftError(
            f"{nodes.where}: no column is left to make features of; add one, such as the number of neighbours."
            + "".join(f"\n{remark}" for remark in remarks)
        )
    return tuple(fitted), remarks


def transform(columns: Sequence[Number | Category], nodes: Table) -> tuple[Tensor, list[str]]:
    """Turns a table into features, ``[nodes, width]``, float32: ``torch.sparse_csr`` if wide and mostly 0, else dense.

    Returns:
        The features and remarks that count missing values and unseen words.
    """
    remarks: list[str] = []
    blocks: list[NDArray[np.float32] | scipy.sparse.csr_array] = []
    for spec in columns:
        column = nodes.column(spec.name, "a feature that the model was trained with")
        if isinstance(spec, Number):
            values = numbers(nodes, column)
            blocks.append(_scaled(spec, nodes, column, values))
            found = [_count(np.isnan(values), "missing values, set to the training mean", column)]
        else:
            codes, missing = _codes(spec, nodes, column), column.isna().to_numpy()
            blocks.append(_one_hot(codes, _width(spec)))
            where = "given a feature of their own" if spec.missing else "set to zeros"
            found = [
                _count(missing, f"missing values, {where}", column),
                _count((codes < 0) & ~missing, "values that training never had, set to zeros", column),
            ]
        remarks += [f"{nodes.where}: {remark}" for remark in found if remark]
    filled = sum(1 if isinstance(spec, Category) else 1 + spec.flag for spec in columns)
    if width(columns) >= _SPARSE_WIDTH and filled < _SPARSE_SHARE * width(columns):
        csr = scipy.sparse.hstack([scipy.sparse.csr_array(block) for block in blocks], format="csr", dtype=np.float32)
        indptr, indices = (torch.from_numpy(part.astype(np.int64)) for part in (csr.indptr, csr.indices))
        data = torch.from_numpy(csr.data)
        return torch.sparse_csr_tensor(indptr, indices, data, csr.shape, check_invariants=False), remarks
    dense = [block if isinstance(block, np.ndarray) else block.toarray() for block in blocks]
    return torch.from_numpy(np.concatenate(dense, axis=1)), remarks


def width(columns: Sequence[Number | Category]) -> int:
    """How many features the columns make."""
    return sum(_width(spec) for spec in columns)


def numbers(nodes: Table, column: pd.Series) -> NDArray[np.float64]:
    """A column of finite numbers, NaN where missing; anything else is an error that names its row."""
    missing = column.isna().to_numpy()
    if is_number(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        missing = missing | column.isin(NA_WORDS).to_numpy()
        values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~missing & ~np.isfinite(values)
    if bad.any():
        row = int(bad.argmax())
        raise GraphshiftError(
            f"{nodes.cell(column, row)} is not a finite number ({int(bad.sum())} such rows); correct it or leave "
            "the field empty."
        )
    return values


def _width(spec: Number | Category) -> int:
    if isinstance(spec, Number):
        return int(spec.scale > 0) + int(spec.flag)
    return len(spec.levels) + int(spec.missing)


def _fit_number(nodes: Table, column: pd.Series, rows: NDArray[np.bool_]) -> tuple[Number | None, str]:
    values = numbers(nodes, column)[rows]
    known = values[~np.isnan(values)]
    flag = len(known) < len(values)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = (float(known.mean()), float(known.std())) if len(known) else (0.0, 0.0)
    if not np.isfinite([mean, scale]).all():
        raise GraphshiftError(
            f"{nodes.where}: column {column.name!r} holds numbers up to {np.abs(known).max():.3g}, too large to "
            "compute with. Take their logarithm or another unit."
        )
    # Rounding leaves a constant column such as 0.1 a tiny deviation, so constancy is decided by the values.
    constant = scale == 0 or bool(known.min() == known.max())
    if constant and not (flag and len(known)):
        return None, _constant(column, known[0] if len(known) else None)
    spec = Number(name=str(column.name), mean=mean, scale=0.0 if constant else scale, flag=flag)
    note = f"column {column.name!r} is {known[0]:g} or missing in training; only whether it is missing is used."
    return spec, note if constant else ""


def _fit_category(
    nodes: Table, column: pd.Series, rows: NDArray[np.bool_], *, slips: bool, chosen: bool
) -> tuple[Category | None, str]:
    train = column[rows]
    known = train.dropna()
    words = sorted({plain_text(value) for value in _factorized(nodes, known)[1]})
    flag = len(known) < len(train)
    if not words or (len(words) == 1 and not flag):
        return None, _constant(column, words[0] if words else None)
    if slips:
        _check_slips(nodes, column)
    if not chosen and len(words) == len(known) >= _FEWEST:
        return None, (
            f"left out column {column.name!r}: it is different for every node, as a name is. "
            "To use it, list it in features."
        )
    return Category(name=str(column.name), levels=tuple(words), missing=flag), ""


def _check_slips(nodes: Table, column: pd.Series) -> None:
    """Stops at a column of numbers that a few slips such as ``12a`` would turn into thousands of words."""
    count = column.value_counts()
    count = count[~count.index.isin(NA_WORDS)]
    odd = count[pd.to_numeric(count.index.to_series(), errors="coerce").isna().to_numpy()]
    if count.sum() >= _FEWEST and 0 < odd.sum() <= 0.1 * count.sum():
        row = int(column.isin(odd.index).to_numpy().argmax())
        raise GraphshiftError(
            f"{nodes.cell(column, row)} is not a number, and {count.sum() - odd.sum()} of {count.sum()} values are; "
            "correct it, or name the column in categorical if its numbers are codes."
        )


def _scaled(spec: Number, nodes: Table, column: pd.Series, values: NDArray[np.float64]) -> NDArray[np.float32]:
    missing = np.isnan(values)
    parts = []
    if spec.scale:
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (np.where(missing, 0.0, (values - spec.mean) / spec.scale)).astype(np.float32)
        if not np.isfinite(scaled).all():
            row = int((~np.isfinite(scaled)).argmax())
            raise GraphshiftError(
                f"{nodes.cell(column, row)} is too far from the training values to compute with (mean "
                f"{spec.mean:.4g}, deviation {spec.scale:.4g})."
            )
        parts.append(scaled)
    if spec.flag:
        parts.append(missing.astype(np.float32))
    return np.stack(parts, axis=1)


def _codes(spec: Category, nodes: Table, column: pd.Series) -> NDArray[np.int64]:
    """The feature that is 1 for each node; -1 where none is."""
    codes, values = _factorized(nodes, column)
    number = {level: i for i, level in enumerate(spec.levels)}
    for_missing = len(spec.levels) if spec.missing else -1
    lookup = np.array([number.get(plain_text(value), -1) for value in values] + [for_missing], dtype=np.int64)
    return lookup[codes]


def _one_hot(codes: NDArray[np.int64], features: int) -> scipy.sparse.csr_array:
    seen = codes >= 0
    indptr = np.concatenate([[0], np.cumsum(seen)])
    ones = np.ones(int(seen.sum()), dtype=np.float32)
    return scipy.sparse.csr_array((ones, codes[seen], indptr), shape=(len(codes), features))


def _factorized(nodes: Table, column: pd.Series) -> tuple[NDArray[np.int64], Any]:
    try:
        codes, values = pd.factorize(column)
    except TypeError:
        codes, values = None, [()]
    if len(values) and isinstance(values[0], tuple | list | dict | set | bytes | np.ndarray):
        raise GraphshiftError(
            f"{nodes.where}: column {column.name!r} holds lists or other nested values; expected numbers or words. "
            "Spread them over columns, or leave the column out of features."
        )
    return np.asarray(codes, dtype=np.int64), values


def _is_date(column: pd.Series) -> bool:
    if column.dtype == object:
        return pd.api.types.infer_dtype(column, skipna=True) in ("date", "datetime", "datetime64", "period")
    return pd.api.types.is_datetime64_any_dtype(column.dtype) or isinstance(column.dtype, pd.PeriodDtype)


def _constant(column: pd.Series, value: Any) -> str:
    found = "is empty" if value is None else f"is always {shown(value)}"
    return f"left out column {column.name!r}: it {found} in training, so it says nothing."


def _count(where: NDArray[np.bool_], what: str, column: pd.Series) -> str:
    if not where.any():
        return ""
    first = int(where.argmax())
    example = "" if pd.isna(column.iloc[first]) else f", {shown(column.iloc[first])}"
    return f"column {column.name!r}: {int(where.sum())} {what} (first row {int(column.index[first]) + 1}{example})."
