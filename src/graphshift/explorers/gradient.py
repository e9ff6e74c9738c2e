"""An explorer that follows the risk's gradient with respect to edges. Not the paper's: its views differ far more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import draw_seed, other_nodes
from graphshift.data.environment import Environment
from graphshift.explorers.base import Explorer, Risk, SharedRisk, View, as_graph, joined
from graphshift.explorers.probing import OpaqueError, Scores, probed
from graphshift.graph import kernels
from graphshift.graph.graph import Graph, reverse

#: What an explorer can do to the risk. Explorers take turns: opposite aims differ most.
AIMS = ("raise", "lower", "leave")


class Gradient(Explorer):
    """Flips the pairs that change the present model's risk most, to first order: some explorers up, some down.

    The risk L is differentiated with respect to the weights of all edges and of randomly drawn candidate pairs, which
    have weight 0. Deleting an edge of weight w changes L by about −w ∂L/∂w, adding one by about +w ∂L/∂w. The
    explorer flips up to nodes · s pairs, those with the largest change in the direction of its aim. Nothing is learned
    between steps: the model's gradient is all it needs, and explorers with different aims make risks differ.

    Explorers of one graph share the backward pass (see :mod:`~graphshift.explorers.probing`); each has candidates of
    its own.

    Args:
        edits_per_node: s; up to nodes · s pairs are flipped, wherever they matter most, unless a budget is given.
        aim: ``"raise"`` the risk, ``"lower"`` it, or ``"leave"`` the graph as it is. None lets the seed decide between
            the first two, evenly.
        budget: pairs that are flipped at most, in all; None for nodes · s.
        candidates: pairs that are tried for each node, besides the edges; None for 2 s.
        steps: in how many parts the budget is spent. With more than one, each part follows the gradient at the graph
            that the parts before it made, at the cost of a backward pass for each part and explorer.
        directed: see :class:`Explorer`.
        seed: of the explorer's own random generator.
    """

    needs_risk = True
    side_by_side = True

    def __init__(
        self,
        edits_per_node: int = 5,
        *,
        aim: str | None = None,
        budget: int | None = None,
        candidates: int | None = None,
        steps: int = 1,
        directed: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(edits_per_node, directed=directed, seed=seed)
        if steps < 1:
            raise GraphshiftError(f"explorer steps is {steps}; expected at least 1.")
        if candidates is not None and candidates < 0:
            raise GraphshiftError(f"explorer candidates is {candidates}; expected 0 or more.")
        if aim is not None and aim not in AIMS:
            raise GraphshiftError(f"explorer aim is {aim!r}; expected one of {', '.join(AIMS)}.")
        if budget is not None and budget < 1:
            raise GraphshiftError(f"explorer budget is {budget}; expected at least 1.")
        self.budget, self.candidates = budget, 2 * edits_per_node if candidates is None else candidates
        self.aim, self.steps = AIMS[seed % 2] if aim is None else aim, steps

    def look(self, graph: Graph, risk: SharedRisk) -> bool:
        """The backward pass, and the gain of every edge: what all explorers of this graph need."""
        return graph.num_nodes < 2 or (self._seen(graph, risk) is not None and self.steps == 1)

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Flips the pairs that matter most to the given risk."""
        given = as_graph(graph)
        graph = given.to(torch.device("cpu"))
        if risk is None:
            raise GraphshiftError("explorer 'gradient' needs the risk: propose(graph, risk=...).")
        n = graph.num_nodes
        if n < 2 or self.aim == "leave":
            return View(given, torch.empty(0, dtype=torch.int64))
        risk = risk if isinstance(risk, SharedRisk) else SharedRisk(risk)
        budget = n * self.edits_per_node if self.budget is None else self.budget
        if self.steps == 1:
            return View.of_lists(given, *self._chosen(graph, risk, budget), directed=self.directed)
        return self._refined(given, graph, risk, budget)

    def _chosen(self, graph: Graph, risk: SharedRisk, budget: int) -> tuple[Tensor, Tensor]:
        """The pairs to flip, as lists of columns by row."""
        seen, seed = self._seen(graph, risk), draw_seed(self.generator)
        if seen is None:
            of_edges, drawn, of_drawn = _by_weights(graph, risk, self.candidates, seed, self._both(graph))
        else:
            of_edges = seen.of_edges
            drawn, of_drawn = _tried(graph, seen.scores, self.candidates, seed, self._both(graph))
        return _best(graph, of_edges, drawn, of_drawn, 1.0 if self.aim == "raise" else -1.0, budget)

    def _refined(self, given: Graph, graph: Graph, risk: SharedRisk, budget: int) -> View:
        """In several steps: a pair that a later step flips back counts as never flipped."""
        flips, current = torch.empty(0, dtype=torch.int64), graph
        for step in range(self.steps):
            part = budget * (step + 1) // self.steps - budget * step // self.steps
            if not part:
                continue
            asked = risk if step == 0 else SharedRisk(risk.risk, risk.x)
            view = View.of_lists(current, *self._chosen(current, asked, part), directed=self.directed)
            keys, times = torch.cat([flips, view.flips]).unique(return_counts=True)
            flips, current = keys[times == 1], view.graph
        single = self.directed and bool(flips.numel())
        return View(graph.flip(flips, undirected=graph.undirected and not single).to(given.device), flips)

    def _both(self, graph: Graph) -> bool:
        return graph.undirected and not self.directed

    def _seen(self, graph: Graph, risk: SharedRisk) -> _Seen | None:
        both = self._both(graph)
        found: _Seen | None = risk.once(f"seen {both}", lambda: _see(graph, risk, both))
        return found


@dataclass(frozen=True)
class _Seen:
    """What one backward pass says: the score of any pair, and what deleting each edge adds to the risk.

    Where both directions of an edge move together, one of its two entries has the gain of both, the other has 0.
    """

    scores: Scores
    of_edges: Tensor


def _see(graph: Graph, risk: SharedRisk, both: bool) -> _Seen | None:
    """None for a model that uses the graph in a way that cannot be followed."""
    try:
        scores: Scores = risk.once("scores", lambda: probed(graph, risk))
    except OpaqueError:
        return None
    on_edges = scores.of(graph.pattern.rowptr.int(), graph.pattern.col.int(), both=both, skip=both)
    return _Seen(scores, -on_edges if graph.weight is None else -graph.weight * on_edges)


def _new_weight(graph: Graph) -> float:
    """Of an edge that ``Graph.flip`` adds."""
    return 1.0 if graph.weight is None or not graph.num_edges else float(graph.weight.mean())


def _tried(graph: Graph, scores: Scores, each: int, seed: int, both: bool) -> tuple[Tensor, Tensor]:
    """Random pairs, ``each`` for every node, and what joining them adds to the risk.

    A drawn pair that is an edge already adds nothing: it was scored with the edges.
    """
    rowptr, col = graph.pattern.rowptr, graph.pattern.col
    if kernels.fits(rowptr, col, scores.table, scores.add):
        return kernels.tried(
            rowptr, col, each, seed, scores.table, scores.width, scores.add, both=both, weight=_new_weight(graph)
        )
    first, drawn = _drawn(graph.num_nodes, each, seed)
    there = joined(graph, first, drawn)
    return drawn, torch.where(there, 0.0, _new_weight(graph) * scores.of(first, drawn, both=both))


def _drawn(nodes: int, each: int, seed: int) -> tuple[Tensor, Tensor]:
    return torch.arange(nodes + 1, dtype=torch.int32) * each, other_nodes(nodes, each, seed).int().flatten()


def _best(
    graph: Graph, of_edges: Tensor, drawn: Tensor, of_drawn: Tensor, sign: float, budget: int
) -> tuple[Tensor, Tensor]:
    """The pairs with the largest positive gains, up to the budget, as lists of columns by row.

    A row's edges come first, then its drawn pairs; among equal gains where the budget ends, the first.
    """
    rowptr, col = graph.pattern.rowptr, graph.pattern.col
    if kernels.fits(rowptr, col, of_edges, drawn, of_drawn):
        return kernels.best(rowptr, col, of_edges, drawn, of_drawn, sign=sign, budget=budget)
    return _best_plainly(graph, sign * torch.cat([of_edges, of_drawn]), drawn, budget)


def _best_plainly(graph: Graph, gains: Tensor, drawn: Tensor, budget: int) -> tuple[Tensor, Tensor]:
    n, each = graph.num_nodes, drawn.numel() // graph.num_nodes
    rows = torch.cat([graph.pattern.row.long(), torch.repeat_interleave(torch.arange(n), each)])
    order = torch.argsort(rows, stable=True)  # as the lists are read
    gains, columns = gains[order], torch.cat([graph.pattern.col.int(), drawn])[order]
    chosen = gains >= torch.finfo(torch.float32).tiny
    count = int(chosen.sum())
    if count > budget:
        # The budget's smallest gain is found by partition, in linear time; pairs equal to it fill what is left.
        least = float(np.partition(gains[chosen].numpy(), count - budget)[count - budget])
        chosen = gains > least
        equal = (gains == least).nonzero().squeeze(1)
        chosen[equal[: budget - int(chosen.sum())]] = True
    first = torch.zeros(n + 1, dtype=torch.int64)
    first[1:] = torch.bincount(rows[order][chosen], minlength=n).cumsum(0)
    return first.int(), columns[chosen]


def _by_weights(graph: Graph, risk: SharedRisk, each: int, seed: int, both: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Gains of edges, drawn pairs and their gains for backbones that cannot be probed.

    The drawn pairs enter the graph with weight 0, and autograd differentiates in the weights.
    """
    n = graph.num_nodes
    first, drawn = _drawn(n, each, seed)
    rows = torch.repeat_interleave(torch.arange(n), each)
    pairs, edges = rows * n + drawn.long(), graph.pattern.row.long() * n + graph.pattern.col.long()
    keys = torch.unique(torch.cat([pairs, reverse(pairs, n)]) if both else pairs)
    fresh = keys[~torch.isin(keys, edges)]
    wider = graph.flip(fresh, undirected=both)
    weight = torch.ones(wider.num_edges) if wider.weight is None else wider.weight.clone()
    weight[torch.searchsorted(wider.keys, fresh)] = 0.0
    weight.requires_grad_()
    value = risk(Graph(n, wider.keys, weight, undirected=graph.undirected and both))
    gradient = torch.autograd.grad(value, weight, allow_unused=True)[0] if value.requires_grad else None
    if gradient is None:
        raise GraphshiftError(
            "explorer 'gradient' needs a backbone whose output depends on edge weights: let your module's forward "
            "take `edge_weight`, or choose explorer 'reinforce' or 'random'."
        )

    def at(wanted: Tensor) -> Tensor:
        found = gradient[torch.searchsorted(wider.keys, wanted)]
        return found + gradient[torch.searchsorted(wider.keys, reverse(wanted, n))] if both else found

    on_edges = at(edges)
    if both:
        on_edges = torch.where(graph.pattern.col < graph.pattern.row, 0.0, on_edges)
    of_drawn = torch.where(joined(graph, first, drawn), 0.0, _new_weight(graph) * at(pairs))
    return -on_edges if graph.weight is None else -graph.weight * on_edges, drawn, of_drawn
