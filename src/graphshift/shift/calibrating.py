"""A model calibrated to one graph without its labels, on copies of validation graphs that are moved to it.

Quantiles, temperatures and limits want labels. The copies of ``matching.py`` have them, and are like the graph in its
edges, in its features, or in both, as far as can be seen. It is not known which is nearest. So they are kept apart: a
set is the largest that one of them asks for, and an answer has to be safe on all.
"""

from __future__ import annotations

import copy
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.data.tasks import refuse_graph_level
from graphshift.estimators.doubt import signs_of
from graphshift.estimators.explored import Explored, looked_at
from graphshift.estimators.predictor import Graphs, Predictor
from graphshift.estimators.trust import fitting
from graphshift.shift.matching import matched_copies
from graphshift.shift.reference import reference_of

_FEWEST = 20  # labelled nodes of a validation graph

Model = TypeVar("Model", bound=Predictor)


def calibrate_to(model: Model, graph: Environment | Data, validation: Graphs, *, seed: int = 0) -> Model:
    """The model with what copies of validation graphs say that were moved to ``graph``; its weights stay.

    What it then gives is for this graph: ``predict_set`` (weights ``"moved"``, which ``"auto"`` becomes),
    ``predict_or_abstain`` and ``predict_proba(graph, calibrated="target")``. ``model`` itself is left as it is.

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
    refuse_graph_level(model.task_, "gs.calibrate_to, which moves edges between labelled nodes,")
    if not model.task_.is_classification:
        raise GraphshiftError("calibrate_to: the model predicts values; copies say how right it is for classes only.")
    (target,) = fitting(graph, model.task_)
    labelled = [e for e in fitting(validation, model.task_, labelled=True) if e.single.numel() >= _FEWEST]
    if not labelled:
        raise GraphshiftError(f"calibrate_to: no validation graph has {_FEWEST} labelled nodes that count.")
    found = copy.copy(model)
    if found.explored_ is None:
        found.explore(labelled, seed=seed)
    assert found.explored_ is not None
    nodes: dict[str, list[dict[str, Tensor]]] = {}
    for e in labelled:
        reference = reference_of(e)
        copies = matched_copies(e, reference, target, seed)
        if "edges" not in copies:  # both are the features then
            copies.pop("both", None)
        for what, one in {"nothing": e, **copies}.items():
            nodes.setdefault(what, []).append(_looked(found, found.explored_, one, reference.rows, seed))
    found.explored_ = found.explored_.with_moved(nodes)
    return found


def _looked(
    model: Predictor, explored: Explored, environment: Environment, rows: NDArray[np.int64], seed: int
) -> dict[str, Tensor]:
    """What the model shows of a copy's labelled nodes, in an order of chance."""
    (signals,) = model.signals([environment]).values()
    every = torch.from_numpy(rows)
    mixed = every[torch.randperm(every.numel(), generator=torch.Generator().manual_seed(seed))]
    return looked_at(environment, signals, signs_of(environment, signals, explored.reference, mixed), mixed)
