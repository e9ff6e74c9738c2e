"""How to turn the columns of a table into features, learned from the training nodes alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.cells import as_array, is_plain, listed, loose_dates, numbers, refuse, together
from graphshift.datasets.tables.codes import are_codes
from graphshift.datasets.tables.files import Table, is_number, shown
from graphshift.datasets.tables.kinds import Constant, check_slips, date_format, digits
from graphshift.datasets.tables.numeric import FittedNumber, Numbers, blocks, fit_numbers
from graphshift.datasets.tables.options import Scale
from graphshift.datasets.tables.text import Text, are_texts, fit_text
from graphshift.datasets.tables.words import Category, MultiHot, fit_category, fit_codes, fit_multi_hot, list_separator

_BAG = 20  # so many columns of mostly zeros are a bag of words
_FEATURES = "the features (option features)"


@dataclass(frozen=True)
class Wishes:
    """What the user says of columns; see :func:`graphshift.datasets.own.from_tables`.

    ``text``, ``multi_hot`` and ``dates`` give the kind, the separator and the format of each column, empty if not said.
    """

    categorical: Collection[str] = ()
    scale: Scale | Mapping[str, Scale] = "auto"
    per_environment: bool | Collection[str] = False
    text: Mapping[str, str] = field(default_factory=dict)
    multi_hot: Mapping[str, str] = field(default_factory=dict)
    dates: Mapping[str, str] = field(default_factory=dict)

    @property
    def special(self) -> set[str]:
        """The columns that are not taken as they look."""
        return {*self.categorical, *self.text, *self.multi_hot, *self.dates}

    def names_number(self, name: str) -> bool:
        """Whether the user takes a column for numbers."""
        ranked = () if isinstance(self.per_environment, bool) else self.per_environment
        return name in ranked or (isinstance(self.scale, Mapping) and name in self.scale)

    def of_number(self, name: str) -> str:
        """What to do with a column if it holds numbers."""
        if self.per_environment is True:
            return "auto rank here"
        if not isinstance(self.per_environment, bool) and name in self.per_environment:
            return "rank here"
        return self.scale if isinstance(self.scale, str) else self.scale.get(name, "auto")


class _LeftOut(str):
    """Why a column is not used."""


_Fitted: TypeAlias = "FittedNumber | Constant | Category | MultiHot | Text | _LeftOut"


class Labels(NamedTuple):
    """What the training nodes are labelled with, which tells codes from quantities.

    Attributes:
        values: classes from 0 on, -1 where unknown; or quantities, NaN where unknown. One for each of ``rows``.
        classes: which of the two.
    """

    values: NDArray[np.generic]
    classes: bool


def fit_columns(
    nodes: Table,
    names: Sequence[str],
    rows: NDArray[np.bool_],
    wishes: Wishes | None = None,
    *,
    chosen: bool,
    labels: Labels | None = None,
) -> tuple[tuple[Numbers | Category | MultiHot | Text, ...], list[str]]:
    """Learns how to turn columns into features from the training nodes, ``rows``, alone; with remarks on the rest.

    Unless the user has ``chosen`` the columns, those that give every node a word of its own are left out. Without
    ``labels`` no whole numbers are taken for codes.
    """
    wishes = wishes or Wishes()
    fitted = [*_fit_all(nodes, names, rows, wishes, chosen=chosen, labels=labels)]
    words = sum(isinstance(f, FittedNumber) and (f.zero_one or f.instead is not None) for f in fitted)
    if words < _BAG:
        fitted = [(f.instead or f) if isinstance(f, FittedNumber) else f for f in fitted]
    columns: list[Numbers | Category | MultiHot | Text] = []
    run: list[FittedNumber] = []
    for one in fitted:
        if isinstance(one, FittedNumber):
            run.append(one)
        elif not isinstance(one, Constant | _LeftOut):
            columns += [*blocks(run), one]
            run = []
    columns += blocks(run)
    remarks = [*_left_out(fitted, len(names)), *_said(fitted, wishes)]
    return tuple(columns), [f"{nodes.where}: {remark}" for remark in remarks]


def _fit_all(
    nodes: Table, names: Sequence[str], rows: NDArray[np.bool_], wishes: Wishes, *, chosen: bool, labels: Labels | None
) -> Iterator[_Fitted]:
    special = wishes.special
    for is_special, group in groupby(names, key=lambda name: name in special):
        found = list(group)
        runs = ([name] for name in found) if is_special else together(nodes, found, _FEATURES)
        for run in runs:
            column = nodes.column(run[0], _FEATURES)
            if is_special or not is_plain(column.dtype):
                yield _fit_one(nodes, column, rows, wishes, chosen=chosen, labels=labels, columns=len(names))
                continue
            values = as_array(nodes, run, rows)
            if values.dtype.kind == "f" and np.isinf(values).any():
                name = run[int(np.isinf(values).any(axis=1).argmax())]
                refuse(nodes, nodes.frame[name], np.isinf(nodes.frame[name].to_numpy()) & rows)
            for one, own in zip(fit_numbers(nodes, run, values, [*map(wishes.of_number, run)]), values, strict=True):
                yield _or_codes(one, own, wishes, labels, len(names))


def _or_codes(
    one: FittedNumber | Constant, values: NDArray[np.generic], wishes: Wishes, labels: Labels | None, columns: int
) -> FittedNumber | Constant | Category:
    """A column of numbers, or of codes if the user leaves the choice to us and its training cells behave so.

    ``columns``: how many the table has.
    """
    if labels is None or isinstance(one, Constant) or one.zero_one or one.instead is not None or one.how == "flag":
        return one
    if wishes.of_number(one.name) != "auto" or not are_codes(
        values.astype(np.float64), labels.values, classes=labels.classes, columns=columns
    ):
        return one
    return fit_codes(one.name, values)


def _fit_one(
    nodes: Table,
    column: pd.Series,
    rows: NDArray[np.bool_],
    wishes: Wishes,
    *,
    chosen: bool,
    labels: Labels | None,
    columns: int,
) -> _Fitted:
    """One column that may be words, dates or text that holds numbers; its training cells decide."""
    name, train = str(column.name), column[rows]
    if name in wishes.text:
        return fit_text(train, wishes.text[name]) or _LeftOut(f"left out column {name!r}: no word is in two texts.")
    if name in wishes.multi_hot:
        made = fit_multi_hot(nodes, train, wishes.multi_hot[name])
        return made or _LeftOut(f"left out column {name!r}: all lists are the same.")
    form = wishes.dates.get(name) if name in wishes.special else date_format(train)
    if form is not None:
        return fit_numbers(nodes, [name], _dates(nodes, train, form)[None], [wishes.of_number(name)], dates=form)[0]
    if name not in wishes.categorical and (is_number(train) or digits(train)):
        values = numbers(nodes, train)
        (number,) = fit_numbers(nodes, [name], values[None], [wishes.of_number(name)])
        return _or_codes(number, values, wishes, labels, columns)
    if wishes.names_number(name):
        raise GraphshiftError(f"{nodes.where}: column {name!r} holds words; only numbers can be scaled or ranked.")
    if name not in wishes.categorical:
        check_slips(nodes, train)
        separator = list_separator(train)
        if separator is not None and (found := fit_multi_hot(nodes, train, separator)) is not None:
            return found
        if are_texts(train) and (text := fit_text(train, "tfidf")) is not None:
            return text
    fitted = fit_category(nodes, train, chosen=chosen or name in wishes.categorical)
    return _LeftOut(fitted) if isinstance(fitted, str) else fitted


def _dates(nodes: Table, train: pd.Series, form: str) -> NDArray[np.float64]:
    values, bad = loose_dates(train, form)
    if bad.any():
        expected = f"as {form!r} says" if form else "as in 2024-05-31"
        raise GraphshiftError(
            f"{nodes.cell(train, int(bad.argmax()))} is not a date {expected} ({int(bad.sum())} such rows); correct "
            f'it, or say the format, as in dates = {{{train.name} = "%d.%m.%Y"}}.'
        )
    return values


def _left_out(fitted: Sequence[_Fitted], total: int) -> Iterator[str]:
    yield from (str(f) for f in fitted if isinstance(f, _LeftOut))
    constant = [f for f in fitted if isinstance(f, Constant)]
    if len(constant) == 1:
        value = constant[0].value
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        found = "is empty" if value is None else f"is always {shown(value)}"
        yield f"left out column {constant[0].name!r}: it {found} in training, so it says nothing."
    elif constant:
        first = ", ".join(f.name for f in constant[:3]) + (" …" if len(constant) > 3 else "")
        yield f"{len(constant):,} of {total:,} columns are constant in training and left out: {first}."
    flags = [f for f in fitted if isinstance(f, FittedNumber) and f.how == "flag"]
    if len(flags) == 1:
        found = f"column {flags[0].name!r} is {flags[0].mean:g} or missing in training"
        yield f"{found}; only whether it is missing is used."
    elif flags:
        names = [f.name for f in flags]
        yield f"{listed(names)} are one number or missing in training; only whether they are missing is used."


def _said(fitted: Sequence[_Fitted], wishes: Wishes) -> Iterator[str]:
    """One line on what was decided by itself and is not the usual."""
    asked = wishes.special | (set(wishes.scale) if isinstance(wishes.scale, Mapping) else set())
    auto = [f for f in fitted if isinstance(f, FittedNumber) and f.name not in asked and f.how != "flag"]
    plain = isinstance(wishes.scale, Mapping) or wishes.scale == "auto"
    gone = [f for f in auto if f.none is not None]
    kinds = {
        "of 0/1 as they are": [f.name for f in auto if f.zero_one and plain],
        "of mostly zeros as they are": [f.name for f in auto if f.instead and f.how == "none" and plain],
        "of small counts as log(1 + x)": [f.name for f in auto if f.instead and f.how == "log" and plain],
        "of skewed numbers as logarithms, scaled": [f.name for f in auto if not f.instead and f.how == "log" and plain],
        "of codes that look like numbers as 0/1 features for each": [
            f.name for f in fitted if isinstance(f, Category) and f.numeric
        ],
        "of dates as years since 2000-01-01": [f.name for f in auto if f.dates is not None],
        "of lists as 0/1 features for each word": [
            f.name for f in fitted if isinstance(f, MultiHot) and f.name not in asked
        ],
        "of texts as TF-IDF of their words": [f.name for f in fitted if isinstance(f, Text) and f.name not in asked],
    }
    said = [f"{listed(names)} {kind}" for kind, names in kinds.items() if names]
    said += [f"{f.none:g} in column {f.name!r} as missing, since it is far from all others" for f in gone]
    if said:
        yield f"took {'; '.join(said)}. The options scale, categorical, dates, multi_hot and text change this."
