"""Scoring pairs of nodes and choosing the best of them: ``pairs.c``, and the same in torch.

A table holds for every node a vector g, then a vector h. The score of a pair (n, m) is <g_n, h_m> + add_n.
"""

import numpy as np
import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.graph.kernels import native
from graphshift.graph.kernels.checks import Within, check_draws, check_finite, check_rows, check_shape, check_within
from graphshift.graph.kernels.graphs import draw, joined

_CHUNK = 1 << 20  # numbers that the torch version gathers at a time
_LINE = 16  # numbers in a line of the cache: the C version reads whole ones


def score(first: Tensor, listed: Tensor, table: Tensor, width: int, add: Tensor, *, both: bool, skip: bool) -> Tensor:
    """Scores of pairs, of row n with ``listed[first[n] : first[n + 1]]``: <g_n, h_m> + add_n, also of (m, n) if both.

    ``table`` has g and h of every node, each ``width`` wide; ``skip`` leaves pairs with m < n at 0.
    """
    nodes = first.numel() - 1
    check_rows(first, listed, nodes, nodes, what="pairs")
    _check_table(table, width, add, nodes)
    if not table.shape[1] % _LINE and native.fits(first, listed, table, add, count=max(nodes, listed.numel())):
        out = torch.empty(listed.numel(), dtype=torch.float32)
        tensors = (t.contiguous() for t in (first, listed, table, add))
        native.call_in_parts("score", nodes, width, table.shape[1], *tensors, both, skip, out)
        return out
    rows = torch.repeat_interleave(torch.arange(first.numel() - 1), first.diff().long())
    chosen = (listed >= rows).nonzero().squeeze(1) if skip else torch.arange(listed.numel())
    found = torch.zeros(listed.numel(), dtype=add.dtype)
    g, h = table[:, :width], table[:, width : 2 * width]
    for part in chosen.split(max(_CHUNK // max(width, 1), 1)):
        row, col = rows[part], listed[part].long()
        found[part] = (g[row] * h[col]).sum(dim=1) + add[row]
        if both:
            found[part] += (g[col] * h[row]).sum(dim=1) + add[col]
    return found


def score_random(
    graph: tuple[Tensor, Tensor],
    each: int,
    seed: int,
    scores: tuple[Tensor, int, Tensor],
    *,
    both: bool,
    weight: float,
    within: Within | None = None,
) -> tuple[Tensor, Tensor]:
    """``each`` random pairs for every node, and what adding them does to the risk: 0 for a pair that is an edge.

    ``graph`` is ``rowptr`` and ``col``, ``scores`` the ``table``, ``width`` and ``add`` of :func:`score`, ``weight``
    that of an added edge; ``within`` as in :func:`~graphshift.graph.kernels.graphs.draw`, and 0 for a node itself.
    Gives the columns and the gains, both ``[nodes * each]``.
    """
    (rowptr, col), (table, width, add), nodes = graph, scores, graph[0].numel() - 1
    check_rows(rowptr, col, nodes, nodes)
    _check_table(table, width, add, nodes)
    check_draws(nodes, each)
    check_within(within, nodes)
    check_finite(weight, what="the weight of new edges")
    if table.shape[1] % _LINE or not native.fits(rowptr, col, table, add, *(within or ()), count=nodes):
        first, drawn = torch.arange(nodes + 1, dtype=torch.int32) * each, draw(nodes, each, seed, within).flatten()
        there = joined(rowptr, col, first, drawn) | (drawn == torch.arange(nodes).repeat_interleave(each))
        return drawn, torch.where(there, 0.0, weight * score(first, drawn, table, width, add, both=both, skip=False))
    drawn, mark = torch.empty(nodes * each, dtype=torch.int32), torch.zeros(nodes, dtype=torch.int32)
    gain, question = (torch.empty(size, dtype=torch.float32) for size in (nodes * each, table.shape[1]))
    how = (width, table.shape[1], table, add, both, weight)
    native.call(
        "try_within", nodes, each, seed, *(within or (None, None)), rowptr, col, *how, mark, question, drawn, gain
    )
    return drawn, gain


def best(
    rowptr: Tensor, col: Tensor, of_edges: Tensor, drawn: Tensor, of_drawn: Tensor, *, sign: float, budget: int
) -> tuple[Tensor, Tensor]:
    """The pairs with the largest positive gains, up to the budget, as lists of columns by row.

    Candidates are the edges with their gains, and ``drawn``, equally many for each row, with theirs; gains are
    multiplied by ``sign``. A row's edges come first, then its drawn pairs; among equal gains where the budget ends, the
    first. Row n of the result has ``columns[first[n] : first[n + 1]]``; int32.
    """
    nodes, tried = rowptr.numel() - 1, of_edges.numel() + of_drawn.numel()
    check_rows(rowptr, col, nodes, nodes)
    check_shape(of_edges, col.numel(), what="gains of edges")
    check_shape(of_drawn, drawn.numel(), what="gains of pairs")
    if not nodes:
        return torch.zeros(1, dtype=torch.int32), torch.empty(0, dtype=torch.int32)
    if budget < 0 or drawn.numel() % nodes or drawn.is_floating_point():
        found = f"the budget is {budget}, with {drawn.numel()} pairs for {nodes} nodes"
        raise GraphshiftError(f"{found}; expected 0 or more, and as many pairs for each node.")
    if not native.fits(rowptr, col, of_edges, drawn, of_drawn, count=max(nodes, tried)):
        return _best_in_torch(rowptr, col, sign * torch.cat([of_edges, of_drawn]), drawn, budget)
    budget = min(budget, tried)
    first, columns = torch.empty(nodes + 1, dtype=torch.int32), torch.empty(budget, dtype=torch.int32)
    scratch = [torch.empty(size, dtype=torch.int32) for size in (2 * 4096, tried + 1, 1 << 19)]
    given = (rowptr, col, of_edges, drawn.numel() // nodes, drawn, of_drawn, sign, budget)
    native.call("best", nodes, *given, *scratch, first, columns)
    return first, columns[: int(first[-1])]


def _check_table(table: Tensor, width: int, add: Tensor, nodes: int) -> None:
    if (
        not table.is_floating_point()
        or table.dim() != 2
        or table.shape[0] != nodes
        or not 0 <= 2 * width <= table.shape[1]
    ):
        expected = f"a row for each of {nodes} nodes, with room for two vectors of {width}"
        raise GraphshiftError(f"the table of scores has shape {list(table.shape)}; expected {expected}.")
    check_shape(add, nodes, what="what is added to scores")


def _best_in_torch(rowptr: Tensor, col: Tensor, gains: Tensor, drawn: Tensor, budget: int) -> tuple[Tensor, Tensor]:
    nodes = rowptr.numel() - 1
    every = torch.arange(nodes)
    rows = torch.cat([every.repeat_interleave(rowptr.diff()), every.repeat_interleave(drawn.numel() // nodes)])
    order = torch.argsort(rows, stable=True)  # as the lists are read
    gains, columns = gains[order], torch.cat([col.int(), drawn])[order]
    chosen = gains >= torch.finfo(torch.float32).tiny
    count = int(chosen.sum())
    if not budget:
        chosen = torch.zeros_like(chosen)
    elif count > budget:
        # The budget's smallest gain is found by partition, in linear time; pairs equal to it fill what is left.
        least = float(np.partition(gains[chosen].numpy(), count - budget)[count - budget])
        chosen = gains > least
        equal = (gains == least).nonzero().squeeze(1)
        chosen[equal[: budget - int(chosen.sum())]] = True
    first = torch.zeros(nodes + 1, dtype=torch.int32)
    first[1:] = torch.bincount(rows[order][chosen], minlength=nodes).cumsum(0)
    return first, columns[chosen]
