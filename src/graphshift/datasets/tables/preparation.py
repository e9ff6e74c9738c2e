"""The fitted preparation: all that turns raw tables into what a model takes, kept beside the model as JSON."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError, model_validator
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.storage import read_json, write_json
from graphshift.data.environment import Environment
from graphshift.data.structure import STRUCTURAL_NAMES, structural_columns
from graphshift.datasets.tables.columns import Column, as_text, feature_names, feature_units, here, transform
from graphshift.datasets.tables.feature_file import Matrix, matrix_part, read_matrix
from graphshift.datasets.tables.files import Source, Table, shown
from graphshift.datasets.tables.graph import Layout, node_ids, read_both, read_edges
from graphshift.datasets.tables.labels import Label, decode, encode
from graphshift.datasets.tables.local import Structure, placeholder, with_local
from graphshift.datasets.tables.numeric import Unit
from graphshift.datasets.tables.small_graphs import SmallGraphs, read_graphs, small_graphs

_FILE, _FORMAT = "preparation.json", 2


class Preparation(BaseModel, extra="forbid", frozen=True):
    """What was learned from the training nodes of a pair of tables, to be applied to any other pair.

    Attributes:
        layout: of the tables.
        columns: the fitted columns, in the order of the features that they make.
        edge_columns: the same of the edge table, for the features of edges; empty if they have none.
        label: what is predicted.
        structure: how structural columns are scaled, which come last; None if they are not used.
        sparse: whether the features are sparse; None lets the table decide, as version 1 of the file did.
    """

    layout: Layout
    columns: tuple[Column, ...]
    edge_columns: tuple[Column, ...] = ()
    label: Label
    structure: Structure | None = None
    sparse: bool | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Preparation:
        task = self.label.task  # checks kind, number of classes and metric
        if len(set(self.label.classes)) != task.num_classes or not self.feature_names:
            raise ValueError("classes are repeated, or the columns make no feature")
        if sum(isinstance(spec, Matrix) for spec in self.columns) > 1:
            raise ValueError("there is more than one feature file")
        return self

    @property
    def feature_names(self) -> list[str]:
        """A name for every feature, such as ``age``, ``age missing``, ``job=nurse``."""
        return feature_names(self.columns) + list(STRUCTURAL_NAMES if self.structure else ())

    @property
    def feature_units(self) -> list[Unit]:
        """In which units values of each feature are told to people."""
        return feature_units(self.columns) + (self.structure.units if self.structure else [])

    @property
    def text_columns(self) -> list[str]:
        """The columns of the node table that are read as text."""
        return [*as_text(self.columns), self.label.name]

    def environment(
        self,
        nodes: Source,
        edges: Source,
        graphs: Source | None = None,
        *,
        name: str = "graph",
        unknown_ids: str = "error",
        feature_file: str | Path | None = None,
        feature_ids: str | Path | None = None,
    ) -> tuple[Environment, NDArray[Any]]:
        """Turns raw tables into an environment for a model that was fitted with this preparation.

        Labels are not needed. Where there are some, the nodes (or graphs) that have one count, so that the model can be
        scored.

        Args:
            nodes: the node table: a path or a frame with the columns that training had.
            edges: the edge table.
            graphs: the table of graphs, where these have labels; it is needed for labels, and for features that
                training had from it.
            name: of the environment.
            unknown_ids: ``"error"``, or ``"drop"`` to leave out edges whose ends are not among the nodes.
            feature_file, feature_ids: the feature file and the ids of its rows, if training had them; None for files of
                the same names beside the node table.

        Returns:
            The environment, and the id of each of its nodes in the order of the table; or of each of its graphs.
        """
        layout, label = self.layout, self.label
        node_table, edge_table = read_both(nodes, edges, layout, self.text_columns)
        small = self._small_graphs(node_table, edge_table, graphs, unknown_ids)
        items = node_table if small is None else small.graphs
        if small is not None:
            node_table, edge_table = small.nodes, small.edges
        ids = node_ids(node_table, layout.id)
        how: Any = {"listed": bool(self.edge_columns), "graph_of": None if small is None else small.number}
        found = read_edges(edge_table, ids, node_table.where, layout, unknown_ids, **how)
        matrix = self._matrix(nodes, node_table, ids, feature_file, feature_ids)
        x, remarks = transform(self.columns, node_table, matrix=matrix, sparse=self.sparse)
        shared = x.shape[1]
        data = Data(x=x if shared else placeholder(len(ids)), edge_index=found.edge_index, num_nodes=len(ids))
        if found.weight is not None:
            data.edge_weight = found.weight
        if found.listed is not None:
            values, of_values = transform(self.edge_columns, edge_table, sparse=False)
            data.edge_attr, remarks = values[found.listed], [*remarks, *of_values]
        if small is not None:
            data.batch, remarks = torch.from_numpy(small.number), [*small.remarks, *remarks]
        if label.name in items.frame.columns:
            encoded = encode(label, items)
            if encoded.unseen.any():
                column, row = items.frame[label.name], int(encoded.unseen.argmax())
                remarks.append(
                    f"{items.where}: {int(encoded.unseen.sum())} {label.level}s have a label that training never had "
                    f"(row {int(column.index[row]) + 1}: {shown(column.iloc[row])}); they count as unlabelled."
                )
            if bool(encoded.known.any()):
                data.y, data.mask = encoded.y, encoded.known
        remark(name, [*found.remarks, *remarks])
        plain = Environment(name, data, label.task)
        structural = None if self.structure is None else self.structure.scaled(structural_columns(plain.graph))
        whole = with_local(plain, shared, here(self.columns, node_table, None), structural)
        return whole, (ids if small is None else small.ids).to_numpy()

    def _small_graphs(self, nodes: Table, edges: Table, graphs: Source | None, unknown_ids: str) -> SmallGraphs | None:
        layout = self.layout
        if layout.graph is None:
            if graphs is not None:
                raise GraphshiftError("a table of graphs is given, and the model predicts nodes; leave it out.")
            return None
        used = [name for spec in self.columns for name in getattr(spec, "names", (getattr(spec, "name", None),))]
        if graphs is None and (absent := [name for name in used if name and name not in nodes.frame.columns]):
            raise GraphshiftError(
                f"{nodes.where}: there is no column {absent[0]!r}, which the model was trained with; if the table of "
                "graphs has it, give that too."
            )
        table = None if graphs is None else read_graphs(graphs, layout, self.text_columns)
        return small_graphs(nodes, edges, table, layout, unknown_ids, apart=[self.label.name])

    def _matrix(
        self, nodes: Source, table: Table, ids: pd.Index, file: str | Path | None, id_file: str | Path | None
    ) -> Any:
        """The part of the feature file that the model was trained with."""
        spec = next((spec for spec in self.columns if isinstance(spec, Matrix)), None)
        if spec is None:
            if file is not None or id_file is not None:
                raise GraphshiftError(
                    f"feature_file is {str(file)!r}, and the model was trained without one; leave it out."
                )
            return None
        if file is None and isinstance(nodes, pd.DataFrame):
            raise GraphshiftError(f"feature_file is missing: the model was trained with {spec.file}; say which to use.")
        beside = Path() if isinstance(nodes, pd.DataFrame) else Path(nodes).parent
        path = Path(file) if file is not None else beside / spec.file
        id_path = Path(id_file) if id_file is not None else None
        if id_path is None and file is None and spec.ids is not None:
            id_path = beside / spec.ids
        return matrix_part(spec, read_matrix(path, id_path, ids, table.where), path)

    def decode(self, predictions: Any) -> NDArray[Any]:
        """A model's predictions (classes 0, 1, … or scaled values) in the user's own labels or units."""
        return decode(self.label, predictions)

    def save(self, folder: str | Path) -> None:
        """Writes ``preparation.json`` into a model's folder."""
        self.write(Path(folder) / _FILE)

    def write(self, path: Path) -> None:
        """Writes it into a file of any name, for :func:`read_preparation`."""
        write_json(path, {"format": _FORMAT, **self.model_dump(mode="json")})


def save_preparation(folder: Path, preparation: Preparation | None, *, overwrite: bool) -> None:
    """Writes a model's preparation, if it has one. Overwriting takes away that of the model that was there."""
    if preparation is not None:
        preparation.save(folder)
    elif overwrite:
        (folder / _FILE).unlink(missing_ok=True)


def load_preparation(folder: str | Path) -> Preparation | None:
    """Reads what :meth:`Preparation.save` wrote; None if the folder has none. Nothing in the file is executed."""
    path = Path(folder) / _FILE
    return read_preparation(path) if path.exists() else None


def read_preparation(path: str | Path) -> Preparation:
    """Reads what :meth:`Preparation.write` wrote."""
    path = Path(path)
    note = read_json(path)
    if not isinstance(note, dict) or not isinstance(note.get("format"), int):
        raise GraphshiftError(f"{path}: field `format` is missing; this is not a graphshift preparation.")
    if note["format"] > _FORMAT:
        raise GraphshiftError(
            f"{path}: field `format` is {note['format']} and this version reads up to {_FORMAT}; upgrade graphshift."
        )
    content = {key: value for key, value in note.items() if key != "format"}
    if note["format"] == 1 and isinstance(content.get("columns"), list):
        content["columns"] = [_from_format_1(column) for column in content["columns"]]
    try:
        return Preparation.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"])) or "the whole"
        raise GraphshiftError(f"{path}: field `{field}`: {problem['msg']}; the file is damaged.") from None


def _from_format_1(column: Any) -> Any:
    """A column of numbers as version 1 of the file had it; other columns are the same today."""
    if not isinstance(column, dict) or column.get("kind") != "number":
        return column
    fields = {"names": [column.get("name")], "flags": [0] if column.get("flag") else []}
    if column.get("scale") == 0:  # constant in training: only the flag was used
        return {"kind": "numbers", "how": "flag", **fields}
    numbers = {"mean": [column.get("mean")], "scale": [column.get("scale")]}
    return {"kind": "numbers", "how": "standard", **fields, **numbers}


def remark(name: str, remarks: Sequence[str], *, level: int = 2) -> None:
    """Tells the user, once, all that was left out or filled in; the user called ``level`` calls up."""
    if remarks:
        text = "\n".join([f"{name!r}:", *(f"  {line}" for line in remarks)])
        warnings.warn(text, GraphshiftWarning, stacklevel=level + 1)
