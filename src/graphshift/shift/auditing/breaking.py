"""Breaks one thing of a graph and leaves the rest: edges, what neighbours are like, columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from graphshift.data.environment import Environment
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Pattern, Sparse


def without_edges(environment: Environment) -> Environment:
    """No edge is left."""
    graph = environment.graph
    return environment.replace(graph=graph.flip(graph.keys))


def rewired(environment: Environment, seed: int = 0) -> Environment:
    """Edges join random nodes, which keep their degrees but for the few pairs that are drawn twice.

    On an undirected graph the ends of all edges are shuffled together (the configuration model), on a directed one
    their senders. Weights and edge features go with the receivers' ends.
    """
    graph, random = environment.graph.to(torch.device("cpu")), np.random.default_rng(seed)
    n, (source, target) = graph.num_nodes, (one.numpy() for one in graph.edge_index)
    if graph.undirected:
        once = np.flatnonzero(source < target)
        ends = random.permutation(np.concatenate([source[once], target[once]]))
        first, second = np.split(ends, 2)
    else:
        once = np.arange(len(source))
        first, second = random.permutation(source), target
    kept = np.flatnonzero(first != second)
    low, high = np.minimum(first, second), np.maximum(first, second)
    key = low * n + high if graph.undirected else second * n + first
    _, place = np.unique(key[kept], return_index=True)
    kept = kept[np.sort(place)]
    ways = [(first[kept], second[kept])] + ([(second[kept], first[kept])] if graph.undirected else [])
    index = torch.from_numpy(np.concatenate([np.stack(way) for way in ways], axis=1).astype(np.int64))
    taken = torch.from_numpy(np.tile(once[kept], len(ways)))
    weight = None if graph.weight is None else graph.weight[taken]
    attr = None if graph.edge_attr is None else graph.edge_attr[taken]
    made = Graph.from_edge_index(index, n, weight, undirected=graph.undirected, edge_attr=attr)
    return environment.replace(graph=made.to(environment.graph.device))


def strangers(environment: Environment, seed: int = 0) -> Environment:
    """Each node keeps its features and its place, and its neighbours have those of random nodes.

    The graph is doubled. A node receives from copies of its neighbours, the copies from copies, and the copies'
    features are shuffled. So degrees are the same, and no node is its own neighbour's neighbour with its own features.
    The first half are the nodes; the copies do not count.
    """
    graph, n = environment.graph, environment.num_nodes
    order = torch.from_numpy(np.random.default_rng(seed).permutation(n)).to(graph.device)
    source, target = graph.edge_index
    index = torch.cat([torch.stack([source + n, target]), torch.stack([source + n, target + n])], dim=1)
    weight = None if graph.weight is None else graph.weight.repeat(2)
    attr = None if graph.edge_attr is None else graph.edge_attr.repeat(2, 1)
    made = Graph.from_edge_index(index, 2 * n, weight, undirected=False, edge_attr=attr)
    twice = {
        name: None if part is None else torch.cat([part, part])
        for name in ("y", "time", "known_y", "further_y")
        for part in [getattr(environment, name)]
    }
    mask = torch.cat([environment.mask, torch.zeros_like(environment.mask)])
    ids = None if environment.ids is None else np.concatenate([environment.ids, environment.ids])
    x = _stacked(environment.x, _rows(environment.x, order))
    return environment.replace(x=x, graph=made, mask=mask, ids=ids, **twice)


def permuted(environment: Environment, columns: Sequence[int], seed: int = 0) -> Environment:
    """The values of some columns belong to random nodes, together: each keeps its distribution and tells nothing."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(environment.num_nodes)).to(environment.mask.device)
    x = environment.x
    if not isinstance(x, Sparse):
        chosen = torch.as_tensor(list(columns), device=x.device)
        changed = x.clone()
        changed[:, chosen] = x[order][:, chosen]
        return environment.replace(x=changed)
    moved = torch.zeros(x.shape[1], dtype=torch.bool, device=environment.mask.device)
    moved[torch.as_tensor(list(columns), device=moved.device)] = True
    row, col = x.pattern.row.long(), x.pattern.col.long()
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)  # row i of the new has what row order[i] had
    row = torch.where(moved[col], place[row], row)
    return environment.replace(x=_sparse(row, col, x.value, (x.shape[0], x.shape[1])))


def without_pair(environment: Environment, classes: Tensor, pair: tuple[int, int]) -> Environment:
    """Without the edges that join a node of one class and one of another (or of the same).

    Args:
        environment: the graph.
        classes: of all nodes, ``[nodes]``; -1 for none.
        pair: their numbers.
    """
    graph, n = environment.graph, environment.num_nodes
    keys = graph.keys
    row, column = classes[keys // n], classes[keys % n]
    joined = ((row == pair[0]) & (column == pair[1])) | ((row == pair[1]) & (column == pair[0]))
    return environment.replace(graph=graph.flip(keys[joined]))


def _rows(x: Tensor | Sparse, order: Tensor) -> Tensor | Sparse:
    if not isinstance(x, Sparse):
        return x[order]
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    return _sparse(place[x.pattern.row.long()], x.pattern.col.long(), x.value, (x.shape[0], x.shape[1]))


def _stacked(first: Tensor | Sparse, second: Tensor | Sparse) -> Tensor | Sparse:
    if not isinstance(first, Sparse) or not isinstance(second, Sparse):
        assert isinstance(first, Tensor)
        assert isinstance(second, Tensor)
        return torch.cat([first, second])
    n = first.shape[0]
    row = torch.cat([first.pattern.row.long(), second.pattern.row.long() + n])
    col = torch.cat([first.pattern.col.long(), second.pattern.col.long()])
    return _sparse(row, col, torch.cat([first.value, second.value]), (2 * n, first.shape[1]))


def _sparse(row: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> Sparse:
    """Sparse features from entries in any order."""
    order = (row * shape[1] + col).argsort()
    row, col = row[order], col[order]
    rowptr = torch.searchsorted(row, torch.arange(shape[0] + 1, device=row.device))
    return Sparse(Pattern(rowptr, col, shape), value[order])
