"""How right a model's probabilities are on labelled graphs: reliability diagrams and risk–coverage curves.

A reliability diagram has the share of right predictions over their confidence (Guo et al., 2017). A risk–coverage curve
has the share of wrong predictions among the surest ones, over how many these are (Geifman and El-Yaniv, 2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError
from graphshift.core.html import html_table
from graphshift.data.metrics import METRICS, confidence_bins
from graphshift.estimators.answering import aurc, risk_coverage
from graphshift.estimators.predictor import Graphs, Predictor
from graphshift.estimators.trust import fitting
from graphshift.shift.calibrating import calibrate_to

_POINTS = 60  # of a curve

#: Which probabilities, with what they are.
PROBABILITIES = {
    "raw": "as they are",
    "validation": "one temperature, of validation nodes",
    "target": "calibrated to the graph without its labels, on copies in all directions",
    "moved": "calibrated to the graph without its labels, on copies that are moved to it too",
}


@dataclass(frozen=True)
class Curves:
    """How right some probabilities are on the labelled nodes of a graph.

    Attributes:
        nodes: how many.
        accuracy: the share of right predictions.
        ece: the expected calibration error, of 15 bins of confidence.
        aurc: the area under the risk–coverage curve.
        bins: nodes, mean confidence and share that is right, of each bin that has nodes.
        curve: shares of nodes, the surest first, and of each the share that is wrong.
    """

    nodes: int
    accuracy: float
    ece: float
    aurc: float
    bins: tuple[tuple[int, float, float], ...]
    curve: tuple[tuple[float, float], ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        pairs = {name: [list(one) for one in getattr(self, name)] for name in ("bins", "curve")}
        return {**asdict(self), **pairs}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Curves:
        """What :meth:`to_json` gave."""
        pairs = {name: tuple(map(tuple, values[name])) for name in ("bins", "curve")}
        return cls(**{**values, **pairs})


@dataclass(frozen=True, eq=False, repr=False)
class Reliability:
    """How right a model's probabilities are.

    Attributes:
        graphs: by name of the graph and by name in :data:`PROBABILITIES`.
    """

    graphs: dict[str, dict[str, Curves]]

    def __repr__(self) -> str:
        return f"Reliability({', '.join(self.graphs)})"

    def _repr_html_(self) -> str:
        """For Jupyter."""
        return html_table("Reliability", COLUMNS, self.rows(), note="gs.figure(…) draws it.")

    def rows(self) -> list[list[Any]]:
        """A row for each graph and kind of probabilities, with :data:`COLUMNS`."""
        return [
            [
                graph,
                kind,
                one.nodes,
                *(f"{100 * value:.1f}" for value in (one.accuracy, one.ece)),
                f"{100 * one.aurc:.2f}",
            ]
            for graph, kinds in self.graphs.items()
            for kind, one in kinds.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {graph: {kind: one.to_json() for kind, one in kinds.items()} for graph, kinds in self.graphs.items()}


#: Of :meth:`Reliability.rows`.
COLUMNS = ["graph", "probabilities", "nodes", "accuracy (%)", "ECE (%)", "AURC (%)"]


def curves_of(y: NDArray[Any], p: NDArray[np.float64]) -> Curves:
    """Of labels and class probabilities.

    >>> found = curves_of(np.array([0, 0, 1]), np.array([[0.9, 0.1], [0.7, 0.3], [0.7, 0.3]]))
    >>> found.bins[0][0], round(found.bins[0][1], 3), found.bins[0][2]
    (2, 0.7, 0.5)

    Args:
        y: labels, ``[n]``.
        p: ``[n, classes]``.
    """
    right, sure = p.argmax(axis=1) == y, p.max(axis=1)
    rows = np.stack(confidence_bins(y, p)).T.round(5).tolist()
    bins = tuple((int(count), mean, share) for count, mean, share in rows)
    shares, risks = risk_coverage(sure, right)
    places = np.unique(np.linspace(0, len(y) - 1, _POINTS).round().astype(int))
    curve = tuple((round(float(shares[i]), 5), round(float(risks[i]), 5)) for i in places)
    return Curves(len(y), float(right.mean()), METRICS["ece"].compute(y, p), aurc(sure, right), bins, curve)


def reliability(model: Predictor, graphs: Graphs, validation: Graphs | None = None) -> Reliability:
    """How right a model's probabilities are on labelled graphs, before and after calibration.

    Labels are used for the answer alone: calibration to a graph does not look at them. ``gs.figure(found)`` and
    ``gs.figure(found, "risk-coverage")`` draw it.

    Args:
        model: fitted, for classes.
        graphs: with labels.
        validation: labelled graphs that the model was not trained on; with them also what
            :func:`graphshift.calibrate_to` gives.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=200)
    >>> model = gs.ERM(epochs=20).fit(data)
    >>> found = gs.reliability(model, data.tests, data.val)
    >>> list(found.graphs["T1"])
    ['raw', 'validation', 'moved']
    """
    if not model.task_.is_classification:
        raise GraphshiftError("reliability: the model predicts values, which have no probabilities.")
    found: dict[str, dict[str, Curves]] = {}
    for e in fitting(graphs, model.task_, labelled=True):
        assert e.y is not None
        rows = e.single.cpu().numpy()
        if not len(rows):
            raise GraphshiftError(
                f"environment {e.name!r}: no node that counts has one label, so nothing can be measured."
            )
        shown: dict[str, tuple[Predictor, Any]] = {"raw": (model, False)}
        if model.confidences_:
            shown["validation"] = (model, True)
        if model.explored_ is not None:
            shown["target"] = (model, "target")
        if validation is not None:
            shown["moved"] = (calibrate_to(model, e, validation), "target")
        y = e.y.cpu().numpy()[rows]
        p = {name: np.asarray(one.predict_proba(e, calibrated=how)) for name, (one, how) in shown.items()}
        found[e.name] = {name: curves_of(y, one[rows]) for name, one in p.items()}
    return Reliability(found)
