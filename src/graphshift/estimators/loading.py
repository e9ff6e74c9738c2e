"""Saved models, read back: JSON and safetensors, nothing that could run."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import checked_note, short
from graphshift.core.storage import read_json, read_shapes, read_tensors
from graphshift.data.tasks import Task
from graphshift.datasets.tables.preparation import load_preparation
from graphshift.estimators.adaptation import Calibration
from graphshift.estimators.base import Estimator
from graphshift.estimators.confidence import Confidence
from graphshift.estimators.ensemble import Ensemble
from graphshift.estimators.explored import load_explored
from graphshift.estimators.gnn import GNNEstimator
from graphshift.estimators.held_out import load_held_out
from graphshift.estimators.notes import EnsembleNote, ModelNote
from graphshift.estimators.saving import FORMAT
from graphshift.estimators.settings import recorded_estimator
from graphshift.estimators.source import load_source


def load_model(folder: str | Path, *, backbone: nn.Module | None = None) -> Estimator | Ensemble:
    """Loads what :meth:`Estimator.save`, :meth:`Ensemble.save` or ``graphshift fit`` wrote. Nothing is ever executed.

    Args:
        folder: the model's folder, or that of a run, whose model is in ``model/``.
        backbone: a module of the class that was trained, if the model was trained with a module of your own.
    """
    folder = Path(folder)
    if (folder / "ensemble.json").is_file():
        note = _note(folder / "ensemble.json")
        members = [_load(folder / f"member-{i + 1}" / "model", backbone) for i in range(int(note["members"]))]
        ensemble = Ensemble(members)
        ensemble.confidences_ = _confidences(note, folder / "ensemble.json")
        ensemble.held_out_ = load_held_out(folder, ensemble.task_)
        ensemble.explored_ = load_explored(folder, ensemble.task_)
        ensemble.preparation_ = load_preparation(folder) or ensemble.preparation_
        return ensemble
    of_run = not (folder / "model.json").is_file() and (folder / "model" / "model.json").is_file()
    return _load(folder / "model" if of_run else folder, backbone)


def _load(folder: Path, backbone: nn.Module | None) -> Estimator:
    if not (folder / "model.json").is_file():
        found = "this is a file" if folder.is_file() else "there is no model.json"
        if (folder / "config.json").is_file():
            found = "this run is not finished, so it has no model yet"
        raise GraphshiftError(f"{folder}: {found}; expected the folder of a model or of a finished run.")
    note = _note(folder / "model.json")
    checked_note(ModelNote, note, where=str(folder / "model.json"))
    try:
        model = recorded_estimator(note["settings"], where=f"{folder / 'model.json'}: ")
        task, features = Task(**note["task"]), int(note["features"])
        model.n_edge_features_, model.target_ = int(note.get("edge_features", 0)), note.get("target", ())
        model.best_epoch_, model.best_score_, model.seconds_ = (
            note[n] for n in ("best_epoch", "best_score", "seconds")
        )
        own = note["own_backbone"] if model.uses_backbone else None
        prior = torch.tensor(note.get("prior", []), dtype=torch.float64)
        calibrations = {mode: Calibration.from_json(one) for mode, one in note.get("calibrations", {}).items()}
    except GraphshiftError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise GraphshiftError(f"{folder / 'model.json'}: a field is missing or wrong ({error}): damaged.") from None
    if own is not None and backbone is None:
        raise GraphshiftError(
            f"{folder}: the model was trained with your own module {own!r}; pass one of that class: "
            "load_model(folder, backbone=...)."
        )
    if own is not None:
        model.set_params(backbone=backbone)
    if own is None and isinstance(model, GNNEstimator):
        _check_shapes(folder / "weights.safetensors", model, features, task)
    weights, _ = read_tensors(folder / "weights.safetensors")
    try:
        model.take_arrays(weights, features, task)
    except (RuntimeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise GraphshiftError(f"{folder / 'weights.safetensors'}: does not fit model.json: {why}") from None
    model.task_, model.n_features_in_ = task, features
    model.settings_ = model.settings()
    model.history_, model.prior_, model.calibrations_ = [], prior, calibrations
    model.confidences_ = _confidences(note, folder / "model.json")
    model.rehearsed_ = note.get("rehearsed")
    model.held_out_ = load_held_out(folder, task)
    model.explored_ = load_explored(folder, task)
    if isinstance(model, GNNEstimator):
        model.source_ = load_source(folder, task)
    model.preparation_ = load_preparation(folder)
    return model


def _confidences(note: dict[str, Any], path: Path) -> dict[str, Confidence]:
    """What the validation graphs said; models of earlier versions do not have it."""
    try:
        return {mode: Confidence.from_json(one) for mode, one in note.get("confidences", {}).items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise GraphshiftError(f"{path}: field `confidences` is wrong ({error}): damaged.") from None


def _note(path: Path) -> dict[str, Any]:
    """A model's or an ensemble's description, of a format that this version reads."""
    note = read_json(path)
    if not isinstance(note, dict) or not isinstance(note.get("format"), int):
        raise GraphshiftError(f"{path}: field `format` is missing; this is not a graphshift model.")
    if note["format"] > FORMAT:
        raise GraphshiftError(
            f"{path}: field `format` is {note['format']} and graphshift {__version__} reads up to {FORMAT}; the model "
            f"was written by version {note.get('graphshift')}: upgrade graphshift."
        )
    if path.name == "ensemble.json":
        checked_note(EnsembleNote, note, where=str(path))
    return note


def _check_shapes(path: Path, model: GNNEstimator, features: int, task: Task) -> None:
    """Refuses weights of other shapes than the note's before any memory is taken: a note can claim any size."""
    with torch.device("meta"):
        network = model.new_backbone(features, task, model.n_edge_features_)
        expected = {name: tuple(t.shape) for name, t in network.state_dict().items()}
    found = {name: shape for name, (_, shape) in read_shapes(path).items()}
    for name in [*expected, *found]:
        if found.get(name) != expected.get(name):
            shapes = [short(list(one[name])) if name in one else "missing" for one in (found, expected)]
            raise GraphshiftError(
                f"{path}: does not fit model.json: {name} is {shapes[0]} there, {shapes[1]} by the note."
            )
