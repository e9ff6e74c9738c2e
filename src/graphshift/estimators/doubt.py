"""What makes a prediction doubtful, for each node: signs that need no label, and a temperature that follows them.

A node's temperature depends on what the model shows of it and of its neighbours, as in CaGCN (Wang et al., NeurIPS
2021) and GATS (Hsu et al., NeurIPS 2022); here it is a log-linear function of nine signs, not another GNN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.estimators.conformal import neighbour_mean
from graphshift.estimators.held_out import Signals

#: The signs in their order, with what they are.
SIGNS = {
    "confidence": "the logit of the predicted class's probability",
    "margin": "how far its logarithm is above that of the second likeliest class",
    "entropy": "of the probabilities",
    "agreement": "the neighbours' mean probability of the predicted class",
    "votes": "the share of neighbours for which the same class is predicted",
    "neighbours' confidence": "the mean probability of their own predicted class",
    "energy": "propagated over edges (GNNSafe)",
    "degree": "its logarithm",
    "distance": "the logarithm of the mean distance to the five nearest held-out nodes in hidden space",
}

_NEAREST = 5
_EDGE = 1e-6  # of probabilities, so that their logits are finite
_FURTHEST_MARGIN = 20.0
_FARTHEST = 1e9  # deviations of a hidden state, so that squared distances are finite
_FURTHEST = 6.0  # deviations of a sign that are looked at
_COLDEST, _HOTTEST = -4.0, 5.0  # of the logarithm of a temperature
_RIDGE = 1e-2


def signs_of(environment: Environment, signals: Signals, reference: Tensor, rows: Tensor | None = None) -> Tensor:
    """The signs of nodes, ``[rows, 9]``, float64.

    Args:
        environment: the graph.
        signals: what the model shows of all its nodes.
        reference: hidden states of held-out nodes, ``[m, width]``.
        rows: of these nodes alone; None for all.
    """
    p, asked = signals.p, slice(None) if rows is None else rows
    sure, predicted = p.max(dim=1)
    own = predicted.unsqueeze(1)
    second = signals.log_p.topk(2, dim=1).values
    votes = torch.nn.functional.one_hot(predicted, p.shape[1]).double()
    looked = neighbour_mean(environment.graph, torch.cat([votes, sure.unsqueeze(1)], dim=1))
    clamped = sure.clamp(_EDGE, 1 - _EDGE)
    degree = environment.graph.degree.cpu().double().log1p()
    found = [
        (clamped / (1 - clamped)).log(),
        (second[:, 0] - second[:, 1]).clamp(max=_FURTHEST_MARGIN),
        -(p * p.clamp(min=1e-300).log()).sum(dim=1),
        signals.near.gather(1, own).squeeze(1),
        looked[:, :-1].gather(1, own).squeeze(1),
        looked[:, -1],
        signals.energy,
        degree,
    ]
    return torch.stack([*(one[asked] for one in found), distances(signals.hidden[asked], reference).log1p()], dim=1)


def distances(hidden: Tensor, reference: Tensor) -> Tensor:
    """The mean distance to the five nearest of ``reference``, in its own deviations, ``[n]``, float64.

    Args:
        hidden: ``[n, width]``.
        reference: ``[m, width]``; a node that is in it has itself among its nearest.
    """
    mean, spread = reference.mean(dim=0), reference.std(dim=0, unbiased=False).clamp(min=_EDGE)
    to, found = (reference - mean) / spread, []
    for part in ((hidden - mean) / spread).clamp(-_FARTHEST, _FARTHEST).split(256):
        nearest = torch.cdist(part, to).topk(min(_NEAREST, len(to)), dim=1, largest=False).values
        found.append(nearest.mean(dim=1).double())
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class NodeTemperature:
    """log T_v = w₀ + Σ w_i · sign_i, with signs in deviations.

    Attributes:
        mean, spread: of the signs, ``[9]``.
        weights: w, ``[10]``.
    """

    mean: Tensor
    spread: Tensor
    weights: Tensor

    @property
    def graph_aware(self) -> bool:
        """Whether nodes differ; if not, there is one temperature for all."""
        return bool((self.weights[1:] != 0).any())

    def standardised(self, signs: Tensor) -> Tensor:
        """In deviations, six at most."""
        return ((signs - self.mean) / self.spread).clamp(-_FURTHEST, _FURTHEST)

    def temperatures(self, signs: Tensor) -> Tensor:
        """Of nodes, ``[n]``."""
        return _temperatures(self.weights, self.standardised(signs))

    def scaled(self, log_p: Tensor, signs: Tensor) -> Tensor:
        """Logarithms of class probabilities over temperatures; the predicted class stays."""
        return log_p / self.temperatures(signs).unsqueeze(1)


def _temperatures(weights: Tensor, standardised: Tensor) -> Tensor:
    return (weights[0] + standardised @ weights[1:]).clamp(_COLDEST, _HOTTEST).exp()


def fitted_temperatures(signs: Tensor, log_p: Tensor, labels: Tensor, base: Tensor) -> NodeTemperature:
    """The weights of largest likelihood, with a small ridge.

    Args:
        signs: ``[n, 9]``.
        log_p: logarithms of class probabilities, ``[n, classes]``.
        labels: ``[n]``.
        base: signs that mean and spread are of, ``[m, 9]``.
    """
    spread = base.std(dim=0, unbiased=False).clamp(min=_EDGE)
    made = NodeTemperature(base.mean(dim=0), spread, torch.zeros(signs.shape[1] + 1, dtype=torch.float64))
    standardised, own = made.standardised(signs), labels.unsqueeze(1)
    weights = made.weights.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([weights], max_iter=60, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        scaled = log_p / _temperatures(weights, standardised).unsqueeze(1)
        found = -scaled.log_softmax(dim=1).gather(1, own).mean() + _RIDGE * weights[1:].square().sum()
        found.backward()
        return found

    with torch.enable_grad():
        optimiser.step(loss)
    if not bool(torch.isfinite(weights).all()):
        raise GraphshiftError("no temperatures were found: the model's probabilities are not finite.")
    return NodeTemperature(made.mean, spread, weights.detach())


def constant_temperature(signs: Tensor, log_p: Tensor, labels: Tensor) -> NodeTemperature:
    """One temperature for all nodes, of largest likelihood; arguments as of :func:`fitted_temperatures`."""
    weights = torch.zeros(signs.shape[1] + 1, dtype=torch.float64)
    weights[0] = math.log(weighted_temperature(log_p, labels, np.ones(len(labels))))
    return NodeTemperature(torch.zeros_like(signs[0]), torch.ones_like(signs[0]), weights)


def weighted_temperature(log_p: Tensor, labels: Tensor, weights: NDArray[np.float64]) -> float:
    """The one temperature under which weighted labels are likeliest, among 81 from 0.22 to 12.

    Args:
        log_p: ``[n, classes]``.
        labels: ``[n]``.
        weights: ``[n]``.
    """
    given = torch.from_numpy(weights / weights.sum())
    tried = torch.linspace(-1.5, 2.5, 81, dtype=torch.float64).exp()
    own = labels.unsqueeze(1)
    losses = [-((log_p / t).log_softmax(dim=1).gather(1, own).squeeze(1) * given).sum() for t in tried]
    return float(tried[int(torch.stack(losses).argmin())])


def temperature_of_arrays(arrays: Mapping[str, Tensor]) -> NodeTemperature:
    """From arrays that were saved; ValueError says what does not fit."""
    found = NodeTemperature(*(arrays[name].double() for name in ("mean", "spread", "weights")))
    count = len(SIGNS)
    if found.mean.shape != (count,) or found.spread.shape != (count,) or found.weights.shape != (count + 1,):
        raise ValueError("temperatures have the wrong shape")
    if not bool((found.spread > 0).all()):
        raise ValueError("a spread is not positive")
    return found
