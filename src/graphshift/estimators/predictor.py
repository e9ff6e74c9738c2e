"""What everything that predicts shares: one graph or several in, arrays or scores out."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment, as_environments
from graphshift.datasets.tables.files import Source
from graphshift.datasets.tables.preparation import Preparation
from graphshift.estimators.adaptation import ADAPTATIONS, has_temperature, parts_of
from graphshift.estimators.answering import UNKNOWN, Answers
from graphshift.estimators.confidence import Confidence, parsed
from graphshift.estimators.frames import prediction_frame, prepared
from graphshift.estimators.trust import Graphs, Trust


class How(TypedDict, total=False):
    """What :meth:`Predictor.predict` and :meth:`Predictor.score` take beside graphs."""

    adapt: str | None
    threshold: float | str | None
    calibrated: bool


class Predictor(Trust):
    """Predicts and scores. A subclass says what it puts out for a graph.

    Attributes:
        task_: what is predicted.
        n_features_in_: the width of ``x``.
        n_edge_features_: the width of ``edge_attr``, if the model uses it; else 0.
        preparation_: how raw tables become graphs, if the model was fitted on tables; else None.
        confidences_, held_out_, explored_, prior_: as in :class:`~graphshift.estimators.trust.Trust`.
    """

    n_features_in_: int
    n_edge_features_: int = 0
    preparation_: Preparation | None = None

    @property
    def classes_(self) -> tuple[Any, ...]:
        """The classes by the names that the user's tables give them; else 0, 1, …; empty in regression."""
        return tuple(range(self.task_.num_classes)) if self.preparation_ is None else self.preparation_.label.classes

    def prepare(self, nodes: Source, edges: Source, *, name: str = "graph", **options: Any) -> Environment:
        """Turns raw tables, like those that the model was fitted on, into a graph that it predicts and scores.

        Labels are not needed. Where there are some, the nodes that have one count, so that ``score`` works.

        Args:
            nodes: a path to CSV or Parquet, or a pandas frame, with the columns that training had; words that training
                never saw are fine.
            edges: the same with one row for each edge.
            name: of the environment.
            options: ``graphs``, the table of graphs, where these have labels: needed to score, and if training had
                features from it. ``unknown_ids="drop"`` leaves out edges whose ends are not among the nodes.
                ``feature_file`` and ``feature_ids``, if training had them; files of the same names beside the nodes by
                default. What differs from the training tables in how they are laid out: ``id``, ``source``, ``target``,
                ``separator``, ``missing``, ``encoding`` …

        Returns:
            The environment; its ``ids`` are the nodes' ids in the order of the table, or the graphs'.
        """
        if self.preparation_ is None:
            what = "these tables" if isinstance(nodes, pd.DataFrame) else str(nodes)
            raise GraphshiftError(
                f"the model was not trained on tables, so it cannot read {what}; give graphs, or a dataset's name."
            )
        return prepared(self.preparation_, nodes, edges, name=name, options=options)

    @overload
    def predict(self, graphs: Environment | Data, **how: Unpack[How]) -> NDArray[Any]: ...
    @overload
    def predict(self, graphs: Iterable[Environment | Data], **how: Unpack[How]) -> dict[str, NDArray[Any]]: ...
    def predict(
        self,
        graphs: Graphs,
        *,
        adapt: str | None = None,
        threshold: float | str | None = None,
        calibrated: bool = False,
    ) -> NDArray[Any] | dict[str, NDArray[Any]]:
        """The class (or value) of every node. One graph gives an array; several give a dict by name.

        Args:
            graphs: labels are not needed, and never looked at.
            adapt: what the model may learn from each graph before it predicts it:
                ``"norm"``, ``"prior"`` (see :data:`graphshift.estimators.adaptation.ADAPTATIONS`) or ``"norm+prior"``.
            threshold: in binary tasks, the probability of class 1 above which it is predicted; or how to choose it on
                the validation graphs: ``"auto"`` (largest F1), ``"recall=0.9"``, ``"precision=0.8"``, ``"fpr=0.01"``.
                None takes the likelier class.
            calibrated: compare a threshold that is a number with calibrated probabilities; see :meth:`predict_proba`.
        """

        def decide(_: Environment, output: Tensor) -> NDArray[Any]:
            output = self._shifted(self._scaled(output, adapt, calibrated), adapt, threshold, calibrated=calibrated)
            return self.task_.predictions(output).numpy()

        return self._each(graphs, decide, adapt, labelled=False)

    def predict_proba(
        self, graphs: Graphs, *, adapt: str | None = None, calibrated: bool | Literal["target"] = False
    ) -> NDArray[Any] | dict[str, NDArray[Any]]:
        """Class probabilities of every node, ``[nodes, classes]``; several graphs give a dict by name.

        Args:
            graphs, adapt: as in :meth:`predict`.
            calibrated: divide the outputs by the temperature that was fitted to the validation graphs; see
                :class:`~graphshift.estimators.confidence.Confidence`. Predicted classes stay the same. With
                ``adapt="prior"`` by that of the validation graphs adapted to their own prior; the mean of an ensemble
                stays as it is then. ``"target"`` calibrates to the graph itself, without its labels: each node has a
                temperature, and class shares are corrected where they can be estimated, so that another class may be
                the likeliest; see :meth:`explore`.
        """
        self._check_fitted()
        if not self.task_.is_classification:
            raise GraphshiftError("predict_proba: a regression model has no probabilities; use predict.")
        if calibrated and not self.confidences_:
            raise GraphshiftError(
                "calibrated is True and the model is not calibrated: fit it with a validation graph or selection "
                "'id_val', or call model.calibrate(graphs) with labelled graphs."
            )

        if calibrated == "target":
            self._explored(adapt)
            shown = {e.name: self.outlook(e, one).p.numpy() for e, one in self.signals(graphs).items()}
            return next(iter(shown.values())) if isinstance(graphs, Environment | Data) else shown
        if not isinstance(calibrated, bool):
            raise GraphshiftError(f"calibrated is {calibrated!r}; expected True, False or 'target'.")
        scale = calibrated

        def probabilities(_: Environment, output: Tensor) -> NDArray[Any]:
            return self.task_.probabilities(self._scaled(output, adapt, scale)).numpy()

        return self._each(graphs, probabilities, adapt, labelled=False)

    def predict_frame(
        self,
        graphs: Graphs,
        *,
        adapt: str | None = None,
        calibrated: bool | Literal["target"] | None = None,
        threshold: float | str | None = None,
        abstain: float | None = None,
    ) -> pd.DataFrame:
        """Predictions as a table: one row for each node of each graph, in their order.

        The columns are ``id`` (the user's own, or the node's number), ``environment``, ``prediction`` (the class by its
        name, or the value in the user's unit) and, for classes, ``p(NAME)``: the probability of each.

        Args:
            graphs, adapt: as in :meth:`predict`.
            calibrated: as in :meth:`predict_proba`. None calibrates where there were validation graphs.
            threshold: as in :meth:`predict`; a number is compared with the probabilities in the table.
            abstain: adds ``answer`` (the prediction, or "I don't know"), ``p_right`` and ``reason``, so that a share
                ``abstain`` of the answers is expected to be wrong at most; see :meth:`predict_or_abstain`.
                Probabilities are then calibrated to the graph.
        """
        self._check_fitted()
        if calibrated == "target" or abstain is not None:
            return self._frame_on_target(graphs, adapt, threshold, abstain)
        if calibrated is None:
            calibrated = bool(self.confidences_) and has_temperature(adapt)
        if not isinstance(calibrated, bool):
            raise GraphshiftError(f"calibrated is {calibrated!r}; expected True, False or 'target'.")
        scale = calibrated

        def frame(environment: Environment, output: Tensor) -> pd.DataFrame:
            output = self._scaled(output, adapt, scale)
            decided = self.task_.predictions(self._shifted(output, adapt, threshold, calibrated=scale))
            probabilities = self.task_.probabilities(output).numpy() if self.task_.is_classification else None
            return prediction_frame(environment, decided.numpy(), probabilities, self.preparation_, self.classes_)

        found = self._each([graphs] if isinstance(graphs, Environment | Data) else graphs, frame, adapt, labelled=False)
        return pd.concat(found.values(), ignore_index=True)

    def _frame_on_target(
        self, graphs: Graphs, adapt: str | None, threshold: float | str | None, abstain: float | None
    ) -> pd.DataFrame:
        """The table with probabilities that are calibrated to each graph and, if wanted, with answers."""
        if threshold is not None:
            raise GraphshiftError(
                f"threshold is {threshold!r}, and probabilities are calibrated to the graph, where none was chosen; "
                "leave it out."
            )
        self._explored(adapt)
        tables = []
        for e in as_environments(graphs, self.task_, labelled=False):
            found = None if abstain is None else self.predict_or_abstain(e, abstain)
            p = found.probabilities if isinstance(found, Answers) else self.predict_proba(e, calibrated="target")
            assert isinstance(p, np.ndarray)  # of one graph
            table = prediction_frame(e, p.argmax(axis=1), p, self.preparation_, self.classes_)
            if isinstance(found, Answers):
                table["answer"] = np.where(found.answered, table["prediction"].astype(object), UNKNOWN)
                table["p_right"], table["reason"] = found.right, found.reasons
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    @overload
    def score(self, graphs: Environment | Data, **how: Unpack[How]) -> float: ...
    @overload
    def score(self, graphs: Iterable[Environment | Data], **how: Unpack[How]) -> dict[str, float]: ...
    def score(
        self,
        graphs: Graphs,
        *,
        adapt: str | None = None,
        threshold: float | str | None = None,
        calibrated: bool = False,
    ) -> float | dict[str, float]:
        """The task's metric over the counted nodes. One graph gives a number; several give a dict by name.

        Args:
            graphs: with labels.
            adapt, threshold: as in :meth:`predict`. A threshold moves the probabilities so that they cross one half
                there: metrics of predicted classes follow, metrics of the order of nodes stay as they are.
            calibrated: as in :meth:`predict_proba`; it matters to the calibration error, and to a threshold that is a
                number.
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
            output = self._shifted(self._scaled(output, adapt, calibrated), adapt, threshold, calibrated=calibrated)
            return environment.to(output.device).score(output)

        return self._each(graphs, measure, adapt)

    def _confidence(self, adapt: str | None) -> Confidence | None:
        parts = parts_of(adapt)
        return self.confidences_.get("+".join(part for part in ADAPTATIONS if part in parts))

    def _scaled(self, output: Tensor, adapt: str | None, calibrated: bool) -> Tensor:
        if calibrated and not has_temperature(adapt):
            raise GraphshiftError(
                f"adapt is {adapt!r}: a model so adapted to a graph has no temperature; leave calibrated out."
            )
        confidence = self._confidence(adapt) if calibrated else None
        return output if confidence is None else confidence.scaled(output, self.task_)

    def _shifted(
        self, output: Tensor, adapt: str | None, threshold: float | str | None, *, calibrated: bool = False
    ) -> Tensor:
        """The output moved so that class 1 is predicted above the threshold."""
        if threshold is None:
            return output
        if self.task_.kind != "binary":
            raise GraphshiftError(f"threshold is {threshold!r} and the task is {self.task_.kind}; only binary has one.")
        return output.cpu().double() - self._logit(threshold, adapt, calibrated)

    def _logit(self, threshold: float | str, adapt: str | None, calibrated: bool) -> float:
        """A threshold, or what a rule chooses on validation, in the outputs that it is compared with."""
        if not isinstance(threshold, str):
            if not 0 < threshold < 1:
                raise GraphshiftError(f"threshold is {threshold!r}; expected a probability between 0 and 1.")
            return math.log(threshold / (1 - threshold))
        parsed(threshold)
        if "prior" in parts_of(adapt):
            raise GraphshiftError(
                f"threshold is {threshold!r} and adapt {adapt!r}: it was chosen without the new prior, which moves "
                "probabilities. Give a number, as 0.5, or leave one of them out."
            )
        confidence = self._confidence(adapt)
        if confidence is None or confidence.thresholds is None:
            raise GraphshiftError(
                f"threshold is {threshold!r} and there is nothing to choose it on: fit with a validation graph that "
                "has nodes of both classes, call model.calibrate(graphs), or give a number, as 0.3."
            )
        logit = confidence.thresholds.choose(threshold)
        return confidence.scaled_logit(logit) if calibrated else logit

    def threshold_of(self, rule: float | str = "auto", *, adapt: str | None = None, calibrated: bool = False) -> float:
        """The probability of class 1 above which it is predicted, as ``threshold=rule`` in :meth:`predict` has it.

        Args:
            rule, adapt: as in :meth:`predict`.
            calibrated: of calibrated probabilities, as in :meth:`predict_proba`.
        """
        self._check_fitted()
        self._shifted(torch.empty(0, 1), adapt, rule, calibrated=calibrated)
        return 1 / (1 + math.exp(-self._logit(rule, adapt, calibrated)))

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

    def _represented(self, environment: Environment, parts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """What is known of every node before the last step, ``[nodes, any]``, and the output; by default one thing."""
        output = self._output(environment, parts)
        return (self.task_.class_scores(output) if self.task_.is_classification else output), output

    def _check_width(self, environment: Environment) -> None:
        if environment.num_features != self.n_features_in_:
            raise GraphshiftError(
                f"environment {environment.name!r} has {environment.num_features} features and the model was "
                f"trained with {self.n_features_in_}; give the same columns in the same order."
            )
        if self.n_edge_features_ not in (0, environment.num_edge_features):
            raise GraphshiftError(
                f"the edges of environment {environment.name!r} have {environment.num_edge_features} features "
                f"(`edge_attr`) and the model was trained with {self.n_edge_features_}; give the same columns in the "
                "same order."
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
