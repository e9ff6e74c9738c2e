"""Drawing pairs, editing, transposing and scaling graphs in CSR form: ``graphs.c``, and the same in torch."""

from typing import TypeAlias

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from graphshift.core.randomness import other_nodes
from graphshift.graph.kernels import native
from graphshift.graph.kernels.checks import (
    Within,
    check_draws,
    check_finite,
    check_rows,
    check_shape,
    check_within,
    remember,
)
from graphshift.graph.keys import are_sorted, flipped_keys, keys_of

#: A graph in CSR form: where rows begin, columns, and weights (None for ones).
CSR: TypeAlias = tuple[Tensor, Tensor, Tensor | None]
Weight: TypeAlias = Tensor | None
Number: TypeAlias = Tensor | float


def draw(nodes: int, draws: int, seed: int, within: Within | None = None) -> Tensor:
    """``draws`` uniformly random other nodes for every node: ``[nodes, draws]``, int32.

    With ``within`` they are of the node's own small graph; for a node that is alone there, it is the node itself.
    """
    check_draws(nodes, draws)
    check_within(within, nodes)
    if not native.fits(*(within or ()), count=nodes):
        return other_nodes(nodes, draws, seed, within)
    actions = torch.empty(nodes, draws, dtype=torch.int32)
    native.call("draw_within", nodes, draws, seed, *(within or (None, None)), actions)
    return actions


def edit(
    rowptr: Tensor, col: Tensor, weight: Weight, first: Tensor, columns: Tensor, *, new_weight: Number, both: bool
) -> CSR:
    """Flips listed entries of a graph, in linear time: an entry that is there goes, one that is not comes.

    Row n flips ``columns[first[n] : first[n + 1]]``, and the reverses too if ``both``; one that is listed twice flips
    once. Added entries weigh ``new_weight``. In torch the rows of the result are sorted; in C they are not.
    """
    nodes = rowptr.numel() - 1
    check_rows(rowptr, col, nodes, nodes)
    check_rows(first, columns, nodes, nodes, what="flips")
    check_shape(weight, col.numel(), what="edge weights")
    check_finite(_plain(new_weight), what="the weight of new edges")
    if not native.fits(rowptr, col, weight, first, columns, count=max(nodes, col.numel() + 2 * columns.numel())):
        flips = flipped_keys(first, columns, both=both).to(col.device)
        return flip(rowptr, col, weight, flips, new_weight=new_weight)
    room = col.numel() + columns.numel() * (2 if both else 1)
    out_rowptr, out_col = torch.empty_like(rowptr), torch.empty(room, dtype=torch.int32)
    out_weight = None if weight is None else torch.empty(room, dtype=torch.float32)
    incoming, begin = torch.empty(columns.numel(), dtype=torch.int32), torch.empty(nodes + 2, dtype=torch.int32)
    scratch = (incoming, begin, torch.empty(nodes, dtype=torch.int32))
    graph, result = (rowptr, col, weight), (out_rowptr, out_col, out_weight)
    native.call("edit", nodes, first, columns, *graph, _plain(new_weight), both, *scratch, *result)
    end = int(out_rowptr[-1])
    out_col = out_col[:end]
    remember(out_rowptr, out_col, nodes, nodes)
    return out_rowptr, out_col, None if out_weight is None else out_weight[:end]


def flip(rowptr: Tensor, col: Tensor, weight: Weight, flips: Tensor, *, new_weight: Number) -> CSR:
    """Flips the entries with the given keys, sorted and each once, in torch. The rows of the result are sorted."""
    nodes, edges, device = max(rowptr.numel() - 1, 1), col.numel(), col.device
    keys = keys_of(rowptr, col)
    if not are_sorted(keys):
        keys, order = torch.sort(keys)
        col, weight = col[order], None if weight is None else weight[order]
    place = torch.searchsorted(keys, flips)
    there = keys[place.clamp(max=edges - 1)] == flips if edges else torch.zeros_like(flips, dtype=torch.bool)
    kept = torch.ones(edges, dtype=torch.bool, device=device)
    kept[place[there]] = False
    added = flips[~there]
    # An added key lands behind the kept keys below it and the added keys before it.
    removed_below = torch.cumsum(there, dim=0)[~there]
    landing = place[~there] - removed_below + torch.arange(added.numel(), device=device)
    total = edges + 2 * added.numel() - flips.numel()
    old = torch.ones(total, dtype=torch.bool, device=device)
    old[landing] = False
    out_col = col.new_empty(total)
    out_col[landing], out_col[old] = (added % nodes).to(col.dtype), col[kept]
    out_weight = None if weight is None else weight.new_empty(total)
    if weight is not None and out_weight is not None:
        out_weight[landing] = new_weight
        out_weight[old] = weight[kept]
    gained, lost = (torch.bincount(k // nodes, minlength=nodes) for k in (added, flips[there]))
    out_rowptr = rowptr.clone()
    out_rowptr[1:] += (gained - lost).cumsum(0)[: rowptr.numel() - 1]
    return out_rowptr, out_col, out_weight


def _plain(number: Number) -> float:
    return float(number.detach()) if isinstance(number, Tensor) else float(number)


def joined(rowptr: Tensor, col: Tensor, first: Tensor, listed: Tensor) -> Tensor:
    """For each listed pair, of row n with ``listed[first[n] : first[n + 1]]``, whether it is an entry of the graph."""
    nodes = rowptr.numel() - 1
    check_rows(rowptr, col, nodes, nodes)
    check_rows(first, listed, nodes, nodes, what="pairs")
    if not native.fits(rowptr, col, first, listed, count=nodes):
        return torch.isin(keys_of(first, listed), keys_of(rowptr, col))
    mark, found = torch.zeros(nodes, dtype=torch.int32), torch.empty(listed.numel(), dtype=torch.bool)
    native.call("joined", nodes, rowptr, col, first, listed, mark, found)
    return found


def scale(rowptr: Tensor, col: Tensor, weight: Tensor | None, factor: Tensor) -> Tensor:
    """``factor[row] * factor[col] * weight`` at every non-zero; ``weight`` None for ones."""
    nodes = rowptr.numel() - 1
    check_rows(rowptr, col, nodes, nodes)
    check_shape(factor, nodes, what="factors")
    check_shape(weight, col.numel(), what="edge weights")
    if not native.fits(rowptr, col, weight, factor, count=nodes):
        row = torch.repeat_interleave(factor, rowptr.diff(), output_size=col.numel())
        return row * factor[col] if weight is None else row * factor[col] * weight
    value = torch.empty(col.numel(), dtype=torch.float32)
    native.call("scale", nodes, rowptr, col, weight, factor, value)
    return value


def transpose(rowptr: Tensor, col: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """The transposed pattern's ``rowptr`` and ``col``, and the order that takes values to it; a counting sort."""
    rows = rowptr.numel() - 1
    check_rows(rowptr, col, rows, columns)
    if not native.fits(rowptr, col, count=max(rows, columns)):
        # scipy's CSR to CSC is a counting sort too: linear in the non-zeros, where a sort of keys is not.
        csr = scipy.sparse.csr_matrix((np.arange(col.numel()), col.numpy(), rowptr.numpy()), shape=(rows, columns))
        csc = csr.tocsc()
        return torch.from_numpy(csc.indptr), torch.from_numpy(csc.indices), torch.from_numpy(csc.data)
    begin, cursor = (torch.empty(columns + 1, dtype=torch.int32) for _ in range(2))
    receivers, order = torch.empty_like(col), torch.empty_like(col)
    native.call("transpose", rows, columns, rowptr, col, begin, cursor, receivers, order)
    remember(begin, receivers, columns, rows)
    return begin, receivers, order
