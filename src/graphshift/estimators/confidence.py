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
from graphshift.data.tasks import Task

_LOWEST, _HIGHEST = 0.01, 100.0  # temperatures that are looked at
_MOST = 10_000  # nodes that are looked at for it
_FLOORS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)  # that are tried for models that say 0
_ZERO = -600.0  # the logarithm of what is as good as a probability of 0
_POINTS = 200  # thresholds that are kept

#: Ways to choose a threshold, with what they take.
RULES = {
    "auto": "the F1 of class 1 is largest on validation",
    "recall": "this share of class 1 is found on validation, with as few predictions as can be",
    "precision": "this share of what is predicted is of class 1 on validation; the most of class 1 is found",
    "fpr": "at most this share of class 0 is taken for class 1 on validation; the most of class 1 is found",
}


@dataclass(frozen=True)
class Thresholds:
    """What thresholds give on validation graphs of a binary task: a node is predicted to be of class 1 above one.

    Attributes:
        logits: the thresholds as logits, decreasing: each below a node of class 1, as no others can be the best. A
            threshold t on probabilities is the logit log(t / (1 - t)).
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
        return self.logits[int(able.nonzero()[-1])]  # the last finds most


@dataclass(frozen=True)
class Confidence:
    """How sure a model may be, learned from labelled graphs that it was not trained on.

    Attributes:
        temperature: T of softmax(z / T), by maximum likelihood (Guo et al., ICML 2017). It never changes which class is
            most probable, nor the order of nodes in a binary task.
        floor: what is added to every probability before; 0 unless the model says 0, as trees do of what they never saw:
            no temperature makes a possibility of that.
        thresholds: in binary tasks; None elsewhere, or where one of the classes has no node.
    """

    temperature: float
    floor: float = 0.0
    thresholds: Thresholds | None = None

    def scaled(self, output: Tensor, task: Task) -> Tensor:
        """A model's output whose probabilities are calibrated, in float64: different nodes must not tie."""
        output = output.detach().cpu().double()
        if self.floor:
            output = task.output_of(task.probabilities(output) + self.floor)
        return output / self.temperature

    def scaled_logit(self, logit: float) -> float:
        """What :meth:`scaled` makes of the logit of class 1 in a binary task."""
        if self.floor:
            logit = math.log((sigmoid(logit) + self.floor) / (sigmoid(-logit) + self.floor))
        return logit / self.temperature

    def to_json(self) -> dict[str, Any]:
        """As plain values; the threshold of the largest F1 is shown too, on raw probabilities."""
        note: dict[str, Any] = {"temperature": self.temperature, "floor": self.floor}
        if self.thresholds is None:
            return note
        return note | {"threshold": sigmoid(self.thresholds.choose("auto")), "thresholds": asdict(self.thresholds)}

    @classmethod
    def from_json(cls, note: Mapping[str, Any]) -> Confidence:
        """What :meth:`to_json` gave."""
        temperature, floor = float(note["temperature"]), float(note["floor"])
        if not 0 < temperature < math.inf or not 0 <= floor <= 1:
            raise ValueError(f"temperature is {temperature}, floor {floor}")
        if (raw := note.get("thresholds")) is None:
            return cls(temperature, floor)
        parts = {n: tuple(float(v) if n == "logits" else int(v) for v in raw[n]) for n in ("logits", "found", "false")}
        if not parts["logits"] or len({len(part) for part in parts.values()}) > 1:
            raise ValueError("logits, found and false differ in length")
        counts = {n: int(raw[n]) for n in ("positives", "negatives")}
        if min(counts.values()) < 1 or not all(map(math.isfinite, parts["logits"])):
            raise ValueError("counts below 1, or logits that are not finite")
        return cls(temperature, floor, Thresholds(**parts, **counts))  # type: ignore[arg-type]


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
    few = torch.randperm(truth.numel(), generator=torch.Generator().manual_seed(0))[:_MOST]
    tried = {0.0: together[few]}
    if float(together.min()) < _ZERO:
        tried = {floor: (together[few].exp() + floor).log() for floor in _FLOORS}
    found = {floor: fitted_temperature(own, truth[few]) for floor, own in tried.items()}
    floor = min(found, key=lambda one: smoothed_loss(tried[one] / found[one], truth[few]))
    thresholds = None
    if binary and 0 < int(truth.sum()) < truth.numel():
        thresholds = thresholds_of(together[:, 1] - together[:, 0], truth)
    return Confidence(found[floor], floor, thresholds)


def fitted_temperature(scores: Tensor, labels: Tensor) -> float:
    """The temperature under which the labels are likeliest; see :func:`smoothed_loss`.

    That loss is convex in 1/T: its slope changes sign once, and the interval that has it is halved.

    Args:
        scores: logarithms of class probabilities, up to a constant for each node, ``[n, classes]``.
        labels: ``[n]``.
    """
    targets = smoothed(labels, scores.shape[1])
    low, high = math.log(1 / _HIGHEST), math.log(1 / _LOWEST)
    for _ in range(36):
        middle = (low + high) / 2
        slope = (((math.exp(middle) * scores).softmax(dim=1) - targets) * scores).sum()
        low, high = (low, middle) if float(slope) > 0 else (middle, high)
    return math.exp(-(low + high) / 2)


def smoothed(labels: Tensor, classes: int) -> Tensor:
    """The labels as distributions, ``[n, classes]``: 1 / (n + 2) of each belongs to the other classes.

    So few nodes that are all right do not make a model certain (Platt, 1999).
    """
    doubt = 1 / (labels.numel() + 2)
    targets = torch.full((labels.numel(), classes), doubt / (classes - 1), dtype=torch.float64)
    return targets.scatter_(1, labels.unsqueeze(1), 1 - doubt)


def smoothed_loss(scores: Tensor, labels: Tensor) -> float:
    """The mean cross-entropy with :func:`smoothed` labels."""
    return float(-(smoothed(labels, scores.shape[1]) * scores.log_softmax(dim=1)).sum(dim=1).mean())


def thresholds_of(logits: Tensor, labels: Tensor) -> Thresholds:
    """Counts how many nodes of each class are above thresholds that lie just below nodes of class 1; 200 at most.

    Args:
        logits: of class 1, ``[n]``.
        labels: 0 or 1, ``[n]``.
    """
    logits, order = logits.sort(descending=True)
    ones = labels[order].cumsum(0)
    last = torch.cat([logits[1:] < logits[:-1], torch.tensor([True])]).nonzero().squeeze(1)  # of each run of ties
    last = last[ones[last].diff(prepend=torch.zeros(1, dtype=torch.int64)) > 0]  # runs that have class 1
    found, false = ones[last], last + 1 - ones[last]
    below = logits[(last + 1).clamp(max=logits.numel() - 1)] - 2.0 * (last + 1 == logits.numel())
    between = (logits[last] + below) / 2
    f1 = 2 * found / (found + false + ones[-1])
    kept = torch.linspace(0, last.numel() - 1, min(_POINTS, last.numel())).round().long()
    kept = torch.cat([kept, f1.argmax().view(1)]).unique()
    logit, true, wrong = (tuple(part[kept].tolist()) for part in (between, found, false))
    return Thresholds(logit, true, wrong, positives=int(ones[-1]), negatives=int(labels.numel() - ones[-1]))


def sigmoid(logit: float) -> float:
    """1 / (1 + exp(-logit))."""
    return 1 / (1 + math.exp(-logit)) if logit > 0 else math.exp(logit) / (1 + math.exp(logit))
