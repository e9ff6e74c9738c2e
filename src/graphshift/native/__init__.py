"""Kernels in C for the few loops that torch does badly; without them everything works, from torch alone, slower.

They are compiled when graphshift is installed, by whatever C compiler is there, and left out where there is none. What
they buy is measured by ``graphshift bench``. Each function here says which code in torch gives the same result; tests
hold the two together. ``GRAPHSHIFT_NATIVE=0`` in the environment leaves the kernels unused.
"""

from __future__ import annotations

import ctypes
import os

import torch
from torch import Tensor

__all__ = ["available", "draw", "edit", "fits", "policy_draw", "policy_learn", "scale", "transpose"]

_LARGEST = 2**29 - 1  # indices times four fit into 32 bits


def _load() -> ctypes.CDLL | None:
    if os.environ.get("GRAPHSHIFT_NATIVE") == "0":
        return None
    try:
        from graphshift.native import _library  # type: ignore[attr-defined]  # made at installation
    except ImportError:
        return None
    library = ctypes.CDLL(_library.__file__)
    array, size, number, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int32
    library.graphshift_draw.argtypes = [size, size, ctypes.c_uint64, array]
    library.graphshift_edit.argtypes = [size, size, *[array] * 4, number, flag, *[array] * 6]
    library.graphshift_scale.argtypes = [size, *[array] * 5]
    library.graphshift_transpose.argtypes = [size, size, *[array] * 6]
    library.graphshift_policy_draw.argtypes = [size, size, size, *[array] * 6, ctypes.c_uint64, array]
    library.graphshift_policy_learn.argtypes = [
        size, size, size, *[array] * 8, ctypes.c_double, flag, number, number, number, array, array,
    ]  # fmt: skip
    for name in ("draw", "edit", "scale", "transpose"):
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
            t is None
            or (t.device.type == "cpu" and t.dtype in (torch.int32, torch.float32) and not t.requires_grad)
            for t in tensors
        )
    )  # fmt: skip


def draw(nodes: int, draws: int, seed: int) -> Tensor:
    """``draws`` uniformly random other nodes for every node, int32. As :func:`graphshift.randomness.other_nodes`."""
    assert _LIBRARY is not None
    actions = torch.empty(nodes, draws, dtype=torch.int32)
    _LIBRARY.graphshift_draw(nodes, draws, seed, actions.data_ptr())
    return actions


def edit(
    rowptr: Tensor, col: Tensor, weight: Tensor | None, actions: Tensor, *, new_weight: float, both: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Flips the drawn entries, and their reverses if ``both``, in linear time. As :meth:`Graph.flip`, rows unsorted.

    Returns:
        ``rowptr``, ``col`` and ``weight`` of the edited graph.
    """
    assert _LIBRARY is not None
    nodes, draws = actions.shape
    room = col.numel() + actions.numel() * (2 if both else 1)
    rowptr, col, actions = rowptr.contiguous(), col.contiguous(), actions.contiguous()
    out_rowptr, out_col = torch.empty_like(rowptr), torch.empty(room, dtype=torch.int32)
    old_weight = None if weight is None else weight.contiguous()
    out_weight = None if weight is None else torch.empty(room)
    incoming, begin = torch.empty(actions.numel(), dtype=torch.int32), torch.empty(nodes + 2, dtype=torch.int32)
    mark = torch.empty(nodes, dtype=torch.int32)
    _LIBRARY.graphshift_edit(
        nodes, draws, actions.data_ptr(), rowptr.data_ptr(), col.data_ptr(), _pointer(old_weight), new_weight, both,
        incoming.data_ptr(), begin.data_ptr(), mark.data_ptr(), out_rowptr.data_ptr(), out_col.data_ptr(),
        _pointer(out_weight),
    )  # fmt: skip
    end = int(out_rowptr[-1])
    return out_rowptr, out_col[:end], None if out_weight is None else out_weight[:end]


def scale(rowptr: Tensor, col: Tensor, weight: Tensor | None, scale: Tensor) -> Tensor:
    """``scale[row] * scale[col] * weight`` at every non-zero."""
    assert _LIBRARY is not None
    value = torch.empty(col.numel())
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
) -> tuple[Tensor, float]:
    """Actions of all rows and their log-probability. As ``SparsePolicy._draw_plainly``."""
    assert _LIBRARY is not None
    nodes, width = slot.shape
    actions = torch.empty(nodes, draws, dtype=torch.int32)
    arrays = (count, slot, entry, shared, top, mass)
    log_prob = _LIBRARY.graphshift_policy_draw(
        nodes, draws, width, *map(_pointer, arrays), seed, actions.data_ptr()
    )  # fmt: skip
    return actions, float(log_prob)


def policy_learn(
    actions: Tensor, reward: float, *, adam: bool, decay: float, rate: float, root: float, count: Tensor, hand: Tensor,
    slot: Tensor, entry: Tensor, shared: Tensor, top: Tensor, mass: Tensor,
) -> int:  # fmt: skip
    """One step of the optimiser on all rows, in place. As ``SparsePolicy._learn_plainly``.

    Returns:
        How many entries the longest row has now.
    """
    assert _LIBRARY is not None
    nodes, width = slot.shape
    draws = actions.shape[1]
    actions = actions.to(torch.int32).contiguous()
    place, gradient = torch.empty(draws, dtype=torch.int32), torch.empty(max(width, 1))
    arrays = (count, hand, slot, entry, shared, top, mass, actions)
    longest = _LIBRARY.graphshift_policy_learn(
        nodes, draws, width, *map(_pointer, arrays), reward, adam, decay, rate, root, place.data_ptr(),
        gradient.data_ptr(),
    )  # fmt: skip
    return int(longest)


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
