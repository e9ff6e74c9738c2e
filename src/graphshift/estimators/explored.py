"""Shifted copies of labelled graphs, kept with a model: weighted to look like a new graph, they say what to expect.

The labels of copies are known. So whatever wants labels of a new graph (a temperature, a quantile, an error) can be
taken from nodes of copies that look like the new graph's, by a density ratio of what the model shows of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.core.storage import read_tensors, write_tensors
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.conformal import SCORES, density_ratio, effective_number
from graphshift.estimators.copies import shifted_copies
from graphshift.estimators.doubt import (
    SIGNS,
    NodeTemperature,
    constant_temperature,
    fitted_temperatures,
    signs_of,
    temperature_of_arrays,
    weighted_temperature,
)
from graphshift.estimators.held_out import Signals, mixed, score_parts

if TYPE_CHECKING:
    from graphshift.estimators.trust import Trust

_FILE = "explored.safetensors"
_MOST = 8_000  # nodes of copies that are kept
_REFERENCE = 1_000  # held-out nodes to which distances are taken
_FEWEST, _OF_A_COPY = 20, 2_000  # nodes of a copy, at least and at most
_OVERLAP = 0.07  # of copies and the new graph, at least; ratios are cut off at 1/20, so it is never below
_USUAL = 0.95  # of the held-out nodes are this usual
_CLIPPED = 5.0  # deviations
_SHOWN = 5_000  # nodes of the new graph that are compared
_STILL = 0.5  # of a graph that has not moved overlaps
_REACHED = 0.1  # of the nodes of graphs as they were, for a correction of class shares
_PARTS = ("signs", "log_p", "p", "labels", "plain", "scores", "reference", "usual", "moved")
# The last axis of the first is that of nodes, of the others the first.
_LAST, _FIRST = ("labels", "scores", "plain", "moved"), ("signs", "log_p", "p")
_OF_A_MOVED = 8_000  # nodes of all copies in which the same was moved: quantiles and limits are of them

#: What may have been moved towards one graph, by the numbers of ``Explored.moved``.
MOVED = ("", "nothing", "edges", "features", "both")


@dataclass(frozen=True, eq=False)
class Explored:
    """Nodes of shifted copies, with their labels.

    Attributes:
        signs: :data:`~graphshift.estimators.doubt.SIGNS` of them, ``[n, 9]``.
        log_p, p: logarithms of the class probabilities, and calibrated probabilities, ``[n, classes]``.
        labels: ``[n]``.
        plain: which are of a graph as it was, bool ``[n]``.
        scores: conformal scores of the true class by the names of ``SCORES``; own, neighbours', own: ``[names, 3, n]``.
        reference: hidden states of held-out nodes, ``[m, width]``.
        usual: the energy and the distance that 95 of 100 held-out nodes stay below, ``[2]``.
        moved: what was moved towards one graph, by places in :data:`MOVED`, ``[n]``; 0 of copies in all directions.
        temperature: of each node, fitted on all copies.
    """

    signs: Tensor
    log_p: Tensor
    p: Tensor
    labels: Tensor
    plain: Tensor
    scores: Tensor
    reference: Tensor
    usual: Tensor
    moved: Tensor
    temperature: NodeTemperature

    @property
    def pools(self) -> dict[str, Tensor]:
        """The nodes of copies that were moved towards one graph, by what was moved; empty if none was."""
        rows = {name: (self.moved == place).nonzero().squeeze(1) for place, name in enumerate(MOVED) if place}
        return {name: one for name, one in rows.items() if one.numel()}

    def with_moved(self, nodes: Mapping[str, Sequence[dict[str, Tensor]]]) -> Explored:
        """With nodes of copies that were moved towards one graph, in the place of any that are there.

        Args:
            nodes: from :func:`looked_at`, by what was moved, of every labelled graph.
        """
        before = (self.moved == 0).nonzero().squeeze(1)
        kept = [{name: getattr(self, name)[..., before] for name in _LAST}]
        kept[0] |= {name: getattr(self, name)[before] for name in _FIRST}
        for name, own in nodes.items():
            each = _OF_A_MOVED // max(len(own), 1)
            kept += [_first({**one, "moved": torch.full_like(one["labels"], MOVED.index(name))}, each) for one in own]
        made = _joined(kept)
        joined = replace(self, temperature=self.temperature, **made)
        shown = made["signs"], made["log_p"], made["labels"]
        if joined._own_temperatures_help():
            temperature = fitted_temperatures(*shown, self.signs[self.plain])
        else:
            temperature = constant_temperature(*shown)
        return replace(joined, temperature=temperature)

    def _own_temperatures_help(self) -> bool:
        """Whether nodes' own temperatures, or one for all, of copies in all directions have the larger likelihood.

        Compared on copies that were moved to the graph in all that they can be, which neither was fitted on.
        """
        before, pools = (self.moved == 0).nonzero().squeeze(1), self.pools
        rows = pools.get("both", pools.get("features"))
        if rows is None:
            return True
        shown = self.signs[before], self.log_p[before], self.labels[before]
        base = self.signs[self.plain & (self.moved == 0)]
        both = fitted_temperatures(*shown, base), constant_temperature(*shown)
        own, one = (
            float(-made.scaled(self.log_p[rows], self.signs[rows]).log_softmax(dim=1).gather(1, labels).mean())
            for made, labels in ((each, self.labels[rows].unsqueeze(1)) for each in both)
        )
        return own < one

    @cached_property
    def scaled(self) -> Tensor:
        """Logarithms of the class probabilities over the temperatures of their nodes, ``[n, classes]``."""
        return self.temperature.scaled(self.log_p, self.signs)

    def scores_of(self, score: str, smooth: float) -> NDArray[np.float64]:
        """The scores of the true classes, ``[n]``."""
        return np.asarray(mixed(self.scores[[*SCORES].index(score)], smooth, 0.0).numpy())

    def on(self, environment: Environment, signals: Signals, ratios: Tensor | None = None) -> Outlook:
        """What the copies say of another graph; its labels are not looked at.

        Args:
            environment: the graph.
            signals: what the model shows of all its nodes.
            ratios: of the class shares there to those of held-out nodes, if they could be estimated. They are used
                where nodes of the graphs as they were look like this one's: where more has moved than class shares,
                such estimates are wrong.
        """
        if self.reference.shape[1] != signals.hidden.shape[1]:
            raise GraphshiftError(
                f"the copies' nodes have {self.reference.shape[1]} hidden numbers each and the model has "
                f"{signals.hidden.shape[1]}: they are of another model; call model.explore(graphs) and save it again."
            )
        signs = signs_of(environment, signals, self.reference)
        counted = environment.counted.cpu()
        rows = counted if counted.numel() else torch.arange(signs.shape[0])
        rows = rows[torch.randperm(rows.numel(), generator=torch.Generator().manual_seed(0))[:_SHOWN]]
        mean, spread = self.signs.mean(dim=0), self.signs.std(dim=0, unbiased=False).clamp(min=1e-9)

        def compared(signs: Tensor, p: Tensor) -> NDArray[np.float64]:
            own = ((signs - mean) / spread).clamp(-_CLIPPED, _CLIPPED)
            both = torch.cat([own, p], dim=1)
            return np.asarray(torch.cat([both, both.square()], dim=1).numpy())

        new = compared(signs, signals.p)
        if rows.numel() < _FEWEST:  # of so few nothing can be said, and nothing is weighted
            p = self.temperature.scaled(signals.log_p, signs).softmax(dim=1)
            return Outlook(signs, p, np.ones(len(self.labels)), np.ones(len(new)), 1.0, None)
        weights, own = density_ratio(compared(self.signs, self.p), new[rows.numpy()], new)
        overlap = float(np.minimum(weights, 1.0).mean())
        if overlap < _OVERLAP:  # nothing among the copies looks like it
            weights, own = np.ones_like(weights), np.ones_like(own)
        level = weighted_temperature(self.scaled, self.labels, weights)
        plain = compared(self.signs[self.plain], self.p[self.plain])
        reach, _ = density_ratio(plain, new[rows.numpy()], new[:1])
        # The mean of true ratios is 1; where no node looks like the graph's all are small, and alike.
        reached = effective_number(reach) / len(plain) * min(float(reach.mean()), 1.0)
        used = ratios if reached >= _REACHED else None
        p = _levelled(self.temperature.scaled(signals.log_p, signs), level, used)
        return Outlook(signs, p, weights, own, overlap, float(np.minimum(reach, 1.0).mean()), level, used)

    def seen_in(self, pool: Tensor, outlook: Outlook) -> tuple[Tensor, Tensor, Tensor]:
        """Of labelled nodes: probabilities as a graph's nodes have them, labels, and weights by the class shares there.

        Args:
            pool: which, from :attr:`pools`.
            outlook: of the graph.
        """
        labels, scaled = self.labels[pool], self.scaled[pool]
        weights = torch.ones_like(scaled[:, 0]) if outlook.ratios is None else outlook.ratios[labels].to(scaled)
        return _levelled(scaled, outlook.level, outlook.ratios), labels, weights


def _levelled(scaled: Tensor, level: float, ratios: Tensor | None) -> Tensor:
    """Probabilities at one temperature more, corrected for class shares if these could be estimated."""
    p = (scaled / level).softmax(dim=1)
    if ratios is None:
        return p
    p = p * ratios
    return p / p.sum(dim=1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)


@dataclass(frozen=True, eq=False)
class Outlook:
    """What copies say of a graph.

    Attributes:
        signs: of its nodes, ``[nodes, 9]``.
        p: probabilities that are calibrated to it, ``[nodes, classes]``.
        weights: of the copies' nodes, so that they look like it; ones where none does.
        own: of its own nodes, ``[nodes]``.
        overlap: ∫ min(P, Q) of the copies and the graph, 0 to 1, estimated by the mean of min(weight, 1).
        held_out: the same of the graphs as they were: how alike they are to this one. None of fewer than 20 nodes.
        level: the one temperature over all nodes' own.
        ratios: of class shares by which ``p`` is corrected, so that another class may be the likeliest; None without.
    """

    signs: Tensor
    p: Tensor
    weights: NDArray[np.float64]
    own: NDArray[np.float64]
    overlap: float
    held_out: float | None
    level: float = 1.0
    ratios: Tensor | None = None

    @property
    def corrected(self) -> bool:
        """Whether ``p`` is corrected for class shares."""
        return self.ratios is not None

    @property
    def number(self) -> float:
        """The effective number of the weights."""
        return effective_number(self.weights)

    @property
    def moved(self) -> bool | None:
        """Whether less than half of it overlaps with the graphs that the model was validated on; None if unknown."""
        return None if self.held_out is None else self.held_out < _STILL

    @property
    def unlike(self) -> str:
        """Why no copy looks like the graph; empty if some do."""
        if self.overlap >= _OVERLAP:
            return ""
        return f"the graph is unlike every copy: they overlap by {self.overlap:.0%}, and {_OVERLAP:.0%} is needed"


def explored_of(model: Trust, environments: Sequence[Environment], seed: int = 0) -> Explored:
    """Makes the copies of labelled graphs and looks at them with a model that was calibrated.

    Args:
        model: fitted, for classes.
        environments: labelled graphs that it was not trained on.
        seed: of the copies.
    """
    reference = _reference(model, environments)
    found: list[dict[str, Tensor]] = []
    base: list[Tensor] = []
    for i, environment in enumerate(environments):
        random = np.random.default_rng(derive_seed(seed, 61 + i))
        for kind, copy, rows in shifted_copies(environment.replace(task=model.task_), random):
            if rows.numel() < _FEWEST:
                continue
            (signals,) = model.signals([copy]).values()
            few = rows[torch.randperm(rows.numel(), generator=torch.Generator().manual_seed(len(found)))[:_OF_A_COPY]]
            signs = signs_of(copy, signals, reference, few)
            base += [signs] if kind == "none" else []
            found.append(looked_at(copy, signals, signs, few, plain=kind == "none"))
    if not base:
        raise GraphshiftError(
            f"explore: no graph has {_FEWEST} labelled nodes that count; give graphs with more of them."
        )
    each = max(_MOST // len(found), 1)
    made = _joined([_first(one, each) for one in found])
    held, names = torch.cat(base), [*SIGNS]
    usual = torch.stack([held[:, names.index(name)].quantile(_USUAL) for name in ("energy", "distance")])
    temperature = fitted_temperatures(made["signs"], made["log_p"], made["labels"], held)
    return Explored(**made, reference=reference, usual=usual, temperature=temperature)


def _reference(model: Trust, environments: Sequence[Environment]) -> Tensor:
    """Hidden states of some nodes with labels."""
    found = [signals.hidden[e.single.cpu()] for e, signals in model.signals(environments).items()]
    hidden = torch.cat(found)
    return hidden[torch.randperm(hidden.shape[0], generator=torch.Generator().manual_seed(0))[:_REFERENCE]]


def looked_at(
    copy: Environment, signals: Signals, signs: Tensor, rows: Tensor, *, plain: bool = False
) -> dict[str, Tensor]:
    """What is kept of some nodes of a copy.

    Args:
        copy: with labels.
        signals: what the model shows of all its nodes.
        signs: of ``rows``.
        rows: the nodes.
        plain: whether the graph is as it was.
    """
    assert copy.y is not None
    labels = copy.y.cpu()[rows]
    index = labels.view(1, -1, 1).expand(3, -1, 1)
    scores = [score_parts(copy, signals, name, rows=rows, alike=False).gather(2, index).squeeze(2) for name in SCORES]
    found = {"signs": signs, "log_p": signals.log_p[rows], "p": signals.p[rows], "labels": labels}
    found |= {"plain": torch.full(labels.shape, plain), "moved": torch.zeros_like(labels)}
    return {**found, "scores": torch.stack(scores)}


def _first(nodes: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """So many of some nodes."""
    return {name: one[..., :count] if name in _LAST else one[:count] for name, one in nodes.items()}


def _joined(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Nodes of several copies as one."""
    return {name: torch.cat([one[name] for one in parts], dim=-1 if name in _LAST else 0) for name in (*_LAST, *_FIRST)}


def save_explored(folder: Path, found: Explored | None) -> None:
    """Writes what was learned from copies beside a model; nothing learned, no file."""
    path = folder / _FILE
    if found is None:
        path.unlink(missing_ok=True)
        return
    arrays = {name: getattr(found, name) for name in _PARTS}
    own = {f"temperature/{one.name}": getattr(found.temperature, one.name) for one in fields(NodeTemperature)}
    write_tensors(path, {**arrays, **own})


def load_explored(folder: Path, task: Task) -> Explored | None:
    """What :func:`save_explored` wrote; None if it wrote nothing."""
    path = folder / _FILE
    if not path.is_file():
        return None
    arrays, _ = read_tensors(path)
    try:
        arrays = {"moved": torch.zeros_like(arrays["labels"]), **arrays}  # earlier versions moved none
        temperature = {one.name: arrays[f"temperature/{one.name}"] for one in fields(NodeTemperature)}
        found = Explored(**{name: arrays[name] for name in _PARTS}, temperature=temperature_of_arrays(temperature))
        n, wide = found.labels.numel(), task.num_classes
        shapes = {"signs": (n, len(SIGNS)), "log_p": (n, wide), "p": (n, wide), "labels": (n,), "plain": (n,)}
        shapes |= {"scores": (len(SCORES), 3, n), "usual": (2,), "moved": (n,)}
        fit = all(getattr(found, name).shape == shape for name, shape in shapes.items())
        if not fit or found.reference.dim() != 2 or not found.reference.shape[0] or not n:
            raise ValueError("arrays differ in length")
        if not all(bool(torch.isfinite(one).all()) for one in arrays.values()):
            raise ValueError("numbers are not finite")
        if int(found.labels.min()) < 0 or int(found.labels.max()) >= wide:
            raise ValueError("labels are outside the classes")
        if int(found.moved.min()) < 0 or int(found.moved.max()) >= len(MOVED):
            raise ValueError("it is not known what was moved")
        if not bool(found.plain.any()):
            raise ValueError("no node is of a graph as it was")
    except KeyError as error:
        raise GraphshiftError(f"{path}: array {error} is missing: damaged.") from None
    except (ValueError, RuntimeError, TypeError) as error:
        raise GraphshiftError(f"{path}: {error}: damaged.") from None
    return found
