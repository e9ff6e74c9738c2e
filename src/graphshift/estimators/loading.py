"""Saved models, read back: JSON and safetensors, nothing that could run."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_json, read_tensors
from graphshift.data.tasks import Task
from graphshift.estimators.adaptation import Calibration
from graphshift.estimators.base import FORMAT, Estimator
from graphshift.estimators.ensemble import Ensemble
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
    try:
        model = recorded_estimator(note["settings"], where=f"{folder / 'model.json'}: ")
        task, features = Task(**note["task"]), int(note["features"])
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
    weights, _ = read_tensors(folder / "weights.safetensors")
    try:
        model.take_arrays(weights, features, task)
    except (RuntimeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise GraphshiftError(f"{folder / 'weights.safetensors'}: does not fit model.json: {why}") from None
    model.task_, model.n_features_in_ = task, features
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
    if path.name == "ensemble.json" and not (isinstance(note.get("members"), int) and note["members"] > 0):
        raise GraphshiftError(f"{path}: field `members` is {note.get('members')!r}; expected how many there are.")
    return note
