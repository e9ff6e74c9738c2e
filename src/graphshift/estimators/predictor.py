"""What everything that predicts shares: one graph or several in, arrays or scores out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, overload

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment, as_environments
from graphshift.data.tasks import Task

Graphs: TypeAlias = Environment | Data | Iterable[Environment | Data]


class Predictor(ABC):
    """Predicts and scores. A subclass says what it puts out for a graph."""

    task_: Task
    n_features_in_: int

    @overload
    def predict(self, graphs: Environment | Data, *, adapt: str | None = None) -> NDArray[Any]: ...
    @overload
    def predict(self, graphs: Iterable[Environment | Data], *, adapt: str | None = None) -> dict[str, NDArray[Any]]: ...
    def predict(self, graphs: Graphs, *, adapt: str | None = None) -> NDArray[Any] | dict[str, NDArray[Any]]:
        """The class (or value) of every node. One graph gives an array; several give a dict by name.

        Args:
            graphs: labels are not needed, and never looked at.
            adapt: what the model may learn from each graph before it predicts it:
                ``"norm"``, ``"prior"`` (see :data:`graphshift.estimators.adaptation.ADAPTATIONS`) or ``"norm+prior"``.
        """
        return self._each(graphs, lambda _, output: self.task_.predictions(output).numpy(), adapt, labelled=False)

    def predict_proba(self, graphs: Graphs, *, adapt: str | None = None) -> NDArray[Any] | dict[str, NDArray[Any]]:
        """Class probabilities of every node, ``[nodes, classes]``; several graphs give a dict by name.

        Args:
            graphs, adapt: as in :meth:`predict`.
        """
        self._check_fitted()
        if not self.task_.is_classification:
            raise GraphshiftError("predict_proba: a regression model has no probabilities; use predict.")
        return self._each(graphs, lambda _, output: self.task_.probabilities(output).numpy(), adapt, labelled=False)

    @overload
    def score(self, graphs: Environment | Data, *, adapt: str | None = None) -> float: ...
    @overload
    def score(self, graphs: Iterable[Environment | Data], *, adapt: str | None = None) -> dict[str, float]: ...
    def score(self, graphs: Graphs, *, adapt: str | None = None) -> float | dict[str, float]:
        """The task's metric over the counted nodes. One graph gives a number; several give a dict by name.

        Args:
            graphs: with labels.
            adapt: as in :meth:`predict`.
        """

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

        return self._each(graphs, measure, adapt)

    @abstractmethod
    def _check_fitted(self) -> None:
        """Raises scikit-learn's error if it is not."""

    @abstractmethod
    def _device(self) -> torch.device:
        """Where it computes."""

    @abstractmethod
    def _checked(self, adapt: str | None) -> tuple[str, ...]:
        """The parts of an adaptation, if it can do them."""

    @abstractmethod
    def _output(self, environment: Environment, parts: Sequence[str]) -> Tensor:
        """For every node, ``[nodes, out_channels]``."""

    def _check_width(self, environment: Environment) -> None:
        if environment.num_features != self.n_features_in_:
            raise GraphshiftError(
                f"environment {environment.name!r} has {environment.num_features} features and the model was "
                f"trained with {self.n_features_in_}; give the same columns in the same order."
            )

    def _each(
        self, graphs: Graphs, measure: Callable[[Environment, Tensor], Any], adapt: str | None, *, labelled: bool = True
    ) -> Any:
        self._check_fitted()
        parts, results = self._checked(adapt), {}
        for environment in as_environments(graphs, self.task_, labelled=labelled):
            self._check_width(environment)
            if environment.name in results:
                raise GraphshiftError(f"two environments are called {environment.name!r}; names must differ.")
            environment = environment.to(self._device())
            results[environment.name] = measure(environment, self._output(environment, parts))
        return next(iter(results.values())) if isinstance(graphs, Environment | Data) else results
