"""Pair-Align (Liu et al., ICML 2024): edges and nodes of the source are weighted so that they are as in the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparam
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task, refuse_graph_level
from graphshift.estimators.base import METHODS
from graphshift.estimators.target import TargetEstimator
from graphshift.graph.graph import Graph
from graphshift.training.method import Method, with_prefix

_PREFIX = "pair-align."
_EXACT = 1e4  # weight of the equation that must hold
_LEAST = 1e-3  # weight of an edge

Array = NDArray[np.float64]


def ratios(joint: Array, target: Array, strength: float) -> Array:
    """w ≥ 0 with Σ_c w_c P_S(c) = 1 that minimises ‖C w − μ‖² + s ‖w − 1‖²: by what the target's shares differ.

    If predictions err alike on both sides, C w = μ has the target's shares as w_c P_S(c) (Lipton et al., 2018).

    Args:
        joint: C, with P_S(predicted r, true c) in row r and column c.
        target: μ, with P_T(predicted r), ``[rows]``.
        strength: s; a large one leaves all ratios at 1.
    """
    size = joint.shape[1]
    prior = joint.sum(axis=0)
    rows = np.vstack([joint, np.sqrt(strength) * np.eye(size), _EXACT * prior])
    found, _ = nnls(rows, np.concatenate([target, np.full(size, np.sqrt(strength)), [_EXACT]]))
    return np.asarray(found / (found @ prior))


def edge_ratios(joint: Array, target: Array, strength: float) -> Array:
    """γ_ij = P_T(neighbour is j | node is i) / P_S(the same), ``[classes, classes]``; 1 where the source has no such.

    The ratios w of pairs of classes come from :func:`ratios`; then γ_ij = w_ij / (Σ_j w_ij P_S(i, j) / Σ_j P_S(i, j)).

    Args:
        joint: P_S(predicted pair, true pair), ``[classes², classes²]``, pairs as (node, neighbour).
        target: P_T(predicted pair), ``[classes²]``.
        strength: as there.
    """
    classes = round(len(target) ** 0.5)
    pairs = joint.sum(axis=0).reshape(classes, classes)
    w = ratios(joint, target, strength).reshape(classes, classes)
    own, theirs = pairs.sum(axis=1, keepdims=True), (w * pairs).sum(axis=1, keepdims=True)
    known = (pairs > 0) & (theirs > 0)
    return np.where(known, w * own / np.where(theirs > 0, theirs, 1.0), 1.0)


def pair_shares(probabilities: Array, ends: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Array:
    """The sum over edges of p(node) p(neighbour), as ``[classes²]``: in time linear in edges."""
    return np.asarray((probabilities[ends[0]].T @ probabilities[ends[1]]).reshape(-1))


class PairAlignMethod(Method):
    """The source's risk with weights for classes, on the source's graph with weights for edges by classes of the ends.

    Training has ``rounds`` + 1 parts of equal length; where one begins, both weights are estimated anew.
    """

    hparams: PairAlign

    def __init__(self, backbone: Backbone, hparams: PairAlign) -> None:
        super().__init__(backbone, hparams)
        self.round = 0
        self.homes: list[Environment] = []
        self.found: WeakKeyDictionary[Environment, tuple[Tensor, Tensor]] = WeakKeyDictionary()  # edges', nodes' ratios
        self._graphs: WeakKeyDictionary[Environment, Graph] = WeakKeyDictionary()

    def meet(self, environments: Sequence[Environment]) -> None:
        """Keeps their order."""
        self.homes += [e.home for e in environments if e.home not in self.homes]

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One pass of every training graph, one step."""
        self.meet(environments)
        if (due := min(int(progress * (self.hparams.rounds + 1)), self.hparams.rounds)) > self.round:
            self.round = due
            self._estimate()
        self.backbone.train()
        loss = torch.stack([self._risk(e) for e in environments]).mean()
        loss.backward()
        self.descend()
        furthest = max((float((edges - 1).abs().max()) for edges, _ in self.found.values()), default=0.0)
        return {"loss": float(loss.detach()), "edge_ratio": furthest}

    def _risk(self, environment: Environment) -> Tensor:
        if environment.home not in self.found:
            return environment.risk(self.output(environment))
        edges, nodes = self.found[environment.home]
        if environment not in self._graphs:
            self._graphs[environment] = weighted(environment, edges)
        output = self.output(environment.replace(graph=self._graphs[environment]))[environment.counted]
        labels, parts = environment.labels, []
        for c in labels.unique():
            own = labels == c
            parts.append(nodes[c] * own.float().mean() * environment.task.loss(output[own], labels[own]))
        return torch.stack(parts).sum()

    def _estimate(self) -> None:
        """Both ratios of every training graph, from predictions there and on the target."""
        shown = [(e, self._predicted(e)) for e in self.target]
        pairs = np.sum([pair_shares(p, _ends(e)) for e, p in shown], axis=0)
        classes = np.concatenate([p[e.counted.cpu().numpy()] for e, p in shown]).mean(axis=0)
        self._graphs.clear()
        for home in self.homes:
            p, k = self._predicted(home), home.task.num_classes
            counted, labels = home.counted.cpu().numpy(), home.labels.cpu().numpy()
            y = np.full(home.num_nodes, -1)
            y[counted] = labels
            joint = np.stack([p[counted[labels == c]].sum(axis=0) for c in range(k)], axis=1) / len(labels)
            nodes = ratios(joint, classes, self.hparams.strength)
            receiver, sender = _ends(home)
            both = (y[receiver] >= 0) & (y[sender] >= 0)
            receiver, sender = receiver[both], sender[both]
            edges = np.ones((k, k))
            if len(receiver) and pairs.sum():
                true = y[receiver] * k + y[sender]
                shares = [pair_shares(p, (receiver[true == t], sender[true == t])) for t in range(k * k)]
                edges = edge_ratios(
                    np.stack(shares, axis=1) / len(receiver), pairs / pairs.sum(), self.hparams.strength
                )
            device = home.mask.device
            self.found[home] = (torch.tensor(edges, device=device).float(), torch.tensor(nodes, device=device).float())

    def _predicted(self, environment: Environment) -> Array:
        found: Array = environment.task.probabilities(self.predict(environment)).numpy()
        return found

    def state(self) -> dict[str, Tensor]:
        """The GNN, the optimiser, and the ratios of every training graph."""
        own = {f"{_PREFIX}round": torch.tensor(self.round)}
        for i, home in enumerate(self.homes):
            if home in self.found:
                own |= dict(zip((f"{_PREFIX}edges.{i}", f"{_PREFIX}nodes.{i}"), self.found[home], strict=True))
        return super().state() | own

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restores what :meth:`state` gave."""
        super().load_state(state)
        own = with_prefix(state, _PREFIX)
        self.round = int(own["round"])
        for i, home in enumerate(self.homes if len(own) > 1 else ()):
            edges, nodes, k = own[f"edges.{i}"], own[f"nodes.{i}"], home.task.num_classes
            if edges.shape != (k, k) or nodes.shape != (k,) or float(min(edges.min(), nodes.min())) < 0:
                raise GraphshiftError("the ratios of edges and classes have other shapes or are negative")
            self.found[home] = edges, nodes


def weighted(environment: Environment, edges: Tensor) -> Graph:
    """The graph whose edge from u to v weighs γ[y_v, y_u] times what it did; 1 where a label is not for training."""
    graph = environment.graph
    receiver, sender, weight = graph.entries
    y = torch.full((environment.num_nodes,), -1, device=environment.mask.device)
    y[environment.counted] = environment.labels
    i, j = y[receiver.long()], y[sender.long()]
    factor = torch.where((i >= 0) & (j >= 0), edges[i.clamp(min=0), j.clamp(min=0)], 1.0).clamp(min=_LEAST)
    factor = factor if weight is None else factor * weight
    return Graph(graph.pattern, factor, undirected=False, edge_features=graph.edge_features)


def _ends(environment: Environment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Receiver and sender of the edges that reach a counted node."""
    receiver, sender, _ = environment.graph.entries
    here = environment.mask[receiver.long()]
    return receiver[here].long().cpu().numpy(), sender[here].long().cpu().numpy()


@METHODS.register("pair-align", label="Pair-Align")
@dataclass(eq=False, repr=False, kw_only=True)
class PairAlign(TargetEstimator):
    """The source's risk, its edges weighted by ratios of class pairs and its nodes by ratios of classes in the target.

    Args:
        rounds: how often both are estimated.
        strength: s, by which ratios are drawn to 1.
        target: as in :class:`~graphshift.estimators.target.TargetEstimator`.
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
    """

    method_class = PairAlignMethod
    rounds: int = hparam(4, ge=1, le=1000, help="how often the ratios are estimated")
    strength: float = hparam(0.01, ge=0, le=1e6, search=(0.001, 0.01, 0.1), help="s, by which ratios are drawn to 1")

    def check_task(self, task: Task) -> None:
        """Values have no pairs of classes."""
        refuse_graph_level(task, "method pair-align, which weighs edges between classes of nodes,")
        if not task.is_classification:
            raise GraphshiftError("method pair-align weighs pairs of classes, and the task is regression.")
