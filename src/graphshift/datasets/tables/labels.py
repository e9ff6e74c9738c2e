"""Labels of any type as classes 0, 1, … or as scaled numbers, and back to the user's own."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt, StrictStr
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.data.tasks import Task
from graphshift.datasets.tables.cells import numbers
from graphshift.datasets.tables.files import Table, is_number, numbers_or_text, plain_text, shown

#: Whole numbers with more distinct values than this are quantities, not classes.
MOST_CLASSES = 200


class Label(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """What is predicted, in the user's terms.

    Attributes:
        name: the column.
        kind: of the task.
        metric: of the task.
        level: of the task.
        classes: the user's labels in the order of the model's classes; empty in regression.
        mean, scale: of the training labels in regression; the model works with ``(label - mean) / scale``.
    """

    name: str
    kind: str
    metric: str
    level: str = "node"
    classes: tuple[StrictBool | StrictInt | StrictFloat | StrictStr, ...] = ()
    mean: float = 0.0
    scale: float = Field(default=1.0, gt=0)

    @property
    def task(self) -> Task:
        """The task that models are trained for."""
        return Task(self.kind, len(self.classes), self.metric, level=self.level)


class Encoded(NamedTuple):
    """Labels for a model.

    Attributes:
        y: classes (int64) or scaled values (float32), 0 where unknown.
        known: where there is a label that training had.
        unseen: where there is a label that training never had.
    """

    y: Tensor
    known: Tensor
    unseen: NDArray[np.bool_]


def hide_labels(nodes: Table, name: str, rows: NDArray[np.bool_]) -> tuple[Table, list[str]]:
    """The column of labels, empty in some rows, whatever stands there; and a remark that counts what does."""
    column = nodes.column(name, "the labels (option label)")
    count = int(column[rows].notna().sum())
    text = f"{nodes.where}: {count} labels in {name!r} belong to unlabelled environments; they are not read."
    return Table(nodes.where, column.mask(rows).to_frame()), [text] if count else []


def fit_label(
    nodes: Table,
    name: str,
    rows: NDArray[np.bool_],
    *,
    kind: str | None,
    metric: str,
    positive: Any = None,
    level: str = "node",
) -> tuple[Label, list[str]]:
    """Learns the classes, or the scale, from the training nodes (or graphs, by ``level``), ``rows``.

    The options are those of ``from_tables``.

    Without ``kind``, words are classes, and so are whole numbers with at most 200 distinct values; other numbers are
    regression. Of more than two classes, those that only other nodes have come last: nothing can learn them, so they
    count as wrong.
    """
    column = numbers_or_text(nodes.column(name, "the labels (option label)"))
    known = column[rows].dropna()
    if known.empty:
        raise GraphshiftError(f"{nodes.where}: no training {level} has a label in column {name!r}; some are needed.")
    remarks: list[str] = []
    values = known.unique()
    if kind is None and is_number(column) and known.dtype != bool:
        distinct = numbers(nodes, known.drop_duplicates())
        if (distinct % 1 != 0).any() or len(distinct) > MOST_CLASSES:
            kind = "regression"
            remarks.append(
                f"{nodes.where}: label {name!r} has {len(distinct)} distinct numbers: taken as quantities. For classes "
                'say task="multiclass".'
            )
    if kind == "regression":
        return _fit_quantity(nodes, name, known, metric, level, remarks)
    classes = _classes(values)
    if len(classes) < 2:
        raise GraphshiftError(
            f"{nodes.where}: all training {level}s have the label {shown(classes[0])} in column {name!r}; at least two "
            "labels are needed."
        )
    if positive is not None:
        names = [plain_text(label) for label in classes]
        if len(classes) != 2 or plain_text(positive) not in names:
            raise GraphshiftError(
                f"{nodes.where}: positive is {shown(positive)}; expected one of two labels, and training has "
                f"{', '.join(map(shown, classes[:10]))}."
            )
        classes = classes if plain_text(positive) == names[1] else classes[::-1]
    kind = kind or ("binary" if len(classes) == 2 else "multiclass")
    if kind == "binary" and len(classes) != 2:
        raise GraphshiftError(
            f"{nodes.where}: task is 'binary' and column {name!r} has {len(classes)} labels in training: "
            f"{', '.join(map(shown, classes[:10]))}; expected 2."
        )
    if kind == "multiclass" and len(classes) > 2:
        further = _classes(column.dropna().unique())
        trained = {plain_text(one) for one in classes}
        classes = [*classes, *(one for one in further if plain_text(one) not in trained)]
    task = Task(kind, len(classes), metric)
    return Label(name=name, kind=kind, metric=task.metric, level=level, classes=tuple(classes)), remarks


def encode(label: Label, nodes: Table) -> Encoded:
    """The labels of a table's nodes; a node may have none."""
    column = numbers_or_text(nodes.column(label.name, "the labels (option label)"))
    if label.kind == "regression":
        values = numbers(nodes, column)
        unknown = np.isnan(values)
        y = torch.from_numpy(np.where(unknown, 0.0, (values - label.mean) / label.scale)).float()
        return Encoded(y, torch.from_numpy(~unknown), np.zeros(len(column), dtype=bool))
    codes, values = pd.factorize(column)
    number = {plain_text(name): i for i, name in enumerate(label.classes)}
    lookup = np.array([number.get(plain_text(value), -2) for value in values] + [-1], dtype=np.int64)
    classes = lookup[codes]
    y, known = torch.from_numpy(np.maximum(classes, 0)), torch.from_numpy(classes >= 0)
    return Encoded(y, known, np.asarray(classes == -2, dtype=bool))


def decode(label: Label, predictions: Any) -> NDArray[Any]:
    """A model's predictions in the user's own labels or units."""
    found = np.asarray(predictions)
    if label.kind == "regression":
        return found * label.scale + label.mean
    same = len({type(name) for name in label.classes}) == 1
    return np.array(label.classes, dtype=None if same and not isinstance(label.classes[0], str) else object)[found]


def _fit_quantity(
    nodes: Table, name: str, known: pd.Series, metric: str, level: str, remarks: list[str]
) -> tuple[Label, list[str]]:
    values = numbers(nodes, known)
    mean, scale = float(values.mean()), float(values.std())
    if not np.isfinite(scale) or values.min() == values.max():
        raise GraphshiftError(
            f"{nodes.where}: the training labels in column {name!r} are all {values[0]:g} or too large; nothing can be "
            "learned."
        )
    remarks.append(
        f"{nodes.where}: label {name!r} is scaled for training (mean {mean:.4g}, deviation {scale:.4g}); predictions "
        f"are in its own unit, and a score of mse is in units of {scale:.4g}²."
    )
    metric = Task("regression", 0, metric).metric
    return Label(name=name, kind="regression", metric=metric, level=level, mean=mean, scale=scale), remarks


def _classes(values: Any) -> list[bool | int | float | str]:
    """The distinct labels in order, as JSON has them."""
    items = [value.item() if isinstance(value, np.generic) else value for value in values]
    if all(isinstance(item, bool) for item in items):
        return sorted(items)
    if all(isinstance(item, int | float) and not isinstance(item, bool) for item in items):
        return sorted(int(item) if float(item).is_integer() else item for item in items)
    return sorted(plain_text(item) for item in items)
