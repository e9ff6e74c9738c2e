"""scikit-learn-like estimators: ``fit``, ``predict``, ``predict_proba``, ``score``, ``save``, ``get_params``."""

from __future__ import annotations

import inspect
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self, TypeAlias, overload

import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch_geometric.data import Data

from graphshift._version import __version__
from graphshift.arguments import check_types
from graphshift.backbones import Backbone, make_backbone
from graphshift.devices import torch_device
from graphshift.environments import Environment, as_environments, check_together
from graphshift.errors import GraphshiftError
from graphshift.explorers import EXPLORERS, Explorer
from graphshift.methods import (
    CORALMethod,
    DANNMethod,
    EERMMethod,
    ERMMethod,
    GroupDROMethod,
    IRMMethod,
    Method,
    MixupMethod,
    SRGNNMethod,
    VRExMethod,
)  # fmt: skip
from graphshift.progress import progress_bar
from graphshift.randomness import derive_seed, isolated
from graphshift.settings import OWNERS, Settings, validated
from graphshift.storage import write_json, write_tensors
from graphshift.tasks import Task
from graphshift.training import Choice, Run, further_rules, selection_environments
from graphshift.training import train as run_training

__all__ = [
    "CORAL", "DANN", "EERM", "ERM", "FORMAT", "IRM", "METHODS", "SRGNN", "GroupDRO", "Mixup", "Model", "VREx",
    "make_model", "new_backbone",
]  # fmt: skip

Graphs: TypeAlias = Environment | Data | Iterable[Environment | Data]

#: Of the files that a model is saved in; a newer one is refused.
FORMAT = 1


class Model(BaseEstimator, ABC):
    """What ERM and EERM share. See :class:`ERM` for the settings.

    Attributes:
        backbone_: the trained GNN, with the weights of the selected epoch.
        task_: what it predicts.
        best_epoch_, best_score_: what selection chose, and its score.
        history_: one dict of numbers for each epoch.
        seconds_: spent in training and validation.
        also_: what further rules chose in the same training, by name.
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

    def fit(
        self, train: Graphs, val: Graphs = (), tests: Graphs = (), *, run: Run | None = None, progress: bool = False,
        also: Iterable[str] = (),
    ) -> Self:  # fmt: skip
        """Trains on environments and keeps the epoch that the selection rule chooses.

        Args:
            train: one training graph or several: :class:`~graphshift.environments.Environment` or PyG ``Data``.
            val: validation graphs, for selection ``"val"``.
            tests: test graphs, for selection ``"oracle"`` only; every other rule never looks at them.
            run: where to keep history and checkpoints; a checkpoint that is there is resumed.
            progress: show a progress bar.
            also: further rules, ``"val"`` or ``"oracle"``, whose epochs of this training are kept in ``also_``.
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
            method = self._make_method(backbone, settings)
            identity = settings.model_dump()
            if run is not None:  # a run of other settings or other data must not be resumed
                identity["data"] = [environment.fingerprint() for environment in (*training, *select_by)]
                identity |= {"also": list(others)} if others else {}
            with progress_bar(self._method.upper(), settings.epochs, enabled=progress) as report:
                result = run_training(
                    method, training, select_by, epochs=settings.epochs, patience=settings.patience, run=run,
                    report=report, settings=identity, also=others,
                )  # fmt: skip
        backbone.load_state_dict(result.weights)
        self.backbone_, self.task_, self.n_features_in_ = backbone.eval(), task, training[0].num_features
        self.best_epoch_, self.best_score_ = result.best_epoch, result.best_score
        self.history_, self.seconds_, self.also_ = result.history, result.seconds, result.also
        return self

    @overload
    def predict(self, graphs: Environment | Data) -> NDArray[Any]: ...
    @overload
    def predict(self, graphs: Iterable[Environment | Data]) -> dict[str, NDArray[Any]]: ...
    def predict(self, graphs: Graphs) -> NDArray[Any] | dict[str, NDArray[Any]]:
        """The class (or value) of every node. One graph gives an array; several give a dict by name."""
        return self._each(graphs, lambda _, output: self.task_.predictions(output).numpy(), labelled=False)

    def predict_proba(self, graphs: Graphs) -> NDArray[Any] | dict[str, NDArray[Any]]:
        """Class probabilities of every node, ``[nodes, classes]``; several graphs give a dict by name."""
        check_is_fitted(self, "backbone_")
        if not self.task_.is_classification:
            raise GraphshiftError("predict_proba: a regression model has no probabilities; use predict.")
        return self._each(graphs, lambda _, output: self.task_.probabilities(output).numpy(), labelled=False)

    @overload
    def score(self, graphs: Environment | Data) -> float: ...
    @overload
    def score(self, graphs: Iterable[Environment | Data]) -> dict[str, float]: ...
    def score(self, graphs: Graphs) -> float | dict[str, float]:
        """The task's metric over the counted nodes. One graph gives a number; several give a dict by name."""

        def measure(environment: Environment, output: Tensor) -> float:
            theirs, ours = environment.task, self.task_
            if (theirs.kind, theirs.num_classes) != (ours.kind, ours.num_classes):
                raise GraphshiftError(
                    f"environment {environment.name!r} has a {theirs.kind} task with {theirs.num_classes} classes, and "
                    f"the model was trained for {ours.kind} with {ours.num_classes}; it cannot be scored there."
                )
            if not bool(torch.isfinite(output).all()):
                raise GraphshiftError(
                    f"environment {environment.name!r}: the model predicts NaN or infinite values, so it has no score; "
                    "train it with a lower learning rate, or scale the columns of `x`."
                )
            return environment.score(output)

        return self._each(graphs, measure)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Writes ``model.json`` and ``weights.safetensors``: all that :func:`load_model` needs.

        Args:
            folder: made if need be; one that holds a model is left alone unless ``overwrite``.
            overwrite: replace the model that is there.
        """
        check_is_fitted(self, "backbone_")
        folder = Path(folder)
        if (folder / "model.json").exists() and not overwrite:
            raise GraphshiftError(f"{folder}: holds a model already; choose another folder or pass overwrite=True.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GraphshiftError(f"{folder}: cannot be made: {error.strerror}.") from None
        write_tensors(folder / "weights.safetensors", self.backbone_.state_dict())
        own = isinstance(self.backbone, nn.Module)
        write_json(
            folder / "model.json",
            {
                "format": FORMAT, "graphshift": __version__, "settings": self._settings().model_dump(),
                "own_backbone": type(self.backbone).__name__ if own else None,
                "task": {"kind": self.task_.kind, "num_classes": self.task_.num_classes, "metric": self.task_.metric},
                "features": self.n_features_in_, "best_epoch": self.best_epoch_, "best_score": self.best_score_,
                "seconds": self.seconds_,
            },
        )  # fmt: skip

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
    def _make_method(self, backbone: Backbone, settings: Settings) -> Method:
        """The method that trains this backbone."""

    def _each(self, graphs: Graphs, measure: Callable[[Environment, Tensor], Any], *, labelled: bool = True) -> Any:
        check_is_fitted(self, "backbone_")
        device = next(self.backbone_.parameters()).device
        results = {}
        for environment in as_environments(graphs, self.task_, labelled=labelled):
            if environment.num_features != self.n_features_in_:
                raise GraphshiftError(
                    f"environment {environment.name!r} has {environment.num_features} features and the model was "
                    f"trained with {self.n_features_in_}; give the same columns in the same order."
                )
            if environment.name in results:
                raise GraphshiftError(f"two environments are called {environment.name!r}; names must differ.")
            environment = environment.to(device)
            with torch.no_grad():
                results[environment.name] = measure(environment, self.backbone_(environment.x, environment.graph))
        return next(iter(results.values())) if isinstance(graphs, Environment | Data) else results


class ERM(Model):
    """Empirical risk minimisation: the baseline.

    Args:
        backbone: a name from :data:`graphshift.backbones.BACKBONES`, or your own ``torch.nn.Module`` with
            ``forward(x, edge_index)`` (a copy is trained, from the weights that it has).
        hidden_channels: width of hidden layers.
        num_layers: number of layers.
        dropout: after hidden layers.
        backbone_options: options of the named backbone, such as ``{"heads": 2}`` for ``"gat"``.
        epochs: steps of training.
        lr: learning rate (AdamW).
        weight_decay: of the GNN.
        clip: norm to which gradients are clipped; None leaves them.
        selection: the rule that chooses the epoch, see :data:`graphshift.training.SELECTIONS`.
        patience: stop after this many epochs without a better score.
        device: ``"cpu"``, ``"cuda"`` or ``"mps"``.
        seed: of everything random; the same seed gives the same bits on the same machine.
    """

    _method = "erm"

    def __init__(
        self,
        backbone: str | nn.Module = "gcn",
        *,
        hidden_channels: int = 32,
        num_layers: int = 2,
        dropout: float = 0.0,
        backbone_options: dict[str, Any] | None = None,
        epochs: int = 200,
        lr: float = 0.01,
        weight_decay: float = 1e-3,
        clip: float | None = None,
        selection: str = "val",
        patience: int | None = None,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        self.backbone, self.backbone_options = backbone, backbone_options
        self.hidden_channels, self.num_layers, self.dropout = hidden_channels, num_layers, dropout
        self.epochs, self.lr, self.weight_decay, self.clip = epochs, lr, weight_decay, clip
        self.selection, self.patience, self.device, self.seed = selection, patience, device, seed

    def _make_method(self, backbone: Backbone, settings: Settings) -> Method:
        return ERMMethod(backbone, lr=settings.lr, weight_decay=settings.weight_decay, clip=settings.clip)


class EERM(Model):
    """Explore-to-Extrapolate Risk Minimization (Wu et al., ICLR 2022).

    K explorers edit the graph to make virtual environments whose risks differ as much as possible; the GNN minimises
    the variance of these risks plus β times their mean (Eq. 5, Algorithm 1).

    Args:
        backbone, hidden_channels, num_layers, dropout, backbone_options, epochs, lr, weight_decay, clip, selection,
            patience, device, seed: as in :class:`ERM`.
        explorer: ``"reinforce"`` (the paper's), ``"random"`` (the control), ``"gradient"`` (ours: follows the risk's
            gradient), or a function ``seed -> Explorer``.
        explorer_options: options of the named explorer, such as ``{"candidates": 20}`` for ``"gradient"``.
        explorers: K, at least 2.
        edits_per_node: s.
        inner_steps: T.
        beta: β.
        beta_end: None keeps β constant; a number moves it there in a straight line over training.
        explorer_lr: learning rate of the explorers.
        explorer_optimizer: ``"adam"`` or ``"sgd"``.
        explorer_weight_decay: of the explorers' logits.
        explorer_baseline: decay of a running mean of rewards that is taken off the reward; None for none (the paper).
        credit: ``"shared"`` (the paper: all explorers get the variance) or ``"difference"`` (each gets what it adds).
        reset_explorers: forget at every epoch, as parts of the authors' code do.
        directed_edits: flip one direction of an undirected edge, as in the paper's formula.
        low_memory: one view at a time, with a second forward pass; the gradient is the same.
    """

    _method = "eerm"

    def __init__(
        self,
        backbone: str | nn.Module = "gcn",
        *,
        hidden_channels: int = 32,
        num_layers: int = 2,
        dropout: float = 0.0,
        backbone_options: dict[str, Any] | None = None,
        epochs: int = 200,
        lr: float = 0.01,
        weight_decay: float = 1e-3,
        clip: float | None = None,
        selection: str = "val",
        patience: int | None = None,
        device: str = "cpu",
        seed: int = 0,
        explorer: str | Callable[[int], Explorer] = "reinforce",
        explorer_options: dict[str, Any] | None = None,
        explorers: int = 3,
        edits_per_node: int = 5,
        inner_steps: int = 1,
        beta: float = 1.0,
        beta_end: float | None = None,
        explorer_lr: float = 0.005,
        explorer_optimizer: str = "adam",
        explorer_weight_decay: float = 0.0,
        explorer_baseline: float | None = None,
        credit: str = "shared",
        reset_explorers: bool = False,
        directed_edits: bool = False,
        low_memory: bool = False,
    ) -> None:
        self.backbone, self.backbone_options = backbone, backbone_options
        self.hidden_channels, self.num_layers, self.dropout = hidden_channels, num_layers, dropout
        self.epochs, self.lr, self.weight_decay, self.clip = epochs, lr, weight_decay, clip
        self.selection, self.patience, self.device, self.seed = selection, patience, device, seed
        self.explorer, self.explorers, self.edits_per_node, self.inner_steps = (
            explorer, explorers, edits_per_node, inner_steps,
        )  # fmt: skip
        self.beta, self.beta_end, self.credit, self.explorer_options = beta, beta_end, credit, explorer_options
        self.explorer_lr, self.explorer_optimizer = explorer_lr, explorer_optimizer
        self.explorer_weight_decay, self.explorer_baseline = explorer_weight_decay, explorer_baseline
        self.reset_explorers, self.directed_edits, self.low_memory = reset_explorers, directed_edits, low_memory

    def _make_method(self, backbone: Backbone, settings: Settings) -> Method:
        if isinstance(self.explorer, str) and self.explorer not in EXPLORERS:
            raise GraphshiftError(f"explorer is {self.explorer!r}; expected one of {', '.join(EXPLORERS)}.")
        return EERMMethod(
            backbone,
            lambda m, k: self._make_explorer(settings, k, derive_seed(settings.seed, 2, m, k)),
            explorers=settings.explorers, inner_steps=settings.inner_steps, beta=settings.beta,
            beta_end=settings.beta_end, credit=settings.credit, reset_explorers=settings.reset_explorers,
            low_memory=settings.low_memory, lr=settings.lr, weight_decay=settings.weight_decay, clip=settings.clip,
        )  # fmt: skip

    def _make_explorer(self, settings: Settings, k: int, seed: int) -> Explorer:
        if not isinstance(self.explorer, str):
            return self.explorer(seed)
        offered: dict[str, Any] = {
            "edits_per_node": settings.edits_per_node, "directed": settings.directed_edits, "seed": seed,
            "lr": settings.explorer_lr, "optimizer": settings.explorer_optimizer,
            "weight_decay": settings.explorer_weight_decay, "baseline": settings.explorer_baseline,
            "raises": k % 2 == 0,  # by turns up and down: opposite directions differ most
        }  # fmt: skip
        make = EXPLORERS[self.explorer]
        taken = inspect.signature(make).parameters  # a random explorer, say, has no learning rate
        check_types(f"explorer {self.explorer!r}", make, settings.explorer_options)
        unknown = [name for name in settings.explorer_options if name not in taken]
        if unknown:
            raise GraphshiftError(
                f"explorer {self.explorer!r} has no option {', '.join(unknown)}; its options are {', '.join(taken)}."
            )
        chosen = {name: value for name, value in offered.items() if name in taken}
        return make(**{**chosen, **settings.explorer_options})


def _estimator(name: str, method: type[Method]) -> type[Model]:
    """The estimator of a method that has nothing but settings: ERM's, and those of its own.

    Its signature is put together from :class:`Settings`, since scikit-learn reads parameters from there.
    """
    key = name.lower()
    common = list(inspect.signature(ERM.__init__).parameters.values())
    own = [setting for setting, owners in OWNERS.items() if key in owners]
    fields = [
        inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=Settings.model_fields[n].default) for n in own
    ]
    signature = inspect.Signature([*common, *fields])

    def initialise(self: Model, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for parameter, value in list(bound.arguments.items())[1:]:
            setattr(self, parameter, value)

    def _make_method(self: Model, backbone: Backbone, settings: Settings) -> Method:
        taken = {n: getattr(settings, n) for n in ("lr", "weight_decay", "clip", *own)}
        return method(backbone, **taken)

    initialise.__signature__ = signature  # type: ignore[attr-defined]
    lines = [f"        {n}: {Settings.model_fields[n].description}." for n in own]
    doc = f"{method.__doc__}".split("Args:")[0].rstrip()
    text = f"{doc}\n\n    Args:\n        backbone … seed: as in :class:`ERM`.\n" + "\n".join(lines)
    body = {
        "_method": key,
        "__init__": initialise,
        "_make_method": _make_method,
        "__doc__": text,
        "__module__": __name__,
    }
    made: type[Model] = ABCMeta(name, (Model,), body)  # type: ignore[assignment]
    return made


IRM = _estimator("IRM", IRMMethod)
VREx = _estimator("VREx", VRExMethod)
GroupDRO = _estimator("GroupDRO", GroupDROMethod)
Mixup = _estimator("Mixup", MixupMethod)
CORAL = _estimator("CORAL", CORALMethod)
DANN = _estimator("DANN", DANNMethod)
SRGNN = _estimator("SRGNN", SRGNNMethod)

#: Every method by name.
METHODS: dict[str, type[Model]] = {
    "erm": ERM, "eerm": EERM, "irm": IRM, "vrex": VREx, "groupdro": GroupDRO, "mixup": Mixup, "coral": CORAL,
    "dann": DANN, "srgnn": SRGNN,
}  # fmt: skip


def make_model(settings: Settings) -> Model:
    """The estimator with these settings."""
    estimator = METHODS[settings.method]
    names = estimator().get_params(deep=False)
    return estimator(**{name: value for name, value in settings.model_dump().items() if name in names})


def new_backbone(backbone: str | nn.Module, settings: Settings, features: int, task: Task) -> Backbone:
    """The untrained network that these settings ask for."""
    return make_backbone(
        backbone, features, task.out_channels, hidden_channels=settings.hidden_channels,
        num_layers=settings.num_layers, dropout=settings.dropout, options=settings.backbone_options,
    )  # fmt: skip
