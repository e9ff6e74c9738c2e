"""The control: the same number of edits as the paper's explorer, uniformly at random, nothing learned."""

import math

import torch
from torch_geometric.data import Data

from graphshift.core.randomness import draw_seed
from graphshift.data.environment import Environment
from graphshift.explorers.base import EXPLORERS, Explorer, Risk, View, as_graph
from graphshift.graph import kernels
from graphshift.graph.graph import Graph


@EXPLORERS.register("random")
class Random(Explorer):
    """For each node s uniformly random other nodes; each pair is flipped. Works on graphs of any size.

    >>> import torch
    >>> ring = Graph.from_edge_index(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 4)
    >>> view = Random(1, seed=0).propose(ring)
    >>> view.actions.shape, view.flips.numel()
    (torch.Size([4, 1]), 4)

    Args:
        edits_per_node: s.
        directed: see :class:`Explorer`.
        seed: of the explorer's own random generator.
    """

    side_by_side = True

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Draws s actions for each node and flips them. ``risk`` is not needed."""
        graph = as_graph(graph)
        n = graph.num_nodes
        if n < 2:
            return View(graph, torch.empty(0, dtype=torch.int64))
        actions = kernels.draw(n, self.edits_per_node, draw_seed(self.generator), graph.within)
        log_prob = -actions.numel() * math.log(n - 1)
        if graph.within is not None:
            log_prob = -self.edits_per_node * float((graph.within.size - 1).clamp(min=1).double().log().sum())
        return View.of_actions(graph, actions, log_prob, directed=self.directed)
