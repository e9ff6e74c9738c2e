"""A number far from all others, such as 0 among years, stands for "missing"."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftWarning
from graphshift.datasets.tables.preparation import read_preparation


def _tables(column: np.ndarray, **other: object) -> tuple[pd.DataFrame, pd.DataFrame]:
    n = len(column)  # labels are random, so that no number is a code
    nodes = pd.DataFrame(
        {
            "id": range(n),
            "year": column,
            "label": np.random.default_rng(1).integers(0, 2, n),
            "part": np.arange(n) // (n // 3),
        }
    )
    nodes = nodes.assign(**other)
    return nodes, pd.DataFrame({"source": range(n - 1), "target": range(1, n)})


def _features(column: np.ndarray, **options: object) -> tuple[np.ndarray, list[str], str]:
    """The features of the training nodes, their names, and the remarks."""
    nodes, edges = _tables(column)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        data = gs.from_tables(
            nodes, edges, label="label", environments="part", train=0, val=1, tests=2, structure=False, **options
        )
    said = "\n".join(str(one.message) for one in found if issubclass(one.category, GraphshiftWarning))
    return data.train[0].x.numpy(), data.facts["preparation"].feature_names, said


def _years(none: float, n: int = 90) -> np.ndarray:
    values = 2000.0 + np.random.default_rng(0).integers(0, 9, n)
    values[::4] = none
    return values


@pytest.mark.parametrize("none", [0, -1, 9999])
def test_a_number_far_away_is_missing(none: float) -> None:
    """The rest is scaled by itself, the number becomes the mean and a flag."""
    column = _years(none)
    x, names, said = _features(column)
    train = column[:30]
    rest = train != none
    assert names == ["year", "year missing"]
    expected = np.where(rest, (train - train[rest].mean()) / train[rest].std(), 0.0)
    assert x[:, 0] == pytest.approx(expected, abs=1e-5)
    assert (x[:, 1] == ~rest).all()
    assert f"{none} in column 'year' as missing" in said


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(np.arange(90.0) % 10, id="0 is the next number"),
        pytest.param(np.where(np.arange(90) == 4, 9999.0, np.arange(90.0) % 10), id="one number alone"),
        pytest.param(np.where(np.arange(90) % 30 < 28, 0.0, 50.0 + np.arange(90) % 2), id="mostly zeros"),
        pytest.param(np.where(np.arange(90) % 2, 0.0, 18.0 + np.arange(90) % 40), id="ages wider than the gap"),
    ],
)
def test_other_numbers_stay(column: np.ndarray) -> None:
    _, names, said = _features(column)
    assert names == ["year"]
    assert "as missing" not in said


def test_the_user_decides_otherwise() -> None:
    x, names, _ = _features(_years(0), scale={"year": "standard"})
    assert names == ["year"]
    train = _years(0)[:30]
    assert x[:, 0] == pytest.approx((train - train.mean()) / train.std(), abs=1e-5)


def test_it_is_saved_with_the_model(tmp_path: Path) -> None:
    """New tables have the same number for missing, whether they are whole numbers or not."""
    nodes, edges = _tables(_years(0).astype(np.int64))
    with pytest.warns(GraphshiftWarning, match="as missing"):
        data = gs.from_tables(nodes, edges, label="label", environments="part", train=0, val=1, tests=2)
    data.facts["preparation"].write(tmp_path / "preparation.json")
    again = read_preparation(tmp_path / "preparation.json")
    with pytest.warns(GraphshiftWarning, match="missing values, set to the training mean"):
        graph, _ = again.environment(nodes.iloc[:30], edges.iloc[:29])
    assert (graph.x[:, :2] == data.train[0].x[:, :2]).all()
