"""An explorer that follows the risk's gradient with respect to edges. Not the paper's: its views differ far more."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.environments import Environment
from graphshift.errors import GraphshiftError
from graphshift.explorers.base import Explorer, Risk, View, as_graph
from graphshift.graphs import Graph, reverse

__all__ = ["Gradient"]


class Gradient(Explorer):
    """Flips the pairs that change the present model's risk most, to first order: some explorers up, some down.

    The risk L is differentiated with respect to the weights of all edges and of randomly drawn candidate pairs, which
    enter with weight 0. Deleting an edge of weight w changes L by about −w ∂L/∂w, adding one by about +w ∂L/∂w. The
    explorer flips up to nodes · s pairs, those with the largest change in its direction. Nothing is learned between
    steps: the model's gradient is all it needs, and each explorer has a direction of its own, so that risks differ.

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
        if graph.num_nodes < 2:
            return View(given, torch.empty(0, dtype=torch.int64))
        both = graph.undirected and not self.directed
        tried, weight = self._with_candidates(graph, both)
        value = risk(tried)
        gradient = torch.autograd.grad(value, weight, allow_unused=True)[0] if value.requires_grad else None
        if gradient is None:
            raise GraphshiftError(
                "explorer 'gradient' needs a backbone whose output depends on edge weights: let your module's forward "
                "take `edge_weight`, or choose explorer 'reinforce' or 'random'."
            )
        new = 1.0 if graph.weight is None else graph.weight.mean()  # what `flip` gives an added edge
        gain = torch.where(weight.detach() > 0, -weight.detach() * gradient, new * gradient)
        keys = tried.keys
        if both:  # a flip moves both directions together
            order = torch.argsort(reverse(keys, graph.num_nodes))
            gain = gain + gain[order]
            upper = keys // graph.num_nodes < keys % graph.num_nodes
            keys, gain = keys[upper], gain[upper]
        gain = gain if self.raises else -gain
        count = min(graph.num_nodes * self.edits_per_node, int((gain > 0).sum()))
        flips = keys[gain.topk(count).indices]
        if both:
            flips = torch.cat([flips, reverse(flips, graph.num_nodes)])
        flips = flips.sort().values
        return View(graph.flip(flips, undirected=graph.undirected and (both or count == 0)).to(given.device), flips)

    def _with_candidates(self, graph: Graph, both: bool) -> tuple[Graph, Tensor]:
        """The graph with random pairs of weight 0 added, and its weights, which require a gradient."""
        n = graph.num_nodes
        slot = torch.randint(n - 1, (n, self.candidates), generator=self.generator)
        column = slot + (slot >= torch.arange(n).unsqueeze(1))
        keys = (torch.arange(n).unsqueeze(1) * n + column).flatten()
        if both:
            keys = torch.cat([keys, reverse(keys, n)])
        keys = torch.unique(keys)
        place = torch.searchsorted(graph.keys, keys).clamp(max=max(graph.num_edges - 1, 0))
        fresh = keys[graph.keys[place] != keys] if graph.num_edges else keys
        wider = graph.flip(fresh)
        weight = torch.ones(wider.num_edges) if wider.weight is None else wider.weight.clone()
        weight[torch.searchsorted(wider.keys, fresh)] = 0.0
        weight.requires_grad_()
        undirected = graph.undirected and both
        return Graph(n, wider.keys, weight, undirected=undirected), weight
