"""Prediction layer by layer, piece by piece, equals the whole forward pass."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.backbones import BACKBONES, in_chunks, make_backbone
from graphshift.backbones.in_chunks import output_in_chunks
from small import OwnModule


def environment(*, directed: bool, edge_features: bool = False, sparse: bool = False) -> gs.Environment:
    generator = torch.Generator().manual_seed(0)
    a = torch.rand(90, 90, generator=generator) < 0.06
    a = (a if directed else a | a.t()).fill_diagonal_(False)
    a[:, 5] = a[5] = False  # a node without neighbours
    x = torch.randn(90, 7, generator=generator)
    data = Data(x=x.relu().to_sparse_csr() if sparse else x, edge_index=a.nonzero().t(), y=torch.arange(90) % 3)
    weight = torch.rand(90, 90, generator=generator) + 0.1
    data.edge_weight = (weight if directed else weight + weight.t())[a]
    if edge_features:
        data.edge_attr = torch.randn(int(a.sum()), 2, generator=generator)
    return gs.Environment("g", data)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", list(BACKBONES))
def test_every_backbone_gives_the_whole_forward_pass(
    name: str, directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_chunks, "_SMALL", 0)  # states go to files
    usable = BACKBONES.find(name).uses_edge_features
    e = environment(directed=directed, edge_features=usable, sparse=not directed)
    for layers in (1, 3):
        torch.manual_seed(1)
        network = make_backbone(name, 7, 3, hidden_channels=6, num_layers=layers, dropout=0.5, edge_channels=2 * usable)
        for _ in range(3):  # running statistics of its own
            network.train()(e.x, e.graph)
        network.eval()
        with torch.no_grad():
            whole = network(e.x, e.graph)
        for entries in (1, 40, 10**6):
            assert torch.allclose(output_in_chunks(network, e, entries=entries), whole, rtol=1e-4, atol=1e-5)


def test_no_more_than_a_chunk_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    e, largest = environment(directed=False), []
    true = in_chunks.receiving

    def watched(graph, first, last, degree):
        nodes, found = true(graph, first, last, degree)
        largest.append(found.num_edges)
        return nodes, found

    monkeypatch.setattr(in_chunks, "receiving", watched)
    network = make_backbone("gcn", 7, 3, hidden_channels=6, num_layers=2, dropout=0.0).eval()
    output_in_chunks(network, e, entries=40)
    widest = int(e.graph.pattern.rowptr.diff().max())
    assert max(largest) <= max(40, widest)
    assert sum(largest) == 2 * e.graph.num_edges


def test_too_little_room_for_states_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(in_chunks, "_SMALL", 0)
    monkeypatch.setattr(in_chunks, "reserve", full)
    network = make_backbone("gcn", 7, 3, hidden_channels=6, num_layers=2, dropout=0.0).eval()
    with pytest.raises(gs.GraphshiftError, match=r"hidden states cannot be written .*No space.* set TMPDIR"):
        output_in_chunks(network, environment(directed=False))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> gs.ShiftDataset:
    whole = gs.load("planted-structure", nodes=200, tests=2)
    return gs.partition(whole, tmp_path_factory.mktemp("partition") / "p", parts=6, by="streaming")


@pytest.mark.parametrize("backbone", ["sage", OwnModule(24, 4)])
def test_a_model_predicts_a_partition_as_the_whole(data: gs.ShiftDataset, backbone) -> None:
    whole = gs.load("planted-structure", nodes=200, tests=2)
    if isinstance(backbone, torch.nn.Module):
        backbone = OwnModule(whole.train[0].num_features, whole.task.out_channels)
    model = gs.ERM(backbone, epochs=4, hidden_channels=8).fit(whole)
    for e, stored in zip(whole.tests, data.tests, strict=True):
        order = np.asarray(stored.stored.arrays["order"])  # type: ignore[union-attr]
        assert np.allclose(model.predict_proba(e)[order], model.predict_proba(stored), atol=1e-5)
        assert model.score(e) == pytest.approx(model.score(stored), abs=1e-6)
    if backbone == "sage":
        with pytest.raises(gs.GraphshiftError, match="needs all of it at once"):
            model.score(data.tests, adapt="norm")


def test_scores_are_estimated_and_shift_is_named_from_parts(
    data: gs.ShiftDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphshift.data import pieces

    monkeypatch.setattr(pieces.standing_for, "__defaults__", (120,))
    model = gs.ERM("sage", epochs=5, hidden_channels=8, batch_parts=2).fit(data)
    found = model.estimate_score(data.tests)
    assert isinstance(found, dict)
    assert set(found) == {e.name for e in data.tests}
    assert gs.compare_graphs(data.train[0], data.tests[1]).blocks
