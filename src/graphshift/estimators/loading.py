"""Saved models, read back: JSON and safetensors, nothing that could run."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphshift._version import __version__
from graphshift.core.devices import is_available, torch_device
from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import checked_note, short
from graphshift.core.storage import read_json, read_shapes, read_tensors
from graphshift.data.tasks import Task
from graphshift.estimators.adaptation import Calibration
from graphshift.estimators.base import FORMAT, Estimator
from graphshift.estimators.ensemble import Ensemble
from graphshift.estimators.notes import EnsembleNote, ModelNote
from graphshift.estimators.settings import recorded_estimator


def load_model(folder: str | Path, *, backbone: nn.Module | None = None) -> Estimator | Ensemble:
    """Loads what :meth:`Estimator.save` or :meth:`Ensemble.save` wrote. Nothing in the folder is ever executed.

    Args:
        folder: the model's folder.
        backbone: a module of the class that was trained, if the model was trained with a module of your own.
    """
    folder = Path(folder)
    if (folder / "ensemble.json").is_file():
        note = _note(folder / "ensemble.json")
        return Ensemble([_load(folder / f"member-{i + 1}" / "model", backbone) for i in range(int(note["members"]))])
    return _load(folder, backbone)


def _load(folder: Path, backbone: nn.Module | None) -> Estimator:
    if not (folder / "model.json").is_file():
        found = "this is a file" if folder.is_file() else "there is no model.json"
        raise GraphshiftError(f"{folder}: {found}; expected a folder that a model was saved in.")
    note = _note(folder / "model.json")
    checked_note(ModelNote, note, where=str(folder / "model.json"))
    try:
        model = recorded_estimator(note["settings"], where=f"{folder / 'model.json'}: ")
        task, features = Task(**note["task"]), int(note["features"])
        model.best_epoch_, model.best_score_, model.seconds_ = (
            note[n] for n in ("best_epoch", "best_score", "seconds")
        )
        own = note["own_backbone"]
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
    device = torch_device(model.device if is_available(model.device) else "cpu")
    if own is None:
        _check_shapes(folder / "weights.safetensors", model, features, task)
    weights, _ = read_tensors(folder / "weights.safetensors")
    try:
        network = model.new_backbone(features, task)
        network.load_state_dict(weights)
    except RuntimeError as error:
        why = " ".join(str(error).split())
        raise GraphshiftError(f"{folder / 'weights.safetensors'}: does not fit model.json: {why}") from None
    model.backbone_, model.task_, model.n_features_in_ = network.to(device).eval(), task, features
    model.settings_ = model.settings()
    model.history_, model.prior_, model.calibrations_ = [], prior, calibrations
    return model


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


def _check_shapes(path: Path, model: Estimator, features: int, task: Task) -> None:
    """Refuses weights of other shapes than the note's before any memory is taken: a note can claim any size."""
    with torch.device("meta"):
        expected = {name: tuple(t.shape) for name, t in model.new_backbone(features, task).state_dict().items()}
    found = {name: shape for name, (_, shape) in read_shapes(path).items()}
    for name in [*expected, *found]:
        if found.get(name) != expected.get(name):
            shapes = [short(list(one[name])) if name in one else "missing" for one in (found, expected)]
            raise GraphshiftError(f"{path}: does not fit model.json: {name} is {shapes[0]} there, {shapes[1]} by the note.")
