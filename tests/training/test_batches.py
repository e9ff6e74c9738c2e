"""Batches of pieces: ordinary environments, each counted node once an epoch, exact where nothing is cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphshift as gs
from graphshift.backbones import BACKBONES, make_backbone
from graphshift.data.pieces import parts_piece, sampled_piece, standing_for
from graphshift.explorers import EXPLORERS, Explorer, View, as_graph
from graphshift.methods import METHODS
from graphshift.methods.eerm import EERMMethod
from graphshift.methods.erm import ERMMethod
from graphshift.training.batches import NodeBatches, PartBatches
from graphshift.training.callbacks import Callback
from graphshift.training.method import Method
from graphshift.training.run import Run

SMALL = {"hidden_channels": 8, "epochs": 2}


@pytest.fixture(scope="module")
def whole() -> gs.ShiftDataset:
    return gs.load("planted-structure", nodes=200, tests=2)


@pytest.fixture(scope="module")
def data(whole: gs.ShiftDataset, tmp_path_factory: pytest.TempPathFactory) -> gs.ShiftDataset:
    return gs.partition(whole, tmp_path_factory.mktemp("partition") / "p", parts=6, by="streaming")


def backbone(e: gs.Environment, name: str = "gcn"):
    torch.manual_seed(0)
    return make_backbone(name, e.num_features, e.task.out_channels, hidden_channels=8, num_layers=2, dropout=0.0)


def gradients(method: Method, *batches: gs.Environment) -> list[torch.Tensor]:
    """The gradient of one step; the optimiser's own step is left out."""
    found: list[torch.Tensor] = []
    method.descend = lambda: found.extend(p.grad.clone() for p in method.backbone.parameters())  # type: ignore[method-assign, union-attr, misc]
    method.step(batches, 0.0)
    method.optimizer.zero_grad()
    return found


def method_of(kind: str, network) -> Method:
    return ERMMethod(network, gs.ERM()) if kind == "erm" else EERMMethod(network, gs.EERM(explorer=kind, views=3))


@pytest.mark.parametrize("kind", ["erm", "random", "reinforce", "gradient"])
def test_one_batch_with_the_whole_graph_has_the_full_gradient(data: gs.ShiftDataset, kind: str) -> None:
    e = data.train[0]
    (batch,) = PartBatches(6)([e], 1)
    assert batch[0].whole is e
    full = gradients(method_of(kind, backbone(e)), e)
    pieces = gradients(method_of(kind, backbone(e)), *batch)
    for a, b in zip(full, pieces, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)
    every = torch.arange(e.num_nodes)
    (batch,) = NodeBatches(e.num_nodes, (1000, 1000))([e], 1)
    assert torch.equal(batch[0].rows, every)  # type: ignore[arg-type]
    for a, b in zip(full, gradients(method_of(kind, backbone(e)), *batch), strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)


def cliques(count: int, size: int) -> gs.Environment:
    generator = torch.Generator().manual_seed(0)
    a = torch.block_diag(*[torch.ones(size, size)] * count).fill_diagonal_(0)
    x = torch.randn(count * size, 5, generator=generator)
    y = torch.randint(0, 3, (count * size,), generator=generator)
    mask = torch.rand(count * size, generator=generator) < 0.7
    return gs.Environment("cliques", Data(x=x, edge_index=a.nonzero().t(), y=y, mask=mask), gs.Task("multiclass", 3))


@pytest.mark.parametrize("name", ["sgc", "gcnii", "gprgnn", "mlp"])  # the others normalise over the batch
def test_the_mean_over_batches_without_cut_edges_is_the_full_gradient(tmp_path: Path, name: str) -> None:
    whole = cliques(6, 8)
    e = gs.partition(gs.ShiftDataset("d", [whole]), tmp_path / "p", parts=6, by="streaming").train[0]
    assert e.stored is not None
    assert all(not len(e.stored.halo(p)) for p in range(6))
    full = gradients(method_of("erm", backbone(whole, name)), whole)
    total = [torch.zeros_like(g) for g in full]
    seen = 0
    for batch in PartBatches(2)([e], 1):
        share = batch[0].counted.numel() / int(whole.mask.sum())
        for sum_, g in zip(total, gradients(method_of("erm", backbone(whole, name)), *batch), strict=True):
            sum_ += share * g
        seen += batch[0].counted.numel()
    assert seen == int(whole.mask.sum())
    for a, b in zip(full, total, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batches", [PartBatches(2, seed=1), NodeBatches(30, (3, 2), seed=1)])
def test_every_counted_node_is_in_one_batch_of_an_epoch(data: gs.ShiftDataset, batches) -> None:
    e = data.train[0].replace(mask=torch.rand(200, generator=torch.Generator().manual_seed(0)) < 0.5)
    epochs = []
    for epoch in (1, 2, 1):
        rows = [b.rows[b.mask] for batch in batches([e], epoch) for b in batch]
        assert torch.equal(torch.cat(rows).sort().values, e.counted)
        epochs.append(torch.cat(rows))
    assert torch.equal(epochs[0], epochs[2])
    assert not torch.equal(epochs[0], epochs[1])


def test_a_piece_has_the_wholes_numbers_and_its_halo_does_not_count(data: gs.ShiftDataset) -> None:
    e = data.train[0]
    assert e.stored is not None
    part = parts_piece(e, [1, 4])
    rows = part.rows
    assert rows is not None
    assert part.y is not None
    assert e.y is not None
    begin = e.stored.begin
    own = torch.cat([torch.arange(begin[p], begin[p + 1]) for p in (1, 4)])
    assert torch.equal(rows[part.mask], own)
    assert torch.equal(part.y, e.y[rows])
    assert isinstance(e.x, torch.Tensor)
    assert torch.equal(part.x, e.x[rows])  # type: ignore[arg-type]
    a, b = (one.graph.adjacency.to_torch().to_dense() for one in (e, part))
    assert torch.equal(b, a[rows][:, rows])
    neighbours = (a[own] != 0).any(dim=0).nonzero().squeeze(1)
    assert torch.isin(neighbours, rows).all()
    again = sampled_piece(part, np.array([0, 3]), (2,), np.random.default_rng(0))  # a piece of a piece
    assert again.whole is e
    assert again.rows is not None
    assert torch.equal(e.y[again.rows], again.y)


@pytest.mark.parametrize("each", [False, True])
def test_several_graphs_share_the_batches(tmp_path: Path, each: bool) -> None:
    whole = gs.load("planted", nodes=60, environments=4)
    other = whole.val[0].replace(name="second")
    data = gs.partition(gs.ShiftDataset("d", [whole.train[0], other]), tmp_path / "p", parts=5, by="streaming")
    found = list(PartBatches(2, each=each)(data.train, 1))
    assert len(found) == (6 if each else 3)
    assert all(len(batch) == (1 if each else 2) for batch in found)
    for e in data.train:
        rows = torch.cat([b.rows[b.mask] for batch in found for b in batch if b.whole is e])  # type: ignore[index]
        assert torch.equal(rows.sort().values, e.counted)


TRAINED = [name for name, one in METHODS.items() if one.uses_backbone]


@pytest.mark.parametrize("how", [{"batch_parts": 2}, {"batch_nodes": 40, "neighbours": "4,2"}])
@pytest.mark.parametrize("method", TRAINED)
def test_every_method_trains_on_batches(data: gs.ShiftDataset, method: str, how: dict) -> None:
    own = {"target": "tests"} if METHODS[method].needs_target else {}
    first = METHODS[method](**SMALL, **how, **own).fit(data)
    second = METHODS[method](**SMALL, **how, **own).fit(data)
    assert [row["loss"] for row in first.history_] == [row["loss"] for row in second.history_]
    assert first.history_[0]["nodes"] == 200
    assert first.history_[0]["batches"] == (3 if "batch_parts" in how else 5)
    for a, b in zip(first.arrays().values(), second.arrays().values(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("explorer", list(EXPLORERS))
def test_every_explorer_works_on_batches(data: gs.ShiftDataset, explorer: str) -> None:
    model = gs.EERM("gcn", explorer=explorer, views=2, batch_parts=2, inner_steps=1, **SMALL).fit(data)
    assert all(np.isfinite(row["loss"]) for row in model.history_)


@pytest.mark.parametrize("name", list(BACKBONES))
def test_every_backbone_trains_on_batches(data: gs.ShiftDataset, name: str) -> None:
    model = gs.EERM(name, explorer="random", views=2, batch_nodes=70, neighbours="3,2", **SMALL).fit(data)
    assert all(np.isfinite(row["loss"]) for row in model.history_)


def test_an_own_explorer_that_learns_says_that_it_cannot(data: gs.ShiftDataset) -> None:
    class Own(Explorer):
        def propose(self, graph, risk=None) -> View:
            return View(as_graph(graph))

        def learn(self, view, reward) -> None:
            """Something about nodes."""

    with pytest.raises(gs.GraphshiftError, match="explorer Own learns about the nodes of one graph"):
        gs.EERM(explorer=lambda seed: Own(seed=seed), batch_parts=2, **SMALL).fit(data)


class Killed(Exception):
    pass


class KillAfter(Callback):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch(self, row) -> None:
        if row["epoch"] == self.epoch:
            raise Killed


@pytest.mark.parametrize("how", [{"batch_parts": 2}, {"batch_nodes": 40, "neighbours": "4,2"}])
@pytest.mark.parametrize("model", [gs.EERM("gcn", views=2, dropout=0.3), gs.GroupDRO("sage"), gs.DANN("gcn")])
def test_a_killed_run_ends_with_the_same_bits(data: gs.ShiftDataset, tmp_path: Path, model, how: dict) -> None:
    model = model.replace(hidden_channels=8, epochs=4, **how)
    model.fit(data, run=Run(tmp_path / "one", every=0))
    with pytest.raises(Killed):
        model.replace().fit(data, run=Run(tmp_path / "two", every=0), callbacks=[KillAfter(2)])
    resumed = model.replace().fit(data, run=Run(tmp_path / "two", every=0))
    for a, b in zip(model.arrays().values(), resumed.arrays().values(), strict=True):
        assert torch.equal(a, b)
    assert [row["loss"] for row in model.history_] == [row["loss"] for row in resumed.history_]


def test_what_does_not_fit_together_is_refused(data: gs.ShiftDataset, whole: gs.ShiftDataset) -> None:
    with pytest.raises(gs.GraphshiftError, match="graphshift partition DATA"):
        gs.ERM(batch_parts=2).fit(whole)
    with pytest.raises(gs.GraphshiftError, match="give one"):
        gs.ERM(batch_parts=2, batch_nodes=3).fit(data)
    with pytest.raises(gs.GraphshiftError, match="neighbours is 'many'"):
        gs.ERM(batch_nodes=3, neighbours="many").fit(data)
    with pytest.raises(gs.GraphshiftError, match="it needs batch_nodes"):
        gs.ERM(neighbours="3").fit(data)
    with pytest.raises(gs.GraphshiftError, match="need the CPU"):
        gs.ERM(batch_nodes=3, device="cuda").fit(data)


def test_parts_stand_for_a_graph_that_does_not_fit(data: gs.ShiftDataset, whole: gs.ShiftDataset) -> None:
    few = standing_for(data.train[0], most=60)
    assert few.whole is None
    assert 60 <= int(few.mask.sum()) < 130
    assert standing_for(whole.train[0]) is whole.train[0]
