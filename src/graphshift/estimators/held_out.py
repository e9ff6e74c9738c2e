"""What labelled nodes that a model was not trained on say of it, kept with the model: prediction sets need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.storage import read_tensors, write_tensors
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.adaptation import Calibration, calibrated_to
from graphshift.estimators.confidence import Confidence
from graphshift.estimators.conformal import SCORES, alike_mean, neighbour_mean, smoothed_scores, uniforms

_FILE = "held_out.safetensors"
_MOST = 5_000  # held-out nodes that are kept
_POOL, _NEAREST = 2_000, 10  # nodes among which alike ones are looked for, and how many of them
_HOPS, _KEEP = 2, 0.5  # of energy propagation


@dataclass(frozen=True)
class Signals:
    """What a model shows of every node of one graph, or of every graph, without labels. Graphs have no neighbours.

    Attributes:
        log_p: logarithms of the class probabilities, ``[n, classes]``, float64; in regression the values, ``[n, 1]``.
        p: calibrated class probabilities, ``[n, classes]``; in regression the values.
        near: the neighbours' mean of ``p``; a node's own without neighbours.
        hidden: the last hidden layer, ``[n, width]``; of a model without one ``log_p``.
        energy: −log Σ exp(logits), propagated over edges (GNNSafe, Wu et al., ICLR 2023), ``[n]``; small is usual.
    """

    log_p: Tensor
    p: Tensor
    near: Tensor
    hidden: Tensor
    energy: Tensor

    @classmethod
    def of(
        cls, environment: Environment, hidden: Tensor, output: Tensor, task: Task, confidence: Confidence | None
    ) -> Signals:
        """Of a model's hidden states and outputs for all nodes of a graph.

        Args:
            environment: the graph.
            hidden: ``[nodes, width]``.
            output: the model's, ``[nodes, out_channels]``.
            task: the model's.
            confidence: with which probabilities are calibrated; None leaves them.
        """
        hidden, output = hidden.detach().cpu().float(), output.detach().cpu().double()
        if not task.is_classification:
            energy = torch.zeros(output.shape[0], dtype=torch.float64)
            return cls(output, output, neighbour_mean(environment.item_graph, output), hidden, energy)
        scaled = output if confidence is None else confidence.scaled(output, task)
        p = task.probabilities(scaled)
        logits = output if task.kind == "multiclass" else torch.cat([torch.zeros_like(output), output], dim=1)
        energy = -logits.logsumexp(dim=1, keepdim=True)
        for _ in range(_HOPS):
            energy = _KEEP * energy + (1 - _KEEP) * neighbour_mean(environment.item_graph, energy)
        log_p, near = task.class_scores(output), neighbour_mean(environment.item_graph, p)
        return cls(log_p, p, near, hidden, energy.squeeze(1))

    def at(self, rows: Tensor) -> Signals:
        """Of some nodes."""
        return Signals(**{one.name: getattr(self, one.name)[rows] for one in fields(self)})

    @property
    def features(self) -> Tensor:
        """What source and target are compared by: hidden state, own and neighbours' probabilities, ``[n, any]``."""
        return torch.cat([self.hidden.double(), self.p, self.near], dim=1)


def score_parts(
    environment: Environment, signals: Signals, score: str, *, rows: Tensor | None = None, alike: bool = True
) -> Tensor:
    """A conformal score of every class of every node, its neighbours' mean and its likes' mean, ``[3, n, classes]``.

    Args:
        environment: the graph.
        signals: what the model shows of all its nodes.
        score: a name from :data:`~graphshift.estimators.conformal.SCORES`.
        rows: of these nodes alone; None for all.
        alike: False leaves out the search for alike nodes, which costs most; a node's own score stands there.
    """
    own = SCORES[score](signals.p, uniforms(environment.num_items, 0))
    near = neighbour_mean(environment.item_graph, own)
    asked = slice(None) if rows is None else rows
    few, likes = own[asked], own[asked]
    if alike:
        pool = torch.randperm(own.shape[0], generator=torch.Generator().manual_seed(0))[:_POOL]
        likes = alike_mean(signals.hidden[asked], few, signals.hidden[pool], own[pool], _NEAREST)
    return torch.stack([few, near[asked], likes])


@dataclass(frozen=True)
class HeldOut:
    """Labelled nodes that the model was not trained on.

    Attributes:
        signals: what the model shows of them.
        labels: ``[n]``.
        scores: of the true class by name: own, neighbours' and likes' mean, ``[3, n]``; in regression ``"residual"``.
    """

    signals: Signals
    labels: Tensor
    scores: dict[str, Tensor]

    @classmethod
    def of(cls, environments: Sequence[Environment], shown: Sequence[Signals], task: Task) -> HeldOut:
        """Of labelled graphs; at most 5,000 of their counted nodes, drawn alike. Nodes of several labels stay out."""
        names = list(SCORES) if task.is_classification else ["residual"]
        places = [e.single.cpu() for e in environments]
        bounds = torch.tensor([0, *(one.numel() for one in places)]).cumsum(0)
        drawn = torch.randperm(int(bounds[-1]), generator=torch.Generator().manual_seed(0))[:_MOST].sort().values
        rows, labels, scores = [], [], []
        for i, (e, signals) in enumerate(zip(environments, shown, strict=True)):
            own = places[i][drawn[(drawn >= bounds[i]) & (drawn < bounds[i + 1])] - bounds[i]]
            assert e.y is not None  # labelled graphs
            truth = e.y.cpu()[own]
            rows.append(signals.at(own))
            labels.append(truth)
            if task.is_classification:
                index = truth.view(1, -1, 1).expand(3, -1, 1)
                scores.append([score_parts(e, signals, name, rows=own).gather(2, index).squeeze(2) for name in names])
            else:
                scores.append([(truth.double() - signals.p[own, 0]).abs().unsqueeze(0)])
        joined = Signals(**{f.name: torch.cat([getattr(one, f.name) for one in rows]) for f in fields(Signals)})
        found = {name: torch.cat([one[i] for one in scores], dim=1) for i, name in enumerate(names)}
        return cls(joined, torch.cat(labels), found)

    def calibration(self, prior: Tensor) -> Calibration:
        """With which class shares are estimated; learned once for each prior of training, ``[classes]``."""
        key = tuple(prior.tolist())
        if key not in self._calibrations:
            self._calibrations[key] = calibrated_to([self.signals.log_p], [self.labels], prior)
        return self._calibrations[key]

    @cached_property
    def _calibrations(self) -> dict[tuple[float, ...], Calibration]:
        return {}

    def scores_of(self, score: str, smooth: float, alike: float) -> Tensor:
        """The scores of the true classes, ``[n]``, smoothed as those of a new graph are."""
        return mixed(self.scores[score], smooth, alike)

    def arrays(self) -> dict[str, Tensor]:
        """All of it by name."""
        found = {one.name: getattr(self.signals, one.name) for one in fields(Signals)}
        return {**found, "labels": self.labels, **{f"score/{name}": one for name, one in self.scores.items()}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Tensor], task: Task) -> HeldOut:
        """What :meth:`arrays` gave; ValueError says what is wrong."""
        names = SCORES if task.is_classification else ("residual",)
        wide, parts = max(task.num_classes, 1), 3 if task.is_classification else 1
        try:
            signals = Signals(**{one.name: arrays[one.name] for one in fields(Signals)})
            labels, scores = arrays["labels"], {name: arrays[f"score/{name}"] for name in names}
        except KeyError as error:
            raise ValueError(f"array {error} is missing") from None
        n = labels.shape[0] if labels.dim() == 1 else 0
        shapes = {"log_p": (n, wide), "p": (n, wide), "near": (n, wide), "energy": (n,)}
        fit = all(getattr(signals, name).shape == shape for name, shape in shapes.items())
        fit = fit and signals.hidden.dim() == 2 and signals.hidden.shape[0] == n > 0
        fit = fit and all(one.shape == (parts, n) for one in scores.values())
        kinds = {one.dtype for one in (*scores.values(), *(getattr(signals, name) for name in (*shapes, "hidden")))}
        label = torch.int64 if task.is_classification else torch.float32
        if not kinds <= {torch.float32, torch.float64} or labels.dtype != label:
            raise ValueError("arrays have other types than expected")
        if not fit or not all(bool(torch.isfinite(one).all()) for one in arrays.values()):
            raise ValueError("arrays differ in length, or hold numbers that are not finite")
        if task.is_classification and not (int(labels.min()) >= 0 and int(labels.max()) < task.num_classes):
            raise ValueError("labels are outside the classes")
        return cls(signals, labels, scores)


def mixed(parts: Tensor, smooth: float, alike: float) -> Tensor:
    """(1 − λ − μ) own + λ neighbours' mean + μ likes' mean (SNAPS; DAPS if μ = 0), of ``[3, …]``."""
    return smoothed_scores(parts[0], parts[1], smooth) + alike * (parts[2] - parts[0])


def save_held_out(folder: Path, found: Mapping[str, HeldOut]) -> None:
    """Writes what was learned beside a model, by mode of adaptation; nothing learned, no file."""
    if not found:
        (folder / _FILE).unlink(missing_ok=True)
        return
    arrays = {f"{mode or 'plain'}/{name}": one for mode, held in found.items() for name, one in held.arrays().items()}
    write_tensors(folder / _FILE, arrays)


def load_held_out(folder: Path, task: Task) -> dict[str, HeldOut]:
    """What :func:`save_held_out` wrote; empty if it wrote nothing, as earlier versions did."""
    path = folder / _FILE
    if not path.is_file():
        return {}
    arrays, _ = read_tensors(path)
    found = {}
    for mode in dict.fromkeys(name.partition("/")[0] for name in arrays):
        own = {name.partition("/")[2]: one for name, one in arrays.items() if name.partition("/")[0] == mode}
        try:
            found["" if mode == "plain" else mode] = HeldOut.from_arrays(own, task)
        except (ValueError, RuntimeError, TypeError) as error:
            raise GraphshiftError(f"{path}: {error}: damaged.") from None
    return found
