"""Columns of words as 0/1 features: one word a node, or a list of them; the words are those that training has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.cells import Findings, some_rows
from graphshift.datasets.tables.files import NA_WORDS, Table, is_number, plain_text
from graphshift.datasets.tables.kinds import FEWEST, Constant

#: Of a column with more words than this, those that one training node alone has get no feature: nothing is learned of
#: them but that node's label.
MANY = 50

#: What may stand between the words of a list; the clear ones are also recognised unasked.
SEPARATORS, _CLEAR = (";", "|", ",", " "), (";", "|")


class Category(BaseModel, extra="forbid", frozen=True):
    """A column of words, one 0/1 feature for each word seen in training; an unseen word has zeros in all.

    Attributes:
        name: the column.
        levels: the words, sorted.
        missing: whether missing values, which training had, get a feature of their own; if not, they have zeros.
        numeric: whether the words are codes that are read as numbers: ``7``, ``7.0`` and ``07`` are then one.
    """

    kind: Literal["category"] = "category"
    name: str
    levels: tuple[str, ...]
    missing: bool
    numeric: bool = False

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return [f"{self.name}={level}" for level in self.levels] + [f"{self.name} missing"] * self.missing


class MultiHot(BaseModel, extra="forbid", frozen=True):
    """A column of lists of words such as ``a;b;c``: a 0/1 feature for each word that training has, several may be 1.

    Attributes:
        name: the column.
        separator: what stands between the words; spaces around a word do not count.
        levels: the words, sorted.
        missing: whether missing values, which training had, get a feature of their own; if not, they have zeros.
    """

    kind: Literal["multi_hot"] = "multi_hot"
    name: str
    separator: str = Field(min_length=1)
    levels: tuple[str, ...]
    missing: bool

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return [f"{self.name}={level}" for level in self.levels] + [f"{self.name} missing"] * self.missing


class _Lists(NamedTuple):
    """The words of each node, one after the other: the node and the word of each, and the distinct words."""

    node: NDArray[np.int64]
    code: NDArray[np.int64]
    words: list[str]


def fit_category(nodes: Table, column: pd.Series, *, chosen: bool) -> Category | Constant | str:
    """Learns the words of a column's training cells; or says why it is left out."""
    known = column.dropna()
    codes, values = factorized(nodes, known)
    texts = [plain_text(value) for value in values]
    words, flag = sorted(set(texts)), len(known) < len(column)
    if not words or (len(words) == 1 and not flag):
        return Constant(str(column.name), words[0] if words else None)
    if not chosen and len(words) == len(known) >= FEWEST:
        return (
            f"left out column {column.name!r}: it is different for every node, as a name is. To use it, list it in "
            "features, or in text for its words."
        )
    count: dict[str, int] = dict.fromkeys(words, 0)
    for text, rows in zip(texts, np.bincount(codes, minlength=len(texts)).tolist(), strict=True):
        count[text] += rows
    return Category(name=str(column.name), levels=_shared(count), missing=flag)


def _shared(count: Mapping[str, int]) -> tuple[str, ...]:
    """The words that get a feature, sorted; ``count``: how many training nodes have each."""
    several = sorted(word for word, nodes in count.items() if nodes > 1)
    return tuple(several if several and len(count) > MANY else sorted(count))


def fit_codes(name: str, values: NDArray[np.generic]) -> Category:
    """The whole numbers of a column's training cells as words, NaN where one is missing."""
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    found, count = np.unique(values[~missing], return_counts=True)
    levels = _shared({str(int(value)): int(rows) for value, rows in zip(found, count, strict=True)})
    return Category(name=name, levels=levels, missing=bool(missing.any()), numeric=True)


def fit_multi_hot(nodes: Table, column: pd.Series, separator: str) -> MultiHot | None:
    """Learns the words of a column's training cells; without a separator, the first usual one that occurs is it.

    None if no list there has a word, or all have the same ones.
    """
    if not separator:
        texts = column.dropna().astype(str)
        separator = next((s for s in SEPARATORS if texts.str.contains(s, regex=False).any()), SEPARATORS[0])
    lists = _split(nodes, column, separator)
    flag = bool(column.isna().any())
    count = np.bincount(lists.code, minlength=len(lists.words))
    if not len(lists.words) or (bool((count == len(column)).all()) and not flag):
        return None
    levels = _shared(dict(zip(lists.words, count.tolist(), strict=True)))
    return MultiHot(name=str(column.name), separator=separator, levels=levels, missing=flag)


def list_separator(column: pd.Series) -> str | None:
    """What separates the words if a column of training cells clearly holds lists: cells share their words."""
    texts = column.dropna().astype(str)
    for separator in _CLEAR:
        several = texts.str.contains(separator, regex=False)
        if float(several.mean()) < 0.2:
            continue
        words = texts.str.split(separator).explode().str.strip()
        short = bool((words.str.count(r"\s") <= 3).all())
        if short and len(words) >= 2 * words.nunique() and words.nunique() < texts.nunique():
            return separator
    return None


def category_part(spec: Category, nodes: Table, rows: NDArray[np.bool_] | None, findings: Findings) -> Any:
    """The features of a column of words, sparse."""
    column = some_rows(nodes.column(spec.name, "a feature that the model was trained with"), rows)
    if spec.numeric and not is_number(column):
        column = column.mask(column.isin(NA_WORDS))
    codes, values = factorized(nodes, column)
    if spec.numeric:
        values = [_number(value) for value in values]
    number = {level: i for i, level in enumerate(spec.levels)}
    for_missing = len(spec.levels) if spec.missing else -1
    lookup = np.array([number.get(plain_text(value), -1) for value in values] + [for_missing], dtype=np.int64)
    found, missing = lookup[codes], column.isna().to_numpy()
    _tell(spec, missing, (found < 0) & ~missing, findings)
    seen = np.flatnonzero(found >= 0)
    return _ones(seen, found[seen], len(column), len(spec.features))


def multi_hot_part(spec: MultiHot, nodes: Table, rows: NDArray[np.bool_] | None, findings: Findings) -> Any:
    """The features of a column of lists, sparse."""
    column = some_rows(nodes.column(spec.name, "a feature that the model was trained with"), rows)
    lists = _split(nodes, column, spec.separator)
    number = {level: i for i, level in enumerate(spec.levels)}
    feature = np.array([number.get(word, -1) for word in lists.words], dtype=np.int64)[lists.code]
    missing = column.isna().to_numpy()
    unseen = np.zeros(len(column), dtype=bool)
    unseen[lists.node[feature < 0]] = True
    _tell(spec, missing, unseen, findings)
    node, feature = lists.node[feature >= 0], feature[feature >= 0]
    if spec.missing:
        node = np.concatenate([node, np.flatnonzero(missing)])
        feature = np.concatenate([feature, np.full(int(missing.sum()), len(spec.levels))])
    return _ones(node, feature, len(column), len(spec.features))


def factorized(nodes: Table, column: pd.Series) -> tuple[NDArray[np.int64], Any]:
    """The distinct values of a column and the number of each cell's, -1 where missing."""
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


def _number(value: Any) -> Any:
    """A code as the number that it is read as; what is none stays."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _split(nodes: Table, column: pd.Series, separator: str) -> _Lists:
    """The words of every list, each once a node; each distinct cell is split once."""
    codes, values = factorized(nodes, column)
    number: dict[str, int] = {}
    split = []
    for value in values:
        words = dict.fromkeys(word.strip() for word in plain_text(value).split(separator))
        split.append([number.setdefault(word, len(number)) for word in words if word])
    length = np.array([len(words) for words in split] + [0], dtype=np.int64)
    start = np.concatenate([[0], np.cumsum(length)])[:-1]
    flat = np.array([word for words in split for word in words], dtype=np.int64)
    count = length[codes]
    node = np.repeat(np.arange(len(codes)), count)
    offset = np.arange(len(node)) - np.repeat(np.cumsum(count) - count, count)
    return _Lists(node, flat[np.repeat(start[codes], count) + offset], list(number))


def _tell(spec: Category | MultiHot, missing: NDArray[np.bool_], unseen: NDArray[np.bool_], findings: Findings) -> None:
    where = "given a feature of their own" if spec.missing else "set to zeros"
    findings.add(spec.name, f"missing values, {where}", missing)
    what = "values that training never had, set to zeros"
    findings.add(spec.name, what if isinstance(spec, Category) else "lists with words that training never had", unseen)


def _ones(node: NDArray[np.int64], feature: NDArray[np.int64], nodes: int, features: int) -> scipy.sparse.csc_array:
    ones = np.ones(len(node), dtype=np.float32)
    return scipy.sparse.csc_array((ones, (node, feature)), shape=(nodes, features))
