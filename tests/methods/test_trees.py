"""Trees as arrays: they say what scikit-learn's say, and what cannot be a tree is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from graphshift.core.errors import GraphshiftWarning
from graphshift.data.tasks import Task
from graphshift.methods import boosting, trees
from graphshift.methods.boosting import Boosting, boosted_scores
from graphshift.methods.forest import Forest, forest_mean, trees_of
from graphshift.methods.trees import Trees

TASKS = {"binary": Task("binary", 2), "multiclass": Task("multiclass", 4), "regression": Task("regression", 0)}


def rows(kind: str, count: int = 300, seed: int = 0) -> tuple[Any, Any, Any]:
    """Training rows with few different values in some columns, labels, and other rows."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(2 * count, 7)).astype(np.float32)
    x[:, 3:5] = random.integers(0, 3, size=(2 * count, 2))
    score = x[:, 0] + np.where(x[:, 3] > 1, x[:, 1], -x[:, 2]) + 0.3 * random.normal(size=2 * count)
    y = score if kind == "regression" else np.digitize(score, {"binary": [0.0], "multiclass": [-1.0, 0.0, 1.0]}[kind])
    return x[:count], y[:count], x[count:]


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_forest_predicts_what_scikit_learns_does(kind: str, sparse: bool) -> None:
    x, y, other = rows(kind)
    if sparse:
        x, other = (scipy.sparse.csr_array(np.where(part > 0.5, part, 0)) for part in (x, other))
    settings = {"trees": 20, "min_samples_leaf": 2, "max_features": "third", "seed": 3}
    classes = None if kind == "regression" else np.unique(y)
    model = Forest(**settings).learn_rows(x, y, classes, TASKS[kind])  # type: ignore[arg-type]
    known = RandomForestRegressor if classes is None else RandomForestClassifier
    truth = known(20, min_samples_leaf=2, max_features=1 / 3, random_state=3).fit(x, y)
    expected = truth.predict(other) if classes is None else truth.predict_proba(other)
    np.testing.assert_allclose(model.rows(other), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", TASKS)
def test_boosting_predicts_what_scikit_learns_does(kind: str) -> None:
    x, y, other = rows(kind)
    classes = None if kind == "regression" else np.unique(y)
    model = Boosting(rounds=15, learning_rate=0.3, max_leaf_nodes=7).learn_rows(x, y, classes, TASKS[kind])
    known = HistGradientBoostingRegressor if classes is None else HistGradientBoostingClassifier
    truth = known(max_iter=15, learning_rate=0.3, max_leaf_nodes=7, early_stopping=False, random_state=0).fit(x, y)
    expected = truth.predict(other) if classes is None else truth.predict_proba(other)
    np.testing.assert_allclose(model.rows(other), expected, rtol=1e-12, atol=1e-15)


def test_a_table_is_walked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, other = rows("multiclass")
    model = Boosting(rounds=5).learn_rows(x, y, np.unique(y), TASKS["multiclass"])
    whole = model.rows(other)
    monkeypatch.setattr(trees, "_CELLS", 50)
    np.testing.assert_array_equal(model.rows(other), whole)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_the_compiled_walk_ends_where_the_plain_one_does(sparse: bool) -> None:
    x, y, other = rows("multiclass")
    forest = RandomForestClassifier(5, random_state=0).fit(x, y)
    made = trees_of(forest)
    table = scipy.sparse.csr_array(other) if sparse else other
    found = list(made.reached(table))
    assert len(found) == 5
    for root, reached in zip(made.roots, found, strict=True):
        np.testing.assert_array_equal(reached, made.leaves(other, int(root)))
    np.testing.assert_allclose(forest_mean(made, table, 4), forest.predict_proba(other), atol=1e-7)


def test_trees_that_share_nodes_are_walked() -> None:
    """A file may say so: the second tree ends in a leaf of a third that begins after it."""
    nodes = {"left": [1, -1, -1], "right": [2, 0, 1], "feature": [0, 0, 0], "threshold": [0.5, 0.0, 0.0]}
    arrays = {name: np.array(one, dtype="f8" if name == "threshold" else "i4") for name, one in nodes.items()}
    shared = Trees(**arrays, value=np.array([[1.0], [2.0]]), roots=np.array([0, 2], dtype=np.int32))  # type: ignore[arg-type]
    table = np.array([[0.0], [1.0]], dtype=np.float32)
    assert [reached.tolist() for reached in shared.reached(table)] == [[0, 1], [1, 1]]


def test_boosted_trees_take_turns() -> None:
    leaf = Trees.single(*(np.full(1, -1) for _ in range(4)), np.array([[1.0]]))  # type: ignore[call-arg]
    three = Trees.joined([leaf, leaf, leaf])
    found = boosted_scores(three, np.zeros((2, 1)), np.array([0.5, 0.0]))
    assert found.tolist() == [[2.5, 1.0]] * 2


def test_the_most_frequent_sparse_columns_are_kept_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = rows("binary")
    dense = np.zeros((len(x), 5), dtype=np.float32)
    for column, share in enumerate((0.1, 0.9, 0.5, 0.2, 0.8)):
        dense[: int(share * len(x)), column] = 1
    thin, classes = scipy.sparse.csr_array(dense), np.arange(2)
    with pytest.warns(GraphshiftWarning, match="boosting: 2 of 5 sparse columns were kept"):
        model = Boosting(rounds=2, most_columns=2).learn_rows(thin, y, classes, TASKS["binary"])
    assert model.arrays()["kept"].tolist() == [1, 4]
    np.testing.assert_array_equal(model.rows(thin), model.rows(dense))
    monkeypatch.setattr(boosting, "MOST_BYTES", 9 * len(x) * 3)
    with pytest.warns(GraphshiftWarning, match="boosting: 3 of 5"):
        Boosting(rounds=2).learn_rows(thin, y, classes, TASKS["binary"])


@pytest.fixture
def arrays() -> dict[str, Any]:
    x, y, _ = rows("multiclass")
    return trees_of(RandomForestClassifier(3, random_state=0).fit(x, y)).arrays()


def test_arrays_are_read_back(arrays: dict[str, Any]) -> None:
    found = Trees.of_arrays(arrays, 7, 4)
    assert all(np.array_equal(found.arrays()[name], one) for name, one in arrays.items())


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("left", 0, 0, "node 0 leads to a place that is not after it"),
        ("right", 0, 0, "node 0 leads to a place that is not after it"),
        ("left", 0, 10**6, "node 0 leads"),
        ("right", -1, 10**6, "leads to a place"),
        ("right", -1, -5, "leads to a place"),
        ("feature", 0, 7, "looks at a column that is not among the 7"),
        ("feature", 0, -1, "looks at a column"),
        ("threshold", 0, np.nan, "has no threshold"),
        ("roots", 0, -1, "roots lie outside"),
        ("roots", 1, 10**6, "roots lie outside"),
        ("value", 0, np.inf, "expected finite numbers, 4 for each leaf"),
    ],
)
def test_what_cannot_be_a_tree_is_refused(
    name: str, index: int, value: Any, message: str, arrays: dict[str, Any]
) -> None:
    damaged = {key: one.copy() for key, one in arrays.items()}
    damaged[f"trees.{name}"][index] = value
    with pytest.raises(ValueError, match=message):
        Trees.of_arrays(damaged, 7, 4)


@pytest.mark.parametrize("name", ["left", "right", "feature", "threshold", "roots", "value"])
def test_other_shapes_and_types_are_refused(name: str, arrays: dict[str, Any]) -> None:
    key = f"trees.{name}"
    for other in (arrays[key].reshape(-1)[:, None, None], arrays[key].astype(bool), arrays[key].reshape(-1)[:-1]):
        if name == "roots" and other.ndim == 1 and other.dtype != bool:
            continue  # fewer trees are trees
        with pytest.raises(ValueError, match=r"trees\.\w+ is"):
            Trees.of_arrays(arrays | {key: other}, 7, 4)
