"""The score of a model on a graph without labels, learned on copies of validation graphs that are moved towards it.

What the unlabelled graph shows of its edges and features is given to a copy of a labelled graph (``matching.py``). Then
the estimates of ``estimators/estimating.py`` stand on held-out nodes that are like the target's already, and have only
the rest to bridge. Other copies are shifted in all directions (``exploring.py``). The weight of each estimate was
learned on other datasets (``combining.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.core.progress import progress_bar
from graphshift.data.environment import Environment
from graphshift.data.expected import weighted_score
from graphshift.data.metrics import METRICS, Metric
from graphshift.data.tasks import refuse_graph_level
from graphshift.estimators.estimating import (
    Estimate,
    at_counted,
    check_metric,
    combined,
    forms_of,
    some_of,
    too_few,
    untold_shares,
    within,
)
from graphshift.estimators.held_out import HeldOut, Signals
from graphshift.estimators.predictor import Graphs, Predictor
from graphshift.estimators.trust import fitting
from graphshift.shift.combining import concluded
from graphshift.shift.exploring import Copy, explored, scored_copies
from graphshift.shift.matching import matched_copies
from graphshift.shift.reference import Reference, reference_of

_FEWEST = 20  # labelled nodes of a validation graph


def estimate_score(
    model: Predictor,
    graphs: Graphs,
    validation: Graphs,
    *,
    adapt: str | None = None,
    committee: Iterable[Predictor] = (),
    seed: int = 0,
    progress: bool = False,
) -> Estimate | dict[str, Estimate]:
    """The expected score on a graph without labels, learned on copies of validation graphs.

    Several graphs give a dict.

    Args:
        model: fitted with validation graphs.
        graphs: labels are not looked at. For a graph in a partition folder parts stand that fit into memory.
        validation: labelled graphs that the model was not trained on; likewise.
        adapt: ``"norm"`` or None.
        committee: other models of the same task: how often they agree with this one is an estimate too.
        seed: of the copies.
        progress: show a progress bar.

    >>> import graphshift as gs
    >>> data = gs.load("planted-structure", nodes=600)
    >>> model = gs.ERM(epochs=30).fit(data)
    >>> found = gs.estimate_score(model, data.tests[-1], data.val)
    >>> found.copies > 10 and found.low <= found.high
    True
    """
    what = "gs.estimate_score, which moves edges between labelled nodes, (model.estimate_score is)"
    refuse_graph_level(model.task_, what)
    metric = METRICS.find(model.task_.metric)
    check_metric(metric, model.task_.is_classification)
    targets = fitting(graphs, model.task_)
    shown = model.signals(targets, adapt=adapt)
    held = model.held_out_[adapt or ""]
    with progress_bar("estimate", len(targets) + 1, unit="graphs") if progress else nullcontext(_quiet) as told:
        known = _Known.of(model, fitting(validation, model.task_, labelled=True), held, metric, adapt, seed)
        others = [_agreement(model, one, known.labelled, targets, adapt) for one in committee]
        found = {}
        for i, (target, signals) in enumerate(shown.items()):
            told({"epoch": i + 1})
            if target.name in found:
                raise GraphshiftError(f"two environments are called {target.name!r}; names must differ.")
            own = some_of(at_counted(signals, target.counted.cpu()))
            plain = combined(held, own, model.prior_, metric)
            if not too_few(held):
                more, untold = known.estimates(target, own)
                by = plain.by | more
                if others:
                    by["agreement"] = plain.held_out + float(np.mean([one[target.name] for one in others]))
                untold = min(untold, untold_shares(held, own, model.prior_))
                plain = replace(plain, by=within(by, metric), copies=known.copies, untold=untold)
                plain = concluded(plain, metric, nodes=max(target.counted.numel(), own.p.shape[0]))
            found[target.name] = plain
    return next(iter(found.values())) if isinstance(graphs, Environment | Data) else found


class _Known:
    """Labelled graphs, with what is computed once for all targets."""

    def __init__(self, model: Predictor, held: HeldOut, metric: Metric, adapt: str | None, seed: int) -> None:
        self.model, self.held, self.metric, self.adapt, self.seed = model, held, metric, adapt, seed
        self.labelled: list[Environment] = []
        self.references: list[Reference] = []
        self.own: list[float] = []
        self.shifted: list[list[Copy]] = []

    @classmethod
    def of(
        cls,
        model: Predictor,
        validation: Sequence[Environment],
        held: HeldOut,
        metric: Metric,
        adapt: str | None,
        seed: int,
    ) -> _Known:
        """Those that have enough nodes with one label."""
        found = cls(model, held, metric, adapt, seed)
        for i, e in enumerate(validation):
            if e.y is None or e.single.numel() < _FEWEST:
                continue
            reference = reference_of(e)
            found.labelled.append(e)
            found.references.append(reference)
            copies = scored_copies(model, e, reference, held, metric, adapt=adapt, seed=seed + i)
            found.shifted.append(copies)
            found.own.append(next((one.truth for one in copies if one.kind == "none"), float("nan")))
        return found

    @property
    def copies(self) -> int:
        """How many there are for each target."""
        return sum(len(one) + 3 for one in self.shifted)

    def estimates(self, target: Environment, shown: Signals) -> tuple[dict[str, float], float]:
        """By name and what was moved, the mean over labelled graphs by their nodes; and ``explored``.

        Then by how much class shares seem to have moved from the copies where that cannot be told.
        """
        every: list[tuple[int, dict[str, float]]] = []
        untold = [0.0]
        plain = within(forms_of(self.held, shown, self.model.prior_, self.metric)[0], self.metric)
        base = weighted_score(
            self.held.signals.p.numpy(), self.held.labels.numpy(), np.ones(len(self.held.labels)), self.metric
        )
        for e, reference, own, copies in zip(self.labelled, self.references, self.own, self.shifted, strict=True):
            found, aimed, there = {}, [], self.held
            for move, copy in matched_copies(e, reference, target, self.seed).items():
                try:
                    (signals,) = self.model.signals([copy], adapt=self.adapt).values()
                except GraphshiftError:  # a backbone that cannot take such a graph
                    continue
                there = HeldOut(signals.at(torch.from_numpy(reference.rows)), torch.from_numpy(reference.labels), {})
                p = there.signals.p.numpy()
                score = weighted_score(p, reference.labels, np.ones(len(p)), self.metric)
                found[f"score-{move}"] = base + score - own
                forms = forms_of(there, shown, self.model.prior_, self.metric)[0]
                found |= {f"{name}-{move}": value for name, value in forms.items()}
                by = within(forms_of(self.held, there.signals, self.model.prior_, self.metric)[0], self.metric)
                aimed.append(Copy(move, by, score))
            untold.append(untold_shares(there, shown, self.model.prior_))  # from the last, which is moved in all
            found["explored"] = explored([*copies, *aimed], plain)
            every.append((len(reference.rows), within(found, self.metric)))
        names = dict.fromkeys(name for _, found in every for name in found)
        return {name: _weighted(name, every) for name in names}, max(untold)


def _weighted(name: str, every: Sequence[tuple[int, Mapping[str, float]]]) -> float:
    there = [(nodes, found[name]) for nodes, found in every if name in found]
    return float(np.average([value for _, value in there], weights=[nodes for nodes, _ in there]))


def _agreement(
    model: Predictor,
    other: Predictor,
    labelled: Sequence[Environment],
    targets: Sequence[Environment],
    adapt: str | None,
) -> dict[str, float]:
    """By how much two models agree more often on each target than on labelled graphs."""

    def same(environments: Sequence[Environment]) -> dict[str, Any]:
        one, two = (m.predict(environments, adapt=a) for m, a in ((model, adapt), (other, None)))
        return {e.name: (one[e.name] == two[e.name])[e.mask.cpu().numpy()] for e in environments}

    before = np.concatenate([*same(labelled).values()]).mean()
    return {name: float(equal.mean() - before) for name, equal in same(targets).items()}


def _quiet(_: Mapping[str, Any]) -> None:
    """Shows nothing."""
