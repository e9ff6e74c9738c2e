"""The base class of all estimators: ``fit``, ``predict``, ``score``, ``save``, as in scikit-learn."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.hparams import hparam
from graphshift.core.registry import REGISTRIES, Registry
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment, as_environments
from graphshift.data.remarks import label_remarks, mention
from graphshift.data.tasks import Task
from graphshift.estimators.adaptation import ALONE, WITHOUT_EDGES, Calibration, parts_of
from graphshift.estimators.asked import Asked, named_target, roles_of, shared_rule
from graphshift.estimators.beliefs import believed, rehearsed, unfit
from graphshift.estimators.hyper_parameters import HyperParameters
from graphshift.estimators.learning import class_shares, learn_from
from graphshift.estimators.predictor import Graphs, Predictor
from graphshift.estimators.saving import save_estimator
from graphshift.estimators.shown import estimator_html
from graphshift.training.batches import Batches, full_batch
from graphshift.training.callbacks import Callback, ProgressBar
from graphshift.training.loop import Choice, Selection, TrainingResult
from graphshift.training.run import Run
from graphshift.training.selection import SELECTIONS


def _named(name: str, estimator: type[Estimator], *, label: str) -> type[Estimator]:
    estimator.method, estimator.label = name, label
    return estimator


#: Every method by name: its estimator class.
METHODS: Registry[type[Estimator]] = Registry("method", "graphshift.methods", _named)

#: The method that is trained if nobody says.
DEFAULT_METHOD = "eerm"


class _Fitted:
    """What ``fit`` finds."""

    task_: Task
    n_features_in_: int
    n_edge_features_: int = 0
    target_: Sequence[str] = ()
    settings_: dict[str, Any]
    best_epoch_: int
    best_score_: float | None
    history_: list[dict[str, Any]]
    seconds_: float
    also_: dict[str, Choice]
    prior_: Tensor
    calibrations_: dict[str, Calibration]
    rehearsed_: list[float] | None = None
    _ways: Sequence[str] | None = None  # of adapting that will be asked for; None: any, and prediction sets


@dataclass(eq=False, repr=False)
class Estimator(_Fitted, Predictor, HyperParameters):
    """What all estimators share, those without a GNN as well. A subclass adds the hyper-parameters of its method.

    Methods that train a GNN extend :class:`~graphshift.estimators.gnn.GNNEstimator`.

    Args:
        selection: the rule that chooses what is kept, see :data:`graphshift.training.selection.SELECTIONS`.
        seed: of everything random; the same seed gives the same bits on the same machine.

    Attributes:
        uses_target: whether its training can see unlabelled graphs (``estimators.target``); needs_target: must.
        target_: the names of those that it saw.
        task_: what it predicts.
        settings_: every hyper-parameter of the fit by name, the dataset's defaults included.
        n_features_in_, n_edge_features_: the features of a node, and those of an edge that the model uses.
        best_epoch_, best_score_: what selection chose, and its score; epoch 0 of a method without epochs.
        history_: one dict of numbers for each epoch.
        seconds_: spent in training and validation.
        also_: what further rules chose in the same training, by name.
        prior_: shares of the classes in training; empty in regression.
        calibrations_: what ``adapt="prior"`` needs; see :meth:`calibrate`.
        confidences_: what calibrated probabilities and thresholds need; see :meth:`calibrate`.
        held_out_: what prediction sets need; see :meth:`calibrate`.
        rehearsed_: the mean score of the validation graphs without and with ``adapt="beliefs"``; see :meth:`calibrate`.
        preparation_: how raw tables become graphs, if the model was fitted on a dataset of tables; else None.
    """

    uses_target: ClassVar[bool] = False
    needs_target: ClassVar[bool] = False

    _: KW_ONLY
    selection: str = hparam("val", registry="selection", help="rule that chooses the epoch")
    seed: int = hparam(0, ge=0, help="seed of everything random")

    def fit(
        self,
        train: ShiftDataset | Graphs,
        val: Graphs = (),
        tests: Graphs = (),
        *,
        target: Graphs | str | None = None,
        run: Run | None = None,
        progress: bool = False,
        also: Iterable[str] = (),
        batches: Batches = full_batch,
        callbacks: Iterable[Callback] = (),
    ) -> Self:
        """Trains and keeps the epoch that the selection rule chooses.

        Args:
            train: a :class:`~graphshift.data.environment.ShiftDataset`, whose roles and defaults are used; or one
                training graph or several: :class:`~graphshift.data.environment.Environment` or PyG ``Data``.
            val: validation graphs, for selection ``"val"``.
            tests: test graphs, for selection ``"oracle"`` only; every other rule never looks at them.
            target: unlabelled graphs, for selection ``"target"`` and for methods that train with them
                (``uses_target``). Labels that they have are removed. None takes the role ``target`` of a ShiftDataset;
                ``"tests"``, here or as the method's setting ``target``, takes its tests without their labels.
            run: where to keep history and checkpoints; a checkpoint that is there is resumed.
            progress: show a progress bar.
            also: further rules, ``"val"``, ``"explored"``, ``"target"`` or ``"oracle"``, whose epochs of this training
                are kept in ``also_``.
            batches: what each step sees; all training graphs by default (:mod:`graphshift.training.batches`).
            callbacks: told of settings, start, epochs and end (:class:`graphshift.training.callbacks.Callback`).
        """
        defaults: Mapping[str, Any] = {}
        also = list(also)
        facts, own = (train.facts, False) if isinstance(train, ShiftDataset) else ({}, True)
        if isinstance(train, ShiftDataset):
            if val or tests:
                raise GraphshiftError("fit: a ShiftDataset has its own val and tests; leave these arguments out.")
            data = train
            defaults, train, val, tests = data.defaults, data.train, data.val, data.tests
            target = data.target if target is None else target
        chosen = self.resolved(defaults)
        target = chosen.wanted_target(target)
        if isinstance(target, str):
            target = named_target(target, tests)
        if not any(SELECTIONS.find(name).uses_tests for name in (chosen.selection, *also)):
            tests = ()
        device = chosen._training_device()
        if torch.get_default_dtype() != torch.float32:
            raise GraphshiftError(
                f"torch's default dtype is {torch.get_default_dtype()}; graphshift computes in float32: call "
                "torch.set_default_dtype(torch.float32) first."
            )
        roles = roles_of(train, val, tests, target or (), chosen.seed)
        seen = chosen.trained_with(roles.target)
        if own and roles.target and not seen and not any(SELECTIONS[n].uses_target for n in (chosen.selection, *also)):
            able = ", ".join(name for name, method in METHODS.items() if method.uses_target)
            raise GraphshiftError(f"fit: method {self.method} does not train with the target; {able} can.")
        remarks = label_remarks(roles.train, roles.val, facts.get("class_names"))
        mention([*remarks, *chosen._edge_remarks(roles.train)], where="fit")
        others = {name: shared_rule(name).prepare(roles, device)[1] for name in also}
        training, selection = SELECTIONS[chosen.selection].prepare(roles, device)
        bars = [ProgressBar(self.label)] if progress else []
        # Held-out nodes of the training graphs are what `id_val` may look at; validation graphs are not.
        calibrating = selection.environments if chosen.selection == "id_val" else roles.val
        listeners = [*bars, *callbacks]
        how: dict[str, Any] = {"batches": batches, "callbacks": listeners, "calibrating": calibrating}
        how["target"] = [e.to(device) for e in seen]
        for listener in listeners:
            listener.on_settings(chosen.settings())
        self.learn_and_keep(chosen, training, selection, Asked(also=others, run=run, **how))
        self.preparation_ = facts.get("preparation")
        return self

    def learn_and_keep(
        self, chosen: Self, training: Sequence[Environment], selection: Selection, asked: Asked
    ) -> TrainingResult:
        """What ``fit`` does when settings and data are checked: learns, and keeps what came of it in the attributes.

        Args:
            chosen: with every hyper-parameter decided; it may be this estimator.
            training: the training graphs, on the device that they are trained on.
            selection: the rule that chooses what is kept.
            asked: how.
        """
        result = self._learn(chosen, training, selection, asked)
        self.task_, self.n_features_in_ = training[0].task, training[0].num_features
        self.n_edge_features_ = training[0].num_edge_features if chosen.takes_edge_features else 0
        self.target_ = [e.name for e in asked.target]
        self.settings_, self.best_epoch_, self.best_score_ = chosen.settings(), result.best.epoch, result.best.score
        self.history_, self.seconds_, self.also_ = result.history, result.seconds, result.also
        self.prior_ = class_shares(training, self.task_)
        self.calibrate(asked.calibrating)
        return result

    @abstractmethod
    def _learn(
        self, chosen: Self, training: Sequence[Environment], selection: Selection, asked: Asked
    ) -> TrainingResult:
        """Trains with the settings of ``chosen``, keeps the model in this estimator and says what came of it."""

    def wanted_target(self, target: Graphs | str | None) -> Graphs | str | None:
        """What is the target, by a setting of the method, where ``fit`` was given this."""
        return target

    def trained_with(self, target: Sequence[Environment]) -> Sequence[Environment]:
        """Of the unlabelled target what training sees: nothing, but for methods that are made for it."""
        return ()

    @abstractmethod
    def _plain_output(self, environment: Environment, parts: Sequence[str]) -> Tensor:
        """For every node, ``[nodes, out_channels]``, before a class prior is taken into account."""

    @abstractmethod
    def arrays(self) -> dict[str, Tensor]:
        """The fitted model as named arrays: what ``weights.safetensors`` holds."""

    @abstractmethod
    def take_arrays(self, arrays: Mapping[str, Tensor], features: int, task: Task) -> None:
        """Becomes the model whose :meth:`arrays` these are; ValueError or RuntimeError says what does not fit.

        Args:
            arrays: as they were read; nothing in them is trusted.
            features: the number of columns that the model was trained with.
            task: what it predicts.
        """

    def take(self, choice: Choice) -> None:
        """Becomes the model that a rule chose in this estimator's training (``also_``); without epochs there is one."""

    def check_task(self, task: Task) -> None:
        """Refuses a task that the method cannot learn."""

    def fitting_bytes(self, data: ShiftDataset) -> dict[str, float]:
        """What a fit without a GNN holds at its peak beside the data, in bytes by part; see ``fitting.memory``."""
        return {}

    def score_edited(self, environment: Environment) -> float | None:
        """The score after the edits of edges that raise the model's risk most; None where that cannot be told.

        Without a gradient in the edges it cannot; for a model that does not look at edges it is the plain score.
        """
        edited = self.edited(environment)
        return None if edited is None else self.score(edited)

    def edited(self, environment: Environment, share: float = 1.0) -> Environment | None:
        """The graph after the edits of edges that raise the model's risk most; itself if the model ignores edges."""
        return None if self.uses_edges else environment

    def module(self) -> nn.Module:
        """The fitted model from ``x`` and a graph to an output, in operations that exporters can follow."""
        raise GraphshiftError(f"export: {self.label} has no form that exporters know.")

    @property
    def takes_edge_features(self) -> bool:
        """Whether the method can use features of edges, with the backbone that it has."""
        return False

    def _edge_remarks(self, training: Sequence[Environment]) -> list[str]:
        if not training[0].num_edge_features or self.takes_edge_features:
            return []
        settings = self.settings()
        own = settings.get("backbone")
        who = f"method {self.method}" if own is None else f"backbone {own!r}"
        able = ", ".join(repr(name) for name, one in REGISTRIES["backbone"].items() if one.uses_edge_features)
        more = ", and so do its columns 'neighbours'" if "columns" in settings else ""
        count = training[0].num_edge_features
        return [f"edges have {count} features, which {who} does not use; backbones {able} do{more}"]

    @property
    def uses_edges(self) -> bool:
        """Whether what the fitted model predicts depends on the edges."""
        return True

    @property
    def has_batch_norm(self) -> bool:
        """Whether the fitted model has the statistics that ``adapt="norm"`` replaces."""
        return False

    def can_adapt(self, way: str | None) -> bool:
        """Whether the fitted model has what a way of adapting changes."""
        parts = parts_of(way)
        if {*WITHOUT_EDGES} & {*parts}:
            return not unfit(self)
        return not {*ALONE} & {*parts} and ("norm" not in parts or self.has_batch_norm)

    def calibrate(self, graphs: Graphs) -> None:
        """Learns from labelled graphs that the model was not trained on how sure it may be.

        ``adapt="prior"``, calibrated probabilities, thresholds and prediction sets need it.

        ``fit`` does this on the validation graphs, or on the training nodes that were held out.
        """
        check_is_fitted(self, "task_")
        modes = ["", *(["norm"] if self.has_batch_norm else [])]
        learned = learn_from(self, as_environments(graphs, self.task_), modes, sets=self._ways is None)
        self.calibrations_, adapted = learned.priors(self.prior_)
        self.confidences_, self.held_out_ = learned.confidences | adapted, learned.held_out
        self.explored_ = None  # copies were looked at with the old temperature
        self.rehearsed_ = rehearsed(self, as_environments(graphs, self.task_)) if self._needs(WITHOUT_EDGES) else None

    def only_for(self, ways: Sequence[str]) -> Self:
        """Leaves out of ``fit`` what only prediction sets and other adaptations than these need: it can take longer."""
        self._ways = ways
        return self

    def _needs(self, parts: Sequence[str]) -> bool:
        """Whether one of these parts of adaptations may be asked for."""
        return self._ways is None or any({*parts} & {*parts_of(way)} for way in self._ways)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Writes ``model.json`` and ``weights.safetensors``: all that :func:`load_model` needs.

        Args:
            folder: made if need be; one that holds a model is left alone unless ``overwrite``.
            overwrite: replace the model that is there.
        """
        save_estimator(self, folder, overwrite=overwrite)

    def _html_repr(self) -> str:
        return estimator_html(self)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "task_")

    def _note(self) -> dict[str, Any]:
        """What a kind of model writes into ``model.json`` beside what all do."""
        return {}

    def _device(self) -> torch.device:
        return torch.device("cpu")

    def _training_device(self) -> torch.device:
        return torch.device("cpu")

    def _checked(self, adapt: str | None) -> tuple[str, ...]:
        parts = parts_of(adapt)
        if "norm" in parts and not (self.uses_backbone or self.has_batch_norm):
            raise GraphshiftError(
                f"adapt is {adapt!r} and method {self.method} has no batch normalisation; leave 'norm' out."
            )
        if {*WITHOUT_EDGES} & {*parts} and (needs := unfit(self)):
            raise GraphshiftError(f"adapt is {adapt!r}: it needs {needs}.")
        if ({*ALONE} - {*WITHOUT_EDGES}) & {*parts} and not self.uses_backbone:
            raise GraphshiftError(f"adapt is {adapt!r}, which needs a GNN, and method {self.method} has none.")
        if "prior" in parts and not self.task_.is_classification:
            raise GraphshiftError("adapt is 'prior' and the model predicts values, which have no class prior.")
        if "prior" in parts and not self.calibrations_:
            raise GraphshiftError(
                "adapt is 'prior' and the model is not calibrated: fit it with a validation graph or selection "
                "'id_val', or call model.calibrate(graphs) with labelled graphs."
            )
        return parts

    def _output(self, environment: Environment, parts: Sequence[str]) -> Tensor:
        if {*WITHOUT_EDGES} & {*parts}:
            return believed(self, environment)
        output = self._plain_output(environment, parts)
        if "prior" not in parts:
            return output
        calibration = self.calibrations_["norm" if "norm" in parts else ""]
        scores = self.task_.class_scores(output)
        adapted, unsafe = calibration.adapted(scores, environment.counted.cpu(), self.classes_)
        if adapted is None:
            message = f"environment {environment.name!r}: the class prior was left as it is: {unsafe}."
            warnings.warn(message, GraphshiftWarning, stacklevel=4)
            return output
        return self.task_.output_of(adapted)
