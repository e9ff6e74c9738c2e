"""The library compiled from the C files here: loading it, asking whether it can be used, calling it."""

import ctypes
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from graphshift.core.errors import GraphshiftWarning

INTERFACE = 5  # as in module.c; a library without one of the functions below is of another version too
_LARGEST = 2**29 - 1  # indices times four fit into 32 bits
SMALL = 4096  # rows below which another thread costs more than it saves

_array, _size, _number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_flag, _seed = ctypes.c_int32, ctypes.c_uint64
#: The arguments of every function; see the C files.
_ARGUMENTS: dict[str, list[Any]] = {
    "draw_within": [_size, _size, _seed, *[_array] * 3],
    "edit": [_size, *[_array] * 5, _number, _flag, *[_array] * 6],
    "joined": [_size, *[_array] * 6],
    "score": [*[_size] * 4, *[_array] * 4, _flag, _flag, _array],
    "try_within": [_size, _size, _seed, *[_array] * 4, _size, _size, _array, _array, _flag, _number, *[_array] * 4],
    "best": [_size, *[_array] * 3, _size, _array, _array, _number, _size, *[_array] * 5],
    "scale": [_size, *[_array] * 5],
    "transpose": [_size, _size, *[_array] * 6],
    "policy_draw_within": [*[_size] * 3, *[_array] * 8, _seed, _array, _array],
    "policy_learn_within": [
        *[_size] * 3,
        *[_array] * 10,
        ctypes.c_double,
        _flag,
        *[_number] * 3,
        _flag,
        _array,
        _array,
    ],
    "attend": [*[_size] * 4, *[_array] * 9],
    "attend_back_receivers": [*[_size] * 4, *[_array] * 14],
    "attend_back_senders": [*[_size] * 4, *[_array] * 12],
}
_RESULTS: dict[str, Any] = {"policy_draw_within": ctypes.c_double, "policy_learn_within": _flag}


def load(path: str | None = None) -> ctypes.CDLL | None:
    """The compiled library; None if there is none, if it is of another version, or with ``GRAPHSHIFT_NATIVE=0``.

    Args:
        path: of another build, such as one with sanitizers; None for the one that was installed.
    """
    if os.environ.get("GRAPHSHIFT_NATIVE") == "0":
        return None
    try:
        if path is None:
            from graphshift.graph.kernels import _library  # type: ignore[attr-defined]  # made at installation

            path = _library.__file__
    except ImportError:
        return None
    library = ctypes.CDLL(path)
    same = getattr(library, "graphshift_interface", lambda: 0)() == INTERFACE
    if not same or not all(hasattr(library, f"graphshift_{name}") for name in _ARGUMENTS):
        warnings.warn(
            "the compiled kernels are of another version of graphshift and are not used; install it again "
            "(pip install -e .) for full speed.",
            GraphshiftWarning,
            stacklevel=2,
        )
        return None
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, f"graphshift_{name}")
        function.argtypes, function.restype = arguments, _RESULTS.get(name)
    return library


#: The library. Tests set it to None to run the torch versions.
LIBRARY = load()


def available() -> bool:
    """Whether the compiled kernels are there."""
    return LIBRARY is not None


def fits(*tensors: Tensor | None, count: int = 0) -> bool:
    """Whether the C kernels can take these: on the CPU, 32 bits, without gradient. ``count``: the largest index."""
    known = [t for t in tensors if t is not None]
    plain = all(t.dtype in (torch.int32, torch.float32) and not t.requires_grad for t in known)
    return LIBRARY is not None and count <= _LARGEST and plain and all(t.device.type == "cpu" for t in known)


def call(name: str, *arguments: Any) -> Any:
    """Calls a C function. Tensors are passed as pointers; inputs need not be contiguous, outputs must be."""
    whole = [a.contiguous() if isinstance(a, Tensor) else a for a in arguments]  # alive until the call is over
    return getattr(LIBRARY, f"graphshift_{name}")(*(a.data_ptr() if isinstance(a, Tensor) else a for a in whole))


_pool: ThreadPoolExecutor | None = None


def call_in_parts(name: str, rows: int, *arguments: Any) -> None:
    """Calls a C function on ranges of rows, each in a thread; ctypes releases Python's lock while it runs."""
    global _pool
    threads = min(torch.get_num_threads(), rows // SMALL)
    if threads < 2:
        call(name, 0, rows, *arguments)
        return
    if _pool is None or _pool._max_workers < threads:
        _pool = ThreadPoolExecutor(threads, "kernel")
    bounds = [rows * part // threads for part in range(threads + 1)]
    list(_pool.map(lambda part: call(name, bounds[part], bounds[part + 1], *arguments), range(threads)))
