"""Explorers that draw edges of the graph at random, at most a share of all."""

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.explorers.base import Explorer
from graphshift.graph.graph import Graph


class RandomEdges(Explorer):
    """Draws nodes · s edges without replacement, but no more than a share of all.

    Args:
        edits_per_node: s.
        most: the largest share of the edges that is drawn.
        directed: see :class:`Explorer`.
        seed: of the explorer's own random generator.
    """

    def __init__(self, edits_per_node: int = 5, *, most: float = 0.5, directed: bool = False, seed: int = 0) -> None:
        super().__init__(edits_per_node, directed=directed, seed=seed)
        if not 0 <= most <= 1:
            raise GraphshiftError(f"explorer most is {most}; expected a share from 0 to 1.")
        self.most = most

    def edges_of(self, home: Graph) -> Tensor:
        """Where the drawn edges stand in a graph's pattern, in random order.

        Of an undirected edge's two entries the one above the diagonal stands for both, unless ``directed``.
        """
        row, col = home.pattern.row, home.pattern.col
        both = home.undirected and not self.directed
        edges = (row < col).nonzero().squeeze(1) if both else torch.arange(home.num_edges)
        count = min(home.num_nodes * self.edits_per_node, int(self.most * edges.numel()))
        return edges[torch.randperm(edges.numel(), generator=self.generator)[:count]]
