"""Columns of text as sparse features: TF-IDF over the words of training, or words hashed into a fixed number."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray
from pydantic import BaseModel, Field, model_validator
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from graphshift.datasets.tables.cells import Findings, some_rows
from graphshift.datasets.tables.files import Table
from graphshift.datasets.tables.kinds import FEWEST

_MOST_WORDS = 20_000  # of a vocabulary: the most frequent ones
_LOOKED_AT = 10_000  # cells, of which it is seen whether they are sentences
_HASHED = 4096  # features of hashed words


class Text(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """A column of text; the row of each node has length 1, or is empty.

    A word is a run of at least two letters or digits, in lower case.

    Attributes:
        name: the column.
        words: those that at least two training nodes have, sorted (at most 20,000, the most frequent); empty if
            words are hashed.
        idf: ln((1 + n) / (1 + n with the word)) + 1 for each word, over the n training nodes.
        hashed: into how many features words are hashed; 0 for TF-IDF.
    """

    kind: Literal["text"] = "text"
    name: str
    words: tuple[str, ...] = ()
    idf: tuple[float, ...] = ()
    hashed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> Text:
        if len(self.words) != len(self.idf) or bool(self.words) == bool(self.hashed):
            raise ValueError("words and idf differ in length, or there are words and hashes, or neither")
        if len(set(self.words)) != len(self.words):
            raise ValueError("words are repeated")
        return self

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return [f"{self.name}:{word}" for word in self.words or range(self.hashed)]


def are_texts(column: pd.Series) -> bool:
    """Whether training cells are sentences: several words each, most cells unlike the others, and words in common."""
    texts = column.dropna()
    if len(texts) < FEWEST or texts.astype(str).nunique() < max(FEWEST, len(texts) / 3):
        return False
    texts = texts.iloc[:: max(1, len(texts) // _LOOKED_AT)].astype(str)
    if float((texts.str.count(r"\S+") >= 3).mean()) < 0.5:
        return False
    seen = texts.drop_duplicates().str.lower().str.findall(r"\b\w\w+\b").map(set).explode()
    return bool(len(seen) >= 2 * seen.nunique())


def fit_text(column: pd.Series, how: str) -> Text | None:
    """Learns the words from the training cells; None if no word is in two of them. ``how``: ``tfidf`` or ``hash``."""
    if how == "hash":
        return Text(name=str(column.name), hashed=_HASHED) if column.notna().any() else None
    try:
        counter = CountVectorizer(max_features=_MOST_WORDS, min_df=2)
        counts = counter.fit_transform(_texts(column))
    except ValueError:  # no word is left
        return None
    words = counter.get_feature_names_out()
    frequency = np.bincount(counts.indices, minlength=len(words))
    idf = np.log((1 + len(column)) / (1 + frequency)) + 1
    return Text(name=str(column.name), words=tuple(words.tolist()), idf=tuple(idf.tolist()))


def text_part(spec: Text, nodes: Table, rows: NDArray[np.bool_] | None, findings: Findings) -> Any:
    """The features of a column of text, sparse."""
    column = some_rows(nodes.column(spec.name, "a text that the model was trained with"), rows)
    findings.add(spec.name, "missing texts, set to zeros", column.isna().to_numpy())
    if spec.hashed:
        hashed = HashingVectorizer(n_features=spec.hashed, alternate_sign=False, norm=None).transform(_texts(column))
        return _of_length_one(hashed)
    counter = CountVectorizer(vocabulary={word: i for i, word in enumerate(spec.words)})
    return _of_length_one(counter.transform(_texts(column)) @ scipy.sparse.diags_array(np.array(spec.idf)))


def _texts(column: pd.Series) -> list[str]:
    return list(column.fillna("").astype(str))


def _of_length_one(matrix: Any) -> scipy.sparse.csc_array:
    made = scipy.sparse.csr_array(matrix, dtype=np.float64)
    length = np.sqrt(np.asarray(made.power(2).sum(axis=1)).ravel())
    scaled = scipy.sparse.diags_array(1 / np.where(length > 0, length, 1)) @ made
    return scipy.sparse.csc_array(scaled, dtype=np.float32)
