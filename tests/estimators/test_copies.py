"""Shifted copies: what they are made of."""

from __future__ import annotations

import numpy as np
import torch

import graphshift as gs
from graphshift.estimators.copies import moved_edges, shifted_copies


def test_edges_within_a_class_lead_to_another() -> None:
    environment = gs.load("planted-structure", nodes=400).val[0]
    assert environment.y is not None

    def homophily(graph: object) -> float:
        row, column = graph.edge_index  # type: ignore[attr-defined]
        return float((environment.y[row] == environment.y[column]).double().mean())  # type: ignore[index]

    old = [homophily(environment.graph)]
    for share in (0.3, 0.7):
        made = moved_edges(environment, share, np.random.default_rng(0))
        assert made.undirected
        assert abs(made.num_edges - environment.graph.num_edges) < 0.1 * environment.graph.num_edges
        old.append(homophily(made))
    assert old[0] > old[1] + 0.05 > old[2] + 0.1


def test_copies_keep_the_graph_and_the_seed_decides() -> None:
    environment = gs.load("planted", nodes=200).val[0]
    before = environment.graph.keys.clone(), environment.x.clone()
    one, two = ([*shifted_copies(environment, np.random.default_rng(5))] for _ in range(2))
    assert {kind for kind, *_ in one} == {"none", "edges", "labels", "features", "noise", "parts", "shares"}
    for (_, a, rows), (_, b, again) in zip(one, two, strict=True):
        assert torch.equal(a.graph.keys, b.graph.keys)
        assert torch.equal(a.x, b.x)
        assert torch.equal(rows, again)
    assert torch.equal(environment.graph.keys, before[0])
    assert torch.equal(environment.x, before[1])
