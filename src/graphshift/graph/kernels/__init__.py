"""Kernels in C for the few loops that torch does badly; without them everything works, from torch alone, slower.

They are compiled when graphshift is installed, by whatever C compiler is there, and left out where there is none. What
they buy is measured by ``graphshift bench``. Each function here says which code in torch gives the same result; tests
hold the two together. ``GRAPHSHIFT_NATIVE=0`` in the environment leaves the kernels unused.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftWarning

__all__ = [
    "attend",
    "attend_back",
    "available",
    "best",
    "draw",
    "edit",
    "fits",
    "joined",
    "policy_draw",
    "policy_learn",
    "scale",
    "score",
    "transpose",
    "tried",
]

_INTERFACE = 5  # as in module.c
_LARGEST = 2**29 - 1  # indices times four fit into 32 bits


def _load() -> ctypes.CDLL | None:
    if os.environ.get("GRAPHSHIFT_NATIVE") == "0":
        return None
    try:
        from graphshift.graph.kernels import _library  # type: ignore[attr-defined]  # made at installation
    except ImportError:
        return None
    library = ctypes.CDLL(_library.__file__)
    if getattr(library, "graphshift_interface", lambda: 0)() != _INTERFACE:
        warnings.warn(
            "the compiled kernels are of another version of graphshift and are not used; install it again "
            "(pip install -e .) for full speed.",
            GraphshiftWarning,
            stacklevel=2,
        )
        return None
    array, size, number, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int32
    library.graphshift_draw.argtypes = [size, size, ctypes.c_uint64, array]
    library.graphshift_edit.argtypes = [size, *[array] * 5, number, flag, *[array] * 6]
    library.graphshift_joined.argtypes = [size, *[array] * 6]
    library.graphshift_score.argtypes = [*[size] * 4, *[array] * 4, flag, flag, array]
    library.graphshift_try.argtypes = [
        size,
        size,
        ctypes.c_uint64,
        array,
        array,
        size,
        size,
        array,
        array,
        flag,
        number,
        *[array] * 4,
    ]
    library.graphshift_best.argtypes = [size, *[array] * 3, size, array, array, number, size, *[array] * 5]
    library.graphshift_scale.argtypes = [size, *[array] * 5]
    library.graphshift_transpose.argtypes = [size, size, *[array] * 6]
    library.graphshift_policy_draw.argtypes = [size, size, size, *[array] * 6, ctypes.c_uint64, array, array]
    library.graphshift_policy_learn.argtypes = [
        size,
        size,
        size,
        *[array] * 8,
        ctypes.c_double,
        flag,
        number,
        number,
        number,
        flag,
        array,
        array,
    ]
    library.graphshift_attend.argtypes = [*[size] * 4, *[array] * 9]
    library.graphshift_attend_back_receivers.argtypes = [*[size] * 4, *[array] * 14]
    library.graphshift_attend_back_senders.argtypes = [*[size] * 4, *[array] * 12]
    for name in (
        "draw",
        "edit",
        "joined",
        "score",
        "try",
        "best",
        "scale",
        "transpose",
        "attend",
        "attend_back_receivers",
        "attend_back_senders",
    ):
        getattr(library, f"graphshift_{name}").restype = None
    library.graphshift_policy_draw.restype, library.graphshift_policy_learn.restype = ctypes.c_double, flag
    return library


_LIBRARY = _load()


def available() -> bool:
    """Whether the kernels were compiled at installation."""
    return _LIBRARY is not None


def fits(*tensors: Tensor | None, count: int = 0) -> bool:
    """Whether the kernels can take these: on the CPU, in 32 bits, constants. ``count``: the largest index needed."""
    return (
        _LIBRARY is not None
        and count <= _LARGEST
        and all(
            t is None or (t.device.type == "cpu" and t.dtype in (torch.int32, torch.float32) and not t.requires_grad)
            for t in tensors
        )
    )


def draw(nodes: int, draws: int, seed: int) -> Tensor:
    """``draws`` uniformly random other nodes for every node, int32. As ``randomness.other_nodes``."""
    assert _LIBRARY is not None
    actions = torch.empty(nodes, draws, dtype=torch.int32)
    _LIBRARY.graphshift_draw(nodes, draws, seed, actions.data_ptr())
    return actions


def edit(
    rowptr: Tensor, col: Tensor, weight: Tensor | None, first: Tensor, actions: Tensor, *, new_weight: float, both: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Flips the drawn entries, and their reverses if ``both``, in linear time. As :meth:`Graph.flip`, rows unsorted.

    Args:
        rowptr, col, weight: the graph.
        first: row n's actions are ``actions[first[n] : first[n + 1]]``.
        actions: columns.
        new_weight: of added edges.
        both: flip reverses too.

    Returns:
        ``rowptr``, ``col`` and ``weight`` of the edited graph.
    """
    assert _LIBRARY is not None
    nodes = rowptr.numel() - 1
    room = col.numel() + actions.numel() * (2 if both else 1)
    rowptr, col, first, actions = rowptr.contiguous(), col.contiguous(), first.contiguous(), actions.contiguous()
    out_rowptr, out_col = torch.empty_like(rowptr), torch.empty(room, dtype=torch.int32)
    old_weight = None if weight is None else weight.contiguous()
    out_weight = None if weight is None else torch.empty(room, dtype=torch.float32)
    incoming, begin = torch.empty(actions.numel(), dtype=torch.int32), torch.empty(nodes + 2, dtype=torch.int32)
    mark = torch.empty(nodes, dtype=torch.int32)
    _LIBRARY.graphshift_edit(
        nodes,
        first.data_ptr(),
        actions.data_ptr(),
        rowptr.data_ptr(),
        col.data_ptr(),
        _pointer(old_weight),
        new_weight,
        both,
        incoming.data_ptr(),
        begin.data_ptr(),
        mark.data_ptr(),
        out_rowptr.data_ptr(),
        out_col.data_ptr(),
        _pointer(out_weight),
    )
    end = int(out_rowptr[-1])
    return out_rowptr, out_col[:end], None if out_weight is None else out_weight[:end]


def joined(rowptr: Tensor, col: Tensor, first: Tensor, listed: Tensor) -> Tensor:
    """For each listed column whether the row has it. As ``torch.isin`` of keys."""
    assert _LIBRARY is not None
    nodes = rowptr.numel() - 1
    arrays = [t.contiguous() for t in (rowptr, col, first, listed)]
    mark, found = torch.zeros(nodes, dtype=torch.int32), torch.empty(listed.numel(), dtype=torch.bool)
    _LIBRARY.graphshift_joined(nodes, *map(_pointer, (*arrays, mark, found)))
    return found


def score(first: Tensor, listed: Tensor, table: Tensor, width: int, add: Tensor, *, both: bool, skip: bool) -> Tensor:
    """Scores of listed pairs. As ``Scores.of`` without kernels.

    Args:
        first, listed: row n's columns are ``listed[first[n] : first[n + 1]]``.
        table, width, add: of :class:`~graphshift.explorers.probing.Scores`.
        both: add that of (c, r) as well.
        skip: leave pairs with c < r at 0.
    """
    assert _LIBRARY is not None
    out = torch.empty(listed.numel(), dtype=torch.float32)
    arrays = [t.contiguous() for t in (first, listed, table, add)]
    sizes = (first.numel() - 1, width, table.shape[1])
    _in_parts(_LIBRARY.graphshift_score, *sizes, *map(_pointer, arrays), both, skip, out.data_ptr())
    return out


def tried(
    rowptr: Tensor,
    col: Tensor,
    each: int,
    seed: int,
    table: Tensor,
    width: int,
    add: Tensor,
    *,
    both: bool,
    weight: float,
) -> tuple[Tensor, Tensor]:
    """``each`` random pairs for every node, and what joining them adds to the risk: 0 if they are joined.

    As :func:`draw`, :func:`joined` and :func:`score`, in one visit.
    """
    assert _LIBRARY is not None
    nodes = rowptr.numel() - 1
    drawn, mark = torch.empty(nodes * each, dtype=torch.int32), torch.zeros(nodes, dtype=torch.int32)
    gain, question = (torch.empty(size, dtype=torch.float32) for size in (nodes * each, table.shape[1]))
    rowptr, col, table, add = (t.contiguous() for t in (rowptr, col, table, add))
    _LIBRARY.graphshift_try(
        nodes,
        each,
        seed,
        rowptr.data_ptr(),
        col.data_ptr(),
        width,
        table.shape[1],
        table.data_ptr(),
        add.data_ptr(),
        both,
        weight,
        *map(_pointer, (mark, question, drawn, gain)),
    )
    return drawn, gain


def best(
    rowptr: Tensor, col: Tensor, of_edges: Tensor, drawn: Tensor, of_drawn: Tensor, *, sign: float, budget: int
) -> tuple[Tensor, Tensor]:
    """The pairs with the largest positive gains, as lists of columns by row. As ``gradient._best_plainly``.

    Args:
        rowptr, col, of_edges: the graph, and a gain for each of its edges.
        drawn, of_drawn: as many further columns for each row, and their gains.
        sign: that gains are multiplied by.
        budget: the most pairs.
    """
    assert _LIBRARY is not None
    nodes = rowptr.numel() - 1
    arrays = [t.contiguous() for t in (rowptr, col, of_edges)]
    drawn, of_drawn = drawn.contiguous(), of_drawn.contiguous()
    budget = min(budget, of_edges.numel() + of_drawn.numel())  # no more pairs than were tried
    first, columns = torch.empty(nodes + 1, dtype=torch.int32), torch.empty(budget, dtype=torch.int32)
    room = [
        torch.empty(size, dtype=torch.int32) for size in (2 * 4096, of_edges.numel() + of_drawn.numel() + 1, 1 << 19)
    ]
    _LIBRARY.graphshift_best(
        nodes,
        *map(_pointer, arrays),
        drawn.numel() // nodes,
        drawn.data_ptr(),
        of_drawn.data_ptr(),
        sign,
        budget,
        *map(_pointer, (*room, first, columns)),
    )
    return first, columns[: int(first[-1])]


def scale(rowptr: Tensor, col: Tensor, weight: Tensor | None, scale: Tensor) -> Tensor:
    """``scale[row] * scale[col] * weight`` at every non-zero."""
    assert _LIBRARY is not None
    value = torch.empty(col.numel(), dtype=torch.float32)
    arrays = [
        rowptr.contiguous(),
        col.contiguous(),
        None if weight is None else weight.contiguous(),
        scale.contiguous(),
    ]
    _LIBRARY.graphshift_scale(scale.numel(), *map(_pointer, arrays), value.data_ptr())
    return value


def transpose(rowptr: Tensor, col: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """The transposed pattern's ``rowptr`` and ``col``, and the order that takes values to it; a counting sort."""
    assert _LIBRARY is not None
    rowptr, col = rowptr.contiguous(), col.contiguous()
    begin, cursor = (torch.empty(columns + 1, dtype=torch.int32) for _ in range(2))
    rows, order = torch.empty_like(col), torch.empty_like(col)
    _LIBRARY.graphshift_transpose(
        rowptr.numel() - 1, columns, *(_pointer(t) for t in (rowptr, col, begin, cursor, rows, order))
    )
    return begin, rows, order


def policy_draw(
    draws: int, seed: int, *, count: Tensor, slot: Tensor, entry: Tensor, shared: Tensor, top: Tensor, mass: Tensor
) -> tuple[Tensor, Tensor, float]:
    """Actions of all rows, where each has its entry (−1: none), log p. As ``SparsePolicy._draw_plainly``."""
    assert _LIBRARY is not None
    nodes, width = slot.shape
    actions, place = (torch.empty(nodes, draws, dtype=torch.int32) for _ in range(2))
    arrays = (count, slot, entry, shared, top, mass)
    log_prob = _LIBRARY.graphshift_policy_draw(
        nodes, draws, width, *map(_pointer, arrays), seed, actions.data_ptr(), place.data_ptr()
    )
    return actions, place, float(log_prob)


def policy_learn(
    actions: Tensor,
    place: Tensor | None,
    reward: float,
    *,
    adam: bool,
    decay: float,
    rate: float,
    root: float,
    count: Tensor,
    hand: Tensor,
    slot: Tensor,
    entry: Tensor,
    shared: Tensor,
    top: Tensor,
    mass: Tensor,
) -> int:
    """One step of the optimiser on all rows, in place. As ``SparsePolicy._learn_plainly``.

    Args:
        actions, place: as :func:`policy_draw` gave them, if nothing was learned since; None looks for the places.
        reward: what multiplies the gradient; the rest is the policy's state.

    Returns:
        How many entries the longest row has now.
    """
    assert _LIBRARY is not None
    nodes, width = slot.shape
    draws = actions.shape[1]
    actions = actions.to(torch.int32).contiguous()
    known = place is not None
    place = torch.empty_like(actions) if place is None else place
    gradient = torch.empty(max(width, 1), dtype=torch.float32)
    arrays = (count, hand, slot, entry, shared, top, mass, actions)
    longest = _LIBRARY.graphshift_policy_learn(
        nodes,
        draws,
        width,
        *map(_pointer, arrays),
        reward,
        adam,
        decay,
        rate,
        root,
        known,
        place.data_ptr(),
        gradient.data_ptr(),
    )
    return int(longest)


def attend(
    rowptr: Tensor, col: Tensor, weight: Tensor | None, h: Tensor, source: Tensor, target: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention over neighbours and the node itself. As ``GATConvolution._mix_plainly``.

    Args:
        rowptr, col, weight: the graph; no weight is ones.
        h: ``[nodes, heads, width]``.
        source, target: what a node adds to the score as a sender and as a receiver, ``[nodes, heads]``.

    Returns:
        The mean ``[nodes, heads, width]``, and what the way back needs: each softmax's maximum and sum.
    """
    assert _LIBRARY is not None
    nodes, heads, width = h.shape
    top, total, mixed = torch.empty_like(source), torch.empty_like(source), torch.empty_like(h)
    arrays = [_pointer(t) for t in (rowptr, col, weight, h, source, target, top, total, mixed)]
    _in_parts(_LIBRARY.graphshift_attend, nodes, heads, width, *arrays)
    return mixed, top, total


def attend_back(
    graph: tuple[Tensor, Tensor, Tensor | None],
    across: tuple[Tensor, Tensor, Tensor | None],
    gradient: Tensor,
    h: Tensor,
    source: Tensor,
    target: Tensor,
    top: Tensor,
    total: Tensor,
    mixed: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of ``h``, ``source`` and ``target``.

    Args:
        graph, across: ``rowptr, col, weight`` of the graph and of its transpose.
        gradient: of the mean.
        h, source, target, top, total, mixed: what :func:`attend` took and gave.
    """
    assert _LIBRARY is not None
    nodes, heads, width = h.shape
    inner, d_target, d_source = (torch.empty_like(source) for _ in range(3))
    d_h = torch.empty_like(h)
    saved = [_pointer(t) for t in (h, source, target, top, total)]
    receivers = [*map(_pointer, graph), *saved, *map(_pointer, (mixed, gradient, inner, d_target, d_source, d_h))]
    _in_parts(_LIBRARY.graphshift_attend_back_receivers, nodes, heads, width, *receivers)
    senders = [*map(_pointer, across), *saved, *map(_pointer, (gradient, inner, d_source, d_h))]
    _in_parts(_LIBRARY.graphshift_attend_back_senders, nodes, heads, width, *senders)
    return d_h, d_source, d_target


_SMALL = 4096  # rows below which another thread costs more than it saves
_pool: ThreadPoolExecutor | None = None


def _in_parts(kernel: Callable[..., None], rows: int, *arguments: Any) -> None:
    """Calls a kernel on ranges of rows, each in a thread; ctypes lets go of Python's lock while it runs."""
    global _pool
    threads = min(torch.get_num_threads(), rows // _SMALL)
    if threads < 2:
        kernel(0, rows, *arguments)
        return
    if _pool is None or _pool._max_workers < threads:
        _pool = ThreadPoolExecutor(threads, "kernel")
    bounds = [rows * part // threads for part in range(threads + 1)]
    list(_pool.map(lambda part: kernel(bounds[part], bounds[part + 1], *arguments), range(threads)))


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
