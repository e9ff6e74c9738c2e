"""The fitted preparation: all that turns raw tables into what a model takes, kept beside the model as JSON."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError, model_validator
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.storage import read_json, write_json
from graphshift.data.environment import Environment
from graphshift.datasets.tables.columns import Category, Column, transform, width
from graphshift.datasets.tables.files import Source, shown
from graphshift.datasets.tables.graph import Layout, node_ids, read_both, read_edges
from graphshift.datasets.tables.labels import Label, decode, encode

_FILE, _FORMAT = "preparation.json", 1


class Preparation(BaseModel, extra="forbid", frozen=True):
    """What was learned from the training nodes of a pair of tables, to be applied to any other pair.

    Attributes:
        layout: of the tables.
        columns: the fitted columns, in the order of the features that they make.
        label: what is predicted.
    """

    layout: Layout
    columns: tuple[Column, ...] = Field(min_length=1)
    label: Label

    @model_validator(mode="after")
    def _consistent(self) -> Preparation:
        task = self.label.task  # checks kind, number of classes and metric
        if len(set(self.label.classes)) != task.num_classes or not width(self.columns):
            raise ValueError("classes are repeated, or the columns make no feature")
        return self

    @property
    def feature_names(self) -> list[str]:
        """A name for every feature, such as ``age``, ``age missing``, ``job=nurse``."""
        names: list[str] = []
        for spec in self.columns:
            if isinstance(spec, Category):
                names += [f"{spec.name}={level}" for level in spec.levels] + [f"{spec.name} missing"] * spec.missing
            else:
                names += [spec.name] * (spec.scale > 0) + [f"{spec.name} missing"] * spec.flag
        return names

    def environment(
        self, nodes: Source, edges: Source, *, name: str = "graph", unknown_ids: str = "error"
    ) -> tuple[Environment, NDArray[Any]]:
        """Turns raw tables into an environment for a model that was fitted with this preparation.

        Labels are not needed. Where there are some, the nodes that have one count, so that the model can be scored.

        Args:
            nodes: the node table: a path or a frame with the columns that training had.
            edges: the edge table.
            name: of the environment.
            unknown_ids: ``"error"``, or ``"drop"`` to leave out edges whose ends are not among the nodes.

        Returns:
            The environment, and the id of each of its nodes in the order of the table.
        """
        layout, label = self.layout, self.label
        words = [spec.name for spec in self.columns if isinstance(spec, Category)]
        node_table, edge_table = read_both(nodes, edges, layout, [*words, label.name])
        ids = node_ids(node_table, layout.id)
        found = read_edges(edge_table, ids, node_table.where, layout, unknown_ids)
        x, remarks = transform(self.columns, node_table)
        data = Data(x=x, edge_index=found.edge_index, num_nodes=len(ids))
        if found.weight is not None:
            data.edge_weight = found.weight
        if label.name in node_table.frame.columns:
            encoded = encode(label, node_table)
            if encoded.unseen.any():
                row = int(encoded.unseen.argmax())
                remarks.append(
                    f"{node_table.where}: {int(encoded.unseen.sum())} nodes have a label that training never had (row "
                    f"{row + 1}: {shown(node_table.frame[label.name].iloc[row])}); they count as unlabelled."
                )
            if bool(encoded.known.any()):
                data.y, data.mask = encoded.y, encoded.known
        remark(name, [*found.remarks, *remarks])
        return Environment(name, data, label.task), ids.to_numpy()

    def decode(self, predictions: Any) -> NDArray[Any]:
        """A model's predictions (classes 0, 1, … or scaled values) in the user's own labels or units."""
        return decode(self.label, predictions)

    def save(self, folder: str | Path) -> None:
        """Writes ``preparation.json`` into a model's folder."""
        write_json(Path(folder) / _FILE, {"format": _FORMAT, **self.model_dump(mode="json")})


def save_preparation(folder: Path, preparation: Preparation | None, *, overwrite: bool) -> None:
    """Writes a model's preparation, if it has one. Overwriting takes away that of the model that was there."""
    if preparation is not None:
        preparation.save(folder)
    elif overwrite:
        (folder / _FILE).unlink(missing_ok=True)


def load_preparation(folder: str | Path) -> Preparation | None:
    """Reads what :meth:`Preparation.save` wrote; None if the folder has none. Nothing in the file is executed."""
    path = Path(folder) / _FILE
    if not path.exists():
        return None
    note = read_json(path)
    if not isinstance(note, dict) or not isinstance(note.get("format"), int):
        raise GraphshiftError(f"{path}: field `format` is missing; this is not a graphshift preparation.")
    if note["format"] > _FORMAT:
        raise GraphshiftError(
            f"{path}: field `format` is {note['format']} and this version reads up to {_FORMAT}; upgrade graphshift."
        )
    try:
        return Preparation.model_validate({key: value for key, value in note.items() if key != "format"})
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"])) or "the whole"
        raise GraphshiftError(f"{path}: field `{field}`: {problem['msg']}; the file is damaged.") from None


def remark(name: str, remarks: Sequence[str], *, level: int = 2) -> None:
    """Tells the user, once, all that was left out or filled in; the user called ``level`` calls up."""
    if remarks:
        text = "\n".join([f"{name!r}:", *(f"  {line}" for line in remarks)])
        warnings.warn(text, GraphshiftWarning, stacklevel=level + 1)
