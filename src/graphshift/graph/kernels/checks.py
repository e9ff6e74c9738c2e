"""What is checked before a number or an array goes to C, which believes everything: each once, in linear time.

A graph that is worked on again and again is checked the first time. It is known by its tensors and their versions, so
one that was changed in place is checked again.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from graphshift.core.errors import GraphshiftError

#: The most entries that a list with 32-bit numbers can have.
MOST = 2**31 - 1

#: By columns: the row pointer that they were checked with, the versions of both, and the number of columns.
_checked: Any = WeakTensorKeyDictionary()


class Within(NamedTuple):
    """For each node of many small graphs side by side, the nodes that it may be joined to: ``begin`` up to ``+ size``.

    Attributes:
        begin: the first node of its graph, ``[nodes]``, int32.
        size: how many nodes its graph has, itself among them, ``[nodes]``, int32.
    """

    begin: Tensor
    size: Tensor

    @property
    def alone(self) -> Tensor:
        """The nodes that have no other, bool ``[nodes]``."""
        return self.size < 2


def check_within(within: Within | None, nodes: int) -> None:
    """Checks that every node lies in its own range, and every range in the graph."""
    if within is None:
        return
    for name, numbers in within._asdict().items():
        if numbers.dtype != torch.int32 or tuple(numbers.shape) != (nodes,):
            found = f"{numbers.dtype} {list(numbers.shape)}"
            raise GraphshiftError(f"the ranges of nodes: {name} is {found}; expected int32 [{nodes}].")
    every, end = torch.arange(nodes), within.begin.long() + within.size
    if bool(((within.begin < 0) | (within.begin > every) | (end <= every) | (end > nodes)).any()):
        raise GraphshiftError("the ranges of nodes: a node lies outside of its own, or a range outside of the graph.")


def same_ranges(one: Within | None, other: Within | None) -> bool:
    """Whether both say the same."""
    if one is other or one is None or other is None:
        return one is other
    return all(torch.equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def check_rows(first: Tensor, columns: Tensor, rows: int, size: int, *, what: str = "graph") -> None:
    """Checks lists of columns by row, as of a graph in CSR form.

    Args:
        first: row n has ``columns[first[n] : first[n + 1]]``; ``[rows + 1]``, from 0 up, never down.
        columns: numbers from 0 up to, not including, ``size``.
        rows: how many rows there should be.
        size: how many columns.
        what: to name it in messages.
    """
    known = _checked.get(columns)
    if known is not None and known[0] is first and known[1:] == (_version(first), _version(columns), rows, size):
        return
    if columns.numel() > MOST:
        raise GraphshiftError(f"{what}: {columns.numel():,} entries; expected at most 2³¹ − 1.")
    if not {first.dtype, columns.dtype} <= {torch.int32, torch.int64}:
        found = f"{first.dtype} and {columns.dtype}"
        raise GraphshiftError(f"{what}: rows and columns are {found}; expected int32 or int64.")
    if size < 0 or rows < 0:
        raise GraphshiftError(f"{what}: {rows} rows and {size} columns; expected 0 or more.")
    if first.dim() != 1 or columns.dim() != 1 or first.numel() != rows + 1:
        shapes = f"{list(first.shape)} and {list(columns.shape)}"
        raise GraphshiftError(f"{what}: rows and columns have shapes {shapes}; expected [{rows + 1}] and [entries].")
    begins, ends = int(first[0]), int(first[-1])
    if begins != 0 or ends != columns.numel() or not bool((first[1:] >= first[:-1]).all()):
        raise GraphshiftError(
            f"{what}: rows begin at {begins} and end at {ends}, or go down in between; expected them to go up from 0 "
            f"to {columns.numel()}, the number of entries."
        )
    check_range(columns, size, what=f"{what}: columns")
    remember(first, columns, rows, size)


def remember(first: Tensor, columns: Tensor, rows: int, size: int) -> None:
    """Notes that lists are as :func:`check_rows` wants them: it looked, or a kernel made them so."""
    if not (first.is_inference() or columns.is_inference()):  # these have no versions
        _checked[columns] = (first, _version(first), _version(columns), rows, size)


def check_range(numbers: Tensor, size: int, *, what: str) -> None:
    """Checks that numbers lie between 0 and ``size``, which is not included."""
    if not numbers.numel():
        return
    least, most = (int(one) for one in torch.aminmax(numbers))
    if least < 0 or most >= size:
        raise GraphshiftError(f"{what} lie between {least} and {most}; expected 0 to {size - 1}.")


def check_other_nodes(actions: Tensor, nodes: int, within: Within | None = None) -> None:
    """Checks that every row of ``actions``, ``[nodes, draws]``, names nodes other than its own, of its own graph.

    A node that is alone in its graph names itself.
    """
    if actions.dim() != 2 or actions.shape[0] != nodes or actions.is_floating_point():
        raise GraphshiftError(
            f"actions have shape {list(actions.shape)} and type {actions.dtype}; expected whole numbers, a row for "
            f"each of the graph's {nodes} nodes."
        )
    check_range(actions, nodes, what="actions")
    own = actions == torch.arange(nodes, device=actions.device).unsqueeze(1)
    if bool((own if within is None else own & ~within.alone.unsqueeze(1)).any()):
        raise GraphshiftError("actions name a node as its own neighbour; a self-loop is never flipped.")
    if within is not None:
        first = within.begin.unsqueeze(1)
        if bool(((actions < first) | (actions >= first + within.size.unsqueeze(1))).any()):
            raise GraphshiftError("actions join nodes of two graphs; an edit stays inside its own.")


def check_shape(tensor: Tensor | None, *shape: int, what: str) -> None:
    """Checks the shape of a tensor of floats; None, which stands for ones, has none."""
    if tensor is not None and (tuple(tensor.shape) != shape or not tensor.is_floating_point()):
        found = f"{tensor.dtype} of shape {list(tensor.shape)}"
        raise GraphshiftError(f"{what}: found {found}; expected floats of shape {list(shape)}.")


def check_draws(nodes: int, draws: int) -> None:
    """Checks how many nodes are drawn for each of how many nodes: another one must be there, and 32 bits be enough."""
    if draws < 0 or nodes < (2 if draws else 0):
        raise GraphshiftError(f"{draws} draws for each of {nodes} nodes; expected 0 or more, and at least two nodes.")
    if nodes * draws > MOST:
        raise GraphshiftError(
            f"{draws} draws for each of {nodes:,} nodes are {nodes * draws:,} pairs; expected at most 2³¹ − 1: draw "
            "fewer."
        )


def check_finite(value: float, *, what: str) -> None:
    """Checks that a number is one, and is not too large for 32 bits."""
    if not math.isfinite(value) or abs(value) > torch.finfo(torch.float32).max:
        raise GraphshiftError(f"{what} is {value}; expected a finite number of at most 3.4e38.")


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
