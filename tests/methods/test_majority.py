"""The largest class: shares are counted over all training graphs."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.methods.majority import training_shares
from small import environments


def test_shares_are_those_of_all_counted_nodes() -> None:
    first, second = environments(2)
    counts = [0, 0, 0]
    for environment in (first, second):
        for label, counted in zip(environment.y.tolist(), environment.mask.tolist(), strict=True):
            counts[label] += counted
    expected = np.array(counts) / sum(counts)
    np.testing.assert_allclose(training_shares([first, second]), expected)
    model = gs.Majority(selection="last").fit([first, second])
    np.testing.assert_allclose(model.predict_proba(first), np.tile(expected, (first.num_nodes, 1)))
    assert set(model.predict(first)) == {int(expected.argmax())}
    assert model.score(first) == float((first.labels == int(expected.argmax())).double().mean())


def test_values_have_a_mean() -> None:
    ends = torch.tensor([[0, 1], [1, 0]])
    data = Data(x=torch.zeros(3, 1), edge_index=ends, y=torch.tensor([1.0, 2.0, 9.0]))
    model = gs.Majority(selection="last").fit(data)
    assert model.predict(data).tolist() == [4.0, 4.0, 4.0]
