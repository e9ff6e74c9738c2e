"""What a model may learn from the unlabelled graph that it predicts: its batch statistics, and its class prior."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from graphshift.errors import GraphshiftError

__all__ = [
    "ADAPTATIONS", "Calibration", "batch_norms", "calibrated_to", "estimated_prior", "own_statistics", "parts_of",
    "reweighted",
]  # fmt: skip

#: Every way of using the unlabelled graph. Two can be joined, as in ``"norm+prior"``.
ADAPTATIONS: dict[str, str] = {
    "norm": "batch normalisation by the statistics of the graph that is predicted",
    "prior": "the class prior re-estimated on the graph that is predicted (Saerens et al., 2002)",
}

_STEPS, _CLOSE = 5_000, 1e-8  # of expectation maximisation
_FEWEST = 5  # labelled nodes of each class, to calibrate on
_LEAST_SINGULAR = 0.05  # of the confusion matrix: below, classes cannot be told apart
_FURTHEST = 0.2  # total variation between two estimates of one prior that do not contradict each other
_RIDGE = 1e-4  # of the calibration's biases, which without it run away where a class is always right


def parts_of(adapt: str | None) -> tuple[str, ...]:
    """The adaptations that a name such as ``"norm+prior"`` joins; none for None."""
    if adapt is None:
        return ()
    parts = tuple(part.strip() for part in adapt.split("+"))
    if any(part not in ADAPTATIONS for part in parts) or len(set(parts)) != len(parts):
        raise GraphshiftError(f"adapt is {adapt!r}; expected {', '.join(ADAPTATIONS)}, or two of them, as norm+prior.")
    return parts


def batch_norms(module: nn.Module) -> list[nn.modules.batchnorm._NormBase]:
    """The layers that normalise by statistics kept from training."""
    found = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._NormBase)]
    return [norm for norm in found if norm.running_mean is not None]


@contextmanager
def own_statistics(module: nn.Module) -> Iterator[None]:
    """Batch normalisation by mean and variance of what passes now; those of training stay as they are."""
    norms = batch_norms(module)
    if not norms:
        raise GraphshiftError(
            f"adapt is 'norm' and {type(module).__name__} has no batch normalisation (of the backbones gcn, sage and "
            "gat have); leave it out."
        )
    before = [(norm.training, norm.track_running_stats) for norm in norms]
    for norm in norms:
        norm.training, norm.track_running_stats = True, False
    try:
        yield
    finally:
        for norm, (training, tracked) in zip(norms, before, strict=True):
            norm.training, norm.track_running_stats = training, tracked


@dataclass(frozen=True)
class Calibration:
    """Turns a model's class scores into probabilities that hold on labelled data it was not trained on.

    p(y | x) = softmax(z_y / T + b_y): temperature and biases of least negative log-likelihood (bias-corrected
    temperature scaling, Alexandari et al., 2020). They belong to the class prior of the nodes that they were fitted to.

    Attributes:
        temperature: T.
        bias: b, ``[classes]``.
        prior: shares of the classes among those nodes.
        confusion: mean p(j | x) of the nodes of class i, ``[classes, classes]``.
        nodes: how many of each class there were.
    """

    temperature: float
    bias: Tensor
    prior: Tensor
    confusion: Tensor
    nodes: Tensor

    def probabilities(self, scores: Tensor) -> Tensor:
        """Of class scores (logarithms of probabilities, up to a constant for each node), ``[n, classes]``."""
        return (scores / self.temperature + self.bias).softmax(dim=1)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {name: v.tolist() if isinstance(v, Tensor) else v for name, v in vars(self).items()}

    @classmethod
    def from_json(cls, note: dict[str, Any]) -> Calibration:
        """What :meth:`to_json` gave."""
        tensors = {n: torch.tensor(note[n], dtype=torch.float64) for n in ("bias", "prior", "confusion", "nodes")}
        return cls(temperature=float(note["temperature"]), **tensors)

    def prior_on(self, scores: Tensor) -> tuple[Tensor, str | None]:
        """The class prior of unlabelled nodes, and why it cannot be trusted; None if it can.

        Two estimates are made, which agree if nothing but the prior has changed: the one of largest likelihood (see
        :func:`estimated_prior`), and the one that makes the mean prediction what the confusion matrix says it should
        be (Lipton et al., 2018). Where they contradict each other, something else has shifted too.
        """
        found, converged = estimated_prior(self.probabilities(scores), self.prior)
        if float(self.nodes.min()) < _FEWEST:
            which = int(self.nodes.argmin())
            return (
                found,
                f"class {which} has {int(self.nodes.min())} labelled nodes to calibrate on, fewer than {_FEWEST}",
            )
        values = torch.linalg.svdvals(self.confusion)
        if float(values[-1]) < _LEAST_SINGULAR:
            return found, f"the model hardly tells some classes apart (smallest singular value {float(values[-1]):.2g})"
        if not converged:
            return found, f"no estimate was reached in {_STEPS:,} steps"
        other = torch.linalg.solve(self.confusion.t(), self.probabilities(scores).mean(dim=0))
        apart = 0.5 * float((found - other).abs().sum())
        if apart > _FURTHEST:
            return found, (
                f"two estimates of it are {apart:.2f} apart (at most {_FURTHEST} is accepted), so more has shifted "
                "than the classes' shares"
            )
        return found, None


def calibrated_to(scores: Tensor, labels: Tensor, classes: int) -> Calibration:
    """Fits temperature and biases to labelled nodes.

    Args:
        scores: logarithms of the model's probabilities, ``[n, classes]``, float64.
        labels: ``[n]``.
        classes: how many there are; not all need be there.
    """
    log_temperature = torch.zeros((), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([log_temperature, bias], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        log_likelihood = (scores * torch.exp(-log_temperature) + bias).log_softmax(dim=1)
        loss = -log_likelihood.gather(1, labels.unsqueeze(1)).mean() + _RIDGE * (
            bias.square().sum() + log_temperature.square()
        )
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    nodes = torch.bincount(labels, minlength=classes).double()
    temperature, bias = float(log_temperature.detach().exp()), (bias - bias.mean()).detach()
    found = Calibration(temperature, bias, nodes / nodes.sum(), torch.eye(classes).double(), nodes)
    confusion = torch.zeros(classes, classes, dtype=torch.float64).index_add_(0, labels, found.probabilities(scores))
    return replace(found, confusion=confusion / nodes.clamp(min=1).unsqueeze(1))


def estimated_prior(probabilities: Tensor, prior: Tensor) -> tuple[Tensor, bool]:
    """The class prior under which unlabelled nodes are likeliest, by expectation maximisation (Saerens et al., 2002).

    π_j ← mean over nodes of p_j(x) π_j / π⁰_j, normalised for each node; from π = π⁰. Whether it settled is told too.

    Args:
        probabilities: of every node under the old prior, ``[n, classes]``.
        prior: π⁰, the old one.
    """
    found = prior.clone()
    for _ in range(_STEPS):
        new = reweighted(probabilities, prior, found).mean(dim=0)
        change = float((new - found).abs().max())
        found = new
        if change < _CLOSE:
            return found, True
    return found, False


def reweighted(probabilities: Tensor, old: Tensor, new: Tensor) -> Tensor:
    """Probabilities under another prior: p_j(x) π_j / π⁰_j, normalised; a class that was never there stays out."""
    weight = torch.where(old > 0, new / old.clamp(min=torch.finfo(old.dtype).tiny), 0.0)
    raised = probabilities * weight
    return raised / raised.sum(dim=1, keepdim=True).clamp(min=torch.finfo(raised.dtype).tiny)
