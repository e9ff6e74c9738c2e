"""What a request may say, and the graph that it means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import torch
from pydantic import BaseModel, Field
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.estimators.predictor import Predictor
from graphshift.graph.sparse import Sparse

Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Cell = str | bool | Whole | float | None
Id = str | int


class Body(BaseModel, extra="forbid", allow_inf_nan=False):
    """A graph, and how to predict it.

    Rows of tables have the columns of the training tables. A model that was fitted on graphs takes
    ``{"id": ..., "x": [...]}`` for a node, and ``{"source": ..., "target": ..., "weight": ...}`` for an edge.
    """

    nodes: list[dict[str, Cell | list[float]]] = Field(description="one object for each node, a row of the node table")
    edges: list[dict[str, Cell]] = Field(default=[], description="one object for each edge, a row of the edge table")
    unknown_ids: str = Field(default="error", description="'drop' leaves out edges whose ends are not among the nodes")
    adapt: str | None = Field(default=None, description="'norm', 'prior' or 'norm+prior'")
    threshold: float | str | None = Field(default=None, description="of class 1: a probability, 'auto', 'recall=0.9'")
    calibrated: bool | Literal["target"] | None = Field(
        default=None, description="calibrated probabilities, where possible by default; 'target': to this graph"
    )
    abstain: float | None = Field(
        default=None, description="add answer, p_right and reason, so that this share of answers is wrong at most"
    )
    coverage: float | None = Field(
        default=None, description="add a set of classes, or an interval, that has the truth with this probability"
    )
    weights: str = Field(default="auto", description="of coverage: what may have shifted, as 'moved' or 'none'")
    shift: bool = Field(default=False, description="say whether the graph is unlike those of validation")

    def how(self) -> dict[str, Any]:
        """The arguments of :meth:`Predictor.predict_frame`."""
        return {"adapt": self.adapt, "threshold": self.threshold, "calibrated": self.calibrated} | {
            "abstain": self.abstain
        }


class Changes(Body):
    """Nodes that changed, or are new, in the graph that the service was started with; nothing is kept.

    ``nodes`` replace those of the same id; ``edges`` are added to those that are there.
    """

    every_node: bool = Field(default=False, description="predictions of all nodes, not of those alone that were sent")


class Rows:
    """A model that was fitted on tables: bodies become frames, which its preparation reads.

    Args:
        model: with a preparation.
        base: the node and the edge table that changes are applied to; None if there are none.
    """

    def __init__(self, model: Predictor, base: tuple[pd.DataFrame, pd.DataFrame] | None = None) -> None:
        assert model.preparation_ is not None
        self.model, self.base, self.layout = model, base, model.preparation_.layout

    @property
    def size(self) -> tuple[int, int]:
        """Nodes and edges of the base."""
        return (0, 0) if self.base is None else (len(self.base[0]), len(self.base[1]))

    def graph(self, body: Body) -> Environment:
        """The graph of a body."""
        nodes, edges = self._frames(body)
        return self.model.prepare(nodes, edges, name="request", unknown_ids=body.unknown_ids)

    def changed(self, body: Changes) -> tuple[Environment, list[bool]]:
        """The base with the changes, and which nodes were sent."""
        assert self.base is not None
        nodes, edges = self._frames(body)
        key = self.layout.id
        ids = pd.Index(nodes[key].astype(str))
        if ids.has_duplicates:
            raise GraphshiftError(f"nodes: id {ids[ids.duplicated()][0]!r} is there twice.")
        old, old_edges = self.base
        kept = old[~old[key].astype(str).isin(ids)]
        joined = pd.concat([kept, nodes], ignore_index=True)
        ends = [self.layout.source, self.layout.target]
        both = pd.concat([old_edges, edges], ignore_index=True).drop_duplicates(ends, keep="last")
        joined[key], both[ends] = joined[key].astype(str), both[ends].astype(str)
        environment = self.model.prepare(joined, both, name="request", unknown_ids=body.unknown_ids)
        assert environment.ids is not None
        return environment, pd.Index(environment.ids).astype(str).isin(ids).tolist()

    def _frames(self, body: Body) -> tuple[pd.DataFrame, pd.DataFrame]:
        for i, row in enumerate(body.nodes):
            if wrong := next((name for name, cell in row.items() if isinstance(cell, list)), None):
                raise GraphshiftError(f"nodes[{i}].{wrong}: a list; expected a cell of the table.")
        layout = self.layout
        edges = pd.DataFrame(body.edges) if body.edges else pd.DataFrame({layout.source: [], layout.target: []})
        nodes = pd.DataFrame(body.nodes) if body.nodes else pd.DataFrame({layout.id: []})
        if layout.id not in nodes.columns:
            raise GraphshiftError(f"nodes: there is no field {layout.id!r}, the id of a node.")
        return nodes, edges


class Features:
    """A model that was fitted on graphs: a node is an id and its features.

    Args:
        model: without a preparation.
        base: the graph that changes are applied to; None if there is none.
    """

    def __init__(self, model: Predictor, base: Environment | None = None) -> None:
        self.model, self.base = model, base

    @property
    def size(self) -> tuple[int, int]:
        """Nodes and edges of the base."""
        return (0, 0) if self.base is None else (self.base.num_nodes, self.base.graph.num_edges)

    def graph(self, body: Body) -> Environment:
        """The graph of a body."""
        x = self._features(body.nodes)
        ids = [self._id(i, row) for i, row in enumerate(body.nodes)]
        edge_index, weight = self._edges(body, _places(ids))
        return self._environment(x, edge_index, weight, ids)

    def changed(self, body: Changes) -> tuple[Environment, list[bool]]:
        """The base with the changes, and which nodes were sent."""
        base = self.base
        assert base is not None
        sent = [self._id(i, row) for i, row in enumerate(body.nodes)]
        ids: list[Id] = list(range(base.num_nodes)) if base.ids is None else base.ids.tolist()
        known = {str(one): i for i, one in enumerate(ids)}
        new = [one for one in sent if str(one) not in known]
        places = _places(sent) | _places([*ids, *new])
        old = base.x.to_dense() if isinstance(base.x, Sparse) else base.x
        x = torch.cat([old.cpu(), torch.zeros(len(new), old.shape[1])])
        if sent:
            x[[places[str(one)] for one in sent]] = self._features(body.nodes)
        edge_index, weight = self._edges(body, places)
        graph = base.graph
        known_edges = torch.cat([graph.edge_index.cpu(), edge_index], dim=1)
        if graph.weight is not None or weight is not None:
            ones = torch.ones(graph.num_edges) if graph.weight is None else graph.weight.cpu()
            weight = torch.cat([ones, torch.ones(edge_index.shape[1]) if weight is None else weight])
        # An edge that is sent again has the weight that was sent: of equals the last is kept.
        key = (known_edges[0] * len(x) + known_edges[1]).numpy()
        last = torch.from_numpy(len(key) - 1 - np.unique(key[::-1], return_index=True)[1])
        kept = known_edges[:, last], None if weight is None else weight[last]
        wanted = {places[str(one)] for one in sent}
        return self._environment(x, *kept, [*ids, *new]), [i in wanted for i in range(len(x))]

    def _features(self, rows: Sequence[dict[str, Any]]) -> Tensor:
        width = self.model.n_features_in_
        for i, row in enumerate(rows):
            if not isinstance(row.get("x"), list) or len(row["x"]) != width:
                found = f"{len(row['x'])} numbers" if isinstance(row.get("x"), list) else repr(row.get("x"))[:50]
                raise GraphshiftError(f"nodes[{i}].x: {found}; expected a list of {width} numbers.")
            if extra := sorted(row.keys() - {"id", "x"}):
                raise GraphshiftError(f"nodes[{i}]: field {extra[0]!r} is not known; expected id and x.")
        return torch.tensor([row["x"] for row in rows], dtype=torch.float32).view(len(rows), width)

    def _id(self, place: int, row: dict[str, Any]) -> Id:
        found = row.get("id")
        if isinstance(found, bool) or not isinstance(found, str | int):
            raise GraphshiftError(f"nodes[{place}].id: {repr(found)[:50]}; expected a text or a whole number.")
        return found

    def _edges(self, body: Body, places: dict[str, int]) -> tuple[Tensor, Tensor | None]:
        if body.unknown_ids not in ("error", "drop"):
            raise GraphshiftError(f"unknown_ids is {body.unknown_ids[:50]!r}; expected 'error' or 'drop'.")
        ends: list[tuple[int, int]] = []
        weights: list[float] = []
        for i, edge in enumerate(body.edges):
            if extra := sorted(edge.keys() - {"source", "target", "weight"}):
                raise GraphshiftError(f"edges[{i}]: field {extra[0]!r} is not known; expected source, target, weight.")
            pair = [places.get(str(edge.get(name))) for name in ("source", "target")]
            if pair[0] is None or pair[1] is None:
                if body.unknown_ids == "drop":
                    continue
                name = "source" if pair[0] is None else "target"
                raise GraphshiftError(f"edges[{i}].{name}: {repr(edge.get(name))[:50]} is not the id of a node.")
            weight = edge.get("weight", 1.0)
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight > 0:
                raise GraphshiftError(f"edges[{i}].weight: {repr(weight)[:50]}; expected a positive number.")
            ends.append((pair[0], pair[1]))
            weights.append(float(weight))
        edge_index = torch.tensor(ends, dtype=torch.int64).view(-1, 2).t().contiguous()
        weighted = any("weight" in edge for edge in body.edges)
        return edge_index, torch.tensor(weights, dtype=torch.float32) if weighted else None

    def _environment(self, x: Tensor, edge_index: Tensor, weight: Tensor | None, ids: Sequence[Id]) -> Environment:
        data = Data(x=x, edge_index=edge_index, num_nodes=len(x))
        if weight is not None:
            data.edge_weight = weight
        frame = pd.Series(list(ids), dtype=object)
        return Environment("request", data, self.model.task_).replace(ids=frame.to_numpy())


def _places(ids: Sequence[Id]) -> dict[str, int]:
    places: dict[str, int] = {}
    for i, one in enumerate(ids):
        if places.setdefault(str(one), i) != i:
            raise GraphshiftError(f"nodes: id {str(one)[:50]!r} is there twice.")
    return places
