"""A control: edges are removed at random (after DropEdge, Rong et al., ICLR 2020), nothing is learned."""

import torch
from torch_geometric.data import Data

from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.explorers.base import EXPLORERS, Explorer, Risk, View, as_graph
from graphshift.graph.graph import Graph


@EXPLORERS.register("drop-edge")
class DropEdge(Explorer):
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

    def __init__(self, edits_per_node: int = 5, *, most: float = 0.5, directed: bool = False, seed: int = 0) -> None:
        super().__init__(edits_per_node, directed=directed, seed=seed)
        if not 0 <= most <= 1:
            raise GraphshiftError(f"explorer most is {most}; expected a share from 0 to 1.")
        self.most = most

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Removes random edges. ``risk`` is not needed."""
        given = as_graph(graph)
        home = given.to(torch.device("cpu"))
        row, col = home.pattern.row.long(), home.pattern.col
        both = home.undirected and not self.directed
        # Of an undirected edge's two entries one stands for both.
        edges = (row < col).nonzero().squeeze(1) if both else torch.arange(home.num_edges)
        budget = min(home.num_nodes * self.edits_per_node, int(self.most * edges.numel()))
        chosen = edges[torch.randperm(edges.numel(), generator=self.generator)[:budget]].sort().values
        first = torch.zeros(home.num_nodes + 1, dtype=torch.int32)
        first[1:] = torch.bincount(row[chosen], minlength=home.num_nodes).cumsum(0)
        return View.of_lists(given, first, col[chosen].int(), directed=self.directed)
