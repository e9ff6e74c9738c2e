"""Tables in and tables out: raw tables as a graph, predictions as a frame."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of
from graphshift.data.environment import Environment
from graphshift.datasets.tables.files import Source
from graphshift.datasets.tables.graph import Layout
from graphshift.datasets.tables.preparation import Preparation

_FILES = ("feature_file", "feature_ids")


def prepared(
    preparation: Preparation, nodes: Source, edges: Source, *, name: str = "graph", options: Mapping[str, Any]
) -> Environment:
    """Raw tables as an environment with ids; the options are those of :meth:`Predictor.prepare`, all checked here."""
    known = ["unknown_ids", *_FILES, "graphs", *Layout.model_fields]
    for option in options:
        if option not in known:
            raise GraphshiftError(f"{option} is not an option of new tables; {expected_one_of(option, known)}")
    changes, graphs = dict(options), options.get("graphs")
    changes.pop("graphs", None)
    unknown_ids = changes.pop("unknown_ids", "error")
    if unknown_ids not in ("error", "drop"):
        raise GraphshiftError(f"unknown_ids is {unknown_ids!r}; expected 'error' or 'drop'.")
    files = {option: changes.pop(option) for option in _FILES if option in changes}
    if preparation.layout.graph is None and "graph" in changes:
        raise GraphshiftError("graph is the column of each node's graph, and the model predicts nodes; leave it out.")
    if isinstance(changes.get("missing"), str):
        changes["missing"] = [changes["missing"]]
    try:
        layout = Layout.model_validate({**preparation.layout.model_dump(), **changes})
    except ValidationError as error:
        problem = error.errors()[0]
        option = str(problem["loc"][0])
        raise GraphshiftError(f"{option} is {changes.get(option)!r}: {problem['msg'].lower()}.") from None
    fitted = preparation.model_copy(update={"layout": layout})
    environment, ids = fitted.environment(nodes, edges, graphs, name=name, unknown_ids=unknown_ids, **files)
    return environment.replace(ids=ids)


def prepared_target(preparation: Preparation | None, text: str) -> Environment:
    """The unlabelled graph in ``"NODES.csv,EDGES.csv"``, as the tables of a dataset were prepared.

    Args:
        preparation: of the dataset; None if it is not of tables.
        text: as the user wrote it.
    """
    names = [name.strip() for name in text.split(",")]
    if preparation is None or len(names) != 2 or not all(names):
        raise GraphshiftError(
            f"target is {text!r}; expected 'tests', or, for a dataset of your own tables, NODES.csv,EDGES.csv."
        )
    return prepared(preparation, names[0], names[1], name=Path(names[0]).stem, options={})


def prediction_frame(
    environment: Environment,
    predictions: NDArray[Any],
    probabilities: NDArray[Any] | None,
    preparation: Preparation | None,
    classes: tuple[Any, ...],
) -> pd.DataFrame:
    """One row for each item: id, environment, prediction and, for classes, ``p(NAME)`` of each.

    Args:
        environment: the graph; without ids its items are numbered.
        predictions: a model's, ``[items]``.
        probabilities: ``[items, classes]``; None in regression.
        preparation: of the user's tables, whose classes and units predictions are shown in; None leaves them.
        classes: their names.
    """
    ids = np.arange(environment.num_items) if environment.ids is None else environment.ids
    columns: dict[str, Any] = {"id": ids, "environment": environment.name}
    columns["prediction"] = predictions if preparation is None else preparation.decode(predictions)
    if probabilities is not None:
        columns |= {f"p({name})": probabilities[:, i] for i, name in enumerate(classes)}
    return pd.DataFrame(columns)
