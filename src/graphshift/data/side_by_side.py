"""Several graphs as one, which no edge joins."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphshift.data.environment import Environment
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Pattern, Sparse

_NAMED = 3  # graphs; more are counted


def side_by_side(environments: Sequence[Environment]) -> Environment:
    """The nodes of all, in order, with their features, labels, masks and edges, and nothing else that they have.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=200)
    >>> side_by_side(data.tests[:2])
    Environment('T1, T2', 400 nodes, 2616 edges, 24 features, 400 counted)
    """
    first, *others = environments
    if not others:
        return first
    names = [e.name for e in environments]
    name = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} graphs"
    x = [e.x for e in environments]
    dense = [one for one in x if not isinstance(one, Sparse)]
    features = torch.cat(dense) if len(dense) == len(x) else _stacked([_sparse(one) for one in x])
    graphs = [e.graph.pattern for e in environments]
    rowptr, col = _entries(graphs, apart=True)
    nodes = rowptr.numel() - 1
    joined = Graph(Pattern(rowptr, col, (nodes, nodes)), undirected=all(e.graph.undirected for e in environments))
    labels = [e.y for e in environments if e.y is not None]
    return first.replace(
        name=name,
        x=features,
        graph=joined,
        mask=torch.cat([e.mask for e in environments]),
        y=torch.cat(labels) if len(labels) == len(environments) else None,
        **dict.fromkeys(("time", "known_y", "further_y", "ids")),
    )


def _entries(patterns: Sequence[Pattern], *, apart: bool) -> tuple[Tensor, Tensor]:
    """Rows and columns of matrices below each other, with columns of their own if ``apart``."""
    rowptr, col = [torch.zeros(1, dtype=torch.int64)], []
    rows = entries = 0
    for one in patterns:
        rowptr.append(one.rowptr[1:].long() + entries)
        col.append(one.col.long() + rows * apart)
        rows, entries = rows + one.shape[0], entries + one.col.numel()
    return torch.cat(rowptr), torch.cat(col)


def _stacked(x: Sequence[Sparse]) -> Sparse:
    rowptr, col = _entries([one.pattern for one in x], apart=False)
    return Sparse(Pattern(rowptr, col, (rowptr.numel() - 1, x[0].shape[1])), torch.cat([one.value for one in x]))


def _sparse(x: Tensor | Sparse) -> Sparse:
    if isinstance(x, Sparse):
        return x
    csr = x.to_sparse_csr()
    return Sparse(Pattern(csr.crow_indices(), csr.col_indices(), (x.shape[0], x.shape[1])), csr.values())
