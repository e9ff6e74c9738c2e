"""Models as ONNX or ``torch.export`` files, for programs that have no graphshift."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError
from graphshift.core.extras import require_extra
from graphshift.core.registry import expected_one_of
from graphshift.core.storage import write_bytes, write_json
from graphshift.data.environment import Environment, as_environments
from graphshift.data.tasks import refuse_graph_level
from graphshift.estimators.base import Estimator
from graphshift.estimators.ensemble import Ensemble
from graphshift.estimators.predictor import Graphs, Predictor
from graphshift.graph.edge_list import EdgeList
from graphshift.graph.sparse import Sparse

Format = Literal["onnx", "torch"]

#: How far an exported model may be from ours.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Exported:
    """What :func:`export_model` wrote.

    Attributes:
        path: the model.
        note: what it takes and gives; also in the file ``PATH.json``.
        files: all that was written.
    """

    path: Path
    note: dict[str, Any]
    files: tuple[Path, ...]


class PlainModel(nn.Module):
    """A fitted model from ``x`` and ``edge_index`` to probabilities or values, in operations that exporters know.

    Probabilities are calibrated if the model is; values are in the user's unit if it was fitted on tables.

    Args:
        model: a fitted estimator, or an ensemble.
    """

    def __init__(self, model: Predictor) -> None:
        super().__init__()
        members = model.members if isinstance(model, Ensemble) else [cast(Estimator, model)]
        self.members = nn.ModuleList(member.module() for member in members)
        self.task, self.confidence = model.task_, model.confidences_.get("")
        label = None if model.preparation_ is None or self.task.is_classification else model.preparation_.label
        self.scale, self.mean = (1.0, 0.0) if label is None else (label.scale, label.mean)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Probabilities ``[nodes, classes]`` or values ``[nodes]``, float32.

        Args:
            x: ``[nodes, features]``, float32.
            edge_index: sources above targets, ``[2, edges]``, int64; each edge once, an undirected one both ways.
            edge_weight: ``[edges]``, float32; None for ones.
        """
        graph = EdgeList(edge_index, x.shape[0], edge_weight)
        outputs = [member(x, graph) for member in self.members]
        output = outputs[0]
        if len(outputs) > 1:
            mean = torch.stack([self.task.probabilities(one) for one in outputs]).mean(dim=0)
            output = self.task.output_of(mean) if self.task.is_classification else mean.unsqueeze(1)
        if self.confidence is not None:
            output = self.confidence.scaled(output, self.task)
        return (self.task.probabilities(output) * self.scale + self.mean).float()


def export_model(
    model: Predictor,
    path: str | Path,
    graphs: Graphs,
    *,
    format: Format = "onnx",
    tolerance: float = TOLERANCE,
    force: bool = False,
) -> Exported:
    """Writes a model for programs that have no graphshift, if it predicts there what it predicts here.

    The file takes graphs of any number of nodes and edges. Beside it are ``PATH.json``, which says what it takes and
    gives, and ``PATH.preparation.json``, if the model was fitted on tables
    (:func:`graphshift.datasets.tables.preparation.read_preparation`).

    Args:
        model: a fitted estimator, or an ensemble. Not those that spread labels of the graph, as label
            propagation does, nor those with places in the graph as columns, nor models of edge features.
        path: the file to write; for torch its name ends in ``.pt2``.
        graphs: that the two are compared on, with weights on edges if the model is to take them. Labels are not used.
        format: ``"onnx"`` for ONNX Runtime, or ``"torch"`` for ``torch.export.load``.
        tolerance: the largest difference of a probability; of values, in units of their size where it is above 1.
        force: replace what is there.
    """
    path = Path(path)
    if format not in get_args(Format):
        raise GraphshiftError(f"format is {format!r}; {expected_one_of(format, list(get_args(Format)))}")
    if format == "torch" and path.suffix != ".pt2":
        name = path.with_suffix(".pt2").name
        raise GraphshiftError(f"{path}: torch.export.load wants a name that ends in .pt2, as {name}.")
    model._check_fitted()
    refuse_graph_level(model.task_, "exporting to ONNX or torch.export")
    plain = PlainModel(model).eval()
    environments = [e.to(torch.device("cpu")) for e in as_environments(graphs, model.task_, labelled=False)]
    if not environments:
        raise GraphshiftError("export: there is no graph to compare on; give at least one.")
    for environment in environments:
        model._check_width(environment)
    files = files_of(path, model)
    taken = [str(one) for one in files if one.exists()]
    if taken and not force:
        raise GraphshiftError(
            f"{', '.join(taken)}: exists; nothing was changed. Replace it (force), or choose another."
        )
    if format == "onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            require_extra(package, "exporting to ONNX")
    first = environments[0]
    content = _exported(plain, first, format)
    run = _runner(content, format)
    checked: dict[str, Any] = {}
    for environment in [*environments, _half(first)]:
        ours = _ours(model, environment)
        difference = _difference(run(_inputs(environment, weighted=first.graph.weight is not None)), ours)
        if not difference <= tolerance:
            raise GraphshiftError(
                f"export: on environment {environment.name!r} the exported model is {difference:.2g} off ours, "
                f"and {tolerance:.2g} is allowed; nothing was written. Sums over many large numbers are rounded in "
                "another order: scale the features, or allow more (tolerance)."
            )
        size = {"nodes": environment.num_nodes, "edges": environment.graph.num_edges}
        checked[environment.name] = size | {"difference": difference}
    note = _note(model, format, weighted=first.graph.weight is not None) | {"checked": checked}
    if model.preparation_ is not None:
        model.preparation_.write(files[2])
        note["preparation"] = files[2].name
    write_json(files[1], note)
    write_bytes(path, content)
    return Exported(path, note, files)


def files_of(path: Path, model: Predictor) -> tuple[Path, ...]:
    """All that an export writes: the model, the note, and the preparation of tables if there is one."""
    beside = [".json"] + ([".preparation.json"] if model.preparation_ is not None else [])
    return (path, *(path.with_name(path.name + ending) for ending in beside))


def _half(environment: Environment) -> Environment:
    """The first half of the nodes: a graph of another size, since a file for one size alone would pass on one graph."""
    nodes = max(environment.num_nodes // 2, 1)
    graph, x = environment.graph, environment.x
    kept = (graph.edge_index < nodes).all(dim=0)
    weight = None if graph.weight is None else graph.weight[kept]
    part = type(graph).from_edge_index(graph.edge_index[:, kept], nodes, weight)
    rows = (x.to_dense() if isinstance(x, Sparse) else x)[:nodes]
    name = f"{environment.name}, first half"
    return environment.replace(name=name, x=rows, graph=part, mask=environment.mask[:nodes], y=None)


def _inputs(environment: Environment, *, weighted: bool) -> dict[str, Tensor]:
    """What an exported model takes, by name."""
    x, graph = environment.x, environment.graph
    found = {"x": x.to_dense() if isinstance(x, Sparse) else x, "edge_index": graph.edge_index.contiguous()}
    if weighted:
        found["edge_weight"] = torch.ones(graph.num_edges) if graph.weight is None else graph.weight
    elif graph.weight is not None:
        raise GraphshiftError(
            f"export: environment {environment.name!r} has weights on edges and the first one has none; give a "
            "weighted graph first, so that the exported model takes weights."
        )
    return found


def _exported(plain: PlainModel, environment: Environment, format: Format) -> bytes:
    inputs = _inputs(environment, weighted=environment.graph.weight is not None)
    nodes, edges = torch.export.Dim("nodes"), torch.export.Dim("edges")
    shapes = {"x": {0: nodes}, "edge_index": {1: edges}, "edge_weight": {0: edges}}
    with torch.no_grad(), _quiet():
        try:
            shape = {name: shapes[name] for name in inputs}
            program = torch.export.export(plain, (), dict(inputs), dynamic_shapes=shape)
            buffer = io.BytesIO()
            if format == "torch":
                torch.export.save(program, buffer)
                return buffer.getvalue()
            output = ["probabilities" if plain.task.is_classification else "values"]
            names: dict[str, Any] = {"input_names": list(inputs), "output_names": output}
            found = cast(Any, torch.onnx.export(program, dynamo=True, verbose=False, external_data=False, **names))
            return bytes(found.model_proto.SerializeToString())
        except Exception as error:  # exporters raise what they like
            why = " ".join(str(error).split())[:300]
            members = ", ".join(sorted({_name_of(member) for member in plain.members}))
            raise GraphshiftError(f"export: {members} cannot be exported to {format}: {why}") from error


def _name_of(member: nn.Module) -> str:
    return type(getattr(member, "module", member)).__name__


def _runner(content: bytes, format: Format) -> Any:
    """Runs an exported model as its users do."""
    if format == "torch":
        module = torch.export.load(io.BytesIO(content)).module()

        def run_torch(inputs: dict[str, Tensor]) -> NDArray[Any]:
            with torch.no_grad():
                return np.asarray(module(**inputs).numpy())

        return run_torch
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})[0]


def _ours(model: Predictor, environment: Environment) -> NDArray[Any]:
    if model.task_.is_classification:
        return np.asarray(model.predict_proba(environment, calibrated=bool(model.confidences_)))
    values = model.predict(environment)
    return values if model.preparation_ is None else model.preparation_.decode(values)


def _difference(theirs: NDArray[Any], ours: NDArray[Any]) -> float:
    """The largest one; NaN, which is not below any tolerance, where either has one."""
    if theirs.shape != ours.shape:
        return float("nan")
    return float(np.max(np.abs(theirs - ours) / np.maximum(1.0, np.abs(ours)), initial=0.0))


def _note(model: Predictor, format: Format, *, weighted: bool) -> dict[str, Any]:
    inputs = {"x": ["float32", "nodes", model.n_features_in_], "edge_index": ["int64", 2, "edges"]}
    inputs |= {"edge_weight": ["float32", "edges"]} if weighted else {}
    found: dict[str, Any] = {"graphshift": __version__, "format": format, "task": model.task_.kind, "inputs": inputs}
    if model.task_.is_classification:
        output: list[Any] = ["float32", "nodes", model.task_.num_classes]
        found |= {"outputs": {"probabilities": output}, "calibrated": "" in model.confidences_}
        return found | {"classes": [one if isinstance(one, int | str) else str(one) for one in model.classes_]}
    return found | {"outputs": {"values": ["float32", "nodes"]}}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters tell of packages that they could use, and print to whatever is there."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
