"""The base class of methods that are fitted in one go: no GNN, no epochs, nothing to choose but the settings."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.randomness import isolated
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.asked import Asked
from graphshift.estimators.base import Estimator
from graphshift.training.batches import full_batch
from graphshift.training.callbacks import History
from graphshift.training.loop import Choice, Selection, TrainingResult
from graphshift.training.selection import explored_score, mean_score

Array = NDArray[Any]


class DirectModel(ABC):
    """What such a method has learned: plain arrays, and how to predict with them."""

    #: Whether predictions depend on the edges.
    uses_edges: bool = False
    #: Why there is no :meth:`module`, in words.
    no_module: str = "has no form in operations that exporters know"

    @abstractmethod
    def predict(self, environment: Environment) -> Array:
        """Class probabilities of every node, ``[nodes, classes]``; in regression values, ``[nodes]``; float64."""

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """All that predictions need, by name."""

    def module(self, task: Task) -> nn.Module:
        """The model in operations that exporters know, from ``x`` and a graph to an output, float64.

        NotImplementedError says why there is none.
        """
        raise NotImplementedError(self.no_module)


class _Fitted:
    """What ``fit`` finds."""

    model_: DirectModel


@dataclass(eq=False, repr=False)
class DirectEstimator(_Fitted, Estimator):
    """What all methods without epochs share. A subclass says how to learn, and how to read what was learned.

    A selection rule has no epoch to choose: it scores the model that was fitted, so that settings can be chosen by it.
    ``"id_val"`` still holds a fifth of the training nodes out of the fit. ``"explored"`` follows gradients to edges:
    of a model that does not use edges it is the plain score, of one that does there is none, and a warning says so.

    Args:
        selection, seed: as in :class:`~graphshift.estimators.base.Estimator`.

    Attributes:
        model_: what was learned.
        task_ … calibrations_: as in :class:`~graphshift.estimators.base.Estimator`; ``best_epoch_`` is 0.
    """

    @abstractmethod
    def learn(self, training: Sequence[Environment]) -> DirectModel:
        """Learns from the counted nodes of all training graphs; every hyper-parameter of ``self`` is decided."""

    def learn_with(self, training: Sequence[Environment], target: Sequence[Environment]) -> DirectModel:
        """The same for methods that also see unlabelled graphs; the others are given none."""
        return self.learn(training)

    @abstractmethod
    def model_of(self, arrays: Mapping[str, Array], features: int, task: Task) -> DirectModel:
        """The model whose :meth:`DirectModel.arrays` these are; ValueError says what is wrong with them."""

    def arrays(self) -> dict[str, Tensor]:
        """The model's arrays."""
        return {name: torch.from_numpy(np.ascontiguousarray(one)) for name, one in self.model_.arrays().items()}

    def take_arrays(self, arrays: Mapping[str, Tensor], features: int, task: Task) -> None:
        """Becomes the model with these arrays."""
        try:
            self.model_ = self.model_of({name: one.numpy() for name, one in arrays.items()}, features, task)
        except KeyError as error:
            raise ValueError(f"array {error} is missing") from None

    def module(self) -> nn.Module:
        """The model's own, if it has one."""
        try:
            return self.model_.module(self.task_)
        except NotImplementedError as error:
            raise GraphshiftError(f"export: {self.label} {error}; `graphshift serve` serves it as it is.") from None

    @property
    def uses_edges(self) -> bool:
        """Whether the model does."""
        return self.model_.uses_edges

    def predict_plain(self, environment: Environment) -> Tensor:
        """The output for every node, ``[nodes, out_channels]``, float64; as a backbone's."""
        found = torch.from_numpy(self.model_.predict(environment))
        return self.task_.output_of(found) if self.task_.is_classification else found.unsqueeze(1)

    def _plain_output(self, environment: Environment, parts: Sequence[str]) -> Tensor:
        return self.predict_plain(environment)

    def _learn(
        self, chosen: Self, training: Sequence[Environment], selection: Selection, asked: Asked
    ) -> TrainingResult:
        if asked.batches is not full_batch:
            raise GraphshiftError(f"batches: method {self.method} learns from all nodes at once; leave batches out.")
        chosen.check_task(training[0].task)
        history = History()
        listeners = [history, *asked.callbacks]
        if asked.run is not None and asked.run.load() is not None:
            other = f"belongs to a run of another method; {self.method} has none: give another folder."
            raise GraphshiftError(f"{asked.run.checkpoint}: {other}")
        result: TrainingResult | None = None
        for listener in listeners:
            listener.on_start(1)
        try:
            started = time.perf_counter()
            with isolated(chosen.seed, torch.device("cpu")):
                self.model_ = chosen.learn_with(training, asked.target)
            self.task_ = training[0].task
            best = self._score(chosen.selection, selection)
            also = {name: self._score(name, rule) for name, rule in asked.also.items()}
            scores = {"val": best.score} | {name: one.score for name, one in also.items()}
            row = {"epoch": 0, "loss": self._risk(training), "seconds": time.perf_counter() - started}
            row |= {name: score for name, score in scores.items() if score is not None}
            if asked.run is not None:
                asked.run.record(row)
            for listener in listeners:
                listener.on_epoch(row)
            result = TrainingResult(best, also, history.rows, row["seconds"])
        finally:
            for listener in listeners:
                listener.on_end(result)
        return result

    def _risk(self, training: Sequence[Environment]) -> float:
        return float(torch.stack([e.risk(self.predict_plain(e)).double() for e in training]).mean())

    def _score(self, name: str, rule: Selection) -> Choice:
        """What a rule says of the one model there is."""
        if not rule.environments:
            return Choice(0, None, {})
        score = rule.score
        if score is explored_score:
            if self.uses_edges:
                warnings.warn(
                    f"selection {name!r} follows the risk's gradient to edges, and method {self.method} with these "
                    "settings uses edges and has none: it has no score by this rule.",
                    GraphshiftWarning,
                    stacklevel=5,
                )
                return Choice(0, None, {})
            score = mean_score
        found = score(AsMethod(self.method, self.predict_plain, name), rule.environments, 0)  # type: ignore[arg-type]
        if found is None:
            raise GraphshiftError("predictions for the validation environments are NaN or infinite; scale `x`.")
        return Choice(0, found, {})


class AsMethod:
    """A model without epochs as rules know a method: by ``predict``.

    Args:
        method: its name.
        predict: the output for every node of an environment.
        rule: the rule's name, for messages.
    """

    def __init__(self, method: str, predict: Callable[[Environment], Tensor], rule: str) -> None:
        self.method, self.predict, self.rule = method, predict, rule

    @property
    def backbone(self) -> Any:
        """There is none."""
        raise GraphshiftError(f"selection {self.rule!r} looks at the backbone, and method {self.method} has none.")
