"""A control: edges are added at random and none is removed, nothing is learned."""

import torch
from torch_geometric.data import Data

from graphshift.core.randomness import draw_seed
from graphshift.data.environment import Environment
from graphshift.explorers.base import EXPLORERS, Explorer, Risk, View, as_graph
from graphshift.graph import kernels
from graphshift.graph.graph import Graph


@EXPLORERS.register("add-edge")
class AddEdge(Explorer):
    """For each node s uniformly random other nodes; each that it is not joined to becomes its neighbour.

    Args:
        edits_per_node: s.
        directed: see :class:`Explorer`.
        seed: of the explorer's own random generator.
    """

    side_by_side = True

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Adds random edges. ``risk`` is not needed."""
        given = as_graph(graph)
        home, n = given.to(torch.device("cpu")), given.num_nodes
        if n < 2:
            return View(given, torch.empty(0, dtype=torch.int64))
        drawn = kernels.draw(n, self.edits_per_node, draw_seed(self.generator), home.within).flatten()
        every = torch.arange(n + 1, dtype=torch.int32) * self.edits_per_node
        fresh = ~kernels.joined(home.pattern.rowptr, home.pattern.col, every, drawn)
        fresh &= drawn != torch.arange(n).repeat_interleave(self.edits_per_node)  # where a node is alone in its graph
        first = torch.zeros(n + 1, dtype=torch.int32)
        first[1:] = fresh.reshape(n, -1).sum(dim=1).cumsum(0)
        return View.of_lists(given, first, drawn[fresh], directed=self.directed)
