"""Predictions as a table."""

from pathlib import Path

import numpy as np
import pandas as pd

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import write_text
from graphshift.data.dataset import ShiftDataset
from graphshift.datasets.tables.preparation import load_preparation
from graphshift.estimators import Predictor


def prediction_table(model: Predictor, data: ShiftDataset, *, adapt: str | None = None) -> pd.DataFrame:
    """One row for each node: environment, node, counted, prediction and, for classes, each class's probability.

    A dataset made of the user's tables has its own ids and classes; others are numbered.
    """
    preparation = data.facts.get("preparation")
    tables = []
    for environment in data.environments:
        prediction = model.predict(environment, adapt=adapt)
        probabilities = model.predict_proba(environment, adapt=adapt) if model.task_.is_classification else None
        if preparation is not None:
            table = preparation.table(data.facts["ids"][environment.name], prediction, probabilities)
        else:
            table = pd.DataFrame({"node": np.arange(environment.num_nodes), "prediction": prediction})
            for k in range(model.task_.num_classes):
                table[f"probability_{k}"] = np.asarray(probabilities)[:, k].round(6)
        table.insert(0, "environment", environment.name)
        table.insert(2, "counted", environment.mask.cpu().numpy().astype(int))
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def table_predictions(
    model: Predictor, folder: Path, nodes: Path, edges: Path, *, adapt: str | None = None
) -> pd.DataFrame:
    """Predictions for raw tables like those that the model was trained on, by the user's own ids and classes.

    Args:
        model: the loaded model.
        folder: where it was loaded from; it holds the preparation that was fitted to the training tables.
        nodes: the table of nodes; labels are not needed, and words that training never saw are fine.
        edges: the table of edges.
        adapt: as in :meth:`Predictor.predict`.
    """
    preparation = load_preparation(folder)
    if preparation is None:
        raise GraphshiftError(
            f"{folder}: the model was not trained on tables, so it cannot read {nodes}; give a dataset's name instead."
        )
    environment, ids = preparation.environment(nodes, edges)
    probabilities = model.predict_proba(environment, adapt=adapt) if model.task_.is_classification else None
    return preparation.table(ids, model.predict(environment, adapt=adapt), probabilities)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Writes a table as CSV."""
    write_text(path, table.to_csv(index=False))
