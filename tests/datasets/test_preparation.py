"""The fitted preparation against scikit-learn and pandas, its file, and its use on tables that it never saw."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import StandardScaler

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.storage import write_json
from graphshift.datasets.own import from_tables
from graphshift.datasets.tables.columns import feature_names, transform, width
from graphshift.datasets.tables.files import Table
from graphshift.datasets.tables.fit_columns import Wishes, fit_columns
from graphshift.datasets.tables.labels import decode, encode, fit_label
from graphshift.datasets.tables.preparation import Preparation, load_preparation


def table(**columns: object) -> Table:
    return Table("nodes.csv", pd.DataFrame(columns))


def half(count: int) -> np.ndarray:
    return np.arange(count) < count // 2


def people(count: int = 120, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two classes that the age tells apart, three countries, a job, and edges that prefer the own country."""
    rng = np.random.default_rng(seed)
    label = rng.choice(["no", "yes"], count)
    nodes = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(count)],
            "label": label,
            "age": rng.normal(40, 5, count) + 10 * (label == "yes"),
            "job": rng.choice(["cook", "nurse", "smith"], count),
            "country": np.repeat(["DE", "FR", "ES"], count // 3),
        }
    )
    third = rng.integers(0, 3, 4 * count) * (count // 3)
    ends = third + rng.integers(0, count // 3, (2, 4 * count))
    ends = np.unique(np.sort(ends[:, ends[0] != ends[1]], axis=0), axis=1)
    edges = pd.DataFrame({"source": nodes["id"].to_numpy()[ends[0]], "target": nodes["id"].to_numpy()[ends[1]]})
    return nodes, edges


ROLES = {"environments": "country", "train": "DE", "val": "FR", "tests": "ES"}


def fitted() -> Preparation:
    return from_tables(*people(), **ROLES).facts["preparation"]


def test_numbers_are_scaled_as_scikit_learn_scales_them() -> None:
    values = np.random.default_rng(0).normal([5, -300], [2, 1e4], size=(40, 2))
    rows = half(40)
    nodes = table(a=values[:, 0], b=values[:, 1])
    columns, remarks = fit_columns(nodes, ["a", "b"], rows, chosen=True)
    x, _ = transform(columns, nodes)
    expected = StandardScaler().fit(values[rows]).transform(values)
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert not remarks


def test_words_are_one_hot_as_pandas_dummies_over_the_training_vocabulary() -> None:
    words = np.random.default_rng(0).choice(["b", "a", "d", "c"], 40).astype(object)
    words[30:35] = "unseen"
    rows = half(40)
    nodes = table(w=words)
    columns, _ = fit_columns(nodes, ["w"], rows, chosen=True)
    x, remarks = transform(columns, nodes)
    vocabulary = sorted(set(words[:20]))
    expected = pd.get_dummies(words).reindex(columns=vocabulary).to_numpy(dtype=np.float32)
    np.testing.assert_array_equal(x.numpy(), expected)
    assert float(x[30:35].abs().sum()) == 0
    assert len(remarks) == 1
    assert "5 values that training never had, set to zeros (first row 31, 'unseen')" in remarks[0]


def test_missing_numbers_get_the_training_mean_and_a_flag_if_training_has_them() -> None:
    nodes = table(flagged=[1.0, np.nan, 3.0, 5.0, np.nan, 7.0], plain=[1.0, 2.0, 3.0, np.nan, 4.0, 5.0])
    columns, _ = fit_columns(nodes, ["flagged", "plain"], half(6), chosen=True)
    x, remarks = transform(columns, nodes)
    assert x.shape == (6, 3)  # flagged, its flag, plain
    np.testing.assert_allclose(x[:, 0].numpy(), [-1, 0, 1, 3, 0, 5], rtol=1e-6)
    assert x[:, 1].tolist() == [0, 1, 0, 0, 1, 0]
    assert x[3, 2] == 0
    assert [r.split(":")[1] for r in remarks] == [" column 'flagged'", " column 'plain'"]


def test_a_missing_word_is_a_level_of_its_own_only_if_training_has_one() -> None:
    nodes = table(own=["a", None, "b", None, "a", "b"], zeros=["a", "b", "a", None, "b", "a"])
    columns, _ = fit_columns(nodes, ["own", "zeros"], half(6), chosen=True)
    x, _ = transform(columns, nodes)
    assert x[:, 2].tolist() == [0, 1, 0, 1, 0, 0]
    assert x[3, 3:].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([2.0] * 4 + [3.0] * 4, "is always 2 in training"),
        ([0.1] * 8, "is always 0.1"),  # the deviation of 0.1, 0.1, … is not exactly 0
        ([1e-200, 2e-200] * 4, "is always"),  # the deviation underflows
        ([np.nan] * 4 + [1.0] * 4, "is empty in training"),
        (["x"] * 8, "is always 'x'"),
        ([None] * 4 + ["x"] * 4, "is empty in training"),
    ],
)
def test_constant_columns_are_left_out(values: list[object], found: str) -> None:
    columns, remarks = fit_columns(table(c=values, a=range(8)), ["c", "a"], half(8), chosen=True)
    assert feature_names(columns) == ["a"]
    assert len(remarks) == 1
    assert found in remarks[0]


def test_a_constant_with_gaps_says_only_where_it_is_missing() -> None:
    nodes = table(c=[2.0, np.nan, 2.0, 2.0, 9.0, np.nan])
    columns, remarks = fit_columns(nodes, ["c"], half(6), chosen=True)
    assert transform(columns, nodes)[0].tolist() == [[0], [1], [0], [0], [0], [1]]
    assert "only whether it is missing is used" in remarks[0]


def test_thousands_of_words_stay_sparse_and_equal_to_the_dense_result() -> None:
    rng = np.random.default_rng(0)
    nodes = table(w=[f"w{i}" for i in rng.integers(0, 3000, 4000)], age=rng.normal(size=4000))
    columns, _ = fit_columns(nodes, ["w", "age"], half(4000), chosen=True)
    x, _ = transform(columns, nodes)
    assert x.layout == torch.sparse_csr
    assert x.shape == (4000, width(columns))
    count = nodes.frame["w"][:2000].value_counts()
    words = sorted(count.index[count > 1])  # those of one node say nothing
    expected = pd.get_dummies(nodes.frame["w"]).reindex(columns=words).to_numpy(dtype=np.float32)
    dense = x.to_dense().numpy()
    np.testing.assert_array_equal(dense[:, :-1], expected)
    np.testing.assert_allclose(dense[:1999, -1].mean(), 0, atol=1e-2)
    assert x.values().numel() <= 8000


def test_yes_and_no_are_numbers_also_with_gaps() -> None:
    nodes = table(b=pd.Series([True, False, None, True, True, False], dtype=object))
    columns, _ = fit_columns(nodes, ["b"], half(6), chosen=True)
    assert transform(columns, nodes)[0].tolist() == [[1, 0], [0, 0], [0, 1], [1, 0], [1, 0], [0, 0]]


def test_codes_are_words_if_called_categorical_and_7_is_7_point_0() -> None:
    columns, _ = fit_columns(table(c=[7, 8, 9, 7]), ["c"], half(4), wishes=Wishes(categorical=["c"]), chosen=True)
    assert columns[0].levels == ("7", "8")
    x, _ = transform(columns, table(c=[7.0, np.nan, 8.0]))
    assert x.tolist() == [[1, 0], [0, 0], [0, 1]]


def test_names_are_left_out_unless_they_are_asked_for() -> None:
    nodes = table(name=[f"n{i}" for i in range(60)], age=range(60))
    columns, remarks = fit_columns(nodes, ["name", "age"], half(60), chosen=False)
    assert feature_names(columns) == ["age"]
    assert "different for every node" in remarks[0]
    columns, _ = fit_columns(nodes, ["name"], half(60), chosen=True)
    assert width(columns) == 30


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0] * 9 + [np.inf] + [2.0] * 30, r"nodes.csv: row 10, column 'c': inf is not a finite number \(1 such"),
        (
            ["1", "2"] * 9 + ["12a", "3"] * 11,
            r"row 19, column 'c': '12a' is not a number, and 19 of 20 training values",
        ),
        ([1e308, -1e308] * 20, "'c' holds numbers up to 1e.308, too large"),
        ([[1, 2], [3]] * 20, "'c' holds lists or other nested values"),
        ([b"a", b"b"] * 20, "'c' holds lists or other nested values"),
    ],
)
def test_columns_that_cannot_be_used_are_named(values: list[object], message: str) -> None:
    with pytest.raises(GraphshiftError, match=message):
        fit_columns(table(c=values), ["c"], half(40), chosen=True)


def test_a_value_far_outside_training_is_an_error_and_not_infinity() -> None:
    columns, _ = fit_columns(table(c=[1.0, 2.0, 1.0, 2.0]), ["c"], half(4), chosen=True)
    with pytest.raises(GraphshiftError, match=r"row 2, column 'c': 1e\+300 is too far from the training values"):
        transform(columns, table(c=[1.0, 1e300]))
    with pytest.raises(GraphshiftError, match=r"row 1, column 'c': 'tall' is not a finite number .2 such rows, and no"):
        transform(columns, table(c=["tall", "short"]))


@pytest.mark.parametrize(
    ("labels", "kind", "classes"),
    [
        (["b", "a", "b", "a"], "binary", ("a", "b")),
        ([3, 1, 2, 1], "multiclass", (1, 2, 3)),
        ([1.0, 0.0, np.nan, 1.0], "binary", (0, 1)),
        ([True, False, True, False], "binary", (False, True)),
        (["01", "02", "01", "02"], "binary", ("01", "02")),
        (["1", "NA", "0", "1"], "binary", (0, 1)),
        ([0.5, 1.5, 2.5, 0.5], "regression", ()),
        ([f"c{i}" for i in range(300)], "multiclass", tuple(sorted(f"c{i}" for i in range(300)))),
        (list(range(300)), "regression", ()),
        ([1, "x", 2, "x"], "multiclass", ("1", "2", "x")),
    ],
)
def test_labels_of_any_type(labels: list[object], kind: str, classes: tuple[object, ...]) -> None:
    nodes = table(label=labels)
    label, _ = fit_label(nodes, "label", np.ones(len(labels), dtype=bool), kind=None, metric="")
    assert (label.kind, label.classes) == (kind, classes)
    assert [type(c) for c in label.classes] == [type(c) for c in classes]
    again = type(label).model_validate(json.loads(label.model_dump_json()))
    assert again == label
    y, known, unseen = encode(again, nodes)
    missing = [value is np.nan or value == "NA" for value in labels]
    assert known.tolist() == [not m for m in missing]
    assert not unseen.any()
    back = decode(again, y.numpy())
    for value, result, gone in zip(labels, back, missing, strict=True):
        if kind == "regression":
            assert result == pytest.approx(value, rel=1e-5)
        elif not gone:
            assert str(result) == str(value).removesuffix(".0")


def test_regression_can_be_asked_for_and_classes_too() -> None:
    rows = np.ones(4, dtype=bool)
    label, _ = fit_label(table(label=[1, 2, 3, 4]), "label", rows, kind="regression", metric="r2")
    assert (label.mean, label.metric) == (2.5, "r2")
    label, _ = fit_label(table(label=[0.5, 1.5, 0.5, 2.5]), "label", rows, kind="multiclass", metric="")
    assert label.classes == (0.5, 1.5, 2.5)
    label, _ = fit_label(table(label=["ok", "bad"] * 2), "label", rows, kind=None, metric="f1", positive="bad")
    assert label.classes == ("ok", "bad")


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([None] * 4, {}, "no training node has a label in column 'label'"),
        (["a"] * 4, {}, "all training nodes have the label 'a'"),
        (["a", "b", "c", "a"], {"kind": "binary"}, "task is 'binary' and column 'label' has 3 labels"),
        (["a", "b", "c", "a"], {"kind": "regression"}, "row 1, column 'label': 'a' is not a finite number"),
        (["a", "b", "a", "b"], {"positive": "c"}, "positive is 'c'; expected one of two labels"),
        (["a", "b", "a", "b"], {"metric": "r2"}, "metric is 'r2'; for a binary task expected one of"),
        ([1.5] * 4, {}, "are all 1.5 or too large"),
        ([1.0, 2.0, np.inf, 1.0], {}, "row 3, column 'label': inf is not a finite number"),
    ],
)
def test_labels_that_cannot_be_learned(labels: list[object], options: dict[str, object], message: str) -> None:
    given = {"kind": None, "metric": ""} | options
    with pytest.raises(GraphshiftError, match=message):
        fit_label(table(label=labels), "label", np.ones(4, dtype=bool), **given)


def test_the_file_is_json_and_gives_the_same_preparation(tmp_path: Path) -> None:
    preparation = fitted()
    preparation.save(tmp_path)
    assert json.loads((tmp_path / "preparation.json").read_text())["label"]["classes"] == ["no", "yes"]
    assert load_preparation(tmp_path) == preparation
    assert load_preparation(tmp_path / "nothing here") is None
    assert preparation.feature_names == ["age", "job=cook", "job=nurse", "job=smith"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda note: note["columns"][0].update(mean="four"), "field `columns.0.numbers.mean`"),
        (lambda note: note["columns"][0].update(scale=-1), "field `columns.0.numbers.scale`"),
        (lambda note: note["columns"][0].update(kind="pickle"), "field `columns.0`"),
        (lambda note: note.update(columns=[]), "the columns make no feature"),
        (lambda note: note["label"].update(classes=["a", "a"]), "classes are repeated"),
        (lambda note: note["label"].update(kind="ranking"), "kind is 'ranking'"),
        (lambda note: note.pop("label"), "field `label`"),
        (lambda note: note.update(__reduce__="os.system"), "field `__reduce__`"),
        (lambda note: note.update(format=99), "field `format` is 99 and this version reads up to 2"),
        (lambda note: note.pop("format"), "field `format` is missing"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: object, message: str) -> None:
    fitted().save(tmp_path)
    note = json.loads((tmp_path / "preparation.json").read_text())
    damage(note)  # type: ignore[operator]
    write_json(tmp_path / "preparation.json", note)
    with pytest.raises(GraphshiftError, match=r"preparation.json: .*" + message):
        load_preparation(tmp_path)


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "preparation.json").write_bytes(b"\x80\x04\x95cos\nsystem\n")
    with pytest.raises(GraphshiftError, match=r"preparation.json: this is not JSON"):
        load_preparation(tmp_path)


@pytest.mark.parametrize("method", [gs.ERM, gs.EERM])
def test_from_raw_tables_to_predictions_on_new_raw_tables(tmp_path: Path, method: type) -> None:
    nodes, edges = people()
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    data = from_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", **ROLES)
    model = method(epochs=30, hidden_channels=8).fit(data.train, val=data.val)
    model.save(tmp_path / "model")
    data.facts["preparation"].save(tmp_path / "model")

    new, new_edges = people(60, seed=1)
    new = new.assign(job=["pilot"] * 5 + list(new["job"][5:]), age=[None, *new["age"][1:]], extra="text")
    truth = new.pop("label")
    new.to_csv(tmp_path / "new.csv", index=False)
    new_edges.to_csv(tmp_path / "new_edges.csv", index=False)
    preparation, model = load_preparation(tmp_path / "model"), gs.load_model(tmp_path / "model")
    assert preparation is not None
    with pytest.warns(GraphshiftWarning) as caught:
        environment, ids = preparation.environment(tmp_path / "new.csv", tmp_path / "new_edges.csv")
    text = str(caught[0].message)
    assert "column 'age': 1 missing values, set to the training mean (first row 1)" in text
    assert "column 'job': 5 values that training never had, set to zeros (first row 1, 'pilot')" in text
    assert ids.tolist() == new["id"].tolist()
    assert environment.y is None
    assert model.preparation_ == preparation
    with pytest.warns(GraphshiftWarning, match="column 'age': 1 missing values"):
        graph = model.prepare(tmp_path / "new.csv", tmp_path / "new_edges.csv")
    assert graph.fingerprint() == environment.fingerprint()
    result = model.predict_frame(graph)
    assert list(result.columns) == ["id", "environment", "prediction", "p(no)", "p(yes)"]
    assert result["id"].tolist() == new["id"].tolist()
    assert set(result["prediction"]) <= {"no", "yes"}
    if method is gs.ERM:
        assert (result["prediction"] == truth).mean() > 0.6


def test_new_tables_may_have_labels_for_some_nodes() -> None:
    nodes, edges = people(60, seed=2)
    nodes.loc[:9, "label"] = None
    nodes.loc[10, "label"] = "maybe"
    with pytest.warns(GraphshiftWarning, match=r"1 nodes have a label that training never had \(row 11: 'maybe'\)"):
        environment, _ = fitted().environment(nodes, edges, name="new")
    assert environment.mask.tolist() == [False] * 11 + [True] * 49
    assert environment.labels.tolist() == (nodes["label"][11:] == "yes").astype(int).tolist()


def test_new_tables_are_checked_as_the_first_ones_were() -> None:
    nodes, edges = people(30, seed=2)
    preparation = fitted()
    with pytest.raises(GraphshiftError, match="no column 'job' for a feature that the model was trained with"):
        preparation.environment(nodes.drop(columns="job"), edges)
    with pytest.raises(GraphshiftError, match="'p9' is not among the ids"):
        preparation.environment(nodes[nodes["id"] != "p9"], edges)
    with pytest.warns(GraphshiftWarning, match="left out .* with an end that is not among the nodes"):
        preparation.environment(nodes[nodes["id"] != "p9"], edges, unknown_ids="drop")
    with pytest.raises(GraphshiftError, match="is not a finite number"):
        preparation.environment(nodes.assign(age="old"), edges)


def test_weights_are_read_from_new_tables_too() -> None:
    nodes, edges = people()
    weighted = edges.assign(w=np.arange(len(edges)) + 1.0)
    preparation = from_tables(nodes, weighted, weight="w", **ROLES).facts["preparation"]
    environment, _ = preparation.environment(nodes, weighted)
    assert environment.graph.weight is not None
    assert float(environment.graph.weight.sum()) == 2 * weighted["w"].sum()
    with pytest.raises(GraphshiftError, match="no column 'w' for the edges' weights"):
        preparation.environment(nodes, edges)


def test_regression_predictions_are_in_the_labels_own_unit() -> None:
    nodes, edges = people()
    nodes["label"] = 50_000 + 1000 * nodes["age"]
    with pytest.warns(GraphshiftWarning, match="taken as quantities"):
        data = from_tables(nodes, edges, **ROLES)
    model = gs.ERM(backbone="mlp", epochs=150, hidden_channels=16).fit(data.train, val=data.val)
    preparation = data.facts["preparation"]
    predicted = preparation.decode(model.predict(data.tests[0]))
    truth = nodes.loc[nodes["country"] == "ES", "label"].to_numpy()
    assert np.abs(predicted - truth).mean() < 0.3 * truth.std()
