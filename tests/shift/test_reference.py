"""What an unlabelled graph shows of its edges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import graphshift as gs
from graphshift.shift.matching import MOVES, matched_copies
from graphshift.shift.moving import class_pairs
from graphshift.shift.reference import reference_of, said_pairs, true_pairs


def test_what_is_said_of_both_ends_is_a_dense_sum() -> None:
    random = np.random.default_rng(0)
    dense = np.triu(random.random((30, 30)) < 0.4, 1).astype(float)
    dense += dense.T
    said = random.dirichlet(np.ones(3), 30)
    found = said_pairs(scipy.sparse.csr_array(dense), said)
    expected = sum(np.outer(said[i], said[j]) for i in range(30) for j in range(30) if dense[i, j])
    assert found == pytest.approx(expected / dense.sum())
    assert said_pairs(scipy.sparse.csr_array((30, 30)), said) is None


def test_confusions_are_taken_out() -> None:
    random = np.random.default_rng(0)
    table = random.random((4, 4)) + np.eye(4)
    table = (table + table.T) / (table + table.T).sum()
    confusion = 0.6 * np.eye(4) + 0.4 * random.dirichlet(np.ones(4), 4)
    seen = confusion.T @ table @ confusion
    found = true_pairs(seen, confusion, np.full((4, 4), 1 / 16), rounds=20_000)
    assert found == pytest.approx(table, abs=2e-3)
    assert true_pairs(seen, np.eye(4), table) == pytest.approx(seen)


def test_the_target_shows_which_classes_its_edges_join() -> None:
    data = gs.load("planted-structure", nodes=1500)
    own = data.val[0]
    reference = reference_of(own)
    assert reference_of(own) is reference  # learned once
    for e in data.tests[1::3]:
        assert e.y is not None
        truth = class_pairs(e.graph, e.y.numpy(), 3)
        found = reference.pairs_of(e.replace(y=None), own)
        assert found is not None
        assert np.trace(found) == pytest.approx(np.trace(truth) / truth.sum(), abs=0.15)


def test_features_that_say_nothing_give_no_reference() -> None:
    data = gs.load("planted-structure", nodes=400)
    own = data.val[0]
    blind = own.replace(x=own.x * 0)
    reference = reference_of(blind)
    assert reference.model is None
    assert reference.pairs_of(data.tests[0], blind) is None
    assert set(matched_copies(blind, reference, data.tests[0])) == {"features", "both"}


def test_copies_are_moved_and_the_graph_is_not() -> None:
    data = gs.load("planted-structure", nodes=900)
    own, target = data.val[0], data.tests[-1]
    before = own.graph.keys.clone(), own.x.clone()
    found = matched_copies(own, reference_of(own), target)
    assert set(found) == set(MOVES)
    assert own.graph.keys.equal(before[0])
    assert own.x.equal(before[1])
    assert own.y is not None
    tables = {move: class_pairs(copy.graph, own.y.numpy(), 3) for move, copy in found.items()}
    shares = {move: np.trace(pairs) / pairs.sum() for move, pairs in tables.items()}
    assert shares["features"] == pytest.approx(0.6, abs=0.05)
    assert max(shares["edges"], shares["both"]) < 0.35
    again = matched_copies(own, reference_of(own), target.replace(y=None))
    assert all(again[move].graph.keys.equal(copy.graph.keys) for move, copy in found.items())
