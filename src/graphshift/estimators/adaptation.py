"""What a model may learn from the unlabelled graph that it predicts: its batch statistics, and its class prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError

#: Every way of using the unlabelled graph. Two can be joined, as in ``"norm+prior"``.
ADAPTATIONS: dict[str, str] = {
    "norm": "batch normalisation by the statistics of the graph that is predicted",
    "prior": "the class prior re-estimated on the graph that is predicted (Saerens et al., 2002)",
    "tent": "scale and shift of batch normalisation tuned to lower the entropy of predictions (Wang et al., 2021)",
    "hops": "how much each hop of GPRGNN counts, tuned to draw predicted classes apart (Matcha, Bao et al., 2025)",
    "centroids": "hidden states smoothed over edges, classified by the nearest mean of a training class",
    "gtrans": "the graph's features and edges edited to lower a contrastive loss (GTrans, Jin et al., 2023)",
    "beliefs": "for models without edges: neighbours' predictions, by how often the graph's edges join classes",
    "neighbours": "edges weighted so that classes meet as often as in training (TSA, Hsu et al., 2025)",
}
#: Those that tune weights (``estimators.tuning``), and those that need what the model keeps of its training graphs
#: (``estimators.source``), the one that edits the graph (``estimators.gtrans``), and the one for models that do not
#: look at edges (``estimators.beliefs``). Each stands alone.
TUNING, LEARNED, EDITING, WITHOUT_EDGES = ("tent", "hops"), ("centroids", "neighbours"), ("gtrans",), ("beliefs",)
ALONE = (*TUNING, *LEARNED, *EDITING, *WITHOUT_EDGES)

_STEPS, _CLOSE = 2_000, 1e-7  # of expectation maximisation
# A quarter to two. Flatter still, all nodes lean to the classes that are rare in training, and so do estimates.
_TEMPERATURES = torch.logspace(-2, 1, 13, base=2, dtype=torch.float64)
_KEEP_ONE = 0.02  # what a factor of e away from temperature 1 has to win
_MOST = 5_000  # nodes of a graph that are looked at to calibrate
_FEWEST = 5  # labelled nodes of each class, to calibrate on
_LEAST_SINGULAR = 0.05  # of the confusion matrix: below, classes cannot be told apart
_FURTHEST = 0.2  # total variation between two estimates of one prior, or an estimate and the truth


def parts_of(adapt: str | None) -> tuple[str, ...]:
    """The adaptations that a name such as ``"norm+prior"`` joins; none for None."""
    if adapt is None:
        return ()
    if not isinstance(adapt, str):
        raise GraphshiftError(f"adapt is {adapt!r}; expected a name, of {', '.join(ADAPTATIONS)}, or norm+prior.")
    parts = tuple(part.strip() for part in adapt.split("+"))
    if (
        any(part not in ADAPTATIONS for part in parts)
        or len(set(parts)) != len(parts)
        or (len(parts) > 1 and {*ALONE} & {*parts})
    ):
        raise GraphshiftError(f"adapt is {adapt!r}; expected {', '.join(ADAPTATIONS)}, or norm+prior.")
    return parts


def has_temperature(adapt: str | None) -> bool:
    """Whether a model that is adapted so has probabilities that validation graphs can calibrate."""
    return not {*ALONE} & {*parts_of(adapt)}


@dataclass(frozen=True)
class Calibration:
    """Probabilities with which class priors are estimated well: softmax(z / T), and the training prior they belong to.

    The temperature T is the one with which the shares of classes on labelled validation graphs are found best without
    looking at the labels. (Temperatures of largest likelihood were tried and do worse: where validation nodes are
    harder than training ones they flatten probabilities, and estimates overshoot.)

    Attributes:
        temperature: T.
        prior: shares of the classes in training.
        confusion: mean p(j | x) of the validation nodes of class i, ``[classes, classes]``.
        nodes: how many of each class there were.
        error: total variation between estimated and true shares on the validation graphs.
    """

    temperature: float
    prior: Tensor
    confusion: Tensor
    nodes: Tensor
    error: float

    def probabilities(self, scores: Tensor) -> Tensor:
        """Of class scores (logarithms of probabilities, up to a constant for each node), ``[n, classes]``."""
        return (scores / self.temperature).softmax(dim=1)

    @property
    def least_singular(self) -> float:
        """The smallest singular value of the confusion matrix: near 0, some classes are not told apart."""
        return float(torch.linalg.svdvals(self.confusion)[-1])

    def moved(self, scores: Tensor, shares: Tensor) -> float:
        """By how much (total variation) class shares seem to differ from ``shares`` where that is not to be trusted.

        0 if the estimate can be trusted, or if the model hardly tells some classes apart: then it shows nothing.

        Args:
            scores: as in :meth:`prior_on`.
            shares: of the classes on labelled nodes, ``[classes]``.
        """
        found, unsafe = self.prior_on(scores)
        known = float(self.nodes.min()) >= _FEWEST  # of rare classes the confusion is chance
        if unsafe is None or (known and self.least_singular < _LEAST_SINGULAR):
            return 0.0
        return 0.5 * float((found - shares).abs().sum())

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {name: v.tolist() if isinstance(v, Tensor) else v for name, v in vars(self).items()}

    @classmethod
    def from_json(cls, note: dict[str, Any]) -> Calibration:
        """What :meth:`to_json` gave."""
        tensors = {n: torch.tensor(note[n], dtype=torch.float64) for n in ("prior", "confusion", "nodes")}
        return cls(temperature=float(note["temperature"]), error=float(note["error"]), **tensors)

    def prior_on(self, scores: Tensor, names: Sequence[Any] | None = None) -> tuple[Tensor, str | None]:
        """The class prior of unlabelled nodes, and why it cannot be trusted; None if it can.

        Two estimates are made, which agree if nothing but the prior has changed: the one of largest likelihood (see
        :func:`estimated_prior`), and the one that makes the mean prediction what the confusion matrix says it should
        be (Lipton et al., 2018). Where they contradict each other, something else has shifted too. ``names`` are the
        classes' names for the reason; None numbers them.
        """
        probabilities = self.probabilities(scores)
        found, converged = estimated_prior(probabilities, self.prior)
        names = range(self.prior.numel()) if names is None else names
        if float(self.nodes.min()) < _FEWEST:
            which, count = int(self.nodes.argmin()), int(self.nodes.min())
            return found, f"class {names[which]} has {count} labelled nodes to calibrate on, fewer than {_FEWEST}"
        if not float(self.prior.min()):
            return found, f"class {names[int(self.prior.argmin())]} is not in training"
        if (least := self.least_singular) < _LEAST_SINGULAR:
            return found, f"the model hardly tells some classes apart (smallest singular value {least:.2g})"
        if self.error > _FURTHEST:
            return found, f"on the validation graphs it would be {self.error:.2f} off (at most {_FURTHEST} is accepted)"
        if not converged:
            return found, f"no estimate was reached in {_STEPS:,} steps"
        other = torch.linalg.solve(self.confusion.t(), probabilities.mean(dim=0))
        apart = 0.5 * float((found - other).abs().sum())
        if apart > _FURTHEST:
            return found, (
                f"two estimates of it are {apart:.2f} apart (at most {_FURTHEST} is accepted), so more has shifted "
                "than the classes' shares"
            )
        return found, None

    def adapted(
        self, scores: Tensor, counted: Tensor | None = None, names: Sequence[Any] | None = None
    ) -> tuple[Tensor | None, str | None]:
        """Probabilities under the class prior of the unlabelled nodes; or None, and why that cannot be trusted.

        Args:
            scores: of every node, ``[n, classes]``.
            counted: the nodes whose prior is estimated; None for all.
            names: as in :meth:`prior_on`.
        """
        prior, unsafe = self.prior_on(scores if counted is None else scores[counted], names)
        return None if unsafe else reweighted(self.probabilities(scores), self.prior, prior), unsafe


def calibrated_to(scores: Sequence[Tensor], labels: Sequence[Tensor], prior: Tensor) -> Calibration:
    """Finds the temperature on labelled graphs that the model was not trained on.

    Args:
        scores: of each graph logarithms of the model's probabilities, ``[n, classes]``, float64.
        labels: of each graph, ``[n]``.
        prior: shares of the classes in training.
    """
    errors = torch.zeros_like(_TEMPERATURES)
    for own, truth in zip(scores, labels, strict=True):
        few = torch.randperm(own.shape[0], generator=torch.Generator().manual_seed(0))[:_MOST]
        tried = (own[few] / _TEMPERATURES.view(-1, 1, 1)).softmax(dim=2)
        shares = torch.bincount(truth[few], minlength=prior.numel()).double() / few.numel()
        errors += 0.5 * (estimated_prior(tried, prior)[0] - shares).abs().sum(dim=1) / len(scores)
    best = int((errors + _KEEP_ONE * _TEMPERATURES.log().abs()).argmin())
    together, truth = torch.cat(list(scores)), torch.cat(list(labels))
    nodes = torch.bincount(truth, minlength=prior.numel()).double()
    probabilities = (together / _TEMPERATURES[best]).softmax(dim=1)
    confusion = torch.zeros(prior.numel(), prior.numel(), dtype=torch.float64).index_add_(0, truth, probabilities)
    confusion = confusion / nodes.clamp(min=1).unsqueeze(1)
    return Calibration(float(_TEMPERATURES[best]), prior, confusion, nodes, float(errors[best]))


def estimated_prior(probabilities: Tensor, prior: Tensor) -> tuple[Tensor, bool]:
    """The class prior under which unlabelled nodes are likeliest, by expectation maximisation (Saerens et al., 2002).

    π_j ← mean over nodes of p_j(x) π_j / π⁰_j, normalised for each node; from π = π⁰. Whether it settled is told too.
    Two such steps say how far to go along them (SQUAREM, Varadhan and Roland, 2008): where the model hardly tells
    classes apart, plain steps take thousands.

    Args:
        probabilities: of every node under the old prior, ``[n, classes]``; or of several models, ``[…, n, classes]``.
        prior: π⁰, the old one.
    """
    tiny = torch.finfo(probabilities.dtype).tiny
    # The classes' likelihoods, up to a constant for each node; a class that was never there stays out.
    ratios = torch.where(prior > 0, probabilities / prior.clamp(min=tiny), 0.0)

    def step(shares: Tensor) -> Tensor:
        # One product for all classes' sums, one for their mean: no table of posteriors is written.
        total = (ratios @ shares.unsqueeze(-1)).clamp(min=tiny)
        return shares * (total.reciprocal().transpose(-1, -2) @ ratios).squeeze(-2) / ratios.shape[-2]

    found = prior.expand(*probabilities.shape[:-2], -1)
    for _ in range(_STEPS // 3):
        once = step(found)
        if float((once - found).abs().max()) < _CLOSE:
            return once, True
        twice = step(once)
        first, bend = once - found, twice - 2 * once + found
        length = (first.norm(dim=-1) / bend.norm(dim=-1).clamp(min=tiny)).clamp(min=1).unsqueeze(-1)
        further = found + 2 * length * first + length.square() * bend
        inside = (further > 0).all(dim=-1, keepdim=True)
        found = step(torch.where(inside, further, twice))
    return found, False


def reweighted(probabilities: Tensor, old: Tensor, new: Tensor) -> Tensor:
    """Probabilities under another prior: p_j(x) π_j / π⁰_j, normalised; a class that was never there stays out."""
    weight = torch.where(old > 0, new / old.clamp(min=torch.finfo(old.dtype).tiny), 0.0)
    raised = probabilities * weight
    return raised / raised.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(raised.dtype).tiny)
