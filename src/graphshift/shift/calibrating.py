"""A model calibrated to one graph without its labels, on copies of validation graphs that are moved to it.

Quantiles, temperatures and limits want labels. The copies of ``matching.py`` have them, and are like the graph in its
edges, in its features, or in both, as far as can be seen. It is not known which is nearest. So they are kept apart: a
set is the largest that one of them asks for, and an answer has to be safe on all.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment, as_environments
from graphshift.data.tasks import refuse_graph_level
from graphshift.estimators.answering import Answers
from graphshift.estimators.doubt import signs_of
from graphshift.estimators.explored import looked_at
from graphshift.estimators.predictor import Graphs, Predictor
from graphshift.estimators.sets import PredictionSets
from graphshift.estimators.trust import fitting
from graphshift.shift.matching import matched_copies
from graphshift.shift.reference import Reference, reference_of

_FEWEST = 20  # labelled nodes of a validation graph
_KEPT = 8  # graphs of which a calibrator remembers the model

Model = TypeVar("Model", bound=Predictor)


class Calibrator(Generic[Model]):
    """A model that is calibrated to each graph that it is asked about, on copies that are moved to this graph.

    ``graphshift predict`` and ``graphshift serve`` answer by it. The model that is given stays as it is, and so do its
    weights. What was learned of the last eight graphs is remembered, by what is in them.

    Args:
        model: fitted with validation graphs, for classes of nodes.
        validation: labelled graphs that the model was not trained on.
        seed: of the copies.

    >>> import graphshift as gs
    >>> data = gs.load("planted-structure", nodes=600)
    >>> careful = gs.Calibrator(gs.ERM(epochs=30).fit(data), data.val)
    >>> found = careful.predict_set(data.tests, coverage=0.9)
    >>> bool(found["T8"].covers(data.tests[-1].y).mean() > 0.8)
    True
    """

    def __init__(self, model: Model, validation: Graphs, *, seed: int = 0) -> None:
        refuse_graph_level(model.task_, "calibrating to a graph, which moves edges between labelled nodes,")
        if not model.task_.is_classification:
            raise GraphshiftError(
                "calibrate_to: the model predicts values; copies say how right it is for classes only."
            )
        labelled = fitting(validation, model.task_, labelled=True)
        self.validation = [e for e in labelled if e.single.numel() >= _FEWEST]
        if not self.validation:
            raise GraphshiftError(f"calibrate_to: no validation graph has {_FEWEST} labelled nodes that count.")
        self.model, self.seed = copy.copy(model), seed
        if self.model.explored_ is None:
            self.model.explore(self.validation, seed=seed)
        self._models: OrderedDict[str, Model] = OrderedDict()

    def __repr__(self) -> str:
        return f"Calibrator({self.model!r}, {', '.join(e.name for e in self.validation)})"

    @cached_property
    def _unmoved(self) -> list[dict[str, Tensor]]:
        """What the model shows of the validation graphs as they are."""
        return [self._looked(e, reference_of(e)) for e in self.validation]

    def to(self, graph: Environment | Data) -> Model:
        """The model calibrated to one graph; see :func:`calibrate_to`.

        Args:
            graph: labels are not looked at.
        """
        (target,) = fitting(graph, self.model.task_)
        digest = target.unlabelled().fingerprint()
        if digest not in self._models:
            self._models[digest] = self._calibrated(target)
        self._models.move_to_end(digest)
        if len(self._models) > _KEPT:
            self._models.popitem(last=False)
        return self._models[digest]

    def predict_set(
        self, graphs: Graphs, coverage: float = 0.9, **how: Any
    ) -> PredictionSets | dict[str, PredictionSets]:
        """Sets as those of :meth:`Trust.predict_set <graphshift.estimators.trust.Trust.predict_set>`.

        Args:
            graphs: labels are not needed, and never looked at.
            coverage: the share of nodes whose set is to have their label.
            how: ``score`` and ``smooth``.
        """
        return self._each(graphs, lambda model, e: model.predict_set(e, coverage, **how))

    def predict_or_abstain(self, graphs: Graphs, error: float = 0.05) -> Answers | dict[str, Answers]:
        """Answers as those of :meth:`Trust.predict_or_abstain <graphshift.estimators.trust.Trust.predict_or_abstain>`.

        Args:
            graphs: labels are not needed, and never looked at.
            error: the share of wrong answers that is allowed.
        """
        return self._each(graphs, lambda model, e: model.predict_or_abstain(e, error))

    def predict_proba(self, graphs: Graphs) -> NDArray[Any] | dict[str, NDArray[Any]]:
        """Class probabilities, calibrated to each graph.

        Args:
            graphs: labels are not needed, and never looked at.
        """
        return self._each(graphs, lambda model, e: model.predict_proba(e, calibrated="target"))

    def _each(self, graphs: Graphs, ask: Callable[[Model, Environment], Any]) -> Any:
        every = as_environments(graphs, self.model.task_, labelled=False)
        found = {e.name: ask(self.to(e), e) for e in every}
        return next(iter(found.values())) if isinstance(graphs, Environment | Data) else found

    def _calibrated(self, target: Environment) -> Model:
        model = copy.copy(self.model)
        model.signals([target])  # what it cannot predict is refused
        nodes: dict[str, list[dict[str, Tensor]]] = {"nothing": self._unmoved}
        for e in self.validation:
            reference = reference_of(e)
            copies = matched_copies(e, reference, target, self.seed)
            if "edges" not in copies:  # both are the features then
                copies.pop("both", None)
            for what, one in copies.items():
                nodes.setdefault(what, []).append(self._looked(one, reference))
        assert model.explored_ is not None
        model.explored_ = model.explored_.with_moved(nodes)
        return model

    def _looked(self, environment: Environment, reference: Reference) -> dict[str, Tensor]:
        """What the model shows of a copy's labelled nodes, in an order of chance."""
        assert self.model.explored_ is not None
        (signals,) = self.model.signals([environment]).values()
        every = torch.from_numpy(reference.rows)
        mixed = every[torch.randperm(every.numel(), generator=torch.Generator().manual_seed(self.seed))]
        signs = signs_of(environment, signals, self.model.explored_.reference, mixed)
        return looked_at(environment, signals, signs, mixed)


def calibrate_to(model: Model, graph: Environment | Data, validation: Graphs, *, seed: int = 0) -> Model:
    """The model with what copies of validation graphs say that were moved to ``graph``; its weights stay.

    What it then gives is for this graph: ``predict_set`` (weights ``"moved"``, which ``"auto"`` becomes),
    ``predict_or_abstain`` and ``predict_proba(graph, calibrated="target")``. ``model`` itself is left as it is. For
    several graphs there is :class:`Calibrator`.

    Args:
        model: fitted with validation graphs, for classes of nodes.
        graph: labels are not looked at.
        validation: labelled graphs that the model was not trained on.
        seed: of the copies.

    >>> import graphshift as gs
    >>> data = gs.load("planted-structure", nodes=600)
    >>> model = gs.ERM(epochs=30).fit(data)
    >>> test = data.tests[-1]
    >>> aimed = gs.calibrate_to(model, test, data.val)
    >>> plain, moved = (one.predict_set(test, 0.9).covers(test.y).mean() for one in (model, aimed))
    >>> bool(plain < moved > 0.8)
    True
    """
    return Calibrator(model, validation, seed=seed).to(graph)


def moved_copies_help(
    model: Predictor, *, adapt: str | None, calibrated: Any, abstain: float | None, weights: str | None
) -> bool:
    """Whether a :class:`Calibrator` is what answers a request: the rule of ``graphshift predict`` and ``serve``.

    Args:
        model: fitted.
        adapt, calibrated, abstain: as in :meth:`Predictor.predict_frame`.
        weights: of sets, as in :meth:`Predictor.predict_set`; None if no sets are asked for.
    """
    promised = calibrated == "target" or abstain is not None or weights in ("auto", "moved")
    able = model.explored_ is not None and not model.task_.is_graph_level
    return promised and able and adapt is None and weights != "copies"
