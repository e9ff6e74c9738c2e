"""What a fitted model leans on, graph by graph: edges or columns, which of them, and whether that holds elsewhere."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from graphshift.core.html import html_table
from graphshift.data.environment import Environment, as_environments
from graphshift.data.metrics import METRICS, Metric
from graphshift.estimators.gnn import GNNEstimator
from graphshift.estimators.predictor import Graphs, Predictor
from graphshift.shift.auditing.breaking import permuted, rewired, strangers, without_edges, without_pair
from graphshift.shift.auditing.columns import column_drops, moved_columns, strongest
from graphshift.shift.auditing.flipping import Flip, flip_columns, flip_edges
from graphshift.shift.auditing.measuring import Reached, reached
from graphshift.shift.auditing.shapley import Shapley, shapley
from graphshift.shift.auditing.words import verdict

#: What is done to a graph, with what it shows.
BREAKS: dict[str, str] = {
    "dropped": "no edge is left",
    "rewired": "edges join random nodes, which keep their degrees",
    "strangers": "neighbours have the features of random nodes; a node keeps its own",
}

_TOP = 10  # columns that are a block of their own
_REPEATS = 2  # of whatever is drawn
_PAIRS = 45  # pairs of classes that are looked at


@dataclass(frozen=True, eq=False)
class Leaning:
    """What a model leans on in one graph.

    Attributes:
        graph: its name.
        plain: what the model reaches on it.
        broken: the same where edges are broken, by the names of :data:`BREAKS`; means of two draws.
        blocks: Shapley values of the score, of ``"edges"`` (rewired) and blocks of columns (permuted).
        columns: by how much the risk rises when a column is permuted, by its number.
        pairs: by how much the risk rises without the edges that join two classes, by their numbers.
        metric: of the scores.
    """

    graph: str
    plain: Reached
    broken: dict[str, Reached]
    blocks: Shapley
    columns: dict[int, float]
    pairs: dict[tuple[int, int], float]
    metric: Metric

    def lost(self, what: str) -> float:
        """The share of the score that is lost: (plain − broken) / plain; of a loss, the share by which it rises."""
        worse = self.metric.sign * (self.plain.score - self.broken[what].score)
        return worse / abs(self.plain.score) if self.plain.score else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What :func:`audit` found.

    Attributes:
        leanings: graph by graph; the first is the one that the model was trained on, if it was given.
        block_columns: the columns of each block, by number.
        moved: by how much predictions change on the last graph when what has moved in a column since the first one is
            undone: the mean difference of probabilities, by column. Columns that the model uses and that moved come
            first. Empty with one graph.
        flips: the smallest edits of edges, and of columns, that flip some nodes' predictions.
        unflipped: nodes of these that no small edit flips, for edges and for columns.
        column_names, class_names: for tables and words.
        crutch: whether the model leans on edges in the first graph, and much less of that holds in the last.
        verdict: in words.
        notes: what was sampled or left out.
    """

    leanings: list[Leaning]
    block_columns: dict[str, list[int]]
    moved: dict[int, float]
    flips: dict[str, list[Flip]]
    unflipped: dict[str, int]
    column_names: list[str]
    class_names: list[str]
    crutch: bool
    verdict: str
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Audit({self.verdict!r})"

    def _repr_html_(self) -> str:
        """For Jupyter."""
        rows = [
            [one.graph, one.metric.show(one.plain.score), *(f"{100 * one.lost(name):.0f} %" for name in one.broken)]
            for one in self.leanings
        ]
        columns = ["graph", self.leanings[0].metric.title, *(f"lost: edges {name}" for name in BREAKS)]
        return html_table("What the model leans on", columns, rows, note=self.verdict)

    def _by_class(self, found: Reached) -> dict[str, float | None]:
        return {n: None if np.isnan(v) else v for n, v in zip(self.class_names, found.by_class.tolist(), strict=False)}

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        graphs = {}
        for one in self.leanings:
            broken = {
                name: {"score": r.score, "risk": r.risk, "lost": one.lost(name), "by_class": self._by_class(r)}
                for name, r in one.broken.items()
            }
            graphs[one.graph] = {
                "score": one.plain.score,
                "risk": one.plain.risk,
                "by_class": self._by_class(one.plain),
                "broken": broken,
                "shapley": asdict(one.blocks),
                "columns": {self.column_names[c]: v for c, v in one.columns.items()},
                "class_pairs": {f"{self.class_names[i]} – {self.class_names[j]}": v for (i, j), v in one.pairs.items()},
            }
        flips = {kind: [asdict(one) for one in found] for kind, found in self.flips.items()}
        return {
            "verdict": self.verdict,
            "crutch": self.crutch,
            "graphs": graphs,
            "moved": {self.column_names[c]: v for c, v in self.moved.items()},
            "flips": flips,
            "unflipped": self.unflipped,
            "notes": self.notes,
        }


def audit(
    model: Predictor,
    graphs: Graphs,
    *,
    blocks: Mapping[str, Sequence[int]] | None = None,
    flips: int = 10,
    column_names: Sequence[str] | None = None,
    class_names: Sequence[Any] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Audit:
    """What a fitted model leans on, on one labelled graph or several: the training graph first, then newer ones.

    Args:
        model: fitted.
        graphs: with labels.
        blocks: columns by block, for Shapley values; None for the ten that matter most and the rest. Up to five blocks
            are computed exactly, of more permutations are sampled.
        flips: for how many nodes of the last graph edits are searched that flip the prediction; 0 for none.
        column_names, class_names: None for numbers, or those of the model's tables.
        seed: of everything that is drawn.
        progress: called with what is done next.

    >>> import graphshift as gs
    >>> data = gs.load("planted-structure", nodes=300)
    >>> model = gs.ERM(epochs=20).fit(data)
    >>> found = gs.audit(model, [*data.train, *data.val], flips=0)
    >>> sorted(found.leanings[0].broken)
    ['dropped', 'rewired', 'strangers']
    """
    environments = as_environments(graphs, model.task_)
    if not environments:
        raise GraphshiftError("audit: there is no graph; give a labelled one at least.")
    for e in environments:
        if e.y is None:
            raise GraphshiftError(f"audit: environment {e.name!r} has no labels `y`; what is lost cannot be measured.")
        model._check_width(e)
    tell, notes = progress or (lambda _: None), []
    first, width = environments[0], environments[0].num_features
    names = [str(one) for one in column_names] if column_names is not None else _column_names(model, width)
    if len(names) != width:
        raise GraphshiftError(f"audit: column_names has {len(names)} names; expected {width}.")
    chosen = strongest(model, first)
    if len(chosen) < width:
        notes.append(f"of {width:,} columns the {len(chosen)} were permuted one by one that matter most to first order")
    tell(f"columns of {first.name}")
    drops = column_drops(model, first, chosen, seed=seed)
    parts = {name: list(own) for name, own in blocks.items()} if blocks is not None else _top_and_rest(drops, width)
    _check_blocks(parts, width)
    leanings = []
    for e in environments:
        tell(f"{e.name}: edges, blocks and pairs of classes")
        own = drops if e is first else column_drops(model, e, chosen, seed=seed)
        leanings.append(_leaning(model, e, parts, own, seed))
    if not leanings[0].blocks.exact:
        notes.append("Shapley values are means over sampled permutations of the blocks")
    moved = {} if len(environments) < 2 else moved_columns(model, first, environments[-1], chosen)
    tell("edits that flip predictions")
    found, missed = _flips(model, environments[-1], flips, seed, notes)
    crutch = _is_crutch(leanings)
    classes = [str(one) for one in (class_names or model.classes_)]
    said = verdict(leanings, parts, moved, names, crutch)
    return Audit(leanings, parts, moved, found, missed, names, classes, crutch, said, notes)


def _leaning(
    model: Predictor, e: Environment, parts: Mapping[str, Sequence[int]], drops: dict[int, float], seed: int
) -> Leaning:
    plain = reached(model, e)
    broken = {"dropped": reached(model, without_edges(e))}
    draws = [(rewired(e, seed + i), strangers(e, seed + i)) for i in range(_REPEATS)]
    for place, name in enumerate(("rewired", "strangers")):
        broken[name] = _mean([reached(model, draw[place]) for draw in draws])

    def value(intact: frozenset[str]) -> float:
        scores = []
        for i, (wired, _) in enumerate(draws):
            graph = e if "edges" in intact else e.replace(graph=wired.graph)
            for k, (name, columns) in enumerate(parts.items()):
                graph = graph if name in intact else permuted(graph, columns, seed=seed + 100 * i + k)
            scores.append(reached(model, graph).score)
        return float(np.mean(scores))

    values = shapley(value, ["edges", *parts], seed=seed)
    pairs = _pairs(model, e, plain) if model.task_.is_classification else {}
    return Leaning(e.name, plain, broken, values, drops, pairs, METRICS.find(model.task_.metric))


def _pairs(model: Predictor, e: Environment, plain: Reached) -> dict[tuple[int, int], float]:
    """By how much the risk rises without the edges of each pair of classes; of the pairs with most edges."""
    assert e.y is not None
    classes = torch.full((e.num_nodes,), -1, device=e.y.device)
    classes[e.counted] = e.y[e.counted].long()
    row, column = classes[e.graph.edge_index[1]], classes[e.graph.edge_index[0]]
    low, high = torch.minimum(row, column), torch.maximum(row, column)
    k = model.task_.num_classes
    counts = torch.bincount((low * k + high)[low >= 0], minlength=k * k)
    every = list(itertools.combinations_with_replacement(range(k), 2))
    edges = {pair: int(counts[pair[0] * k + pair[1]]) for pair in every}
    there = sorted((pair for pair in every if edges[pair]), key=lambda pair: -edges[pair])[:_PAIRS]
    return {pair: reached(model, without_pair(e, classes, pair)).risk - plain.risk for pair in there}


def _mean(found: Sequence[Reached]) -> Reached:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of classes without nodes
        means: list[NDArray[np.float64]] = [
            np.nanmean([getattr(one, name) for one in found], axis=0) for name in ("by_class", "confused")
        ]
    return Reached(float(np.mean([r.score for r in found])), float(np.mean([r.risk for r in found])), *means)


def _top_and_rest(drops: Mapping[int, float], width: int) -> dict[str, list[int]]:
    order = sorted(drops, key=lambda column: -drops[column])
    top = order[: min(_TOP, max(width // 2, 1))]
    rest = [column for column in range(width) if column not in set(top)]
    return {f"top {len(top)} columns": top} | ({"other columns": rest} if rest else {})


def _check_blocks(parts: Mapping[str, Sequence[int]], width: int) -> None:
    seen: set[int] = set()
    for name, columns in parts.items():
        if name == "edges":
            raise GraphshiftError("audit: a block of columns is called 'edges'; choose another name.")
        wrong = [one for one in columns if not isinstance(one, int) or not 0 <= one < width or one in seen]
        if wrong or not columns:
            what = f"column {wrong[0]!r}" if wrong else "no column"
            raise GraphshiftError(
                f"audit: block {name!r} has {what}; expected numbers from 0 to {width - 1}, each in one block."
            )
        seen |= set(columns)


def _is_crutch(leanings: Sequence[Leaning]) -> bool:
    """Leaning: without edges a tenth of the score is lost. A crutch: in the last graph a third less is, or more."""
    first, last = leanings[0].lost("dropped"), leanings[-1].lost("dropped")
    return len(leanings) > 1 and first >= 0.1 and last <= 2 / 3 * first


def _flips(
    model: Predictor, e: Environment, number: int, seed: int, notes: list[str]
) -> tuple[dict[str, list[Flip]], dict[str, int]]:
    if not number or not model.task_.is_classification:
        return {}, {}
    if not isinstance(model, GNNEstimator):
        notes.append("edits that flip predictions were not searched: the model has no gradient")
        return {}, {}
    counted = e.counted.cpu()
    nodes = counted[torch.randperm(counted.numel(), generator=torch.Generator().manual_seed(seed))[:number]].tolist()
    found: dict[str, list[Flip]] = {"edges": [], "columns": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphshiftWarning)
        for node in nodes:
            for kind, one in (("edges", flip_edges(model, e, node)), ("columns", flip_columns(model, e, node))):
                found[kind] += [one] if one is not None else []
    return found, {kind: len(nodes) - len(own) for kind, own in found.items()}


def _column_names(model: Predictor, width: int) -> list[str]:
    names = None if model.preparation_ is None else model.preparation_.feature_names
    return [str(one) for one in names] if names is not None else [f"column {i}" for i in range(width)]
