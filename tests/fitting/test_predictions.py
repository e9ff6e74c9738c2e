"""The table of predictions says for every node what the model says, by one set of column names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.fitting.predictions import check_preparation, prediction_table, write_table


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", nodes=60)


@pytest.fixture(scope="module")
def model(data: gs.ShiftDataset) -> gs.Estimator:
    return gs.ERM(epochs=2, hidden_channels=4).fit(data.train, data.val)


COLUMNS = ["id", "environment", "role", "counted", "prediction", *(f"p({k})" for k in range(4))]


def test_the_nodes_that_count_have_a_row_or_all_of_them(
    model: gs.Estimator, data: gs.ShiftDataset, tmp_path: Path
) -> None:
    mask = data.tests[0].y != 0
    environments = [data.train[0], data.tests[0].replace(mask=mask)]
    part = gs.ShiftDataset("part", environments[:1], tests=environments[1:])
    write_table(prediction_table(model, part, every_node=True), tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == COLUMNS
    assert list(table["environment"]) == ["train"] * 60 + ["T1"] * 60
    assert list(table["role"]) == ["train"] * 60 + ["tests"] * 60
    assert list(table["id"]) == [*range(60), *range(60)]
    assert list(table["counted"]) == [1] * 60 + mask.int().tolist()
    for environment in environments:
        own = table[table["environment"] == environment.name]
        assert np.array_equal(own["prediction"], model.predict(environment))
        probabilities = own[[f"p({k})" for k in range(4)]].to_numpy()
        np.testing.assert_allclose(probabilities, model.predict_proba(environment, calibrated=True), rtol=1e-5)
    counted = prediction_table(model, part)
    expected = table[table["counted"] == 1].reset_index(drop=True)
    pd.testing.assert_frame_equal(counted.iloc[:, :5], expected.iloc[:, :5], check_dtype=False)


def test_target_environments_have_rows_and_their_role(model: gs.Estimator, data: gs.ShiftDataset) -> None:
    part = gs.ShiftDataset("part", data.train, data.val, target=data.tests[:2])
    table = prediction_table(model, part)
    assert list(table["role"]) == ["train"] * 60 + ["val"] * 60 + ["target"] * 120
    target = prediction_table(model, part, roles=["target"])
    pd.testing.assert_frame_equal(target, table[120:].reset_index(drop=True))
    with pytest.raises(GraphshiftError, match="there is no environment of the roles tests"):
        prediction_table(model, part, roles=["tests"])


def test_regression_has_values_alone(data: gs.ShiftDataset) -> None:
    graph = data.train[0].data
    graph.y = graph.x[:, 0]
    environment = gs.Environment("r", graph)
    model = gs.ERM(epochs=2, hidden_channels=4, selection="last").fit(environment)
    table = prediction_table(model, gs.ShiftDataset("r", [environment]))
    assert list(table.columns) == COLUMNS[:5]
    np.testing.assert_allclose(table["prediction"], model.predict(environment))


def test_small_probabilities_keep_six_digits(tmp_path: Path) -> None:
    values = [1.0, 0.0, 0.123456789, 1.23456789e-9, 0.99999999]
    write_table(pd.DataFrame({"id": range(5), "prediction": [0.123456789] * 5, "p(a)": values}), tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert table["p(a)"].tolist() == [1.0, 0.0, 0.123457, 1.23457e-9, 1.0]
    assert table["prediction"].tolist() == [0.123456789] * 5  # a value in the user's unit is not rounded


# --- tables of one's own


def by_time(**options: object) -> gs.ShiftDataset:
    random = np.random.default_rng(0)
    nodes = pd.DataFrame(
        {"id": [f"p{i}" for i in range(80)], "age": random.normal(size=80), "year": np.arange(80) // 20}
    )
    nodes["vote"] = np.where(nodes["age"] > 0, "north", "south")
    nodes.loc[[5, 45, 50, 70], "vote"] = None
    edges = pd.DataFrame({"source": [f"p{i}" for i in range(79)], "target": [f"p{i + 1}" for i in range(79)]})
    periods = {"train_until": 0, "val_until": 1, "test_until": [2, 3]}
    return gs.from_tables(nodes, edges, label="vote", time="year", **periods | options)


@pytest.mark.filterwarnings("ignore::graphshift.core.errors.GraphshiftWarning")
def test_every_node_of_tables_has_one_row_in_its_own_period() -> None:
    data = by_time()
    model = gs.ERM(epochs=2, hidden_channels=4).fit(data)
    table = prediction_table(model, data)
    assert sorted(table["id"]) == sorted(f"p{i}" for i in range(80))
    number = table["id"].str[1:].astype(int)
    periods = [e.name for e in data.environments]
    assert table["environment"].tolist() == [periods[i // 20] for i in number]
    assert set(number[table["counted"] == 0]) == {5, 45, 50, 70}  # no label: predicted, not counted
    whole = prediction_table(model, data, every_node=True)
    assert len(whole) == 20 + 40 + 60 + 80
    assert list(whole.columns) == ["id", "environment", "role", "counted", "prediction", "p(north)", "p(south)"]
    assert set(whole["prediction"]) <= {"north", "south"}


@pytest.mark.filterwarnings("ignore::graphshift.core.errors.GraphshiftWarning")
def test_tables_that_are_prepared_otherwise_are_told() -> None:
    data, other = by_time(), by_time(train_until=1, val_until=2, test_until=[3])
    model = gs.ERM(epochs=2, hidden_channels=4).fit(data)
    check_preparation(model, data)
    with pytest.warns(gs.GraphshiftWarning, match="columns are prepared otherwise than those that the model"):
        check_preparation(model, other)
    with pytest.raises(
        GraphshiftError, match="labels are 'vote': south, north, and the model predicts 'vote': north, s"
    ):
        check_preparation(model, by_time(positive="north"))
