"""Block ``structure``: degree, clustering and core number of nodes; density and components of the graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshift.shift.comparing.block import Block
from graphshift.shift.comparing.halving import Halves, inflation
from graphshift.shift.comparing.parts import Array, exchange_test, t_values
from graphshift.shift.comparing.sides import STRUCTURE, Pair, Side
from graphshift.shift.comparing.telling import tell_apart

_MEASURE = "AUC of telling nodes apart by their place in the graph"
_TESTED = (*STRUCTURE[:2], "spread of degrees", "clustering by degree")
_FRAGMENT = 10  # nodes: a component with fewer is a leftover
_FRAGMENTED = 0.2  # more nodes of one graph than of the other in such components


def structure_block(pair: Pair, halves: Halves) -> Block:
    """Compares where the counted nodes stand in their graphs; ``halves`` say how much these differ by themselves."""
    parts, table = pair.parts, _table(pair)
    told = tell_apart(pair, table)  # for its effect: what it tells by, hubs and all, is not a matter of parts
    by_column = inflation(
        halves, lambda half: t_values(_totals(half, _table(half)), half.parts.sizes, half.parts.target)
    )
    columns = exchange_test(_totals(pair, table), parts.sizes, parts.target, inflation=by_column, seed=pair.seed)
    facts = [_facts(side) for side in pair.sides]
    found: list[dict[str, Any]] = [
        {"column": name, "p": float(columns.p[i]), "t": float(columns.t[i])} for i, name in enumerate(_TESTED)
    ]
    a, b = facts
    says = (
        f"By their place in the graph nodes are told apart with an AUC of {told.auc:.2f}; mean degree "
        f"{a['mean_degree']:.1f} → "
        f"{b['mean_degree']:.1f}, clustering {a['clustering']:.2f} → {b['clustering']:.2f}, nodes without edges "
        f"{100 * a['isolated']:.0f} → {100 * b['isolated']:.0f} %."
    )
    caveats = []
    if told.sampled:
        caveats.append(f"the classifier saw {told.sampled:,} sampled nodes of {len(parts.number):,}")
    fragments = [fact["in_fragments"] for fact in facts]
    if abs(fragments[0] - fragments[1]) > _FRAGMENTED:
        where = "target" if fragments[1] > fragments[0] else "source"
        caveats.append(
            f"{100 * max(fragments):.0f} % of the {where}'s nodes are in components of fewer than {_FRAGMENT} nodes "
            f"({100 * min(fragments):.0f} % in the other): has its edge table lost edges?"
        )
    details = {"columns": found, "source": a, "target": b}
    return Block(
        "structure",
        _MEASURE,
        effect=told.auc,
        none=0.5,
        low=told.low,
        high=told.high,
        p=columns.overall,
        evidence=columns.evidence,
        says=says,
        details=details,
        caveats=tuple(caveats),
    )


def _table(pair: Pair) -> Array:
    # The core number depends on the whole graph, so parts are no independent draws of it: it is shown and not tested.
    local = np.asarray(pair.counted((pair.source.local_structure, pair.target.local_structure)))
    centred = local - local.mean(axis=0)
    return np.column_stack([local, centred[:, 0] ** 2, centred[:, 0] * centred[:, 1]])


def _totals(pair: Pair, table: Array) -> Array:
    return pair.given_classes(pair.parts.total(table), table)


def _facts(side: Side) -> dict[str, Any]:
    counted = side.counted
    degree, nodes = side.degree, side.matrix.shape[0]
    sizes = side.component_sizes
    edges = np.unique(np.concatenate([[0, 1, 2, 3, 4, 6, 8], 2.0 ** np.arange(3.5, 22, 0.5)]).round())
    shares = np.histogram(degree[counted], np.append(edges, np.inf))[0] / counted.sum()
    last = int(np.flatnonzero(shares).max()) + 1 if shares.any() else 1
    return {
        "nodes": nodes,
        "counted": int(counted.sum()),
        "edges": side.matrix.nnz // 2,
        "mean_degree": float(degree[counted].mean()),
        "clustering": float(side.structure[counted, 1].mean()),
        "core_number": float(np.expm1(side.structure[counted, 2]).mean()),
        "density": side.matrix.nnz / max(nodes * (nodes - 1), 1),
        "isolated": float((degree[counted] == 0).mean()),
        "components": int(len(np.unique(sizes)) and round(float((1 / sizes).sum()))),
        "largest_component": float(sizes.max() / nodes),
        "in_fragments": float((sizes[counted] < _FRAGMENT).mean()),
        "degrees": {"from": edges[:last].tolist(), "share": shares[:last].tolist()},
    }
