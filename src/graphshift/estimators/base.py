"""What all estimators share: ``fit``, ``predict``, ``predict_proba``, ``score``, ``save``, as in scikit-learn."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from graphshift._version import __version__
from graphshift.backbones import Backbone, make_backbone
from graphshift.backbones.batchnorm import batch_norms, own_statistics
from graphshift.core.devices import torch_device
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.progress import progress_bar
from graphshift.core.randomness import isolated
from graphshift.core.storage import write_json, write_tensors
from graphshift.data.environment import Environment, as_environments, check_together
from graphshift.data.tasks import Task
from graphshift.estimators.adaptation import Calibration, calibrated_to, parts_of, reweighted
from graphshift.estimators.predictor import Graphs, Predictor
from graphshift.estimators.settings import Settings, validated
from graphshift.methods import Method
from graphshift.training.loop import Choice, Run
from graphshift.training.loop import train as run_training
from graphshift.training.selection import further_rules, selection_environments

#: Of the files that a model is saved in; a newer one is refused.
FORMAT = 1


class Model(Predictor, BaseEstimator):
    """What all estimators share. See :class:`ERM` for the settings.

    Attributes:
        backbone_: the trained GNN, with the weights of the selected epoch.
        task_: what it predicts.
        best_epoch_, best_score_: what selection chose, and its score.
        history_: one dict of numbers for each epoch.
        seconds_: spent in training and validation.
        also_: what further rules chose in the same training, by name.
        prior_: shares of the classes in training; empty in regression.
        calibrations_: what ``adapt="prior"`` needs; see :meth:`calibrate`.
    """

    _method: str
    backbone: str | nn.Module

    backbone_: Backbone
    task_: Task
    n_features_in_: int
    best_epoch_: int
    best_score_: float | None
    history_: list[dict[str, Any]]
    seconds_: float
    also_: dict[str, Choice]
    prior_: Tensor
    calibrations_: dict[str, Calibration]

    def fit(
        self,
        train: Graphs,
        val: Graphs = (),
        tests: Graphs = (),
        *,
        run: Run | None = None,
        progress: bool = False,
        also: Iterable[str] = (),
    ) -> Self:
        """Trains on environments and keeps the epoch that the selection rule chooses.

        Args:
            train: one training graph or several: :class:`~graphshift.data.environment.Environment` or PyG ``Data``.
            val: validation graphs, for selection ``"val"``.
            tests: test graphs, for selection ``"oracle"`` only; every other rule never looks at them.
            run: where to keep history and checkpoints; a checkpoint that is there is resumed.
            progress: show a progress bar.
            also: further rules, ``"val"``, ``"explored"`` or ``"oracle"``, whose epochs of this training are kept in
                ``also_``.
        """
        settings = self._settings()
        device = torch_device(settings.device)
        if torch.get_default_dtype() != torch.float32:
            raise GraphshiftError(
                f"torch's default dtype is {torch.get_default_dtype()}; graphshift computes in float32: call "
                "torch.set_default_dtype(torch.float32) first."
            )
        training = as_environments(train, name="train")
        if not training:
            raise GraphshiftError("train: there is no training environment; at least one is needed.")
        task = training[0].task
        validation, testing = as_environments(val, task, "val"), as_environments(tests, task, "test")
        check_together(training, [*validation, *testing], where="fit")
        others = further_rules(also, training, validation, testing, device)
        training, select_by = selection_environments(settings.selection, training, validation, testing, settings.seed)
        training, select_by = [e.to(device) for e in training], [e.to(device) for e in select_by]
        with isolated(settings.seed, device):
            backbone = new_backbone(self.backbone, settings, training[0].num_features, task).to(device)
            method = self.make_method(backbone, settings)
            identity = settings.model_dump()
            if run is not None:  # a run of other settings or other data must not be resumed
                identity["data"] = [environment.fingerprint() for environment in (*training, *select_by)]
                identity |= {"also": list(others)} if others else {}
            with progress_bar(self._method.upper(), settings.epochs, enabled=progress) as report:
                result = run_training(
                    method,
                    training,
                    select_by,
                    epochs=settings.epochs,
                    patience=settings.patience,
                    run=run,
                    report=report,
                    settings=identity,
                    also=others,
                    explored=settings.selection == "explored",
                )
        backbone.load_state_dict(result.weights)
        self.backbone_, self.task_, self.n_features_in_ = backbone.eval(), task, training[0].num_features
        self.best_epoch_, self.best_score_ = result.best_epoch, result.best_score
        self.history_, self.seconds_, self.also_ = result.history, result.seconds, result.also
        self.prior_ = _shares(training, task)
        self.calibrate(validation or (select_by if settings.selection == "id_val" else ()))
        return self

    def calibrate(self, graphs: Graphs) -> None:
        """Fits a temperature to labelled graphs that the model was not trained on: ``adapt="prior"`` needs it.

        ``fit`` does this on the validation graphs, or on the training nodes that were held out.
        """
        check_is_fitted(self, "backbone_")
        environments = as_environments(graphs, self.task_) if self.task_.is_classification else []
        self.calibrations_ = {}
        modes = ["", *(["norm"] if batch_norms(self.backbone_) else [])]
        for mode in modes if environments else ():
            scores, labels = [], []
            for environment in environments:
                self._check_width(environment)
                output = self._output(environment.to(self._device()), parts_of(mode or None))
                scores.append(self.task_.class_scores(output)[environment.counted.cpu()])
                labels.append(environment.labels.cpu())
            self.calibrations_[mode] = calibrated_to(scores, labels, self.prior_)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Writes ``model.json`` and ``weights.safetensors``: all that :func:`load_model` needs.

        Args:
            folder: made if need be; one that holds a model is left alone unless ``overwrite``.
            overwrite: replace the model that is there.
        """
        check_is_fitted(self, "backbone_")
        folder = Path(folder)
        refuse_occupied(folder, overwrite=overwrite)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "ensemble.json").unlink(missing_ok=True)  # which would be read instead
        except OSError as error:
            raise GraphshiftError(f"{folder}: cannot be made: {error.strerror}.") from None
        write_tensors(folder / "weights.safetensors", self.backbone_.state_dict())
        own = isinstance(self.backbone, nn.Module)
        write_json(
            folder / "model.json",
            {
                "format": FORMAT,
                "graphshift": __version__,
                "settings": self._settings().model_dump(),
                "own_backbone": type(self.backbone).__name__ if own else None,
                "task": {"kind": self.task_.kind, "num_classes": self.task_.num_classes, "metric": self.task_.metric},
                "features": self.n_features_in_,
                "best_epoch": self.best_epoch_,
                "best_score": self.best_score_,
                "seconds": self.seconds_,
                "prior": self.prior_.tolist(),
                "calibrations": {mode: found.to_json() for mode, found in self.calibrations_.items()},
            },
        )

    def _settings(self) -> Settings:
        values = self.get_params(deep=False)
        if isinstance(values["backbone"], nn.Module):
            values["backbone"] = type(values["backbone"]).__name__
        if "explorer" in values and not isinstance(values["explorer"], str):
            values["explorer"] = getattr(values["explorer"], "__name__", "own")
        for name in ("backbone_options", "explorer_options"):
            if name in values and values[name] is None:
                values[name] = {}
        return validated({"method": self._method} | values)

    @abstractmethod
    def make_method(self, backbone: Backbone, settings: Settings) -> Method:
        """The method that trains this backbone; a method of your own overrides it (``examples/own_method.py``)."""

    def _check_fitted(self) -> None:
        check_is_fitted(self, "backbone_")

    def _device(self) -> torch.device:
        return next(self.backbone_.parameters()).device

    def _checked(self, adapt: str | None) -> tuple[str, ...]:
        """The parts of an adaptation, if this model can do them."""
        parts = parts_of(adapt)
        if "prior" in parts and not self.task_.is_classification:
            raise GraphshiftError("adapt is 'prior' and the model predicts values, which have no class prior.")
        if "prior" in parts and not self.calibrations_:
            raise GraphshiftError(
                "adapt is 'prior' and the model is not calibrated: fit it with a validation graph or selection "
                "'id_val', or call model.calibrate(graphs) with labelled graphs."
            )
        return parts

    def _output(self, environment: Environment, parts: Sequence[str]) -> Tensor:
        if "norm" in parts and environment.num_nodes < 2:
            raise GraphshiftError(
                f"environment {environment.name!r} has one node, whose mean and variance say nothing: adapt is 'norm', "
                "which needs at least two."
            )
        with torch.no_grad(), own_statistics(self.backbone_) if "norm" in parts else nullcontext():
            output = self.backbone_(environment.x, environment.graph)
        if "prior" not in parts:
            return output
        calibration = self.calibrations_["norm" if "norm" in parts else ""]
        scores = self.task_.class_scores(output)
        prior, unsafe = calibration.prior_on(scores[environment.counted.cpu()])
        if unsafe is not None:
            warnings.warn(
                f"environment {environment.name!r}: the class prior was left as it is: {unsafe}.",
                GraphshiftWarning,
                stacklevel=4,
            )
            return output
        return self.task_.output_of(reweighted(calibration.probabilities(scores), calibration.prior, prior))


def refuse_occupied(folder: Path, *, overwrite: bool) -> None:
    """A model or an ensemble that is there stays, unless it is to be overwritten."""
    for name, what in (("model.json", "a model"), ("ensemble.json", "an ensemble")):
        if (folder / name).exists() and not overwrite:
            raise GraphshiftError(f"{folder}: holds {what} already; choose another folder or pass overwrite=True.")


def _shares(environments: Sequence[Environment], task: Task) -> Tensor:
    """The shares of the classes among the nodes that count."""
    if not task.is_classification:
        return torch.empty(0, dtype=torch.float64)
    labels = torch.cat([e.y[e.counted].cpu() for e in environments if e.y is not None])
    return torch.bincount(labels, minlength=task.num_classes).double() / labels.numel()


def new_backbone(backbone: str | nn.Module, settings: Settings, features: int, task: Task) -> Backbone:
    """The untrained network that these settings ask for."""
    return make_backbone(
        backbone,
        features,
        task.out_channels,
        hidden_channels=settings.hidden_channels,
        num_layers=settings.num_layers,
        dropout=settings.dropout,
        options=settings.backbone_options,
    )
