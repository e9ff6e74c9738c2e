"""Columns as features: every way to scale numbers against NumPy and SciPy, and what is decided by itself."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import rankdata

from graphshift.core.errors import GraphshiftError
from graphshift.datasets.tables.columns import feature_names, transform
from graphshift.datasets.tables.files import Table, numbers_or_text
from graphshift.datasets.tables.fit_columns import Wishes, fit_columns
from graphshift.datasets.tables.numeric import Numbers


def table(**columns: Any) -> Table:
    return Table("nodes.csv", pd.DataFrame(columns))


def half(count: int) -> np.ndarray:
    return np.arange(count) < count // 2


def features(nodes: Table, *, scale: Any = "auto", new: Table | None = None) -> tuple[np.ndarray, list[str], list[str]]:
    """The features of a table whose first half trains, their names, and the remarks of fitting."""
    count = len(nodes.frame)
    columns, remarks = fit_columns(nodes, list(nodes.frame), half(count), Wishes(scale=scale), chosen=True)
    again = [type(spec).model_validate(json.loads(spec.model_dump_json())) for spec in columns]
    assert tuple(again) == columns
    x, _ = transform(again, new or nodes)
    assert x.shape[1] == len(feature_names(columns))
    return x.to_dense().numpy(), feature_names(columns), remarks


def counts(size: int = 400) -> np.ndarray:
    return np.floor(np.random.default_rng(0).pareto(1.0, size) * 5)


def test_0_1_columns_and_words_are_left_alone() -> None:
    flag, word = [0, 1, 1, 0, 1, 0], ["a", "b", "a", "b", "a", "b"]
    for values in (flag, [float(v) for v in flag], [bool(v) for v in flag], np.array(flag, dtype=np.int8)):
        x, names, remarks = features(table(f=values, w=word))
        assert names == ["f", "w=a", "w=b"]
        assert x[:, 0].tolist() == flag
        assert remarks == [
            "nodes.csv: took column 'f' of 0/1 as they are. The options scale, categorical, dates, multi_hot and text "
            "change this."
        ]


def test_standard_none_log_and_rank_are_what_they_say() -> None:
    values = counts()
    train = values[:200]
    nodes = table(c=values)
    logs = np.log1p(values)
    expected = {
        "standard": (values - train.mean()) / train.std(),
        "none": values,
        "log": (logs - logs[:200].mean()) / logs[:200].std(),
    }
    for scale, wanted in expected.items():
        x, _, remarks = features(nodes, scale=scale)
        np.testing.assert_allclose(x[:, 0], wanted, rtol=1e-5, atol=1e-6)
        assert not remarks
    x, _, _ = features(nodes, scale="rank")
    np.testing.assert_allclose(x[:200, 0] / 12**0.5 + 0.5, (rankdata(train) - 0.5) / 200, atol=1e-6)
    assert float(np.abs(x).max()) < 12**0.5 / 2  # no value is beyond those of training


def test_ranks_of_many_values_are_interpolated() -> None:
    values = np.random.default_rng(0).normal(size=4000)
    x, _, _ = features(table(c=values), scale="rank")
    exact = (rankdata(values[:2000]) - 0.5) / 2000
    assert float(np.abs(x[:2000, 0] / 12**0.5 + 0.5 - exact).max()) < 0.01


def test_a_negative_number_has_a_logarithm_too() -> None:
    x, _, _ = features(table(c=[-7.0, 0.0, 7.0, -7.0]), scale="log")
    assert x[0, 0] == x[3, 0] == -x[1, 0]  # over -log 8 and 0: their mean is in the middle


def test_auto_takes_logarithms_of_skewed_numbers_and_says_so() -> None:
    values = counts()
    x, _, remarks = features(table(friends=values, age=np.random.default_rng(0).normal(size=400)))
    logs = np.log1p(values)
    np.testing.assert_allclose(x[:, 0], (logs - logs[:200].mean()) / logs[:200].std(), rtol=1e-5, atol=1e-6)
    assert len(remarks) == 1
    assert "took column 'friends' of skewed numbers as logarithms, scaled." in remarks[0]
    assert "age" not in remarks[0]


def test_scale_by_column_leaves_the_others_to_auto() -> None:
    values = counts()
    x, _, remarks = features(table(a=values, b=values), scale={"a": "none"})
    assert x[:, 0].tolist() == values.tolist()
    assert abs(float(x[:200, 1].mean())) < 1e-6
    assert "column 'b' of skewed" in remarks[0]


def words_table(columns: int = 300, rows: int = 200) -> tuple[Table, np.ndarray]:
    rng = np.random.default_rng(0)
    x = (rng.random((rows, columns)) < 0.03) * rng.integers(1, 4, (rows, columns))
    x[0, :] = 0
    x[1:3] += rng.integers(0, 2, (2, columns))  # no column is constant
    return table(**{f"w{i}": x[:, i] for i in range(columns)}), x


def test_a_bag_of_words_is_sparse_and_its_counts_become_logarithms() -> None:
    nodes, x = words_table()
    columns, remarks = fit_columns(nodes, list(nodes.frame), half(200), chosen=True)
    found, _ = transform(columns, nodes, sparse=half(200))
    assert found.layout == torch.sparse_csr
    kept = [int(name[1:]) for name in feature_names(columns)]
    zero_one = x[:100, kept].max(axis=0) == 1
    expected = np.where(zero_one, x[:, kept], np.log1p(x[:, kept]))
    np.testing.assert_allclose(found.to_dense().numpy(), expected, rtol=1e-6)
    assert len(remarks) <= 2
    assert "of 0/1 as they are" in remarks[-1]
    assert "of small counts as log(1 + x)" in remarks[-1]
    assert len(remarks[-1]) < 300


def test_few_columns_of_mostly_zeros_are_no_bag_of_words() -> None:
    values = np.zeros(200)
    values[::20] = 0.001
    x, _, _ = features(table(c=values, d=np.arange(200.0)))
    np.testing.assert_allclose(x[:100, 0].std(), 1, rtol=1e-5)


def test_dense_columns_may_stand_in_a_sparse_matrix() -> None:
    nodes, _ = words_table()
    nodes.frame["age"] = np.random.default_rng(0).normal(size=200)
    columns, _ = fit_columns(nodes, list(nodes.frame), half(200), chosen=True)
    found, _ = transform(columns, nodes)
    assert found.layout == torch.sparse_csr
    age = nodes.frame["age"].to_numpy()
    expected = (age - age[:100].mean()) / age[:100].std()
    np.testing.assert_allclose(found.to_dense()[:, -1].numpy(), expected, rtol=1e-5, atol=1e-6)


def test_only_the_deciding_rows_decide_whether_features_are_sparse() -> None:
    nodes, _ = words_table()
    columns, _ = fit_columns(nodes, list(nodes.frame), half(200), chosen=True)
    full = Table("nodes.csv", nodes.frame.copy())
    full.frame.iloc[100:] = 1
    found, _ = transform(columns, full, sparse=half(200))
    assert found.layout == torch.sparse_csr
    dense, _ = transform(columns, full, sparse=~half(200))
    assert dense.layout == torch.strided
    assert torch.equal(found.to_dense(), dense)


def test_many_constant_columns_are_one_line_and_so_are_many_gaps() -> None:
    nodes, _ = words_table(30)
    frame = nodes.frame.astype(float).assign(**{f"c{i}": 1.0 for i in range(7)}, empty=np.nan, word="x")
    frame.iloc[150:, :30] = np.nan
    nodes = Table("nodes.csv", frame)
    columns, remarks = fit_columns(nodes, list(frame), half(200), chosen=True)
    assert remarks[0] == "nodes.csv: 9 of 39 columns are constant in training and left out: c0, c1, c2 …."
    _, told = transform(columns, nodes)
    assert told == ["nodes.csv: 30 columns ('w0', 'w1', 'w2' …): 1,500 missing values, set to 0."]


def test_the_flag_of_a_missing_number_stands_beside_it_in_wide_blocks() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 300))
    values[::4, 7] = np.nan
    values[1::4, 290] = np.nan
    x, names, _ = features(table(**{f"c{i}": values[:, i] for i in range(300)}))
    assert [name for name in names if "missing" in name] == ["c7 missing", "c290 missing"]
    for name in ("c7", "c290"):
        place = names.index(f"{name} missing")
        assert names[place - 1] == name
        assert x[:, place].tolist() == np.isnan(values[:, int(name[1:])]).astype(float).tolist()
        assert (x[x[:, place] == 1, place - 1] == 0).all()
    expected = (values[:, 200] - values[:20, 200].mean()) / values[:20, 200].std()
    np.testing.assert_allclose(x[:, names.index("c200")], expected, rtol=1e-5, atol=1e-6)


def test_missing_values_of_each_scale() -> None:
    values = [0.0, 4.0, np.nan, 2.0, np.nan, 6.0]
    x, names, _ = features(table(c=values), scale="none")
    assert names == ["c", "c missing"]
    assert x.tolist() == [[0, 0], [4, 0], [2, 1], [2, 0], [2, 1], [6, 0]]
    x, _, _ = features(table(c=values), scale="rank")
    assert x[2].tolist() == x[4].tolist() == [0, 1]
    x, _, _ = features(table(c=[0, 1, None, 1, None, 0]))
    assert x.tolist() == [[0, 0], [1, 0], [0, 1], [1, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize("late", ["nurse", "1e999", None])
@pytest.mark.parametrize(
    "values", [["1", "2.5", "3", "7"], ["True", "False", "True", "False"], ["1", "NA", "4", "2"], ["0", "1", "1", "0"]]
)
def test_training_rows_alone_decide_what_a_column_is(values: list[str], late: str | None) -> None:
    """As a CSV has them: one word anywhere makes all cells text."""
    alone = pd.DataFrame({"c": values * 2}).to_csv(index=False)
    mixed = pd.DataFrame({"c": [*values, late or "", *values[1:]]}).to_csv(index=False)
    results = []
    for text in (alone, mixed):
        nodes = _read(text)
        columns, remarks = fit_columns(nodes, ["c"], half(8), chosen=True)
        x, told = transform(columns, nodes)
        results.append((columns, remarks, x[:4]))
        if text == mixed:
            what = "1 values that are not finite numbers, as those of training are; taken as missing (first row 5, "
            assert any(what in line for line in told) == (late is not None)
            assert float(x[4, 0]) == 0
    assert results[0][:2] == results[1][:2]
    assert torch.equal(results[0][2], results[1][2])


def _read(text: str) -> Table:
    frame = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""], skip_blank_lines=False)
    return Table("nodes.csv", frame.assign(c=numbers_or_text(frame["c"])))


def test_numbers_among_words_of_training_are_words() -> None:
    nodes = table(c=["a", "b", "a", "b", "1", "2"])
    columns, _ = fit_columns(nodes, ["c"], half(6), chosen=True)
    assert feature_names(columns) == ["c=a", "c=b"]
    _, told = transform(columns, nodes)
    assert told == ["nodes.csv: column 'c': 2 values that training never had, set to zeros (first row 5, '1')."]


def test_words_cannot_be_scaled() -> None:
    nodes = table(c=["a", "b", "a", "b"])
    for wishes in (Wishes(scale={"c": "log"}), Wishes(per_environment=["c"])):
        with pytest.raises(GraphshiftError, match="column 'c' holds words; only numbers can be scaled or ranked"):
            fit_columns(nodes, ["c"], half(4), wishes, chosen=True)


def test_numbers_of_any_size_can_be_logarithms_and_ranks() -> None:
    nodes = table(c=[1e308, -1e308, 1e308, 5.0])
    for scale in ("log", "rank"):
        x, _, _ = features(nodes, scale=scale)
        assert np.isfinite(x).all()


def test_wide_tables_are_few_blocks() -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((100, 2000)) < 0.3).astype(np.int64)
    nodes = Table("nodes.csv", pd.DataFrame(x, columns=[f"w{i}" for i in range(2000)]))
    columns, _ = fit_columns(nodes, list(nodes.frame), half(100), chosen=True)
    assert len(columns) == 1
    assert isinstance(columns[0], Numbers)
    assert len(columns[0].model_dump_json(exclude_defaults=True)) < 12 * 2000
    found, _ = transform(columns, nodes)
    assert torch.equal(found.to_dense(), torch.from_numpy(x[:, [int(n[1:]) for n in columns[0].names]]).float())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"how": "standard"}, "mean has 0 entries for 1 columns"),
        ({"how": "standard", "mean": [0.0], "scale": [0.0]}, "scale must be above 0"),
        ({"how": "rank", "knots": [[1.0]], "places": [[]]}, "differ in length"),
        ({"how": "none", "flags": [3]}, "flags must be column numbers"),
        ({"how": "flag"}, "needs its flag"),
        ({"how": "none", "mean": [float("nan")]}, "finite number"),
    ],
)
def test_a_damaged_block_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Numbers.model_validate({"names": ["c"], **fields})
