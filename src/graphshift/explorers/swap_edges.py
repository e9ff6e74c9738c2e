"""A control: edges swap their ends at random, so that every node keeps its degree; nothing is learned."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphshift.data.environment import Environment
from graphshift.explorers.base import EXPLORERS, Risk, View, as_graph
from graphshift.explorers.random_edges import RandomEdges
from graphshift.graph.graph import Graph

_DRAWS = 20


@EXPLORERS.register("swap-edges")
class SwapEdges(RandomEdges):
    """Pairs of edges (a, b), (c, d) become (a, d), (c, b): who is joined to whom changes, degrees do not.

    nodes · s edges are drawn, but no more than a share of all, and paired. A pair stays as it is if it would make a
    loop, an edge that is there already, or an edge that another pair makes. Each edge is in one pair at most. Where no
    pair could swap, edges are drawn again, 20 times at most.

    >>> ring = Graph.from_edge_index(torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]), 5)
    >>> view = SwapEdges(1, most=1.0, seed=4).propose(ring)
    >>> view.flips.numel(), bool((view.graph.degree == ring.degree).all())
    (8, True)

    Args:
        edits_per_node: s.
        most: the largest share of the edges that is drawn.
        directed: see :class:`Explorer`; then nodes keep how many edges they send and how many they receive.
        seed: of the explorer's own random generator.
    """

    def propose(self, graph: Graph | Environment | Data, risk: Risk | None = None) -> View:
        """Swaps random edges. ``risk`` is not needed."""
        given = as_graph(graph)
        for _ in range(_DRAWS):
            view = self._drawn(given)
            if view.flips.numel():
                break
        return view

    def _drawn(self, given: Graph) -> View:
        """The view of one drawing."""
        home, n = given.to(torch.device("cpu")), given.num_nodes
        row, col = home.pattern.row.long(), home.pattern.col.long()
        both = home.undirected and not self.directed
        drawn = self.edges_of(home)
        drawn = drawn[: len(drawn) // 2 * 2] if home.blocks is None else _in_pairs(drawn, home.blocks.batch[row[drawn]])
        first, second = drawn.view(-1, 2).t()
        a, b, c, d = row[first], col[first], row[second], col[second]
        if both:  # which end is the first says nothing
            turned = torch.rand(len(c), generator=self.generator) < 0.5
            c, d = torch.where(turned, d, c), torch.where(turned, c, d)
        made = torch.stack([_key(a, d, n, both), _key(c, b, n, both)])
        gone = torch.stack([_key(a, b, n, both), _key(c, d, n, both)])
        good = (a != d) & (c != b) & ~torch.isin(made, home.keys).any(dim=0)
        _, place, count = made[:, good].unique(return_inverse=True, return_counts=True)
        alone = (count[place] == 1).all(dim=0)
        flips = torch.cat([made[:, good][:, alone], gone[:, good][:, alone]]).flatten().sort().values
        counts = torch.bincount(flips // max(n, 1), minlength=n)
        begin = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).int()
        return View.of_lists(given, begin, (flips % max(n, 1)).int(), directed=self.directed)


def _in_pairs(edges: Tensor, graph: Tensor) -> Tensor:
    """Edges of one small graph next to each other, an even number of each: ends of two graphs are never joined."""
    order = graph.argsort(stable=True)
    sizes = torch.bincount(graph)
    place = torch.arange(len(edges)) - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
    return edges[order[place < (sizes // 2 * 2)[graph[order]]]]


def _key(row: Tensor, col: Tensor, nodes: int, both: bool) -> Tensor:
    return torch.minimum(row, col) * nodes + torch.maximum(row, col) if both else row * nodes + col
