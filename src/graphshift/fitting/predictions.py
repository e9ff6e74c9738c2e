"""Predictions for the environments of a dataset as a table."""

import dataclasses
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.storage import write_text
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.datasets.tables.labels import Label
from graphshift.estimators import Predictor
from graphshift.estimators.sets import HowSets, PredictionSets

_DIGITS = 6  # of probabilities in a file


def prediction_table(
    model: Predictor,
    data: ShiftDataset,
    *,
    roles: Collection[str] = ("train", "val", "tests", "target"),
    every_node: bool = False,
    adapt: str | None = None,
    calibrated: bool | Literal["target"] | None = None,
    threshold: float | str | None = None,
    sets: HowSets | None = None,
    abstain: float | None = None,
    aim: Callable[[Environment], Predictor] | None = None,
) -> pd.DataFrame:
    """One row for each node: id, environment, role, counted, prediction and, for classes, ``p(NAME)`` of each.

    A node is predicted where it counts. One that counts nowhere, because it has no label, is predicted in the first
    environment that has it, if its id is known: so every node of a user's tables has one row.

    Args:
        model: fitted.
        data: the dataset.
        roles: whose environments.
        every_node: all nodes of every environment: by time, those of earlier periods again.
        adapt, calibrated, threshold, abstain: as in :meth:`Predictor.predict_frame`.
        sets: adds what :func:`node_table` does.
        aim: gives the model calibrated to a graph, as :func:`graphshift.calibrate_to` does.
    """
    check_preparation(model, data)
    known = [e.ids[e.mask.cpu().numpy()] for e in _all(data) if e.ids is not None]
    counted_somewhere = pd.Index(np.concatenate(known)) if known else pd.Index([])
    seen = pd.Index([])
    tables = []
    for role, environments in data.roles.items():
        for e in environments:
            counted: NDArray[np.bool_] = e.mask.cpu().numpy()
            rows = counted if not every_node else np.ones_like(counted)
            if e.ids is not None:
                ids = pd.Index(e.ids)
                rows = rows | ~(ids.isin(counted_somewhere) | ids.isin(seen))
                seen = seen.append(ids[~counted])
            if role not in roles:
                continue
            how: Any = {"adapt": adapt, "calibrated": calibrated, "threshold": threshold, "abstain": abstain}
            table = node_table(model, e, **how, sets=sets, aim=aim)
            table.insert(2, "role", role)
            table.insert(3, "counted", counted.astype(int))
            tables.append(table[rows])
    if not tables:
        raise GraphshiftError(f"{data.name}: there is no environment of the roles {', '.join(roles)}.")
    return pd.concat(tables, ignore_index=True)


def node_table(
    model: Predictor,
    environment: Environment,
    *,
    adapt: str | None = None,
    calibrated: bool | Literal["target"] | None = None,
    threshold: float | str | None = None,
    sets: HowSets | None = None,
    abstain: float | None = None,
    aim: Callable[[Environment], Predictor] | None = None,
) -> pd.DataFrame:
    """The table of one graph; see :func:`prediction_table`.

    Args:
        model: fitted.
        environment: the graph.
        adapt, calibrated, threshold, abstain: as in :meth:`Predictor.predict_frame`.
        sets: adds ``set``, classes with ``|`` between, and ``set_size``; in regression ``lower`` and ``upper``.
        aim: gives the model calibrated to a graph.
    """
    model = model if aim is None else aim(environment)
    table = model.predict_frame(environment, adapt=adapt, calibrated=calibrated, threshold=threshold, abstain=abstain)
    if sets is None:
        return table
    made = {one.name: getattr(sets, one.name) for one in dataclasses.fields(sets)}
    found = model.predict_set(environment, adapt=adapt, **made)
    assert isinstance(found, PredictionSets)  # of one graph
    if found.members is not None:
        names = np.array([str(name) for name in model.classes_], dtype=object)
        table["set"] = ["|".join(names[row]) for row in found.members]
        table["set_size"] = found.sizes
        return table
    assert found.intervals is not None
    for name, values in zip(("lower", "upper"), found.intervals.T, strict=True):
        table[name] = values if model.preparation_ is None else model.preparation_.decode(values)
    return table


def check_preparation(model: Predictor, data: ShiftDataset) -> None:
    """Refuses tables whose classes are not the model's, and warns of columns that were prepared otherwise."""
    ours, theirs = model.preparation_, data.facts.get("preparation")
    if ours is None or theirs is None or ours == theirs:
        return
    advice = "Give the tables themselves instead of the dataset: they are then prepared as the training tables were."
    if ours.label != theirs.label:
        raise GraphshiftError(
            f"{data.name}: its labels are {_label(theirs.label)}, and the model predicts {_label(ours.label)}. {advice}"
        )
    if (ours.columns, ours.structure) != (theirs.columns, theirs.structure):
        warnings.warn(
            f"{data.name}: its columns are prepared otherwise than those that the model was trained on, because its "
            f"training nodes differ; predictions may be wrong. {advice}",
            GraphshiftWarning,
            stacklevel=3,
        )


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Writes a table as CSV; probabilities with six digits."""
    columns = {name: _rounded(table[name].to_numpy()) for name in table.columns if str(name).startswith("p(")}
    write_text(path, table.assign(**columns).to_csv(index=False))


def _all(data: ShiftDataset) -> list[Environment]:
    return [e for environments in data.roles.values() for e in environments]


def _label(label: Label) -> str:
    if not label.classes:
        return f"values of {label.name!r} (mean {label.mean:.4g}, deviation {label.scale:.4g})"
    shown = ", ".join(map(str, label.classes[:10])) + (", …" if len(label.classes) > 10 else "")
    return f"{label.name!r}: {shown}"


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """To six digits after leading zeros, so that small probabilities keep their order."""
    with np.errstate(divide="ignore"):
        places = np.nan_to_num(np.floor(np.log10(values)), neginf=0.0)
    scale = 10.0 ** (_DIGITS - 1 - np.clip(places, -300, 0))
    return np.asarray(np.round(values * scale) / scale)
