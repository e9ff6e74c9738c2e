"""The control: the same number of edits as the paper's explorer, uniformly at random, nothing learned."""

from __future__ import annotations

import math

import torch
from torch_geometric.data import Data

from graphshift.environments import Environment
from graphshift.explorers.base import Explorer, Risk, View, apply_actions, as_graph
from graphshift.graphs import Graph

__all__ = ["Random"]


class Random(Explorer):
    """For each node s uniformly random other nodes; each pair is flipped. Works on graphs of any size.

    Args:
        edits_per_node: s.
        directed: see :class:`Explorer`.
        seed: of the explorer's own random generator.
    """

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Draws s actions for each node and flips them. ``risk`` is not needed."""
        graph = as_graph(graph)
        n = graph.num_nodes
        if n < 2:
            return View(graph, torch.empty(0, dtype=torch.int64))
        slot = torch.randint(n - 1, (n, self.edits_per_node), generator=self.generator)
        actions = slot + (slot >= torch.arange(n).unsqueeze(1))
        edited, flips = apply_actions(graph, actions, directed=self.directed)
        return View(edited, flips, actions, -actions.numel() * math.log(n - 1))
