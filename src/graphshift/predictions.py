"""Predictions as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from graphshift.environments import Environment
from graphshift.models import Model
from graphshift.storage import write_text

__all__ = ["prediction_table", "write_predictions"]


def prediction_table(model: Model, environment: Environment) -> pd.DataFrame:
    """One row for each node: environment, node, counted, prediction and, for classes, each class's probability."""
    table = pd.DataFrame(
        {
            "environment": environment.name,
            "node": np.arange(environment.num_nodes),
            "counted": environment.mask.cpu().numpy().astype(int),
            "prediction": model.predict(environment),
        }
    )
    if model.task_.is_classification:
        probabilities = model.predict_proba(environment)
        for k in range(model.task_.num_classes):
            table[f"probability_{k}"] = np.asarray(probabilities)[:, k].round(6)
    return table


def write_predictions(model: Model, environments: Sequence[Environment], path: Path) -> int:
    """Writes the predictions of all environments as CSV; returns how many."""
    table = pd.concat([prediction_table(model, environment) for environment in environments], ignore_index=True)
    write_text(path, table.to_csv(index=False))
    return len(table)
