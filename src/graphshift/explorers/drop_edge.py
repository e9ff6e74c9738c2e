"""A control: edges are removed at random (after DropEdge, Rong et al., ICLR 2020), nothing is learned."""

import torch
from torch_geometric.data import Data

from graphshift.data.environment import Environment
from graphshift.explorers.base import EXPLORERS, Risk, View, as_graph
from graphshift.explorers.random_edges import RandomEdges
from graphshift.graph.graph import Graph


@EXPLORERS.register("drop-edge")
class DropEdge(RandomEdges):
    """Removes nodes · s edges, drawn without replacement, but no more than a share of all.

    >>> ring = Graph.from_edge_index(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 4)
    >>> DropEdge(1, most=0.5).propose(ring).graph.num_edges
    2

    Args:
        edits_per_node: s.
        most: the largest share of the edges that goes.
        directed: see :class:`Explorer`.
        seed: of the explorer's own random generator.
    """

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Removes random edges. ``risk`` is not needed."""
        given = as_graph(graph)
        home = given.to(torch.device("cpu"))
        drawn = self.edges_of(home).sort().values
        first = torch.zeros(home.num_nodes + 1, dtype=torch.int32)
        first[1:] = torch.bincount(home.pattern.row[drawn], minlength=home.num_nodes).cumsum(0)
        return View.of_lists(given, first, home.pattern.col[drawn].int(), directed=self.directed)
