"""The rule ``explored``: the score after edits that raise the present model's risk on the validation graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import graphshift as gs
from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.data.environment import Environment
from graphshift.explorers import Gradient
from graphshift.graph.graph import Graph
from graphshift.methods import ERMMethod, Method
from graphshift.methods.erm import ERM
from graphshift.training.run import Run
from graphshift.training.selection import adversarially_edited, explored_score, mean_score
from small import environments, identical, split


def trained(backbone: str = "sage", **options: object) -> tuple[Method, Environment]:
    train, val = environments(2, nodes=80)
    torch.manual_seed(0)
    network = ERM(backbone, hidden_channels=6, **options).new_backbone(5, train.task)
    method = ERMMethod(network, ERM(lr=0.05))
    for _ in range(20):
        method.step([train], 0.0)
    return method, val


@pytest.mark.parametrize("backbone", ["sage", "gcn", "gat", "gcnii", "gprgnn", "sgc"])
def test_the_score_is_that_of_the_edited_graph(backbone: str) -> None:
    """As an explorer that is asked by hand makes it, with as many pairs as there are edges as its budget."""
    method, val = trained(backbone)
    before = {name: tensor.clone() for name, tensor in method.backbone.state_dict().items()}
    found = explored_score(method, [val], 7)
    network = method.backbone.eval()
    edges = val.graph.num_edges // 2 if val.graph.undirected else val.graph.num_edges
    explorer = Gradient(1, aim="raise", budget=edges, seed=derive_seed(7, 0))
    stem = network.stem(val.x).detach()
    view = explorer.propose(val.graph, lambda graph: val.risk(network.propagate(stem, graph)))
    assert 0 < view.flips.numel() <= 2 * edges
    assert found == val.score(network(val.x, view.graph).detach())
    assert val.risk(network(val.x, view.graph)) > val.risk(network(val.x, val.graph))
    assert identical(method.backbone.state_dict(), before)
    assert all(p.grad is None or not p.grad.any() for p in network.parameters())
    assert explored_score(method, [val], 7) == found
    plain = mean_score(method, [val], 7)
    assert plain is not None
    assert found is not None
    assert found < plain


def test_a_backbone_that_sees_no_edges_has_its_plain_score() -> None:
    method, val = trained("mlp")
    assert explored_score(method, [val], 1) == mean_score(method, [val], 1)


class Own(torch.nn.Module):
    """A module of a user's own that takes no edge weights."""

    def __init__(self, *, looks: bool) -> None:
        super().__init__()
        self.linear, self.looks = torch.nn.Linear(5, 3), looks

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.linear(x)
        return h.index_add(0, edge_index[1], h[edge_index[0]]) if self.looks else h


def test_a_module_that_cannot_be_explored_is_refused_and_one_without_edges_has_its_plain_score() -> None:
    """Taken for the plain score, the rule would do nothing and not say so."""
    train, val = environments(2, nodes=80)
    settings = {"epochs": 3, "selection": "explored"}
    with pytest.raises(GraphshiftError, match="selection 'explored' needs a backbone whose output depends on edge"):
        gs.ERM(Own(looks=True), **settings).fit(train, val)
    torch.manual_seed(0)
    model = gs.ERM(Own(looks=False), **settings).fit(train, val)
    assert model.best_score_ == model.score(val)


def test_a_fit_keeps_the_epoch_of_the_best_explored_score(tmp_path: Path) -> None:
    train, val, other = environments(3, nodes=80)
    settings = {"backbone": "sage", "epochs": 15, "lr": 0.05, "hidden_channels": 6}
    alone = gs.ERM(**settings, selection="explored").fit(train, [val, other])
    beside = gs.ERM(**settings, selection="val").fit(train, [val, other], also=["explored"])
    scores = [row["val"] for row in alone.history_]
    assert alone.best_epoch_ == 1 + scores.index(max(scores))
    assert alone.best_score_ == max(scores)
    assert [row["explored"] for row in beside.history_] == scores
    chosen = beside.also_["explored"]
    assert (chosen.epoch, chosen.score) == (alone.best_epoch_, alone.best_score_)
    assert identical(chosen.weights, alone.backbone_.state_dict())
    assert [row["val"] for row in beside.history_] != scores
    kept = gs.ERM(**settings, selection="explored").fit(train, [val, other], run=Run(tmp_path / "run", every=0.0))
    assert [row["val"] for row in kept.history_] == scores


def test_held_out_nodes_have_every_class() -> None:
    """Of a rare class at least one node, whatever the seed: else a ranking score is not defined."""
    (e,) = environments(1, nodes=200)
    labels = torch.zeros(200, dtype=torch.int64)
    labels[:5], labels[5:55] = 1, 2
    e = e.replace(y=labels, mask=torch.ones(200, dtype=torch.bool))
    for seed in range(20):
        (kept,), (held,) = split("id_val", [e], [], [], seed)
        assert int(held.mask.sum()) == 40
        assert int(kept.mask.sum()) == 160
        assert all(int((part.labels == 1).sum()) >= 1 for part in (kept, held))
        assert not (kept.mask & held.mask).any()


@pytest.mark.parametrize("rare", [1, 2, 3])
def test_no_class_is_held_out_whole(rare: int) -> None:
    """What training never sees it cannot learn; of two nodes or more, one is held out as well."""
    (e,) = environments(1, nodes=50)
    labels = torch.zeros(50, dtype=torch.int64)
    labels[:rare], labels[10:30] = 1, 2
    e = e.replace(y=labels, mask=torch.ones(50, dtype=torch.bool))
    for seed in range(60):
        (kept,), (held,) = split("id_val", [e], [], [], seed)
        assert (int(kept.mask.sum()), int(held.mask.sum())) == (40, 10)
        assert int((kept.labels == 1).sum()) >= 1
        assert int((held.labels == 1).sum()) >= min(rare - 1, 1)
        assert not (kept.mask & held.mask).any()


def test_a_graph_without_edges_is_not_misled() -> None:
    (environment,) = environments(1, nodes=30)
    graph = environment.graph
    bare = environment.replace(graph=Graph.from_keys(graph.num_nodes, graph.keys[:0], undirected=True))
    model = gs.ERM("sage", epochs=2, hidden_channels=4, selection="last").fit(environment)
    assert adversarially_edited(model.backbone_, bare).graph.num_edges == 0
