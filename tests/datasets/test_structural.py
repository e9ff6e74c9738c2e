"""``cora-by`` and the others: a graph's own labels, split by a property of its nodes."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.datasets import DATASETS, structural
from graphshift.datasets.reading.raw_graph import RawGraph
from graphshift.lab.paper.reproducing import absent

NAMES = ("cora-by", "photo-by", "pubmed-by")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> RawGraph:
    """Takes the place of the three graphs; one node has no label."""
    planted = gs.load("planted", nodes=200, environments=3).train[0]
    y = planted.y.clone()
    y[7] = -1
    raw = RawGraph(planted.x, y, planted.graph.edge_index)
    monkeypatch.setattr(structural, "planetoid_graph", lambda *_: (raw, {}))
    monkeypatch.setattr(structural, "photo_graph", lambda *_: raw)
    return raw


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("by", ["degree", "density"])
def test_it_is_the_graph_split_by_the_property(name: str, by: str, made: RawGraph) -> None:
    data = gs.load(name, by=by, tests=2, seed=3, alike=True)
    whole = Data(x=made.x, edge_index=made.edge_index, y=made.y, mask=made.y >= 0)
    expected = gs.split_by(whole, by, tests=2, seed=3)
    assert [e.name for e in data.tests] == ["alike", "T1", "T2"]
    for ours, theirs in zip(data.environments, expected.environments, strict=True):
        assert torch.equal(ours.mask, theirs.mask)
        assert torch.equal(ours.labels, made.y[theirs.mask])
        assert not ours.mask[7]
    assert data.task.num_classes == int(made.y.max()) + 1
    assert [e.name for e in gs.load(name, by=by).tests] == ["T1", "T2", "T3"]
    with pytest.raises(GraphshiftError, match="Did you mean 'degree'"):
        gs.load(name, by="degre")


@pytest.mark.parametrize(
    ("name", "nodes", "classes"), [("cora-by", 2708, 7), ("photo-by", 7650, 8), ("pubmed-by", 19717, 3)]
)
def test_the_real_graphs_have_their_own_labels(name: str, nodes: int, classes: int) -> None:
    if why := absent(name, None):
        pytest.skip(why)
    data = gs.load(name, by="degree")
    assert data.train[0].num_nodes == nodes
    assert data.task.num_classes == classes
    degrees = data.train[0].graph.pattern.rowptr.diff().float()
    means = [float(degrees[e.mask].mean()) for e in (data.train[0], *data.tests)]
    assert means == sorted(means, reverse=True)  # the further, the fewer neighbours


def test_the_catalogue_has_them() -> None:
    assert {DATASETS[name].shift for name in NAMES} == {"structural"}
    assert not [source.path for source in DATASETS["pubmed-by"].sources if "year" in source.path]
