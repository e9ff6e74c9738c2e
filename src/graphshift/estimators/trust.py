"""What can be promised of predictions on a graph without labels: sets, an expected score, answers or none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment, as_environments
from graphshift.data.metrics import METRICS
from graphshift.data.pieces import standing_for
from graphshift.data.tasks import Task, refuse_graph_level
from graphshift.estimators.answering import Answers, answers_of, check_error
from graphshift.estimators.confidence import Confidence
from graphshift.estimators.estimating import Estimate, at_counted, check_metric, combined
from graphshift.estimators.explored import Explored, Outlook, explored_of
from graphshift.estimators.held_out import HeldOut, Signals
from graphshift.estimators.sets import HowSets, PredictionSets, class_weights, sets_of

Graphs: TypeAlias = Environment | Data | Iterable[Environment | Data]

#: What cannot be done where graphs have labels.
_COPIES = "learning from shifted copies, which move edges between labelled nodes,"


def fitting(graphs: Graphs, task: Task, *, labelled: bool = False) -> list[Environment]:
    """Graphs as far as they fit into memory: parts stand for one in a partition folder."""
    return [standing_for(e) for e in as_environments(graphs, task, labelled=labelled)]


class Trust(ABC):
    """What a fitted model can say of its own predictions. :class:`~graphshift.estimators.predictor.Predictor` is one.

    Attributes:
        task_: what is predicted.
        confidences_: what validation graphs said of the probabilities, by adaptation: ``""`` for none, ``"norm"``.
            Empty without validation graphs and in regression.
        held_out_: what they said for prediction sets, likewise; see :meth:`predict_set`.
        explored_: what shifted copies of them said; see :meth:`explore`. None if nobody asked.
        prior_: shares of the classes in training; empty in regression.
    """

    task_: Task
    confidences_: dict[str, Confidence]
    held_out_: dict[str, HeldOut]
    explored_: Explored | None = None
    prior_: Tensor

    def predict_set(
        self,
        graphs: Graphs,
        coverage: float = 0.9,
        *,
        score: str = "aps",
        smooth: float = 0.0,
        alike: float = 0.0,
        weights: str = "auto",
        adapt: str | None = None,
    ) -> PredictionSets | dict[str, PredictionSets]:
        """For every node a set of classes, or an interval, that has its label with probability ``coverage``.

        It holds for nodes that are exchangeable with the held-out ones (:meth:`calibrate`), and under the assumption of
        the weights where there are some: see :data:`graphshift.estimators.sets.WEIGHTS`. Several graphs give a dict.
        :class:`graphshift.Calibrator` moves copies to each graph, which has the best coverage.

        Args:
            graphs: labels are not needed, and never looked at.
            coverage: the share of nodes whose set is to have their label.
            score: ``"threshold"``, ``"aps"`` or ``"raps"``; not used in regression.
            smooth, alike: parts of a score that are the mean of neighbours' (DAPS) and of alike nodes' (SNAPS).
            weights: ``"none"``, ``"each-class"``, ``"classes"``, ``"features"``, ``"copies"``, ``"moved"`` or
                ``"auto"``.
            adapt: ``"norm"`` or None; for new class shares there are weights.
        """
        how = HowSets(coverage, score, smooth, alike, weights)
        # Copies are of the model as it is; what is not asked for by name is not needed either.
        explored = self._explored(adapt) if weights in ("copies", "moved") else None if adapt else self.explored_
        found = {}
        for e, signals in self.signals(graphs, adapt=adapt).items():
            held = self.held_out_["" if adapt is None else adapt]
            graph = e.replace(task=self.task_)
            found[e.name] = sets_of(graph, signals, held, self.prior_, how, self.classes_, explored)
        return next(iter(found.values())) if isinstance(graphs, Environment | Data) else found

    def predict_or_abstain(self, graphs: Graphs, error: float = 0.05) -> Answers | dict[str, Answers]:
        """Answers where a share ``error`` of the answers is expected to be wrong at most, and gives reasons elsewhere.

        The probability of each prediction to be right is learned on shifted copies (:meth:`explore`), weighted to look
        like the graph. Nothing is answered where :meth:`estimate_score` refuses. Several graphs give a dict.
        :class:`graphshift.Calibrator` also moves copies to the graph, which is safer.

        Args:
            graphs: labels are not needed, and never looked at.
            error: the share of wrong answers that is allowed.
        """
        check_error(error)
        explored, found = self._explored(None), {}
        metric = METRICS["accuracy"]
        for e, signals in self.signals(graphs).items():
            refused = combined(self.held_out_[""], at_counted(signals, e.counted.cpu()), self.prior_, metric).refused
            found[e.name] = answers_of(e, signals, explored, self.outlook(e, signals), error, refused)
        return next(iter(found.values())) if isinstance(graphs, Environment | Data) else found

    def explore(self, graphs: Graphs, *, seed: int = 0) -> None:
        """Learns from shifted copies of labelled graphs how right the model is when the graph changes.

        :meth:`predict_or_abstain`, probabilities with ``calibrated="target"`` and sets with ``weights="copies"`` need
        it. About 25 copies of each graph are predicted. ``graphshift fit`` does it with the validation graphs.

        Args:
            graphs: labelled graphs that the model was not trained on.
            seed: of the copies.
        """
        self._check_fitted()
        if not self.task_.is_classification:
            raise GraphshiftError("explore: the model predicts values; copies say how right it is for classes only.")
        refuse_graph_level(self.task_, _COPIES)
        self.explored_ = explored_of(self, fitting(graphs, self.task_, labelled=True), seed)

    def outlook(self, environment: Environment, signals: Signals) -> Outlook:
        """What the copies say of one graph; see :meth:`explore`.

        Args:
            environment: the graph.
            signals: what :meth:`signals` gave for it.
        """
        held = self.held_out_[""]
        shown = at_counted(signals, environment.counted.cpu())
        ratios, unsafe = class_weights(shown.log_p, held, self.prior_, self.classes_)
        return self._explored(None).on(environment, signals, ratios if unsafe is None else None)

    def _explored(self, adapt: str | None) -> Explored:
        if adapt is not None:
            raise GraphshiftError(f"adapt is {adapt!r}; copies are of the model as it is: leave adapt out.")
        if self.explored_ is None:
            self._check_fitted()
            refuse_graph_level(self.task_, _COPIES)
            what = "classes" if self.task_.is_classification else "classes, and the model predicts values"
            raise GraphshiftError(
                f"the model was not looked at on shifted copies, which this needs (for {what}): ask "
                "gs.Calibrator(model, graphs) with labelled graphs that it was not trained on, or call "
                "model.explore(graphs) and save it; `graphshift fit` explores validation graphs of up to 50,000 nodes."
            )
        return self.explored_

    def estimate_score(self, graphs: Graphs, *, adapt: str | None = None) -> Estimate | dict[str, Estimate]:
        """What the model is expected to score on a graph, without its labels; several graphs give a dict.

        It is the median of the estimates of :data:`graphshift.estimators.estimating.ESTIMATES` that need no validation
        graph at hand; :func:`graphshift.estimate_score` learns on shifted copies of one, and does better.

        Args:
            graphs: labels are not needed, and never looked at.
            adapt: ``"norm"`` or None.
        """
        metric = METRICS.find(self.task_.metric)
        check_metric(metric, self.task_.is_classification)
        found = {}
        for e, signals in self.signals(fitting(graphs, self.task_), adapt=adapt).items():
            target = at_counted(signals, e.counted.cpu())
            found[e.name] = combined(self.held_out_[adapt or ""], target, self.prior_, metric)
        return next(iter(found.values())) if isinstance(graphs, Environment | Data) else found

    def edited(self, environment: Environment, share: float = 1.0) -> Environment | None:
        """A labelled graph after the edits of edges that raise the model's risk most; None where that cannot be told.

        Args:
            environment: with labels.
            share: at most as many pairs are flipped as this share of the edges.
        """
        return None

    def signals(self, graphs: Graphs, *, adapt: str | None = None) -> dict[Environment, Signals]:
        """What the model shows of every node: probabilities, the neighbours' mean, hidden states, energy; by graph.

        Args:
            graphs: labels are not looked at.
            adapt: ``"norm"`` or None.
        """
        self._check_fitted()
        if not self.held_out_:
            raise GraphshiftError(
                "the model has no held-out nodes: it was fitted without a validation graph, or saved by an earlier "
                "version. Fit it with a validation graph or selection 'id_val', or call model.calibrate(graphs) with "
                "labelled graphs that it was not trained on, and save it."
            )
        if adapt not in (None, *filter(None, self.held_out_)):
            raise GraphshiftError(
                f"adapt is {adapt!r}; expected {' or '.join(repr(m or None) for m in self.held_out_)} here; for new "
                "class shares there is weights='classes'."
            )
        parts, found = self._checked(adapt), {}
        for e in as_environments(graphs, self.task_, labelled=False):
            self._check_width(e)
            hidden, output = self._represented(e.to(self._device()), parts)
            if not bool(torch.isfinite(output).all()):
                raise GraphshiftError(f"environment {e.name!r}: the model predicts NaN or infinite values.")
            found[e] = Signals.of(e, hidden, output, self.task_, self._confidence(adapt))
            old, new = self.held_out_[adapt or ""].signals.hidden.shape[1], found[e].hidden.shape[1]
            if old != new:
                raise GraphshiftError(
                    f"the held-out nodes have {old} hidden numbers each and the model has {new}: they are of another "
                    "model; call model.calibrate(graphs) and save it again."
                )
        return found

    @property
    @abstractmethod
    def classes_(self) -> tuple[Any, ...]:
        """The classes by name; empty in regression."""

    @abstractmethod
    def _check_fitted(self) -> None:
        """Raises scikit-learn's error if it is not."""

    @abstractmethod
    def _device(self) -> torch.device:
        """Where it computes."""

    @abstractmethod
    def _checked(self, adapt: str | None) -> Sequence[str]:
        """The parts of an adaptation, if it can do them."""

    @abstractmethod
    def _check_width(self, environment: Environment) -> None:
        """Refuses a graph with other columns."""

    @abstractmethod
    def _represented(self, environment: Environment, parts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """What is known of every node before the last step, ``[nodes, any]``, and the output."""

    @abstractmethod
    def _confidence(self, adapt: str | None) -> Confidence | None:
        """What calibrates probabilities."""
