"""Two models that are served."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import graphshift as gs
from graphshift.estimators.predictor import Predictor
from served import tables
from small import environments


@pytest.fixture(scope="module")
def plain() -> tuple[Predictor, Any]:
    training, val = environments(2)
    return gs.ERM(epochs=3, hidden_channels=4).fit(training, val), val


@pytest.fixture(scope="module")
def tabular(tmp_path_factory: pytest.TempPathFactory) -> tuple[Predictor, Path]:
    """A model that was fitted on CSV files, and their folder."""
    folder = tmp_path_factory.mktemp("tables")
    for name, table in zip(("nodes.csv", "edges.csv"), tables(), strict=True):
        table.to_csv(folder / name, index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        split = {"environments": "town", "train": "a", "val": "b", "tests": "c"}
        data = gs.from_tables(folder / "nodes.csv", folder / "edges.csv", label="fraud", **split)
    return gs.ERM(epochs=3, hidden_channels=4).fit(data), folder
