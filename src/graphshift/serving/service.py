"""What the paths of the service do, without HTTP."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.data.environment import Environment
from graphshift.data.tasks import refuse_graph_level
from graphshift.estimators import Estimator
from graphshift.estimators.predictor import Predictor
from graphshift.estimators.sets import PredictionSets
from graphshift.serving.bodies import Body, Changes, Features, Rows
from graphshift.serving.limits import Limits
from graphshift.shift.calibrating import Calibrator, moved_copies_help

_SAME = 0.1  # of the nodes and of the edges may change, and the graph counts as the one that the service holds

#: What sets, answers and probabilities that are calibrated to a graph stand on, as an answer says it.
COPIES = {"this": "moved to this graph", "base": "moved to the graph of the service", "none": "in all directions"}


class Refused(Exception):
    """A request that is not answered: the HTTP status, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Service:
    """Answers requests: JSON in, JSON out.

    Args:
        model: that predicts.
        base: the graph that changes are applied to: tables of nodes and edges for a model that was fitted on tables,
            else an environment; None for no such path.
        limits: on the size of graphs.
        calibrator: of the model; None if there are no validation graphs to move.
    """

    def __init__(
        self,
        model: Predictor,
        base: tuple[pd.DataFrame, pd.DataFrame] | Environment | None = None,
        limits: Limits | None = None,
        calibrator: Calibrator[Predictor] | None = None,
    ) -> None:
        refuse_graph_level(model.task_, "the HTTP service")
        self.model, self.limits = model, limits or Limits()
        tables = model.preparation_ is not None
        if base is not None and tables == isinstance(base, Environment):
            needed = "a table of nodes and a table of edges" if tables else "a dataset and the name of an environment"
            raise GraphshiftError(f"the model was fitted on {'tables' if tables else 'graphs'}: the graph is {needed}.")
        self.source: Rows | Features
        if tables:
            self.source = Rows(model, None if isinstance(base, Environment) else base)
        else:
            self.source = Features(model, base if isinstance(base, Environment) else None)
        self.calibrator, self.on_base = calibrator, model
        if calibrator is not None and base is not None:  # once, for all requests that change little
            self.on_base = calibrator.to(self.source.changed(Changes(nodes=[]))[0])

    def about(self) -> dict[str, Any]:
        """What the model is and takes."""
        model, task = self.model, self.model.task_
        found: dict[str, Any] = {"version": __version__, "task": task.kind, "calibrated": bool(model.confidences_)}
        found["classes"] = [_plain(one) for one in model.classes_] if task.is_classification else None
        if isinstance(model, Estimator):
            found |= {"method": model.method, "settings": json.loads(json.dumps(model.settings_, default=str))}
        if model.preparation_ is not None:
            layout = model.preparation_.layout
            found |= {"id": layout.id, "source": layout.source, "target": layout.target}
            found["features"] = model.preparation_.feature_names[:1000]
        else:
            found["features"] = model.n_features_in_
        base = {"nodes": self.source.size[0], "edges": self.source.size[1]} if self.source.base is not None else None
        limits = {name: getattr(self.limits, name) for name in ("bytes", "nodes", "edges", "seconds", "waiting")}
        copies = COPIES["none" if self.calibrator is None else "this" if base is None else "base"]
        return found | {"graph": base, "limits": limits, "copies": copies}

    def predict(self, content: bytes) -> bytes:
        """The predictions of a graph."""
        body = Body.model_validate_json(content)
        self._check_size(len(body.nodes), len(body.edges))
        return self._answer(lambda: (self.source.graph(body), None), body)

    def predict_changed(self, content: bytes) -> bytes:
        """The predictions of nodes that changed in the base."""
        if self.source.base is None:
            raise Refused(404, "the service was started without a graph; POST whole graphs to /predict.")
        body = Changes.model_validate_json(content)
        nodes, edges = self.source.size
        self._check_size(len(body.nodes) + nodes, len(body.edges) + edges)

        def graph() -> tuple[Environment, Sequence[bool] | None]:
            environment, sent = self.source.changed(body)
            return environment, None if body.every_node else sent

        return self._answer(graph, body)

    def example(self) -> dict[str, Any]:
        """A body with two nodes, for the page."""
        if self.model.preparation_ is not None:
            layout = self.model.preparation_.layout
            nodes = [{layout.id: one, "COLUMN": "…"} for one in ("a", "b")]
            return {"nodes": nodes, "edges": [{layout.source: "a", layout.target: "b"}]}
        x = [0.0] * min(self.model.n_features_in_, 3) + (["…"] if self.model.n_features_in_ > 3 else [])
        return {"nodes": [{"id": one, "x": x} for one in ("a", "b")], "edges": [{"source": "a", "target": "b"}]}

    def _check_size(self, nodes: int, edges: int) -> None:
        for what, found, most in (("nodes", nodes, self.limits.nodes), ("edges", edges, self.limits.edges)):
            if found > most:
                raise Refused(413, f"the graph has {found:,} {what}; at most {most:,} are allowed.")
        if not nodes:
            raise GraphshiftError("nodes: is empty; expected at least one.")

    def _answer(self, graph: Callable[[], tuple[Environment, Sequence[bool] | None]], body: Body) -> bytes:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", GraphshiftWarning)
            environment, wanted = graph()
            model, told = self._calibrated(environment, body)
            records = _records(model.predict_frame(environment, **body.how()))
            if body.coverage is not None:
                self._add_sets(model, records, environment, body)
            told |= self._moved(environment) if body.shift else {}
        records = records if wanted is None else [one for one, asked in zip(records, wanted, strict=True) if asked]
        notes = [str(one.message) for one in warned if issubclass(one.category, GraphshiftWarning)]
        answer = {"predictions": records, "notes": notes, **told}
        return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()

    def _calibrated(self, environment: Environment, body: Body) -> tuple[Predictor, dict[str, Any]]:
        """The model that answers, and which copies what it promises stands on, if it promises something."""
        weights = None if body.coverage is None else body.weights
        asked: dict[str, Any] = {"adapt": body.adapt, "calibrated": body.calibrated, "abstain": body.abstain}
        if not moved_copies_help(self.model, **asked, weights=weights):
            return self.model, {}
        if self.calibrator is None:
            return self.model, {"copies": COPIES["none"]}
        nodes, edges = self.source.size
        few = len(body.nodes) <= _SAME * nodes and len(body.edges) <= _SAME * edges
        if isinstance(body, Changes) and few:
            return self.on_base, {"copies": COPIES["base"]}
        return self.calibrator.to(environment), {"copies": COPIES["this"]}

    def _add_sets(self, model: Predictor, records: list[dict[str, Any]], environment: Environment, body: Body) -> None:
        """Adds ``set``, the names of classes, or ``interval`` in the user's unit."""
        assert body.coverage is not None
        found = model.predict_set(environment, body.coverage, weights=body.weights, adapt=body.adapt)
        assert isinstance(found, PredictionSets)  # of one graph
        if found.members is not None:
            names = [_plain(one) for one in self.model.classes_]
            for record, row in zip(records, found.members, strict=True):
                record["set"] = [name for name, there in zip(names, row, strict=True) if there]
            return
        assert found.intervals is not None
        preparation = self.model.preparation_
        ends = [one if preparation is None else preparation.decode(one) for one in found.intervals.T]
        for record, low, high in zip(records, *(one.tolist() for one in ends), strict=True):
            record["interval"] = [_plain(low), _plain(high)]

    def _moved(self, environment: Environment) -> dict[str, Any]:
        """The shift flag."""
        ((_, signals),) = self.model.signals([environment]).items()
        found = self.model.outlook(environment, signals)
        return {"shift": {"moved": found.moved, "like_validation": found.held_out, "refused": found.unlike}}


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of predictions; probabilities by class, whatever else the table has by its name."""
    ids, rest = table["id"].tolist(), [name for name in table.columns if name not in ("id", "environment")]
    columns = {name: table[name].tolist() for name in rest}
    chances = {name[2:-1]: columns.pop(name) for name in rest if name.startswith("p(") and name.endswith(")")}
    records = []
    for i, one in enumerate(ids):
        record = {"id": _plain(one)} | {name: _plain(values[i]) for name, values in columns.items()}
        if chances:
            record["probabilities"] = {name: _plain(values[i]) for name, values in chances.items()}
        records.append(record)
    return records


def _plain(value: Any) -> Any:
    """As JSON has it; what is not finite is refused."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        raise GraphshiftError("a prediction is NaN or infinite; the features are far larger than those of training.")
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)
