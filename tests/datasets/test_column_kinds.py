"""Dates, lists of words and text as features, against scikit-learn."""

from __future__ import annotations

import datetime
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.columns import feature_names, transform
from graphshift.datasets.tables.files import Table
from graphshift.datasets.tables.fit_columns import Wishes, fit_columns
from graphshift.datasets.tables.text import are_texts
from own_tables import ROLES, people


def table(**columns: Any) -> Table:
    return Table("nodes.csv", pd.DataFrame(columns))


def half(count: int) -> np.ndarray:
    return np.arange(count) < count // 2


def fitted(nodes: Table, **wishes: Any) -> tuple[np.ndarray, list[str], list[str]]:
    columns, remarks = fit_columns(nodes, list(nodes.frame), half(len(nodes.frame)), Wishes(**wishes), chosen=True)
    x, told = transform(columns, nodes)
    return x.to_dense().numpy(), feature_names(columns), [*remarks, *told]


@pytest.mark.parametrize("how", ["text", "datetime", "objects", "period", "asked"])
def test_dates_are_years_since_2000(how: str) -> None:
    days = pd.to_datetime(["2000-01-01", "2001-01-01", "2010-07-01", "1999-01-01"])
    made: dict[str, Any] = {
        "text": days.strftime("%Y-%m-%d"),
        "datetime": days,
        "objects": pd.Series([day.date() for day in days], dtype=object),
        "period": days.to_period("D"),
        "asked": days.strftime("%d.%m.%Y"),
    }
    wishes: dict[str, Any] = {"scale": "none", "dates": {"c": "%d.%m.%Y"} if how == "asked" else {}}
    x, names, remarks = fitted(table(c=made[how]), **wishes)
    since = [(day.date() - datetime.date(2000, 1, 1)).days / 365.2425 for day in days]
    np.testing.assert_allclose(x[:, 0], since, rtol=1e-6, atol=1e-7)
    assert names == ["c"]
    told = [line for line in remarks if "of dates as years since 2000-01-01" in line]
    assert bool(told) == (how != "asked")


def test_a_test_cell_that_is_no_date_is_missing_and_a_training_cell_is_an_error() -> None:
    late = table(c=["2000-01-01", "2001-01-01", "soon", "2002-01-01"])
    x, _, remarks = fitted(late)
    assert x[2, 0] == 0
    assert (
        "1 values that are not dates, as those of training are; taken as missing (first row 3, 'soon')" in remarks[-1]
    )
    early = table(c=["2000-01-01", "soon", "2001-01-01", "2002-01-01"])
    with pytest.raises(
        GraphshiftError, match=r"row 2, column 'c': 'soon' is not a date as in 2024-05-31 \(1 such rows"
    ):
        fitted(early, dates={"c": ""})
    with pytest.raises(GraphshiftError, match=r"'2000-01-01' is not a date as '%d.%m.%Y' says"):
        fitted(late, dates={"c": "%d.%m.%Y"})


LISTS = ["a;b", "b", "a; c ;", "c;b;b", "d;a", None]


@pytest.mark.parametrize("separator", [";", "|", ",", " "])
def test_lists_are_as_scikit_learn_binarises_them(separator: str) -> None:
    texts = [None if text is None else text.replace(" ", "").replace(";", separator) for text in LISTS]
    for asked in ("", separator):
        x, names, remarks = fitted(table(c=texts), multi_hot={"c": asked})
        lists = [[w for w in (text or "").split(separator) if w] for text in texts]
        expected = MultiLabelBinarizer(classes=["a", "b", "c"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about d, which training never has
            np.testing.assert_array_equal(x, expected.fit(lists).transform(lists))
        assert names == ["c=a", "c=b", "c=c"]
        assert any("1 lists with words that training never had (first row 5" in line for line in remarks)


def test_clear_lists_are_found_unasked_and_sentences_are_not() -> None:
    rng = np.random.default_rng(0)
    tags = [";".join(rng.choice(list("abcdef"), 3, replace=False)) for _ in range(60)]
    _, names, remarks = fitted(table(c=tags))
    assert names == [f"c={tag}" for tag in "abcdef"]
    assert "took column 'c' of lists as 0/1 features for each word" in remarks[0]
    for words in (["a", "b"] * 30, [f"One {i}; Two {i}" for i in range(15)] * 4, ["x;y", "z"] * 30):
        _, names, _ = fitted(table(c=words))
        assert names == [f"c={word}" for word in sorted(set(words[:30]))]


def test_sentences_are_found_unasked_and_names_are_not() -> None:
    rng = np.random.default_rng(0)
    said = [" ".join(rng.choice(["late", "parcel", "broken", "thanks", "refund", "box"], 5)) for _ in range(80)]
    x, names, remarks = fitted(table(c=said))
    vectoriser = TfidfVectorizer(min_df=2).fit(said[:40])
    np.testing.assert_allclose(x, vectoriser.transform(said).toarray(), atol=1e-6)
    assert names == [f"c:{word}" for word in vectoriser.get_feature_names_out()]
    assert "took column 'c' of texts as TF-IDF of their words" in remarks[0]
    for words in (["Mr A Smith", "Mrs B Jones"] * 40, [f"person number{i} of{i}" for i in range(80)]):
        assert not any(":" in name for name in fitted(table(c=words))[1])
    assert fitted(table(c=said), categorical=["c"])[1] == [f"c={one}" for one in sorted(set(said[:40]))]


@pytest.mark.parametrize("how", ["words", "lists", "codes"])
def test_of_many_words_those_of_one_node_get_no_feature(how: str) -> None:
    twice, once = [f"a{i}" for i in range(30)] * 2, [f"b{i}" for i in range(40)]
    texts, wishes = [*twice, *once], {"categorical": ["c"]}
    if how == "lists":
        texts, wishes = [f"{word};a0" for word in texts], {"multi_hot": {"c": ";"}}
    values: list[Any] = texts if how != "codes" else [int(t[1:]) + 100 * (t[0] == "b") for t in texts]
    _, names, _ = fitted(table(c=[*values, *values]), **wishes)
    shown = {"codes": lambda i: f"c={i}"}.get(how, lambda i: f"c=a{i}")
    assert set(names) == {shown(i) for i in range(30)}
    assert len(fitted(table(c=[*once, *once]), categorical=["c"])[1]) == 40  # all are rare: all stay


def test_missing_lists_have_a_feature_if_training_has_some() -> None:
    x, names, _ = fitted(table(c=["a;b", None, "b", "a", None, "b"]), multi_hot={"c": ";"})
    assert names == ["c=a", "c=b", "c missing"]
    assert x[:, 2].tolist() == [0, 1, 0, 0, 1, 0]


TEXTS = ["The cat sat on the mat", "A dog and the cat", "dogs, cats & mats", "the mat", "unseen words", None, "the the"]


def test_text_is_the_tf_idf_of_scikit_learn_over_the_training_rows() -> None:
    texts = TEXTS * 4
    x, names, remarks = fitted(table(c=texts), text={"c": "tfidf"})
    vectoriser = TfidfVectorizer(min_df=2)
    train = [text or "" for text in texts[:14]]
    vectoriser.fit(train)
    np.testing.assert_allclose(x, vectoriser.transform([text or "" for text in texts]).toarray(), atol=1e-6)
    assert names == [f"c:{word}" for word in vectoriser.get_feature_names_out()]
    assert any("4 missing texts, set to zeros (first row 6)" in line for line in remarks)


def test_of_many_cells_some_say_whether_they_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    findall = pd.core.strings.accessor.StringMethods.findall
    monkeypatch.setattr(
        pd.core.strings.accessor.StringMethods,
        "findall",
        lambda self, *how: looked.append(len(self._data)) or findall(self, *how),
    )
    cells = pd.Series([f"person {i} of somewhere" for i in range(60_000)])
    assert are_texts(cells)
    assert not are_texts(cells.str.replace(" of somewhere", ""))
    assert not are_texts(pd.concat([cells[:100]] * 600, ignore_index=True))  # few, again and again
    assert looked == [10_000]


def test_hashed_text_is_that_of_scikit_learn() -> None:
    nodes = table(c=TEXTS)
    columns, _ = fit_columns(nodes, ["c"], half(7), Wishes(text={"c": "hash"}), chosen=True)
    x, _ = transform(columns, nodes)
    assert x.layout == torch.sparse_csr
    expected = HashingVectorizer(n_features=4096, alternate_sign=False).transform([text or "" for text in TEXTS])
    np.testing.assert_allclose(x.to_dense().numpy(), expected.toarray(), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "minmax"}, "scale is 'minmax'; it should be 'auto', 'none', 'standard', 'log' or 'rank'"),
        ({"scale": {"age": "big"}}, r"scale is \{'age': 'big'\}; it should be"),
        ({"scale": {"height": "log"}}, "scale names 'height', which is not among the features"),
        ({"per_environment": ["height"]}, "per_environment names 'height', which is not among the features"),
        ({"per_environment": 3}, "per_environment is 3; it should be"),
        ({"text": {"about": "bert"}}, r"text is \{'about': 'bert'\}; it should be 'tfidf' or 'hash'"),
        ({"multi_hot": ["height"]}, "multi_hot names 'height'"),
        ({"dates": ["born"], "text": ["born"]}, "dates names 'born', and so does text; a column is of one kind"),
        ({"structure": "yes"}, "structure is 'yes'; it should be a valid boolean"),
        ({"feature_ids": "x.txt"}, "feature_ids goes with feature_file, which is not given"),
        ({"feature_file": 5}, "feature_file is 5; it should be a valid string"),
    ],
)
def test_options_that_cannot_be_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        from_tables(*people(), **ROLES, **options)
