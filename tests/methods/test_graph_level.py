"""Methods on graphs with labels: Algorithm 1 against a dense one, and every method learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import global_mean_pool

import graphshift as gs
from algorithm_1 import DenseAlgorithm1, dense_gcn, drawn
from graphs import dataset, environment
from graphshift.backbones import graph_backbone
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.explorers import Reinforce, View
from graphshift.explorers.policy import SparsePolicy
from graphshift.graph.graph import Graph
from graphshift.graph.sparse import Sparse
from graphshift.methods import EERMMethod
from graphshift.methods.columns import table_of, width_of
from graphshift.methods.eerm import EERM
from graphshift.methods.erm import ERMMethod
from graphshift.methods.groups import parts_of
from reference import dense_adjacency

EPOCHS, VIEWS, EDITS = 12, 3, 2
#: Methods that say that they need a label for each node.
NODES_ALONE = ("label-propagation", "correct-smooth", "canet", "dgi", "pair-align", "smooth-ridge", "tar")


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class DenseGraphLevel(DenseAlgorithm1):
    """Algorithm 1 on a block-diagonal matrix: rows are softmaxes over the node's own graph, risks are of graphs."""

    def __init__(self, e: Environment, readout: str, parameters: dict[str, Tensor], **how: Any) -> None:
        assert e.graph.blocks is not None
        self.batch, self.readout = e.graph.blocks.batch, readout
        adjacency = dense_adjacency(e.graph.edge_index, e.num_nodes, None)
        super().__init__(parameters, e.x, e.y, e.mask, adjacency, **how)
        outside = self.batch.unsqueeze(0) != self.batch.unsqueeze(1)
        alone = torch.bincount(self.batch)[self.batch] == 1
        for policy in self.policies:
            policy.diagonal = (outside | policy.diagonal) & ~torch.diag(alone)  # alone: a softmax over itself, p = 1

    def _risk(self, adjacency: Tensor) -> Tensor:
        nodes = {name.removeprefix("nodes."): p for name, p in self.theta.items()}
        states = dense_gcn(nodes, self.x, adjacency).relu()
        member = F.one_hot(self.batch).double()  # [nodes, graphs]
        pooled = member.t() @ states
        if self.readout == "mean":
            pooled = pooled / member.sum(dim=0).unsqueeze(1)
        if self.readout == "max":
            pooled = torch.stack([states[self.batch == g].amax(dim=0) for g in range(member.shape[1])])
        output = pooled @ self.theta["leave.weight"].t() + self.theta["leave.bias"]
        return F.cross_entropy(output[self.mask], self.y[self.mask])


class Told(Reinforce):
    """The paper's explorer in float64 that draws with random numbers of the test."""

    def __init__(self, k: int, **options: Any) -> None:
        super().__init__(EDITS, entries_per_node=None, **options)
        self.k, self.count = k, 0

    def propose(self, graph: Graph, risk: Any = None) -> View:
        if self.policy is None:
            how: dict[str, Any] = {"optimizer": self.optimizer, "lr": self.lr, "dtype": torch.float64}
            self.policy = SparsePolicy(graph.num_nodes, within=graph.within, **how)
        probabilities = self.policy.dense_logits().softmax(dim=1)
        alone = probabilities.isnan().any(dim=1)
        probabilities[alone] = torch.eye(graph.num_nodes)[alone]
        columns = drawn(probabilities, uniforms(self.count, self.k, graph.num_nodes)).int()
        self.count += 1
        return View.of_actions(graph, columns, self.policy.log_prob(columns), directed=self.directed)


def uniforms(epoch: int, k: int, nodes: int) -> Tensor:
    return torch.rand(nodes, EDITS, generator=torch.Generator().manual_seed(1 + k + 100 * epoch), dtype=torch.float64)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("readout", ["mean", "sum", "max"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_eerm_is_algorithm_1_on_a_batch_of_tiny_graphs(optimizer: str, readout: str) -> None:
    e = environment(count=10, classes=3)
    e = e.replace(x=e.x.double())
    rate = {"sgd": 100.0, "adam": 0.3}[optimizer]
    shape = {"hidden_channels": 6, "num_layers": 2, "dropout": 0.0}
    net = graph_backbone("gcn", e.num_features, 3, readout=readout, **shape)
    parameters = {name: p.detach().clone() for name, p in net.named_parameters()}
    hparams = EERM(views=VIEWS, edits_per_node=EDITS, beta=2.0, lr=0.01, weight_decay=1e-3)
    method = EERMMethod(net, hparams, lambda m, k: Told(k, lr=rate, optimizer=optimizer))
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
    how: dict[str, Any] = {"views": VIEWS, "steps": 1, "beta": 2.0, "lr": 0.01, "weight_decay": 1e-3}
    dense = DenseGraphLevel(e, readout, parameters, explorer=kind, explorer_options={"lr": rate}, directed=False, **how)
    for epoch in range(EPOCHS):
        numbers = method.step([e], 0.0)

        def draw(t: int, k: int, p: Tensor, epoch: int = epoch) -> Tensor:
            return drawn(p, uniforms(epoch, k, e.num_nodes))

        ((risks, _),) = dense.epoch(draw)
        assert numbers["risk"] == pytest.approx(sum(risks) / VIEWS, rel=1e-8)
        assert numbers["variance"] == pytest.approx(float(torch.tensor(risks).var()), rel=1e-6)
    for name, p in net.named_parameters():
        torch.testing.assert_close(p.detach(), dense.theta[name].detach(), rtol=1e-6, atol=1e-8)
    moved = max(float((p.detach() - parameters[name]).abs().max()) for name, p in net.named_parameters())
    assert moved > 0.01


def test_low_memory_has_the_same_gradient() -> None:
    e = environment()
    found = []
    for low in (False, True):
        torch.manual_seed(0)
        net = graph_backbone("gcn", 5, 1, readout="mean", hidden_channels=6, num_layers=2, dropout=0.0)
        method = EERMMethod(net, EERM(explorer="random", low_memory=low, edits_per_node=1))
        method.step([e], 0.0)
        found.append(dict(net.named_parameters()))
        assert net.save_memory is low
    for name, p in found[0].items():
        torch.testing.assert_close(p, found[1][name], rtol=1e-4, atol=1e-5)


def test_the_risk_of_erm_is_that_of_the_graphs_one_by_one() -> None:
    """Without batch normalisation a graph's output does not depend on the others."""
    e = environment(count=10)
    net = graph_backbone("sgc", 5, 1, readout="sum", hidden_channels=6, num_layers=2, dropout=0.0)
    outputs = []
    for i in range(10):
        begin, end = e.graph.blocks.begin[i : i + 2].tolist()  # type: ignore[union-attr]
        inside = e.graph.edge_index[:, (e.graph.edge_index[0] >= begin) & (e.graph.edge_index[0] < end)] - begin
        one = gs.Environment("one", Data(x=e.x[begin:end], edge_index=inside), e.task)
        outputs.append(net(one.x, one.graph))
    output = torch.cat(outputs)[e.mask]
    expected = F.binary_cross_entropy_with_logits(output.squeeze(1), e.labels.float())
    loss = ERMMethod(net, gs.ERM()).step([e], 0.0)["loss"]
    assert loss == pytest.approx(float(expected.detach()), rel=1e-5)


@pytest.mark.parametrize("by", ["degree", "features"])
def test_groups_are_of_graphs(by: str) -> None:
    e = environment()
    parts = parts_of(e, by, 3)
    assert torch.equal(torch.cat(parts).sort().values, e.counted)
    batch = e.graph.blocks.batch  # type: ignore[union-attr]
    degree = torch.bincount(e.graph.edge_index[1], minlength=e.num_nodes).double()
    means = torch.stack([degree[batch == i].mean() for i in range(e.num_items)])
    if by == "degree":
        assert all(
            float(a) <= float(b) for a, b in zip(means[torch.cat(parts)], means[torch.cat(parts)[1:]], strict=False)
        )


@pytest.mark.parametrize("name", [name for name in gs.METHODS if name not in NODES_ALONE])
def test_every_method_learns_graphs(name: str) -> None:
    estimator = gs.METHODS[name]
    quick = {"epochs": 30, "lr": 0.02} if estimator.uses_backbone else {}
    quick |= {"target": "tests"} if name in ("mmd", "self-training") else {}
    data = dataset(classes=3)
    model = estimator(**quick).fit(data)
    predicted = model.predict(data.tests[0])
    assert predicted.shape == (20,)
    if name not in ("majority", "boosting"):  # boosting wants more than 15 graphs
        assert model.score(data.train[0]) > 0.6


def test_a_simple_model_has_the_mean_row_of_each_graph() -> None:
    e = environment()
    batch = e.graph.blocks.batch  # type: ignore[union-attr]
    degree = torch.bincount(e.graph.edge_index[1], minlength=e.num_nodes)
    for kind in ("plain", "neighbours", "structure", "all"):
        table = torch.from_numpy(table_of(e, kind))
        assert table.shape == (20, width_of(5, kind))
        torch.testing.assert_close(table[:, :5], global_mean_pool(e.x, batch))
        if kind == "structure":
            torch.testing.assert_close(table[:, 5], global_mean_pool(degree.float().log1p(), batch))
    sparse = e.replace(x=Sparse.from_torch(e.x.to_sparse_csr()))
    assert np.allclose(table_of(sparse, "plain").toarray(), table_of(e, "plain"))


@pytest.mark.parametrize("name", NODES_ALONE)
def test_methods_that_spread_labels_say_that_they_cannot(name: str) -> None:
    with pytest.raises(GraphshiftError, match=f"{name}.*is not available for graph-level tasks"):
        gs.METHODS[name](**({"target": "tests"} if gs.METHODS[name].needs_target else {})).fit(dataset())


def test_samples_of_nodes_are_none_of_graphs() -> None:
    with pytest.raises(GraphshiftError, match="training on parts or samples of a graph is not available"):
        gs.ERM(batch_nodes=10, epochs=1).fit(dataset())
