"""Logistic and ridge regression: the weights minimise the penalised loss on scaled columns, written out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize

from graphshift.core.errors import GraphshiftWarning
from graphshift.data.tasks import Task
from graphshift.methods import logistic
from graphshift.methods.logistic import Logistic, linear_scores, scale_of


def rows(classes: int, count: int = 200) -> tuple[Any, Any]:
    random = np.random.default_rng(1)
    x = random.normal(3.0, 20.0, size=(count, 4)).astype(np.float32)
    x[:, 1] = random.integers(0, 2, size=count)
    scores = x @ random.normal(size=(4, max(classes, 1))) / 20 + random.gumbel(size=(count, max(classes, 1)))
    return x, (scores.argmax(axis=1) if classes else scores[:, 0])


def scaled(x: Any) -> Any:
    """As the docs say: dense columns that are not 0/1 by mean and deviation."""
    mean, deviation = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    mean[1], deviation[1] = 0.0, 1.0
    return (x - mean) / deviation


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_those_of_the_minimum(classes: int) -> None:
    x, y = rows(classes)
    z, c = scaled(x), 0.3

    def objective(flat: Any) -> float:
        weight, offset = flat[: 4 * classes].reshape(classes, 4), flat[4 * classes :]
        scores = z @ weight.T + offset
        loss = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y]
        return c * loss.sum() + penalty(weight)

    def penalty(weight: Any) -> float:
        # scikit-learn has one vector for two classes, their difference, and the penalty is of that one
        return 0.5 * float(((weight[1] - weight[0]) ** 2).sum() if classes == 2 else (weight**2).sum())

    found = minimize(objective, np.zeros(5 * classes), method="BFGS", options={"gtol": 1e-6})
    weight, offset = found.x[: 4 * classes].reshape(classes, 4), found.x[4 * classes :]
    scores = np.exp(z @ weight.T + offset)
    task = Task("binary" if classes == 2 else "multiclass", classes)
    model = Logistic(c=c).learn_rows(x, y, np.arange(classes), task)
    np.testing.assert_allclose(model.rows(x), scores / scores.sum(axis=1, keepdims=True), atol=2e-3)


def test_values_are_those_of_the_ridge() -> None:
    x, y = rows(0)
    z, c = scaled(x), 0.05
    middle = z - z.mean(axis=0)
    weight = np.linalg.solve(middle.T @ middle + np.eye(4) / c, middle.T @ (y - y.mean()))
    expected = middle @ weight + y.mean()
    model = Logistic(c=c).learn_rows(x, y, None, Task("regression", 0))
    np.testing.assert_allclose(model.rows(x), expected, rtol=1e-5)
    sparse = Logistic(c=1e9).learn_rows(scipy.sparse.csr_array(x), y, None, Task("regression", 0))
    free = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0]
    np.testing.assert_allclose(sparse.rows(x), np.column_stack([x, np.ones(len(x))]) @ free, atol=1e-3)


def test_sparse_columns_keep_their_zeros() -> None:
    table = scipy.sparse.csr_array(np.array([[0.0, -4.0, 0.0], [2.0, 1.0, 0.0]], dtype=np.float32))
    centre, scale = scale_of(table)
    assert centre.tolist() == [0, 0, 0]
    assert scale.tolist() == [2, 4, 1]


def test_scores_are_linear() -> None:
    x, weight, offset = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([0.5, -1.0])
    for table in (x, scipy.sparse.csr_array(x)):
        assert linear_scores(table, weight, offset).tolist() == [[11.5, 1.0]]


def test_constant_columns_and_one_class_are_no_trouble() -> None:
    x = np.ones((10, 2), dtype=np.float32) * 7
    one = Logistic().learn_rows(x, np.zeros(10, dtype=int), np.array([2]), Task("multiclass", 3))
    assert one.rows(x).tolist() == [[1.0]] * 10
    two = Logistic().learn_rows(x, np.arange(10) % 2, np.array([0, 1]), Task("binary", 2))
    np.testing.assert_allclose(two.rows(x), 0.5, atol=1e-6)


def test_weights_that_are_not_final_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logistic, "_STEPS", 1)
    x, y = rows(3)
    with pytest.warns(GraphshiftWarning, match="the weights were not final after 1 steps"):
        Logistic().learn_rows(x, y, np.arange(3), Task("multiclass", 3))
