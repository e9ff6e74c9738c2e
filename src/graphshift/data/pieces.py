"""Pieces of an environment: some of its nodes as an ordinary environment of their own, made when it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.data.environment import Environment, Stored
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse
from graphshift.graph.subgraphs import distinct, induced, rows_of, sampled

_SAMPLE = 100_000  # nodes that stand for a graph which does not fit into memory


def piece(environment: Environment, rows: NDArray[np.int64], graph: Graph, counted: NDArray[np.bool_]) -> Environment:
    """Some nodes of an environment, in memory; it knows what it is a piece of (``whole``) and of what rows.

    Args:
        environment: the whole; its arrays may be memory-mapped.
        rows: which nodes, increasing.
        graph: their edges; node i is ``rows[i]``.
        counted: which of them may count, ``[rows]``: those that do in the whole, and are not there for others' sake.
    """
    at = torch.from_numpy(rows)
    optional = {name: getattr(environment, name) for name in ("y", "time", "known_y", "further_y")}
    found = {name: None if value is None else value[at] for name, value in optional.items()}
    x = _features_of(environment, rows)
    mask = environment.mask[at] & torch.from_numpy(counted)
    ids = None if environment.ids is None else np.asarray(environment.ids)[rows]
    part = environment.replace(x=x, graph=graph, mask=mask, ids=ids, **found)
    part.whole, part.rows = environment.home, at if environment.rows is None else environment.rows[at]
    return part


def _features_of(environment: Environment, rows: NDArray[np.int64]) -> Tensor | Sparse:
    """The features of some nodes."""
    x, stored = environment.x, environment.stored
    if isinstance(x, Sparse):
        return rows_of(x, rows)
    return x[torch.from_numpy(rows)] if stored is None else torch.from_numpy(stored.rows("x", rows))


def parts_piece(environment: Environment, parts: Sequence[int]) -> Environment:
    """Some parts of an environment in a partition folder, with their halo: nodes that these receive from.

    Halo nodes are seen by others and count in nobody's risk. All edges among the nodes are there.
    """
    stored = stored_of(environment)
    chosen = sorted(parts)
    own = np.concatenate([np.arange(stored.begin[p], stored.begin[p + 1]) for p in chosen])
    rows = distinct(np.concatenate([own, *(stored.halo(p) for p in chosen)]))
    return piece(environment, rows, induced(environment.graph, rows), np.isin(rows, own, assume_unique=True))


def sampled_piece(
    environment: Environment, seeds: NDArray[np.int64], fanout: Sequence[int], generator: np.random.Generator
) -> Environment:
    """Some nodes with a sample of their neighbours (:func:`~graphshift.graph.subgraphs.sampled`), which do not count.

    Args:
        environment: the whole.
        seeds: the nodes that count, increasing.
        fanout: how many neighbours at each hop.
        generator: that draws.
    """
    rows, graph = sampled(environment.graph, seeds, fanout, generator)
    return piece(environment, rows, graph, np.isin(rows, seeds, assume_unique=True))


def standing_for(environment: Environment, most: int = _SAMPLE) -> Environment:
    """An environment that fits into memory: itself, or of one in a partition folder parts drawn at random.

    What looks at all nodes and edges at once (calibration, the estimate of a score, the comparison of two graphs) looks
    at these. The parts hold about ``most`` nodes; their halo is beside them and does not count.
    """
    if environment.stored is None:
        return environment
    few, order = _drawn(environment.stored, most)
    found = parts_piece(environment, few.tolist())
    environment.stored.release()
    if not bool(found.mask.any()):
        raise GraphshiftError(
            f"environment {environment.name!r}: no node counts in {len(few)} of its {len(order)} parts, which were "
            "drawn to stand for it; make a partition with larger parts."
        )
    found.whole = found.rows = None
    return found


def _drawn(stored: Stored, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Parts in a random order, as many as hold about so many nodes; and all of them."""
    order = np.random.default_rng(derive_seed(0, 6)).permutation(len(stored.begin) - 1)
    nodes = np.cumsum(np.diff(stored.begin)[order])
    return order[: int(np.searchsorted(nodes, most)) + 1], order


def remarks_on(environments: Iterable[Environment]) -> list[str]:
    """What to say of environments for which parts stand."""
    found = []
    for e in environments:
        if e.stored is not None:
            few, order = _drawn(e.stored, _SAMPLE)
            found.append(f"{e.name} is in a partition folder: {len(few)} of its {len(order)} parts stand for it")
    return found


def stored_of(environment: Environment) -> Stored:
    """Where its parts are."""
    if environment.stored is None:
        raise GraphshiftError(
            f"environment {environment.name!r} is not in parts: graphshift partition DATA --parts P --out FOLDER makes "
            "them (gs.partition), and `graphshift fit FOLDER` trains on them."
        )
    return environment.stored
