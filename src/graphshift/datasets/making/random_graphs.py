"""Random graphs with communities and skewed degrees, in time linear in the edges."""

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError


def check_ranges(where: str, given: Mapping[str, Any], ranges: Mapping[str, tuple[float, float]]) -> None:
    """Refuses an option that is below the least or above the most that it may be."""
    for name, (least, most) in ranges.items():
        if not least <= given[name] <= most:
            expected = f"at least {least}" if most == inf else f"from {least} to {most}"
            raise GraphshiftError(f"{where}: {name} is {given[name]}; expected {expected}.")


def pareto_weights(nodes: int, skew: float, generator: torch.Generator) -> Tensor:
    """How strongly each node attracts edges, ``[nodes]``: Pareto with exponent ``skew``, cut at √nodes."""
    uniform = torch.rand(nodes, dtype=torch.float64, generator=generator).clamp(min=1e-12)
    return uniform.pow(-1 / (skew - 1)).clamp(max=nodes**0.5)


def edges_within_groups(
    groups: Tensor, inside: float, degree: float, weights: Tensor, generator: torch.Generator
) -> Tensor:
    """Undirected random edges of which a given share stays inside the groups.

    Draws nodes · degree / 2 pairs: one end by weight, the other by weight inside the same group with probability
    ``inside`` and outside it otherwise. Self-loops and repeated pairs are dropped, so slightly fewer come out. Groups
    are 0, 1, … and may be empty; ``groups`` and ``weights`` are ``[nodes]``, the result ``[2, edges]``, both ways.
    """
    nodes = groups.numel()
    count = round(nodes * degree / 2)
    order = torch.argsort(groups, stable=True)
    mass = torch.cumsum(weights[order], dim=0)
    total = mass[-1]
    ends = torch.bincount(groups).cumsum(0)
    upper = mass[(ends - 1).clamp(min=0)]
    lower = torch.cat([upper.new_zeros(1), upper[:-1]])
    draw = torch.rand(3, count, dtype=torch.float64, generator=generator)
    first = order[_locate(mass, draw[0] * total)]
    low, high = lower[groups[first]], upper[groups[first]]
    stays = draw[1] < inside
    # Inside: a point in the group's own stretch of mass. Outside: a point in what is left, stepping over the stretch.
    within = low + draw[2] * (high - low)
    beyond = draw[2] * (total - (high - low))
    beyond = torch.where(beyond < low, beyond, beyond + (high - low))
    second = order[_locate(mass, torch.where(stays, within, beyond))]
    pairs = torch.stack([torch.minimum(first, second), torch.maximum(first, second)])
    # Rounding at a stretch's end may leave the group: such a pair is as rare as it is wrong, so it goes.
    sound = (first != second) & ((groups[first] == groups[second]) == stays)
    keys = torch.unique((pairs[0] * nodes + pairs[1])[sound])
    low_end, high_end = keys // nodes, keys % nodes
    return torch.stack([torch.cat([low_end, high_end]), torch.cat([high_end, low_end])])


def _locate(mass: Tensor, point: Tensor) -> Tensor:
    return torch.searchsorted(mass, point, right=True).clamp(max=mass.numel() - 1)


def preferential_attachment(nodes: int, links: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Edges of a Barabási–Albert graph, ``[2, edges]``, one way.

    Node ``links`` joins all before it. Each later one joins ``links`` nodes drawn by degree; one that is drawn twice is
    joined once, as in PyG's BA-Shapes.
    """
    ends = np.empty(2 * nodes * links, dtype=np.int64)  # of all edges; a draw from it is a draw by degree
    filled = 0
    for new in range(links, nodes):
        chosen = np.arange(links) if new == links else np.unique(ends[generator.integers(filled, size=links)])
        ends[filled : filled + 2 * chosen.size] = np.stack([np.full(chosen.size, new), chosen], axis=1).ravel()
        filled += 2 * chosen.size
    return np.ascontiguousarray(ends[:filled].reshape(-1, 2).T)
