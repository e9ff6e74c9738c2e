"""Eq. 6 on whole graphs: two nodes, an edge or none, all graphs enumerated.

Every node has an invariant feature x_v and a spurious one. Its readout is r_v = max of x over N_v, the node and its
neighbours: Assumption 1 with L = 1 and Γ = max. The label is y_v = r_v, flipped with probability ``noise``. The
spurious feature of a node agrees with a label with probability ρ_e: its own label, or with ``shared`` the larger of
both ends' labels when there is an edge (in Section 3.1 x² averages the neighbours' labels).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import inf, log

import numpy as np

from graphshift.lab.theory.information import conditional_information

EgoGraph = Hashable
Predictor = Callable[[EgoGraph], tuple[float, float]]


@dataclass(frozen=True)
class Outcome:
    """One graph with its labels, and its probability: edge, features and spurious features of both nodes, labels."""

    edge: int
    x: tuple[int, int]
    spurious: tuple[int, int]
    y: tuple[int, int]
    p: float

    def ego(self, v: int) -> EgoGraph:
        """The ego-graph of a node: its own features and, across an edge, its neighbour's."""
        other = 1 - v
        own = (self.x[v], self.spurious[v])
        return (own, (self.x[other], self.spurious[other])) if self.edge else (own,)


def outcomes(rho: float, *, noise: float = 0.25, edge: float = 0.5, shared: bool = False) -> list[Outcome]:
    """All graphs with labels of one environment."""
    found = []
    for a, x0, x1, y0, y1, s0, s1 in itertools.product((0, 1), repeat=7):
        p = (edge if a else 1 - edge) / 4
        readouts = (max(x0, x1), max(x0, x1)) if a else (x0, x1)
        for r, y in zip(readouts, (y0, y1), strict=True):
            p *= 1 - noise if y == r else noise
        followed = (max(y0, y1), max(y0, y1)) if shared and a else (y0, y1)
        for y, s in zip(followed, (s0, s1), strict=True):
            p *= rho if s == y else 1 - rho
        found.append(Outcome(a, (x0, x1), (s0, s1), (y0, y1), p))
    return found


def ego_law(graphs: list[Outcome]) -> dict[EgoGraph, list[float]]:
    """p(G_v, y): the law of the ego-graph and label of a node drawn at random, as ``{ego-graph: [y = 0, y = 1]}``."""
    law: dict[EgoGraph, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for graph in graphs:
        for v in range(2):
            law[graph.ego(v)][graph.y[v]] += graph.p / 2
    return dict(law)


def divergence_over_graphs(graphs: list[Outcome], p: Predictor, q: Predictor) -> float:
    """Eq. 6 to the letter: E over graphs of the mean over nodes of E over labels of log (p / q)."""
    by_graph: dict[Hashable, list[Outcome]] = defaultdict(list)
    for graph in graphs:
        by_graph[graph.edge, graph.x, graph.spurious].append(graph)
    total = 0.0
    for same in by_graph.values():
        whole = sum(graph.p for graph in same)  # p(G)
        for v in range(2) if whole > 0 else ():
            for y in range(2):
                share = sum(graph.p for graph in same if graph.y[v] == y) / whole
                if share > 0:
                    top, bottom = p(same[0].ego(v))[y], q(same[0].ego(v))[y]
                    total += whole / 2 * share * (log(top / bottom) if bottom > 0 else inf)
    return total


def divergence_over_nodes(law: Mapping[EgoGraph, list[float]], p: Predictor, q: Predictor) -> float:
    """The same from the law of one node's ego-graph and label, without the graphs."""
    return sum(
        weight * (log(p(ego)[y] / q(ego)[y]) if q(ego)[y] > 0 else inf)
        for ego, row in law.items()
        for y, weight in enumerate(row)
        if weight > 0
    )


def conditional_of(law: Mapping[EgoGraph, list[float]]) -> Predictor:
    """p(y | G_v)."""
    return lambda ego: (law[ego][0] / sum(law[ego]), law[ego][1] / sum(law[ego]))


def coupling(graphs: list[Outcome]) -> float:
    """I(y_1; y_2 | G): zero if the labels are independent given the graph, as Section 2.1 assumes."""
    places: dict[Hashable, int] = {}
    joint = np.zeros((2, 2, 32))
    for graph in graphs:
        place = places.setdefault((graph.edge, graph.x, graph.spurious), len(places))
        joint[graph.y[0], graph.y[1], place] += graph.p
    return conditional_information(joint)
