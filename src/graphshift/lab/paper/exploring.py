"""Does exploring work? The variance of the risks under learned and under random edits, for a fixed GNN.

A GNN is trained by ERM and then fixed, so the variance has one cause: the explorers. They learn for some steps,
and their variance is divided by that of random explorers with as many draws. A policy has two ways to raise it. It can
learn *which* pairs matter, or it can draw the same pair again and again in one view and not in another, so that views
differ in *how many* pairs they flip. The control tells them apart: the same views with every drawn column replaced
by a random one, repetitions kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.core.errors import GraphshiftError
from graphshift.core.ledger import Ledger
from graphshift.core.randomness import derive_seed, other_nodes
from graphshift.core.stored import Entry
from graphshift.data.dataset import ShiftDataset
from graphshift.data.environment import Environment
from graphshift.datasets import DATASETS as ALL_DATASETS
from graphshift.explorers import Explorer, Random, Reinforce, View
from graphshift.graph.graph import Graph
from graphshift.lab.paper.reproducing import quiet
from graphshift.methods import EERM, ERM, EERMMethod
from graphshift.methods.risks import variance
from graphshift.studies.resolved import load_data

#: The datasets, with the options that differ from the dataset's defaults.
DATASETS: dict[str, dict[str, Any]] = {
    "planted-structure": {},
    "cora": {"variant": "authors", "redraw": True},
    "pubmed-temporal": {},
    "photo": {"variant": "authors", "redraw": True},
    "twitch": {},
    "facebook100": {"tests": "Brown11"},
}

#: How explorers are rewarded: the paper's way, and with what lowers the noise of the gradient.
LEARNERS: dict[str, dict[str, Any]] = {
    "paper": {"credit": "shared"},
    "own credit": {"credit": "difference", "baseline": 0.9},
    "own credit, normalised": {"credit": "difference", "baseline": 0.9, "normalise": True},
}

#: What follows the name of a learner whose policy remembers 64 columns of a node: an approximation of the paper's.
BOUNDED = ", bounded"
_BOUND = 64

#: Steps of a case, and of the long ones: the longest T × epochs of the paper (Arxiv: 5 × 500). These are dataset,
#: learner, rate and s.
STEPS, LONG = 200, 2500
_LONG_CASES = (
    ("planted-structure", "paper", 0.005, 5),
    ("planted-structure", "own credit", 0.3, 1),
    ("cora", "paper", 0.001, 1),
    ("cora", "own credit", 0.3, 1),
)

_RATES = (0.001, 0.01, 0.1, 0.3, 1.0)
_VIEWS = 3  # K
_POINTS = 20  # of a curve
_RANDOM_DRAWS = 100
_CONTROLS = 10
_EPOCHS = 60  # of ERM


@dataclass(frozen=True)
class Case:
    """One run of explorers.

    Attributes:
        dataset: on which graph.
        learner: how they are rewarded, of :data:`LEARNERS`; with :data:`BOUNDED` behind it, by a bounded policy.
        lr: their learning rate.
        edits_per_node: s.
        steps: of learning, T.
        seed: of everything.
    """

    dataset: str
    learner: str
    lr: float
    edits_per_node: int
    steps: int
    seed: int

    @property
    def id(self) -> str:
        """Its name in the ledger."""
        return f"{self.dataset}/{self.learner}/lr {self.lr:g}/s {self.edits_per_node}/T {self.steps}/seed {self.seed}"


@dataclass(frozen=True, kw_only=True)
class Explored(Entry):
    """What came of a case.

    Attributes:
        kind, id, status, selections: what every line of a ledger has.
        dataset, learner, lr, edits_per_node, steps, seed: of the case.
        views: K.
        nodes: of the training graphs.
        curve: ``step`` and the mean ``variance`` up to each.
        last: the mean variance of the last tenth of the steps.
        control: that of the same views with other columns.
        random: the mean variance under random edits.
        distinct: pairs that each view flips at the end, for a node.
    """

    kind: str = "exploring"
    id: str
    status: str = "ok"
    selections: dict[str, Any] = field(default_factory=dict)
    dataset: str
    learner: str
    lr: float
    edits_per_node: int
    steps: int
    seed: int
    views: int
    nodes: int
    curve: dict[str, list[float]]
    last: float
    control: float
    random: float
    distinct: list[float]


def cases(datasets: Sequence[str], seeds: int, steps: int) -> list[Case]:
    """All cases, one seed of everything before the next; the normalised reward at one learning rate alone."""
    return [
        Case(dataset, learner, lr, edits, steps, seed)
        for seed in range(seeds)
        for dataset in datasets
        for edits in (1, 5)
        for learner in LEARNERS
        for lr in (_RATES if "normalised" not in learner else _RATES[-1:])
    ]


def long_cases(datasets: Sequence[str], seeds: int, steps: int = LONG) -> list[Case]:
    """As long as the paper trains at most, with the paper's policy and with a bounded one."""
    return [
        Case(dataset, learner + bound, lr, edits, steps, seed)
        for seed in range(seeds)
        for dataset, learner, lr, edits in _LONG_CASES
        for bound in ("", BOUNDED)
        if dataset in datasets
    ]


def explore_all(
    wanted: Sequence[Case],
    file: Path,
    data_dir: Path | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> list[Explored]:
    """Runs the cases that a ledger lacks; its records, in the order of the cases.

    Args:
        wanted: which.
        file: the ledger.
        data_dir: where the raw files of datasets are.
        report: called with the number of cases done, as ``{"epoch": 3}``.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(Explored, file)
    still: tuple[Any, ShiftDataset, Backbone, dict[int, float]] | None = None
    for done, case in enumerate(wanted):
        if report is not None:
            report({"epoch": done})
        if case.id in ledger.records:
            continue
        key = (case.dataset, case.seed)
        if still is None or still[0] != key:
            data = _load(case.dataset, data_dir, case.seed)
            still = (key, data, _trained(data, case.seed), {})
        _, data, backbone, random = still
        if case.edits_per_node not in random:
            random[case.edits_per_node] = _random_variance(backbone, data.train, case)
        ledger.add(explore(case, backbone, data.train, random[case.edits_per_node]))
    return [ledger.records[case.id] for case in wanted]


def explored(file: Path) -> list[Explored]:
    """What a ledger has."""
    return list(Ledger(Explored, file).records.values())


def explore(case: Case, backbone: Backbone, environments: Sequence[Environment], random: float) -> Explored:
    """Lets explorers learn while the GNN is fixed.

    Args:
        case: how.
        backbone: the GNN; its weights are not changed.
        environments: the training graphs.
        random: the mean variance under random edits.
    """
    options = dict(LEARNERS[case.learner.removesuffix(BOUNDED)])
    method = _method(backbone, lambda m, k: _reinforce(case, options, m, k), credit=options["credit"])
    every, tail = max(case.steps // _POINTS, 1), max(case.steps // 10, 1)
    controlled = {case.steps - 1 - i * tail // _CONTROLS for i in range(_CONTROLS)}
    values: list[float] = []
    controls: list[float] = []
    for step in range(case.steps):
        views, risks = method.explore(environments)
        values.append(float(variance(risks)))
        if step in controlled:
            others = _relabelled_all(environments, views, derive_seed(case.seed, 5, step))
            controls.append(float(variance(method.risks_of(environments, others))))
    ends = range(every, case.steps + 1, every)
    return Explored(
        id=case.id,
        **asdict(case),
        views=_VIEWS,
        nodes=sum(e.num_nodes for e in environments),
        curve={"step": list(ends), "variance": [fmean(values[end - every : end]) for end in ends]},
        last=fmean(values[-tail:]),
        control=fmean(controls),
        random=random,
        distinct=[_distinct(view.actions) for row in views for view in row],
    )


def relabelled(graph: Graph, actions: Tensor, seed: int) -> View:
    """A view with every drawn column replaced by a random one; draws of a node that were equal stay equal.

    Args:
        graph: what to edit.
        actions: the columns that were drawn for each node, ``[nodes, s]``.
        seed: of the random columns.
    """
    first = (actions.unsqueeze(2) == actions.unsqueeze(1)).int().argmax(dim=2)  # where the same column came first
    others = other_nodes(actions.shape[0], actions.shape[1], seed).reshape(actions.shape)
    return View.of_actions(graph, others.gather(1, first).to(actions.dtype), 0.0)


def _relabelled_all(
    environments: Sequence[Environment], views: Sequence[Sequence[View]], seed: int
) -> list[list[View]]:
    return [
        [relabelled(e.graph, _drawn(view), derive_seed(seed, m, k)) for k, view in enumerate(row)]
        for m, (e, row) in enumerate(zip(environments, views, strict=True))
    ]


def _drawn(view: View) -> Tensor:
    if view.actions is None:
        raise GraphshiftError("a graph of one node has no pairs to explore.")
    return view.actions


def _distinct(actions: Tensor | None) -> float:
    if actions is None:
        return 0.0
    ordered = actions.sort(dim=1).values
    return 1 + float((ordered[:, 1:] != ordered[:, :-1]).sum()) / ordered.shape[0]


def _method(backbone: Backbone, make: Callable[[int, int], Explorer], credit: Any = "shared") -> EERMMethod:
    return EERMMethod(backbone, EERM(views=_VIEWS, credit=credit, reward_variance="pooled"), make)


def _reinforce(case: Case, options: Mapping[str, Any], m: int, k: int) -> Explorer:
    own = {name: value for name, value in options.items() if name != "credit"}
    own["entries_per_node"] = _BOUND if case.learner.endswith(BOUNDED) else None
    return Reinforce(case.edits_per_node, lr=case.lr, seed=derive_seed(case.seed, 3, m, k), **own)


def _random_variance(backbone: Backbone, environments: Sequence[Environment], case: Case) -> float:
    def make(m: int, k: int) -> Explorer:
        return Random(case.edits_per_node, seed=derive_seed(case.seed, 4, m, k))

    method = _method(backbone, make)
    return fmean(float(variance(method.explore(environments)[1])) for _ in range(_RANDOM_DRAWS))


def _load(dataset: str, data_dir: Path | None, seed: int) -> ShiftDataset:
    options = dict(DATASETS[dataset])
    known = ALL_DATASETS[dataset].options
    if data_dir is not None and "data_dir" in known:
        options["data_dir"] = str(data_dir)
    with quiet():
        return load_data(dataset, options, seed if "seed" in known else None)


def _trained(data: ShiftDataset, seed: int) -> Backbone:
    """The backbone that the dataset prefers, trained by ERM."""
    return ERM(epochs=_EPOCHS, selection="last", seed=seed).fit(data).backbone_
