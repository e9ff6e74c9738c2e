"""The table of predictions says for every node what the model says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.fitting.predictions import prediction_table, table_predictions, write_table


@pytest.fixture(scope="module")
def data() -> gs.ShiftDataset:
    return gs.load("planted", nodes=60)


@pytest.fixture(scope="module")
def model(data: gs.ShiftDataset) -> gs.Estimator:
    return gs.ERM(epochs=2, hidden_channels=4).fit(data.train, data.val)


def test_every_node_of_every_environment_has_a_row(model: gs.Estimator, data: gs.ShiftDataset, tmp_path: Path) -> None:
    mask = data.tests[0].y != 0
    environments = [data.train[0], data.tests[0].replace(mask=mask)]
    part = gs.ShiftDataset("part", environments[:1], tests=environments[1:])
    write_table(prediction_table(model, part), tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == [
        "environment",
        "node",
        "counted",
        "prediction",
        *(f"probability_{k}" for k in range(4)),
    ]
    assert list(table["environment"]) == ["train"] * 60 + ["T1"] * 60
    assert list(table["node"]) == [*range(60), *range(60)]
    assert list(table["counted"]) == [1] * 60 + mask.int().tolist()
    for environment in environments:
        own = table[table["environment"] == environment.name]
        assert np.array_equal(own["prediction"], model.predict(environment))
        probabilities = own[[f"probability_{k}" for k in range(4)]].to_numpy()
        np.testing.assert_allclose(probabilities, model.predict_proba(environment), atol=1e-6)


def test_regression_has_values_alone(data: gs.ShiftDataset) -> None:
    graph = data.train[0].data
    graph.y = graph.x[:, 0]
    environment = gs.Environment("r", graph)
    model = gs.ERM(epochs=2, hidden_channels=4, selection="last").fit(environment)
    table = prediction_table(model, gs.ShiftDataset("r", [environment]))
    assert list(table.columns) == ["environment", "node", "counted", "prediction"]
    np.testing.assert_allclose(table["prediction"], model.predict(environment))


def test_a_model_of_graphs_reads_no_tables(model: gs.Estimator, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    with pytest.raises(GraphshiftError, match=r"not trained on tables, so it cannot read nodes\.csv"):
        table_predictions(model, tmp_path / "model", Path("nodes.csv"), Path("edges.csv"))
