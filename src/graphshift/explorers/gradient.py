"""An explorer that follows the risk's gradient with respect to edges. Not the paper's: its views differ far more."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import draw_seed
from graphshift.data.environment import Environment
from graphshift.explorers.base import EXPLORERS, Explorer, Risk, SharedRisk, View, as_graph
from graphshift.explorers.probing import OpaqueError, probed
from graphshift.graph import kernels
from graphshift.graph.graph import Graph
from graphshift.graph.keys import flipped_keys, keys_of, reverse

#: What an explorer can do to the risk. Explorers take turns: opposite aims differ most.
AIMS = ("raise", "lower", "leave")


def checked_aim(aim: str | None, seed: int) -> str:
    """The aim; None lets the seed decide between the first two, evenly."""
    if aim is not None and aim not in AIMS:
        raise GraphshiftError(f"explorer aim is {aim!r}; expected one of {', '.join(AIMS)}.")
    return AIMS[seed % 2] if aim is None else aim


@EXPLORERS.register("gradient")
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
    follows_edges = True
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
        if budget is not None and budget < 1:
            raise GraphshiftError(f"explorer budget is {budget}; expected at least 1.")
        self.budget, self.candidates = budget, 2 * edits_per_node if candidates is None else candidates
        self.aim, self.steps = checked_aim(aim, seed), steps

    def prepare(self, graph: Graph, risk: SharedRisk) -> None:
        """The backward pass, and the gain of every edge: what all explorers of this graph need."""
        if graph.num_nodes > 1:
            _edge_gains(graph, risk, self._both(graph))

    def is_prepared(self, graph: Graph, risk: SharedRisk) -> bool:
        """Unless the backbone cannot be probed, or there are several steps."""
        return graph.num_nodes < 2 or (self._both(graph) in risk.edge_gains and self.steps == 1)

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
        seed, both, pattern = draw_seed(self.generator), self._both(graph), graph.pattern
        of_edges = _edge_gains(graph, risk, both)
        if of_edges is None:
            of_edges, drawn, of_drawn = _by_weights(graph, risk, self.candidates, seed, both)
        else:
            assert risk.scores is not None
            drawn, of_drawn = risk.scores.of_random(graph, self.candidates, seed, both=both)
        sign = 1.0 if self.aim == "raise" else -1.0
        return kernels.best(pattern.rowptr, pattern.col, of_edges, drawn, of_drawn, sign=sign, budget=budget)

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


def _edge_gains(graph: Graph, risk: SharedRisk, both: bool) -> Tensor | None:
    """What deleting each edge adds to the risk; None for a model that uses the graph in a way that cannot be followed.

    With ``both``, where both directions of an edge go together, one of its entries has the gain of both, the other 0.
    """
    if risk.scores is None and not risk.is_opaque:
        try:
            risk.scores = probed(graph, risk)
        except OpaqueError:
            risk.is_opaque = True
    if risk.scores is None:
        return None
    if both not in risk.edge_gains:
        on_edges = risk.scores.of(graph.pattern.rowptr.int(), graph.pattern.col.int(), both=both, skip=both)
        risk.edge_gains[both] = -on_edges if graph.weight is None else -graph.weight * on_edges
    return risk.edge_gains[both]


def _by_weights(graph: Graph, risk: SharedRisk, each: int, seed: int, both: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Gains of edges, drawn pairs and their gains for backbones that cannot be probed.

    The drawn pairs enter the graph with weight 0, and autograd differentiates in the weights.
    """
    n = graph.num_nodes
    first, drawn = torch.arange(n + 1, dtype=torch.int32) * each, kernels.draw(n, each, seed, graph.within).flatten()
    pairs, edges = keys_of(first, drawn), keys_of(graph.pattern.rowptr, graph.pattern.col)
    keys, own = flipped_keys(first, drawn, both=both), torch.arange(n) * (n + 1)  # a node that is alone draws itself
    fresh = keys[~torch.isin(keys, torch.cat([edges, own]))]
    wider = graph.flip(fresh, undirected=both)
    keys = wider.keys
    weight = torch.ones(wider.num_edges) if wider.weight is None else wider.weight.clone()
    weight[torch.searchsorted(keys, fresh)] = 0.0
    weight.requires_grad_()
    value = risk(wider.weighted(weight, undirected=both))
    gradient = torch.autograd.grad(value, weight, allow_unused=True)[0] if value.requires_grad else None
    if gradient is None:
        raise GraphshiftError(
            "explorer 'gradient' needs a backbone whose output depends on edge weights: let your module's forward "
            "take `edge_weight`, or choose explorer 'reinforce' or 'random'."
        )

    def at(wanted: Tensor) -> Tensor:
        last = max(keys.numel() - 1, 0)
        found = gradient[torch.searchsorted(keys, wanted).clamp(max=last)]
        return found + gradient[torch.searchsorted(keys, reverse(wanted, n)).clamp(max=last)] if both else found

    on_edges = at(edges)
    if both:
        on_edges = torch.where(graph.pattern.col < graph.pattern.row, 0.0, on_edges)
    there = kernels.joined(graph.pattern.rowptr, graph.pattern.col, first, drawn) | torch.isin(pairs, own)
    of_drawn = torch.where(there, 0.0, float(graph.new_weight) * at(pairs))
    return -on_edges if graph.weight is None else -graph.weight * on_edges, drawn, of_drawn
