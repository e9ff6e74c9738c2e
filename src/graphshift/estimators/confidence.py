"""What labelled validation graphs say of a model's probabilities: a temperature, and what each threshold would give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import expected_one_of

_LOWEST, _HIGHEST = 0.25, 20.0  # temperatures that are looked at
_FEWEST = 20  # labelled nodes, to fit a temperature to
_MOST = 20_000  # nodes that are looked at for it
_POINTS = 500  # thresholds that are kept

#: Ways to choose a threshold, with what they take.
RULES = {
    "auto": "the F1 of class 1 is largest",
    "recall": "the highest that finds this share of class 1 on validation, as recall=0.9",
    "precision": "the lowest above which this share is of class 1 on validation, as precision=0.8",
    "fpr": "the lowest that takes at most this share of class 0 for class 1 on validation, as fpr=0.01",
}


@dataclass(frozen=True)
class Thresholds:
    """What thresholds give on validation graphs of a binary task: a node is predicted to be of class 1 above one.

    Attributes:
        logits: the thresholds as logits, decreasing; a threshold t on probabilities is log(t / (1 - t)).
        found: how many nodes of class 1 are above each.
        false: how many nodes of class 0 are above each.
        positives, negatives: how many nodes of class 1 and 0 there are.
    """

    logits: tuple[float, ...]
    found: tuple[int, ...]
    false: tuple[int, ...]
    positives: int
    negatives: int

    def choose(self, rule: str) -> float:
        """The threshold that a rule chooses, as a logit.

        Args:
            rule: ``"auto"`` for the largest F1, or ``"recall=0.9"``, ``"precision=0.8"``, ``"fpr=0.01"``; see
                :data:`RULES`.
        """
        name, wanted = parsed(rule)
        found, false = torch.tensor(self.found).double(), torch.tensor(self.false).double()
        taken = found + false
        if name == "auto":
            f1 = 2 * found / (taken + self.positives)
            return self.logits[int(f1.argmax())]
        if name == "recall":
            able = found / self.positives >= wanted
            return self.logits[int(able.nonzero()[0])]
        able = found / taken >= wanted if name == "precision" else false / self.negatives <= wanted
        if not bool(able.any()):
            best = f"{float((found / taken).max()):.3f}" if name == "precision" else f"{self.false[0] / self.negatives}"
            raise GraphshiftError(f"threshold is {rule!r}; no threshold reaches it on validation (the best is {best}).")
        return self.logits[int(able.nonzero()[-1])]


@dataclass(frozen=True)
class Confidence:
    """How sure a model may be, learned from labelled graphs that it was not trained on.

    Attributes:
        temperature: T of softmax(z / T), by maximum likelihood (Guo et al., ICML 2017). It never changes which class is
            most probable.
        thresholds: in binary tasks; None elsewhere, or where one of the classes has no node.
    """

    temperature: float
    thresholds: Thresholds | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain values; the threshold of the largest F1 is shown too, on raw probabilities."""
        note: dict[str, Any] = {"temperature": self.temperature}
        if self.thresholds is None:
            return note
        return note | {"threshold": sigmoid(self.thresholds.choose("auto")), "thresholds": asdict(self.thresholds)}

    @classmethod
    def from_json(cls, note: Mapping[str, Any]) -> Confidence:
        """What :meth:`to_json` gave."""
        temperature = float(note["temperature"])
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature is {temperature}")
        if (raw := note.get("thresholds")) is None:
            return cls(temperature)
        parts = {n: tuple(float(v) if n == "logits" else int(v) for v in raw[n]) for n in ("logits", "found", "false")}
        if not parts["logits"] or len({len(part) for part in parts.values()}) > 1:
            raise ValueError("thresholds, found and false differ in length")
        counts = {n: int(raw[n]) for n in ("positives", "negatives")}
        return cls(temperature, Thresholds(**parts, **counts))  # type: ignore[arg-type]


def parsed(rule: str) -> tuple[str, float]:
    """The name and the number of a rule such as ``"recall=0.9"``; the number of ``"auto"`` is 0."""
    name, sign, number = rule.partition("=")
    if rule == "auto":
        return name, 0.0
    if name not in RULES or not sign:
        raise GraphshiftError(
            f"threshold is {rule!r}; {expected_one_of(name, list(RULES))} Or give a probability, as 0.3; "
            "recall, precision and fpr take a share, as recall=0.9."
        )
    try:
        wanted = float(number)
    except ValueError:
        wanted = math.nan
    if not (0 < wanted <= 1 or (name == "fpr" and wanted == 0)):
        raise GraphshiftError(f"threshold is {rule!r}; expected a share above 0 and up to 1, as {name}=0.9.")
    return name, wanted


def confidence_of(scores: Sequence[Tensor], labels: Sequence[Tensor], *, binary: bool) -> Confidence:
    """Fits a temperature to the scores of labelled nodes and, in a binary task, counts what thresholds give.

    Args:
        scores: of each graph logarithms of the model's class probabilities, ``[n, classes]``, float64.
        labels: of each graph, ``[n]``.
        binary: whether the task is.
    """
    together, truth = torch.cat(list(scores)), torch.cat(list(labels))
    thresholds = None
    if binary and 0 < int(truth.sum()) < truth.numel():
        thresholds = thresholds_of(together[:, 1] - together[:, 0], truth)
    return Confidence(fitted_temperature(together, truth), thresholds)


def fitted_temperature(scores: Tensor, labels: Tensor) -> float:
    """The temperature under which the labels are likeliest; 1 where there are too few.

    The mean loss log Σ_j exp(b z_j) - b z_y is convex in b = 1/T: its slope changes sign once, and is halved down to.

    Args:
        scores: logarithms of class probabilities, ``[n, classes]``.
        labels: ``[n]``.
    """
    if labels.numel() < _FEWEST:
        return 1.0
    few = torch.randperm(labels.numel(), generator=torch.Generator().manual_seed(0))[:_MOST]
    scores, own = scores[few], scores[few].gather(1, labels[few].unsqueeze(1)).squeeze(1)
    low, high = math.log(1 / _HIGHEST), math.log(1 / _LOWEST)
    for _ in range(40):
        middle = (low + high) / 2
        expected = ((math.exp(middle) * scores).softmax(dim=1) * scores).sum(dim=1)
        low, high = (low, middle) if float((expected - own).mean()) > 0 else (middle, high)
    return math.exp(-(low + high) / 2)


def thresholds_of(logits: Tensor, labels: Tensor) -> Thresholds:
    """Counts, between any two neighbouring logits, how many nodes of each class are above; at most 500 are kept.

    Args:
        logits: of class 1, ``[n]``.
        labels: 0 or 1, ``[n]``.
    """
    logits, order = logits.sort(descending=True)
    ones = labels[order].cumsum(0)
    last = torch.cat([logits[1:] < logits[:-1], torch.tensor([True])]).nonzero().squeeze(1)  # of each run of ties
    found, false = ones[last], last + 1 - ones[last]
    below = torch.cat([logits[last[:-1] + 1], logits[-1:] - 2])  # the next lower one; below all at the end
    between = (logits[last] + below) / 2
    f1 = 2 * found / (found + false + ones[-1])
    kept = torch.linspace(0, last.numel() - 1, min(_POINTS, last.numel())).round().long()
    kept = torch.cat([kept, f1.argmax().view(1)]).unique()
    logit, true, wrong = (tuple(part[kept].tolist()) for part in (between, found, false))
    return Thresholds(logit, true, wrong, positives=int(ones[-1]), negatives=int(labels.numel() - ones[-1]))


def sigmoid(logit: float) -> float:
    """1 / (1 + exp(-logit))."""
    return 1 / (1 + math.exp(-logit)) if logit > 0 else math.exp(logit) / (1 + math.exp(logit))
