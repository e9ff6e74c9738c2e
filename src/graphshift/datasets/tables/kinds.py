"""What the training cells of a column are: numbers written as text, dates, or numbers with a slip."""

from typing import Any, NamedTuple

import pandas as pd

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.cells import YES_NO, loose_dates
from graphshift.datasets.tables.files import NA_WORDS, Table

#: So many values before a column is called a name or a column of numbers with a slip.
FEWEST = 20

_DATE = r"\d{4}-\d{2}(-\d{2}([T ].*)?)?"


class Constant(NamedTuple):
    """A column that says nothing: its one value in training, None if it is empty."""

    name: str
    value: Any


def digits(train: pd.Series) -> bool:
    """Whether cells that are text (because another row has a word, say) are all numbers, or all yes and no.

    Numbers with zeros in front, as codes have them, are words.
    """
    known = _known(train)
    if known.empty or not known.map(lambda value: isinstance(value, str | int | float)).all():
        return False
    if bool(known.isin(YES_NO).all()):
        return True
    if bool(pd.to_numeric(known.iloc[:100], errors="coerce").isna().any()):
        return False  # most text shows itself at once
    if bool(pd.to_numeric(known, errors="coerce").isna().any()):
        return False
    return not bool(known.astype(str).str.match(r"-?0\d").any())


def date_format(train: pd.Series) -> str | None:
    """Empty if all cells are dates as in 2024-05-31; None otherwise."""
    if pd.api.types.is_datetime64_any_dtype(train.dtype) or isinstance(train.dtype, pd.PeriodDtype):
        return ""
    if train.dtype == object and pd.api.types.infer_dtype(train, skipna=True) in ("date", "datetime", "period"):
        return ""
    known = _known(train)
    if known.empty or not known.map(lambda value: isinstance(value, str)).all():
        return None
    if not (known.iloc[:100].str.fullmatch(_DATE).all() and known.str.fullmatch(_DATE).all()):
        return None
    return None if loose_dates(known, "")[1].any() else ""


def check_slips(nodes: Table, train: pd.Series) -> None:
    """Stops at a column of numbers that a few slips such as ``12a`` would turn into thousands of words."""
    count = train.value_counts()
    count = count[~count.index.isin(NA_WORDS)]
    odd = count[pd.to_numeric(count.index.to_series(), errors="coerce").isna().to_numpy()]
    if count.sum() >= FEWEST and 0 < odd.sum() <= 0.1 * count.sum():
        row = int(train.isin(odd.index).to_numpy().argmax())
        raise GraphshiftError(
            f"{nodes.cell(train, row)} is not a number, and {count.sum() - odd.sum()} of {count.sum()} training values "
            "are; correct it, or name the column in categorical if its numbers are codes."
        )


def _known(train: pd.Series) -> pd.Series:
    return train[~(train.isna() | train.isin(NA_WORDS))]
