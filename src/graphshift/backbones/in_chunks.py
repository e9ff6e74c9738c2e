"""A forward pass layer by layer over pieces of the graph: for graphs whose hidden states do not fit into memory.

The nodes' states after each layer are in a file. A piece of the next layer needs the states of its nodes and of those
that they receive from, and nothing else (Wang et al., 2019, do the same for inference in DGL). The result is that of
the whole forward pass in evaluation mode, to rounding.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.backbones.base import Backbone
from graphshift.backbones.batchnorm import batch_norms
from graphshift.core.errors import GraphshiftError
from graphshift.core.mapped import READS, read_rows, release, reserve
from graphshift.data.environment import Environment
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse
from graphshift.graph.subgraphs import receiving, rows_of

_ENTRIES = 2_000_000  # of a chunk, about
_ROWS = 200_000  # at most
_SMALL = 2**26  # bytes of states that stay in memory


def output_of(backbone: Backbone, environment: Environment) -> Tensor:
    """The output for every node, ``[nodes, out_channels]``; of an environment in a partition folder layer by layer."""
    if environment.stored is None:
        return backbone(environment.x, environment.graph)
    return output_in_chunks(backbone, environment)


def output_in_chunks(backbone: Backbone, environment: Environment, *, entries: int = _ENTRIES) -> Tensor:
    """The output for every node of an environment, ``[nodes, out_channels]``; the environment may be memory-mapped.

    Args:
        backbone: whose :meth:`~graphshift.backbones.base.Backbone.hops` are known, without dropout (``eval()``).
        environment: on the CPU.
        entries: of the graph that are looked at at a time, about.
    """
    if any(norm.training for norm in batch_norms(backbone)):
        raise GraphshiftError(
            f"environment {environment.name!r} is predicted piece by piece, and adapt 'norm' needs all of it at once: "
            "leave it out."
        )
    hops = backbone.hops()
    if hops is None:
        return backbone(environment.x, environment.graph)
    stored = environment.stored
    with torch.no_grad():
        h: _States | None = None
        for first, last in _chunks(environment.graph, entries):
            x, rows = environment.x, np.arange(first, last)
            piece = backbone.stem(rows_of(x, rows) if isinstance(x, Sparse) else x[first:last])
            h = _States(environment.num_nodes, piece.shape[1]) if h is None else h
            h.write(first, piece)
            if stored is not None:
                stored.release()
        degree = environment.graph.degree
        for hop in hops:
            assert h is not None
            h = _passed(hop, h, environment, degree, entries)
    assert h is not None
    return torch.from_numpy(h.values)


def _passed(
    hop: Callable[[Tensor, Graph], Tensor], before: _States, environment: Environment, degree: Tensor, entries: int
) -> _States:
    """The states after one more layer."""
    after: _States | None = None
    for first, last in _chunks(environment.graph, entries):
        nodes, graph = receiving(environment.graph, first, last, degree)
        piece = hop(torch.from_numpy(before.rows(nodes)), graph)
        after = _States(environment.num_nodes, piece.shape[1]) if after is None else after
        at = int(np.searchsorted(nodes, first))
        after.write(first, piece[at : at + last - first])
        if environment.stored is not None:
            environment.stored.release()
    assert after is not None
    return after


def _chunks(graph: Graph, entries: int) -> Iterator[tuple[int, int]]:
    """Runs of nodes with about so many entries, or one node."""
    rowptr, first = graph.pattern.rowptr.numpy(), 0
    while first < graph.num_nodes:
        last = int(np.searchsorted(rowptr, int(rowptr[first]) + entries, side="right")) - 1
        last = min(max(last, first + 1), first + _ROWS, graph.num_nodes)
        yield first, last
        first = last


class _States:
    """The states of all nodes: a file without a name where they are large (``TMPDIR`` says where)."""

    def __init__(self, nodes: int, width: int) -> None:
        self.values: NDArray[np.float32]
        self.file: int | None = None  # its descriptor
        if 4 * nodes * width <= _SMALL:
            self.values = np.empty((nodes, width), dtype=np.float32)
            return
        try:
            with tempfile.TemporaryFile(prefix="graphshift-") as file:
                reserve(file.fileno(), 4 * nodes * width)
                self.values = np.memmap(file, dtype=np.float32, mode="w+", shape=(nodes, width))
                if READS:
                    self.file = os.dup(file.fileno())
                    weakref.finalize(self, os.close, self.file)
        except OSError as error:
            where = Path(tempfile.gettempdir())
            raise GraphshiftError(
                f"{where}: {4 * nodes * width / 1e9:.2f} GB of hidden states cannot be written ({error.strerror}); set "
                "TMPDIR to a folder with more room."
            ) from None

    def rows(self, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
        """The states of some nodes, in memory."""
        if self.file is None:
            return self.values[nodes]
        return read_rows(self.file, nodes, self.values.shape[1:], self.values.dtype)

    def write(self, first: int, states: Tensor) -> None:
        """Keeps the states of a run of nodes, and gives their pages back."""
        self.values[first : first + len(states)] = states.numpy()
        if isinstance(self.values, np.memmap):
            self.values.flush()
            release(self.values)
