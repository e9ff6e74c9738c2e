"""An explorer that follows the risk's gradient with respect to edges. Not the paper's: its views differ far more."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift import native
from graphshift.environments import Environment
from graphshift.errors import GraphshiftError
from graphshift.explorers.base import Explorer, Risk, SharedRisk, View, as_graph, joined
from graphshift.explorers.probing import OpaqueError, Scores, probed
from graphshift.graphs import Graph, reverse
from graphshift.randomness import draw_seed, other_nodes

__all__ = ["Gradient"]


class Gradient(Explorer):
    """Flips the pairs that change the present model's risk most, to first order: some explorers up, some down.

    The risk L is differentiated with respect to the weights of all edges and of randomly drawn candidate pairs, which
    have weight 0. Deleting an edge of weight w changes L by about −w ∂L/∂w, adding one by about +w ∂L/∂w. The
    explorer flips up to nodes · s pairs, those with the largest change in its direction. Nothing is learned between
    steps: the model's gradient is all it needs, and each explorer has a direction of its own, so that risks differ.

    Explorers of one graph share the backward pass (see :mod:`~graphshift.explorers.probing`); each has candidates of
    its own.

    Args:
        edits_per_node: s; up to nodes · s pairs are flipped, wherever they matter most.
        raises: True raises the risk, False lowers it. None lets the seed decide, evenly.
        candidates: pairs that are tried for each node, besides the edges; None for 2 s.
        directed: see :class:`Explorer`.
        seed: of the explorer's own random generator.
    """

    needs_risk = True

    def __init__(
        self,
        edits_per_node: int = 5,
        *,
        raises: bool | None = None,
        candidates: int | None = None,
        directed: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(edits_per_node, directed=directed, seed=seed)
        if candidates is not None and candidates < 0:
            raise GraphshiftError(f"explorer candidates is {candidates}; expected 0 or more.")
        self.candidates = 2 * edits_per_node if candidates is None else candidates
        self.raises = seed % 2 == 0 if raises is None else raises

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Flips the pairs that matter most to the given risk."""
        given = as_graph(graph)
        graph = given.to(torch.device("cpu"))
        if risk is None:
            raise GraphshiftError("explorer 'gradient' needs the risk: propose(graph, risk=...).")
        n = graph.num_nodes
        if n < 2:
            return View(given, torch.empty(0, dtype=torch.int64))
        risk = risk if isinstance(risk, SharedRisk) else SharedRisk(risk)
        both = graph.undirected and not self.directed
        draw = native.draw if native.available() else other_nodes
        drawn = draw(n, self.candidates, draw_seed(self.generator)).int().flatten()
        of_edges, of_drawn = _gains(graph, risk, drawn, both)
        if not self.raises:
            of_edges, of_drawn = -of_edges, -of_drawn
        first, columns = _best(graph, of_edges, drawn, of_drawn, n * self.edits_per_node)
        return View.of_lists(given, first, columns, directed=self.directed)


def _gains(graph: Graph, risk: SharedRisk, drawn: Tensor, both: bool) -> tuple[Tensor, Tensor]:
    """What flipping each edge, and each drawn pair, adds to the risk, to first order.

    Where both directions of an edge move together, one of its two entries has the gain of both, the other has 0.
    """
    n = graph.num_nodes
    rowptr, col = graph.pattern.rowptr.int(), graph.pattern.col.int()
    first = torch.arange(n + 1, dtype=torch.int32) * (drawn.numel() // n)
    there = joined(graph, first, drawn)
    try:
        scores: Scores = risk.once("scores", lambda: probed(graph, risk))
        on_edges: Tensor = risk.once(f"edges {both}", lambda: scores.of(rowptr, col, both=both, skip=both))
        on_drawn = scores.of(first, drawn, both=both)
    except OpaqueError:
        on_edges, on_drawn = _by_weights(graph, risk, first, drawn, both)
    new = 1.0 if graph.weight is None or not graph.num_edges else float(graph.weight.mean())  # as `flip` adds it
    weight = 1.0 if graph.weight is None else graph.weight
    # A drawn pair that is an edge already was scored with the edges.
    return -weight * on_edges, torch.where(there, 0.0, new * on_drawn)


def _best(graph: Graph, of_edges: Tensor, drawn: Tensor, of_drawn: Tensor, budget: int) -> tuple[Tensor, Tensor]:
    """The pairs with the largest positive gains, up to the budget, as lists of columns by row."""
    gains = torch.cat([of_edges, of_drawn])
    chosen = gains > 0
    count = int(chosen.sum())
    if count > budget:
        # The budget's smallest gain is found by partition, in linear time; pairs equal to it fill what is left.
        values = gains[chosen].numpy()
        least = float(np.partition(values, count - budget)[count - budget])
        chosen = gains > least
        equal = (gains == least).nonzero().squeeze(1)
        chosen[equal[: budget - int(chosen.sum())]] = True
    n, edges = graph.num_nodes, of_edges.numel()
    each = drawn.numel() // n
    picked = [chosen[:edges].nonzero().squeeze(1), chosen[edges:].nonzero().squeeze(1)]
    rows = [graph.pattern.row[picked[0]].long(), picked[1] // max(each, 1)]
    counts = [torch.bincount(row, minlength=n) for row in rows]
    first = torch.zeros(n + 1, dtype=torch.int64)
    first[1:] = (counts[0] + counts[1]).cumsum(0)
    # Both lists are in the order of rows: a row's edges come first, then its drawn pairs. Nothing is sorted.
    columns = torch.empty(int(first[-1]), dtype=torch.int32)
    before = torch.zeros_like(counts[0])
    for row, own, found in zip(rows, counts, (graph.pattern.col[picked[0]].int(), drawn[picked[1]]), strict=True):
        within = torch.arange(row.numel()) - (own.cumsum(0) - own)[row]
        columns[first[row] + before[row] + within] = found
        before = own
    return first.int(), columns


def _by_weights(
    graph: Graph, risk: SharedRisk, first: Tensor, drawn: Tensor, both: bool
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same scores for backbones that cannot be probed: the drawn pairs enter the graph with weight 0."""
    n = graph.num_nodes
    rows = torch.repeat_interleave(torch.arange(n), first.diff().long())
    pairs, edges = rows * n + drawn.long(), graph.pattern.row.long() * n + graph.pattern.col.long()
    keys = torch.unique(torch.cat([pairs, reverse(pairs, n)]) if both else pairs)
    fresh = keys[~torch.isin(keys, edges)]
    wider = graph.flip(fresh)
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
    return torch.where(graph.pattern.col < graph.pattern.row, 0.0, on_edges) if both else on_edges, at(pairs)
