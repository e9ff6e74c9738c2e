"""Smooth ridge: a linear model of far-smoothed features, centred in each graph, with confident target labels.

After Wu et al. (SGC, ICML 2019), who smooth features beforehand; Sun and Saenko (Deep CORAL, 2016), of whose moments it
aligns the first; and Lee (2013), who learns from confident predictions. All of it is solved in closed form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparam
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task, refuse_graph_level
from graphshift.estimators.base import METHODS
from graphshift.estimators.direct import Array, DirectEstimator, DirectModel
from graphshift.estimators.target import SeesTarget
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse
from graphshift.methods.columns import pooled
from graphshift.methods.logistic import scale_of
from graphshift.methods.self_training import confident
from graphshift.methods.tabular import checked_shape, softmax

#: Scores are near 0 and 1; so many times as large they are log-odds that the softmax takes.
_SHARPNESS = 10.0
#: The score of a class that training does not have.
_NEVER = -1e3
#: Up to how many features the directions come from one dense matrix.
_FEW = 1_000
_CLOSE = 1e-3


def smoothed(graph: Graph, rows: Tensor, steps: int) -> Tensor:
    """Â^steps H."""
    for _ in range(steps):
        rows = graph.normalised @ rows
    return rows


def directions(features: Sequence[Tensor | Sparse], graphs: Sequence[Graph], width: int, steps: int) -> Array:
    """The ``width`` leading eigenvectors of Σ_g cov(Â_g^steps X_g), ``[features, width]``; all if there are no more.

    What neighbours share stays in smoothed features, and what is chance in single nodes goes. Each graph is centred and
    counts as much as the others, so that no direction says which graph a node is from.

    Args:
        features: X of each graph.
        graphs: theirs.
        width: how many.
        steps: how far X is smoothed.
    """
    columns = features[0].shape[1]
    if columns <= width:
        return np.eye(columns, dtype=np.float32)

    def covariance(v: Array) -> Array:
        """Its product with v: the gradient of ½ Σ_g tr(vᵀ cov(Â_g^steps X_g) v)."""
        at = torch.from_numpy(np.ascontiguousarray(v.reshape(columns, -1), dtype=np.float32)).requires_grad_()
        for x, graph in zip(features, graphs, strict=True):
            h = smoothed(graph, x @ at.to(graph.device), steps)
            ((h - h.mean(dim=0)).square().sum() / (2 * len(h))).backward()
        assert at.grad is not None
        return at.grad.numpy()

    if columns <= _FEW:
        whole = covariance(np.eye(columns))
        vectors = np.linalg.eigh((whole + whole.T) / 2)[1]
    else:
        shape = (columns, columns)
        operator = LinearOperator(shape, matvec=covariance, matmat=covariance, dtype=np.float32)
        vectors = eigsh(operator, k=width, v0=np.ones(columns, np.float32), tol=_CLOSE)[1]
    found: Array = vectors[:, ::-1][:, :width].astype(np.float32)
    return found


def placed(graph: Graph, counted: Tensor, rows: Tensor, steps: int) -> Array:
    """Â^steps H with rows of length 1, less the mean row of the counted nodes, float64; a row of zeros has no length.

    Args:
        graph: whose Â it is.
        counted: the nodes that count.
        rows: H, ``[nodes, columns]``.
        steps: of smoothing.
    """
    h = F.normalize(smoothed(graph, rows, steps).double())
    found: Array = (h - h[counted].mean(dim=0)).cpu().numpy()
    return found


def weighted_ridge(rows: Array, goals: Array, weights: Array, penalty: float) -> tuple[Array, Array]:
    """W and b that minimise Σ_v w_v ‖W x_v + b − y_v‖² / Σ_v w_v + penalty ‖W‖², ``[goals, columns]`` and ``[goals]``.

    Args:
        rows: x, ``[nodes, columns]``.
        goals: y, ``[nodes, goals]``.
        weights: w, ``[nodes]``.
        penalty: of the weights, not of the offset.
    """
    w = (weights / weights.sum())[:, None]
    centre, goal = (w * rows).sum(axis=0), (w * goals).sum(axis=0)
    apart = rows - centre
    system = apart.T @ (w * apart) + penalty * np.eye(rows.shape[1])
    weight = np.linalg.solve(system, apart.T @ (w * (goals - goal))).T
    return weight, goal - weight @ centre


class SmoothRidgeModel(DirectModel):
    """Directions of the features, and a linear model of where nodes are placed in them.

    Args:
        steps: of smoothing before the linear model.
        centre, scale: what to take off each feature and to divide it by, ``[features]``.
        basis: ``[features, width]``.
        weight, offset: of the linear model, ``[classes, width]`` and ``[classes]``.
    """

    uses_edges = True
    no_module = "takes off the mean of the nodes that count, and an exported model is not told which do"

    def __init__(self, steps: int, centre: Array, scale: Array, basis: Array, weight: Array, offset: Array) -> None:
        self.steps, self.centre, self.scale, self.offset = steps, centre, scale, offset
        # One order in memory, fitted or loaded: the product's last bit depends on it.
        self.basis, self.weight = np.ascontiguousarray(basis), np.ascontiguousarray(weight)

    def predict(self, environment: Environment) -> Array:
        """Probabilities; the graph's own mean is taken off."""
        x = scaled(environment.x, self.centre, self.scale)
        rows = x @ torch.from_numpy(self.basis).to(x.device)
        where = placed(environment.graph, environment.counted, rows, self.steps)
        return softmax(_SHARPNESS * (where @ self.weight.T + self.offset))

    def arrays(self) -> dict[str, Array]:
        """All five."""
        names = ("centre", "scale", "basis", "weight", "offset")
        return {name: getattr(self, name) for name in names}


def scaled(x: Tensor | Sparse, centre: Array, scale: Array) -> Tensor | Sparse:
    """(X − centre) / scale of dense columns; sparse ones count something, and stay as they are."""
    if isinstance(x, Sparse):
        return x
    return (x - torch.from_numpy(centre).to(x)) / torch.from_numpy(scale).to(x)


@METHODS.register("smooth-ridge", label="Smooth ridge")
@dataclass(eq=False, repr=False, kw_only=True)
class SmoothRidge(SeesTarget, DirectEstimator):
    """Ridge regression on far-smoothed features, centred in each graph; confident target labels join in. No GNN.

    Dense columns are standardised by training. Features are replaced by their place in the leading directions of what
    source and target have, smoothed, scaled to length 1, and their mean is taken off in each graph. A linear model
    learns the source's classes, and then those of the target's most confident nodes as well.

    Args:
        width: how many directions.
        steps: of smoothing before the linear model.
        penalty: of its weights.
        rounds: how often the target is labelled; 0 for never.
        share: of the nodes of each predicted class that get a label.
        target: as in :class:`~graphshift.estimators.target.SeesTarget`.
        selection, seed: as in :class:`~graphshift.estimators.direct.DirectEstimator`.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=100)
    >>> model = gs.SmoothRidge(target="tests").fit(data)
    >>> model.predict(data.tests[0]).shape
    (100,)
    """

    #: How far features are smoothed before directions are sought.
    steps_of_directions = 2

    width: int = hparam(64, ge=1, le=4096, search=(32, 64, 128), help="directions of the features that are kept")
    steps: int = hparam(5, ge=0, le=1000, search=(2, 5, 20), help="steps of smoothing before the linear model")
    penalty: float = hparam(1e-3, gt=0, le=1e6, search=(1e-4, 1e-3, 1e-2), help="penalty of the linear model's weights")
    rounds: int = hparam(1, ge=0, le=1000, help="how often the target is labelled; 0: never")
    share: float = hparam(
        0.6, gt=0, le=1, search=(0.3, 0.6, 0.9), help="share of each predicted class that is labelled"
    )

    def check_task(self, task: Task) -> None:
        """Classes of nodes alone."""
        refuse_graph_level(task, "method smooth-ridge, which smooths over edges,")
        if not task.is_classification:
            raise GraphshiftError("method smooth-ridge predicts classes; for values take logistic or forest.")

    def learn_with(self, training: Sequence[Environment], target: Sequence[Environment]) -> DirectModel:
        """The directions of all graphs, the source's linear model, and the rounds."""
        every = [*training, *target]
        centre, scale = scale_of(pooled(training, "plain")[0])
        features = [scaled(e.x, centre, scale) for e in every]
        basis = directions(features, [e.graph for e in every], self.width, self.steps_of_directions)
        rows = []
        for e, x in zip(every, features, strict=True):
            at = placed(e.graph, e.counted, x @ torch.from_numpy(basis).to(x.device), self.steps)
            rows.append(at[e.counted.cpu().numpy()])
        source, away, count = rows[: len(training)], rows[len(training) :], training[0].task.num_classes
        labels = [e.labels.cpu().numpy().astype(np.int64) for e in training]
        present = np.isin(np.arange(count), np.concatenate(labels))
        weight, offset = _fitted(source, labels, count, self.penalty)
        for _ in range(self.rounds if away else 0):
            found = [_labelled(one, weight, np.where(present, offset, _NEVER), self.share) for one in away]
            known = [nodes >= 0 for nodes in found]
            more = [one[nodes] for one, nodes in zip(away, known, strict=True)]
            theirs = [nodes[nodes >= 0] for nodes in found]
            weight, offset = _fitted(source, labels, count, self.penalty, more, theirs)
        return SmoothRidgeModel(self.steps, centre, scale, basis, weight, np.where(present, offset, _NEVER))

    def learn(self, training: Sequence[Environment]) -> DirectModel:
        """Without a target."""
        return self.learn_with(training, ())

    def model_of(self, arrays: Mapping[str, Array], features: int, task: Task) -> DirectModel:
        """Reads and checks the arrays."""
        width = arrays["basis"].shape[-1]
        shapes = {"centre": (features,), "scale": (features,), "basis": (features, width)}
        shapes |= {"weight": (task.num_classes, width), "offset": (task.num_classes,)}
        found = {name: checked_shape(arrays, name, shape) for name, shape in shapes.items()}
        return SmoothRidgeModel(self.steps, **found)

    def fitting_bytes(self, data: ShiftDataset) -> dict[str, float]:
        """Places of all nodes, and smoothed copies of a graph while directions are sought."""
        nodes = [e.num_nodes for e in data.environments]
        columns = min(self.width, data.train[0].num_features)
        few = data.train[0].num_features if columns < data.train[0].num_features <= _FEW else columns
        return {"places": 8.0 * columns * sum(nodes), "smoothed": 16.0 * few * max(nodes)}


_Rows = Sequence[Array]


def _fitted(
    rows: _Rows, labels: _Rows, count: int, penalty: float, more: _Rows = (), theirs: _Rows = ()
) -> tuple[Array, Array]:
    """Of the mean risk of the source graphs and, as heavy, that of the target graphs' labelled nodes."""
    weights = [np.full(len(one), 1 / (max(len(one), 1) * len(side))) for side in (rows, more) for one in side]
    goals = np.eye(count)[np.concatenate([*labels, *theirs])]
    return weighted_ridge(np.concatenate([*rows, *more]), goals, np.concatenate(weights), penalty)


def _labelled(rows: Array, weight: Array, offset: Array, share: float) -> Array:
    scores = softmax(_SHARPNESS * (rows @ weight.T + offset))
    found: Array = confident(torch.from_numpy(scores), share).numpy()
    return found
