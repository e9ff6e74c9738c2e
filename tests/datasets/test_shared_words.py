"""The joint word space: against a dense SVD of TF-IDF, and what it says of itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.data.dataset import SEEN
from graphshift.datasets.shared_words import shared_words
from graphshift.graph.sparse import Sparse


def words(*, sparse: bool) -> gs.ShiftDataset:
    data = gs.load("planted", nodes=60, environments=4)
    random = torch.Generator().manual_seed(0)
    counts = [torch.poisson(torch.rand(60, 20, generator=random), generator=random) for _ in range(3)]
    counts = [counts[0], counts[0], *counts[1:]]  # validation shares the training graph's features
    x = [Sparse.from_torch(c.to_sparse_csr()) for c in counts] if sparse else counts
    x[1] = x[0]
    made = [e.replace(x=one) for e, one in zip(data.environments, x, strict=True)]
    return gs.ShiftDataset("words", made[:1], made[1:2], made[2:])


def test_it_is_the_svd_of_tf_idf_of_source_and_target() -> None:
    data = words(sparse=False)
    found = shared_words(data, width=12)  # with the oversampling of the randomised SVD, all directions: exact
    counts = np.concatenate([e.x.numpy() for e in (*data.train, *data.tests)]).astype(float)
    tf = np.where(counts > 0, 1 + np.log(np.where(counts > 0, counts, 1)), 0)
    weighted = tf * (np.log((1 + len(counts)) / (1 + (counts > 0).sum(0))) + 1)
    weighted /= np.linalg.norm(weighted, axis=1, keepdims=True)
    _, _, directions = np.linalg.svd(weighted, full_matrices=False)
    expected = weighted @ directions[:12].T
    expected /= np.sqrt(np.square(expected).mean())
    own = np.concatenate([e.x.numpy() for e in (*found.train, *found.tests)])
    np.testing.assert_allclose(own @ own.T, expected @ expected.T, atol=1e-3)  # up to signs
    assert torch.equal(found.val[0].x, found.train[0].x)
    assert found.facts[SEEN] == [e.name for e in data.tests]


def test_sparse_and_dense_are_one() -> None:
    both = [shared_words(words(sparse=sparse), width=5).tests[1].x for sparse in (True, False)]
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5)


def test_every_arm_on_such_features_is_marked() -> None:
    from graphshift.studies import Arm, Plan, run_study

    data = shared_words(words(sparse=True), width=5)
    study = run_study(Plan(data, [Arm("ERM", {"method": "erm", "epochs": 2})], [0]), workers=0, threads=1)
    assert study.records[0].trained_with == [e.name for e in data.tests]


def test_what_cannot_be_is_refused() -> None:
    data = words(sparse=False)
    with pytest.raises(GraphshiftError, match="width is 20; expected 1 to 19"):
        shared_words(data, width=20)
    with pytest.raises(GraphshiftError, match="negative"):
        shared_words(gs.load("planted", nodes=60, environments=3), width=5)
