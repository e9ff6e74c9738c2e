"""What data say about failures: edges between unlike nodes, and classes that are coded differently."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.data.diagnosis import homophily, remarks


def environment(name: str, codes: list[int], *, same: float, sparse: bool = False, seed: int = 0) -> gs.Environment:
    """Three classes with means of their own; a share of edges joins nodes of one class."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, 3, (300,), generator=generator)
    x = torch.eye(3)[kind] * 3 + torch.rand(300, 3, generator=generator)
    ends = torch.randint(0, 300, (2, 6000), generator=generator)
    alike = kind[ends[0]] == kind[ends[1]]
    kept = torch.rand(6000, generator=generator) < torch.where(alike, same, (1 - same) / 2)
    features = x.to_sparse_csr() if sparse else x
    return gs.Environment(name, Data(x=features, edge_index=ends[:, kept], y=torch.tensor(codes)[kind]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sparse", [False, True])
def test_classes_that_are_coded_otherwise_are_noticed(sparse: bool) -> None:
    train = environment("a", [0, 1, 2], same=0.8, sparse=sparse)
    alike = environment("b", [0, 1, 2], same=0.8, sparse=sparse, seed=1)
    swapped = environment("c", [1, 2, 0], same=0.8, sparse=sparse, seed=2)
    assert remarks(gs.ShiftDataset("d", [train], [alike])) == []
    (found,) = remarks(gs.ShiftDataset("d", [train], [alike, swapped]))
    assert found.startswith("In 'c' 3 of 3 classes look like other classes of training: check that the class codes")


@pytest.mark.filterwarnings("ignore")
def test_features_that_say_nothing_look_like_no_other_class() -> None:
    """The means of three random groups in two directions point somewhere, and often to another class's."""
    shared = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))

    def useless(name: str, seed: int) -> gs.Environment:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(200, 2, generator=generator) @ shared
        y = torch.randint(0, 3, (200,), generator=generator)
        return gs.Environment(name, Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.int64), y=y))

    train = useless("a", 0)
    val = [useless(f"b{seed}", seed) for seed in range(1, 21)]
    assert remarks(gs.ShiftDataset("d", [train], val)) == []


@pytest.mark.filterwarnings("ignore")
def test_edges_between_unlike_nodes_are_noticed() -> None:
    low = environment("a", [0, 1, 2], same=0.05)
    (found,) = remarks(gs.ShiftDataset("d", [low]))
    share, chance = homophily([low]) or (1.0, 1.0)
    ends, y = low.graph.edge_index, low.y
    assert y is not None
    assert share == pytest.approx(float((y[ends[0]] == y[ends[1]]).float().mean()))
    assert chance == pytest.approx(1 / 3, abs=0.02)
    assert f"In training {100 * share:.0f} % of edges join nodes of one class (33 % by chance)" in found
    assert "GCN" in found


@pytest.mark.filterwarnings("ignore")
def test_test_labels_are_not_looked_at() -> None:
    train = environment("a", [0, 1, 2], same=0.8)
    swapped = environment("c", [1, 2, 0], same=0.8, seed=2)
    assert remarks(gs.ShiftDataset("d", [train], [], [swapped])) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_two_graphs_have_in_common_are_noticed(sparse: bool) -> None:
    """As in the WebKB files that PyG downloads: one university has the other's features."""
    cornell = environment("Cornell", [0, 1, 2], same=0.8, sparse=sparse)
    other = environment("other", [0, 1, 2], same=0.8, sparse=sparse, seed=1)
    texas = cornell.replace(name="Texas", graph=other.graph)
    (found,) = remarks(gs.ShiftDataset("d", [cornell], [texas]))
    assert found.startswith("'Cornell' and 'Texas' have the same features and other edges")
    assert remarks(gs.ShiftDataset("d", [cornell], [cornell.replace(name="val")])) == []  # one graph, other nodes
    assert remarks(gs.ShiftDataset("d", [cornell], [other])) == []


@pytest.mark.parametrize("name", ["planted", "planted-structure", "planted-motif", "cbas"])
def test_data_that_are_made_are_no_copies(name: str) -> None:
    assert not [said for said in remarks(gs.load(name)) if "same features" in said]
