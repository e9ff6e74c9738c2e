"""What is unusual and not wrong: mentioned by a fit, which goes on."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError, GraphshiftWarning
from reference import random_data


def graph(labels: list[float] | torch.Tensor, scale: float = 1.0) -> Data:
    data = random_data(12, features=3)
    x = data.x.clone()
    x[:, 1] *= scale
    return Data(x=x, edge_index=data.edge_index, y=torch.as_tensor(labels))


ONE = [0] * 11 + [1]


@pytest.mark.parametrize(
    ("train", "val", "remark"),
    [
        (ONE, ONE, "class 1 has one training node"),
        ([0, 1] * 6, [0] * 12, "class 1 has no validation node"),
        ([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 3], [0, 1] * 6, r"2 classes \(2, 3\) have each one training node"),
        ([2.5] * 12, [2.5] * 12, "all training nodes have the label 2.5"),
    ],
)
def test_labels_are_mentioned(train: list[float], val: list[float], remark: str) -> None:
    with pytest.warns(GraphshiftWarning, match=f"fit: .*{remark}"):
        model = gs.ERM(epochs=2, hidden_channels=4).fit(graph(train), val=graph(val))
    assert model.best_epoch_ in (1, 2)


@pytest.mark.filterwarnings("ignore:fit. class 1 of 2")
def test_one_class_alone_is_mentioned() -> None:
    with pytest.warns(GraphshiftWarning, match="fit: all training nodes are of class 0"):
        gs.ERM(epochs=2, hidden_channels=4).fit(graph([0] * 12), val=graph([0] * 12))


def test_classes_are_called_by_their_names(tmp_path: Path) -> None:
    label = ["rare", *["often", "sometimes"] * 6]
    columns = {"id": range(13), "x": [0.1 * i for i in range(13)], "label": label, "place": ["here"] * 13}
    pd.DataFrame(columns).to_csv(tmp_path / "nodes.csv", index=False)
    pd.DataFrame({"source": [0, 1, 2, 3], "target": [4, 5, 6, 7]}).to_csv(tmp_path / "edges.csv", index=False)
    data = gs.from_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", environments="place", train=["here"])
    with pytest.warns(GraphshiftWarning, match="fit: class 'rare' has one training node"):
        gs.ERM(epochs=1, hidden_channels=4, selection="last").fit(data)


def test_usual_labels_are_not_mentioned() -> None:
    gs.ERM(epochs=1, hidden_channels=4).fit(graph([0, 1] * 6), val=graph([1, 0] * 6))


@pytest.mark.parametrize("scale", [1e20, 1e30, 1e37])
@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_are_too_large_are_named(scale: float, sparse: bool) -> None:
    data = graph([0, 1] * 6, scale)
    if sparse:
        data.x = data.x.to_sparse_csr()
    with pytest.raises(GraphshiftError, match=r"column 1 of `x` in environment 'train' reaches .*Scale the columns"):
        gs.ERM(epochs=3, hidden_channels=4, selection="last").fit(data)
