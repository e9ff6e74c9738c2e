"""Dates, lists of words, text and feature files as features, and the round trip of each through new tables."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
import torch
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.structure import STRUCTURAL_NAMES, structural_columns
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.columns import feature_names, transform
from graphshift.datasets.tables.config import options_from_toml_table
from graphshift.datasets.tables.files import Table
from graphshift.datasets.tables.fit_columns import Wishes, fit_columns
from graphshift.datasets.tables.preparation import Preparation, load_preparation
from graphshift.graph.sparse import Sparse

ROLES: dict[str, Any] = {"environments": "country", "train": "DE", "val": "FR", "tests": "ES"}


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


def test_hashed_text_is_that_of_scikit_learn() -> None:
    nodes = table(c=TEXTS)
    columns, _ = fit_columns(nodes, ["c"], half(7), Wishes(text={"c": "hash"}), chosen=True)
    x, _ = transform(columns, nodes)
    assert x.layout == torch.sparse_csr
    expected = HashingVectorizer(n_features=4096, alternate_sign=False).transform([text or "" for text in TEXTS])
    np.testing.assert_allclose(x.to_dense().numpy(), expected.toarray(), atol=1e-6)


def people(count: int = 90, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    nodes = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(count)],
            "label": rng.choice(["no", "yes"], count),
            "country": np.repeat(["DE", "FR", "ES"], count // 3),
            "age": rng.normal(40, 5, count),
            "member": rng.integers(0, 2, count),
            "friends": np.floor(rng.pareto(1.0, count) * 5),
            "job": rng.choice(["cook", "nurse", "smith"], count),
            "born": pd.to_datetime("1980-01-01") + pd.to_timedelta(rng.integers(0, 9999, count), unit="D"),
            "tags": [";".join(rng.choice(list("abcdef"), 3, replace=False)) for _ in range(count)],
            "about": [" ".join(rng.choice(["cats", "dogs", "trees", "cars"], 3)) for _ in range(count)],
        }
    )
    nodes["born"] = nodes["born"].dt.strftime("%Y-%m-%d")
    nodes.loc[::7, "age"] = None
    ends = rng.integers(0, count // 3, (2, 4 * count)) + rng.integers(0, 3, 4 * count) * (count // 3)
    ends = np.unique(np.sort(ends[:, ends[0] != ends[1]], axis=0), axis=1)
    edges = pd.DataFrame({"source": nodes["id"].to_numpy()[ends[0]], "target": nodes["id"].to_numpy()[ends[1]]})
    return nodes, edges


def quietly(*tables: Any, **options: Any) -> ShiftDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        return from_tables(*tables, **options)


def again(preparation: Preparation, *tables: Any, **options: Any) -> Environment:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        return preparation.environment(*tables, **options)[0]


def dense(x: Any) -> torch.Tensor:
    return x.to_dense() if isinstance(x, Sparse) else x


WAYS: list[dict[str, Any]] = [
    {},
    {"scale": "none"},
    {"scale": "standard"},
    {"scale": "log"},
    {"scale": "rank"},
    {"scale": {"age": "rank", "friends": "none"}},
    {"per_environment": True},
    {"per_environment": ["age", "born"]},
    {"structure": True},
    {"structure": True, "features": []},
    {"features": ["age"], "per_environment": True},
    {"text": ["about"], "multi_hot": {"tags": ";"}, "dates": ["born"], "categorical": ["member"]},
    {"text": {"about": "hash"}, "per_environment": ["age"], "structure": True},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("source", ["frame", "csv"])
def test_the_same_tables_give_the_same_features_again(tmp_path: Path, options: dict[str, Any], source: str) -> None:
    nodes, edges = people()
    data = quietly(nodes, edges, **ROLES, **options)
    data.facts["preparation"].save(tmp_path)
    preparation = load_preparation(tmp_path)
    assert preparation is not None
    assert preparation == data.facts["preparation"]
    for environment in data.environments:
        part = nodes[nodes["country"] == environment.name].drop(columns="label")
        inside = edges[edges["source"].isin(part["id"])]
        tables: list[Any] = [part, inside]
        if source == "csv":
            part.to_csv(tmp_path / "nodes.csv", index=False)
            inside.to_csv(tmp_path / "edges.csv", index=False)
            tables = [tmp_path / "nodes.csv", tmp_path / "edges.csv"]
        new = again(preparation, *tables)
        assert type(new.x) is type(environment.x)
        torch.testing.assert_close(dense(new.x), dense(environment.x), rtol=1e-6, atol=1e-6)
        assert new.num_features == len(preparation.feature_names)


def test_numbers_are_ranked_inside_each_environment() -> None:
    nodes, edges = people()
    data = quietly(nodes, edges, features=["age", "member", "job"], per_environment=True, **ROLES)
    names = data.facts["preparation"].feature_names
    assert names == ["age missing", "member", "job=cook", "job=nurse", "job=smith", "age rank"]
    for environment in data.environments:
        age = nodes.loc[nodes["country"] == environment.name, "age"]
        rank = (age.rank().to_numpy() - 0.5) / age.notna().sum()
        expected = np.where(age.isna(), 0, (rank - 0.5) * 12**0.5)
        np.testing.assert_allclose(environment.x[:, -1].numpy(), expected, rtol=1e-5, atol=1e-6)
        own = nodes.loc[nodes["country"] == environment.name, "member"]
        assert environment.x[:, 1].tolist() == own.tolist()


def test_a_period_ranks_all_nodes_that_its_graph_holds() -> None:
    nodes, edges = people()
    nodes["year"] = np.resize([2001, 2002, 2003], 90)
    cuts = {"time": "year", "train_until": 2001, "val_until": 2002, "test_until": 2003}
    data = quietly(nodes, edges, features=["friends"], per_environment=["friends"], structure=True, **cuts)
    for environment, year in zip(data.environments, (2001, 2002, 2003), strict=True):
        seen = nodes.loc[nodes["year"] <= year, "friends"]
        expected = ((seen.rank().to_numpy() - 0.5) / len(seen) - 0.5) * 12**0.5
        np.testing.assert_allclose(environment.x[:, 0].numpy(), expected, rtol=1e-5, atol=1e-6)
        rank = structural_columns(environment.graph)[:, 4]
        torch.testing.assert_close(environment.x[:, 5], (rank - 0.5) * 12**0.5)


def test_a_table_of_ids_and_labels_alone_is_described_by_its_graph() -> None:
    nodes, edges = people()
    only = nodes[["id", "label", "country"]]
    with pytest.warns(GraphshiftWarning, match="the place of each node in the graph is used instead .log degree, core"):
        data = from_tables(only, edges, **ROLES)
    preparation = data.facts["preparation"]
    assert preparation.feature_names == list(STRUCTURAL_NAMES)
    train = structural_columns(data.train[0].graph).numpy()
    for environment in data.environments:
        raw = structural_columns(environment.graph).numpy()
        expected = (raw[:, :4] - train[:, :4].mean(axis=0)) / train[:, :4].std(axis=0)
        np.testing.assert_allclose(environment.x[:, :4].numpy(), expected, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(environment.x[:, 4:].numpy(), (raw[:, 4:] - 0.5) * 12**0.5, rtol=1e-4, atol=1e-5)
    with pytest.raises(GraphshiftError, match="no column is left to make features of"):
        from_tables(only, edges, structure=False, **ROLES)


def test_structure_stands_beside_sparse_words() -> None:
    nodes, edges = people()
    rng = np.random.default_rng(0)
    bag = pd.DataFrame((rng.random((90, 400)) < 0.05).astype(int), columns=[f"w{i}" for i in range(400)])
    wide = pd.concat([nodes[["id", "label", "country"]], bag], axis=1)
    plain, more = quietly(wide, edges, **ROLES), quietly(wide, edges, structure=True, **ROLES)
    for one, two in zip(plain.environments, more.environments, strict=True):
        assert isinstance(one.x, Sparse)
        assert isinstance(two.x, Sparse)
        assert torch.equal(two.x.to_dense()[:, :-8], one.x.to_dense())
        assert float(two.x.to_dense()[:, -8:].abs().sum()) > 0


def written(folder: Path, kind: str, shuffled: bool) -> tuple[dict[str, Any], np.ndarray]:
    """Two tables, a feature file in some format and, if its rows are in another order, a file of ids."""
    nodes, edges = people()
    rng = np.random.default_rng(1)
    x = ((rng.random((90, 40)) < 0.2) * rng.random((90, 40))).astype(np.float32)
    x[:, 3] = 2.0
    x[:30, 5] = 0.0  # no training node has it
    order = rng.permutation(90) if shuffled else np.arange(90)
    if kind == "npz":
        scipy.sparse.save_npz(folder / "x.npz", scipy.sparse.csr_array(x[order]))
    else:
        scipy.io.mmwrite(folder / "x.mtx", scipy.sparse.coo_array(x[order]))
    nodes[["id", "label", "country", "member"]].to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    options = {"nodes": "nodes.csv", "edges": "edges.csv", "feature_file": f"x.{kind}", **ROLES}
    if shuffled:
        (folder / "rows.txt").write_text("\n".join(nodes["id"].to_numpy()[order]) + "\n")
        options["feature_ids"] = "rows.txt"
    return options, x


@pytest.mark.parametrize("kind", ["npz", "mtx"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_features_from_a_file_beside_the_table(tmp_path: Path, kind: str, shuffled: bool) -> None:
    options, x = written(tmp_path, kind, shuffled)
    data = quietly(**options_from_toml_table(options, tmp_path))
    kept = [i for i in range(40) if i not in (3, 5)]
    preparation = data.facts["preparation"]
    assert preparation.feature_names == ["member", *(f"x:{i}" for i in kept)]
    for number, environment in enumerate(data.environments):
        rows = slice(30 * number, 30 * number + 30)
        np.testing.assert_allclose(dense(environment.x)[:, 1:].numpy(), x[rows][:, kept], rtol=1e-5)
    preparation.save(tmp_path)
    assert str(tmp_path) not in (tmp_path / "preparation.json").read_text()
    new = again(preparation, tmp_path / "nodes.csv", tmp_path / "edges.csv")
    np.testing.assert_allclose(dense(new.x)[:, 1:].numpy(), x[:, kept], rtol=1e-5)


def test_a_feature_file_that_does_not_fit_is_named(tmp_path: Path) -> None:
    options, x = written(tmp_path, "npz", shuffled=False)
    data = quietly(**options_from_toml_table(options, tmp_path))
    preparation = data.facts["preparation"]
    nodes, edges = people()
    with pytest.raises(GraphshiftError, match=r"feature_file is missing: the model was trained with x.npz"):
        preparation.environment(nodes, edges)
    scipy.sparse.save_npz(tmp_path / "narrow.npz", scipy.sparse.csr_array(x[:, :9]))
    with pytest.raises(GraphshiftError, match=r"narrow.npz: the matrix has 9 columns and training had 40"):
        preparation.environment(nodes, edges, feature_file=tmp_path / "narrow.npz")
    scipy.sparse.save_npz(tmp_path / "short.npz", scipy.sparse.csr_array(x[:50]))
    np.savez(tmp_path / "pickled.npz", np.array([{}], dtype=object))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "x.npz").read_bytes()[:200])
    (tmp_path / "text.mtx").write_text("hello")
    (tmp_path / "few.txt").write_text("p1\np2\n")
    (tmp_path / "twice.txt").write_text("p1\n" * 90)
    (tmp_path / "other.txt").write_text("\n".join(f"q{i}" for i in range(90)))
    scipy.sparse.save_npz(tmp_path / "nan.npz", scipy.sparse.csr_array(np.where(x > 0, np.nan, 0)))
    for change, message in (
        ({"feature_file": "none.npz"}, "none.npz: there is no such file"),
        ({"feature_file": "nodes.csv"}, "nodes.csv: expected a file that ends in .npz"),
        ({"feature_file": "short.npz"}, r"short.npz: the matrix has 50 rows and .*nodes.csv has 90"),
        ({"feature_file": "pickled.npz"}, "pickled.npz: this is not a whole sparse matrix"),
        ({"feature_file": "cut.npz"}, "cut.npz: this is not a whole sparse matrix"),
        ({"feature_file": "text.mtx"}, "text.mtx: this is not a whole sparse matrix"),
        ({"feature_file": "nan.npz"}, r"nan.npz: \d+ values are NaN or infinite"),
        ({"feature_ids": "few.txt"}, r"x.npz: the matrix has 90 rows and .*few.txt has 2"),
        ({"feature_ids": "twice.txt"}, "twice.txt: id 'p1' stands twice"),
        ({"feature_ids": "other.txt"}, "other.txt: 90 nodes of .*nodes.csv have no row, such as 'p0'"),
        ({"feature_ids": "gone.txt"}, "gone.txt: cannot be read"),
    ):
        with pytest.raises(GraphshiftError, match=message):
            from_tables(**options_from_toml_table(options | change, tmp_path))


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


def test_a_preparation_of_format_1_is_read(tmp_path: Path) -> None:
    """As version 0.1 wrote it."""
    (tmp_path / "preparation.json").write_text(
        """{"format": 1, "layout": {"id": "id", "source": "source", "target": "target", "weight": null,
        "undirected": true, "missing": [], "separator": ","}, "columns": [
        {"kind": "number", "name": "age", "mean": 40.0, "scale": 5.0, "flag": true},
        {"kind": "number", "name": "member", "mean": 1.0, "scale": 0.0, "flag": true},
        {"kind": "category", "name": "job", "levels": ["cook", "nurse"], "missing": false}],
        "label": {"name": "label", "kind": "binary", "metric": "accuracy", "classes": ["no", "yes"], "mean": 0.0,
        "scale": 1.0}}"""
    )
    preparation = load_preparation(tmp_path)
    assert preparation is not None
    assert preparation.feature_names == ["age", "age missing", "member missing", "job=cook", "job=nurse"]
    nodes, edges = people()
    x = dense(again(preparation, nodes, edges).x).numpy()
    missing = nodes["age"].isna()
    np.testing.assert_allclose(x[:, 0], np.where(missing, 0, (nodes["age"] - 40) / 5), rtol=1e-5)
    assert x[:, 1].tolist() == missing.astype(float).tolist()
    assert x[:, 3].tolist() == (nodes["job"] == "cook").astype(float).tolist()


def test_nothing_in_a_test_row_changes_the_training_features(tmp_path: Path) -> None:
    nodes, edges = people()
    rng = np.random.default_rng(0)
    bag = pd.DataFrame((rng.random((90, 600)) < 0.03).astype(int), columns=[f"w{i}" for i in range(600)])
    nodes = pd.concat([nodes, bag], axis=1)
    late = nodes["country"] == "ES"
    changed = nodes.astype(dict.fromkeys(["age", "member", "friends", "w0"], object))
    changed.loc[late, ["age", "member", "friends", "born", "w0"]] = "unknown"
    changed.loc[late, "tags"] = [f"t{i}" for i in range(30)]
    changed.loc[late, list(bag)[1:]] = 1  # nearly dense
    edges.to_csv(tmp_path / "edges.csv", index=False)
    made = []
    for frame in (nodes, changed):
        frame.to_csv(tmp_path / "nodes.csv", index=False)
        made.append(quietly(tmp_path / "nodes.csv", tmp_path / "edges.csv", text=["about"], structure=True, **ROLES))
    one, two = made
    assert one.facts["preparation"] == two.facts["preparation"]
    for before, after in zip([*one.train, *one.val], [*two.train, *two.val], strict=True):
        assert isinstance(before.x, Sparse)
        assert isinstance(after.x, Sparse)
        assert torch.equal(before.x.to_dense(), after.x.to_dense())
    told = [line for line in two.facts["report"] if "taken as missing" in line]
    assert [line.split("'")[1] for line in told] == ["age", "member", "friends", "w0", "born"]
