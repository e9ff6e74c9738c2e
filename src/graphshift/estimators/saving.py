"""An estimator as a folder: ``model.json``, ``weights.safetensors``, and what predictions and sets need."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from sklearn.utils.validation import check_is_fitted

from graphshift._version import __version__
from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import write_json, write_tensors
from graphshift.datasets.tables.preparation import save_preparation
from graphshift.estimators.explored import save_explored
from graphshift.estimators.held_out import save_held_out
from graphshift.estimators.source import save_source

if TYPE_CHECKING:
    from graphshift.estimators.base import Estimator

#: Of the files that an estimator is saved in; a newer one is refused.
FORMAT = 2


def save_estimator(model: Estimator, folder: str | Path, *, overwrite: bool = False) -> None:
    """Writes the folder; see :meth:`Estimator.save`."""
    check_is_fitted(model, "task_")
    folder = Path(folder)
    refuse_occupied(folder, overwrite=overwrite)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ensemble.json").unlink(missing_ok=True)  # which would be read instead
    except OSError as error:
        raise GraphshiftError(f"{folder}: cannot be made: {error.strerror}.") from None
    write_tensors(folder / "weights.safetensors", model.arrays())
    note = {"format": FORMAT, "graphshift": __version__, "settings": model.settings_, **model._note()}
    note |= {"task": dataclasses.asdict(model.task_), "features": model.n_features_in_}
    note |= {"edge_features": model.n_edge_features_} if model.n_edge_features_ else {}
    note |= {"target": list(model.target_)} if model.target_ else {}
    note |= {"best_epoch": model.best_epoch_, "best_score": model.best_score_, "seconds": model.seconds_}
    calibrations = {mode: found.to_json() for mode, found in model.calibrations_.items()}
    confidences = {mode: found.to_json() for mode, found in model.confidences_.items()}
    note |= {"prior": model.prior_.tolist(), "calibrations": calibrations, "confidences": confidences}
    note |= {"rehearsed": model.rehearsed_} if model.rehearsed_ is not None else {}
    write_json(folder / "model.json", note)
    save_held_out(folder, model.held_out_)
    save_explored(folder, model.explored_)
    save_source(folder, getattr(model, "source_", None))
    save_preparation(folder, model.preparation_, overwrite=overwrite)


def refuse_occupied(folder: Path, *, overwrite: bool) -> None:
    """A model or an ensemble that is there stays, unless it is to be overwritten."""
    for name, what in (("model.json", "a model"), ("ensemble.json", "an ensemble")):
        if (folder / name).exists() and not overwrite:
            raise GraphshiftError(f"{folder}: holds {what} already; choose another folder or pass overwrite=True.")
