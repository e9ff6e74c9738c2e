"""Methods on groups: their step is the gradient of their objective, and all of them train, save and resume."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import graphshift as gs
from graphshift.backbones import GCN
from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparams_of
from graphshift.estimators import METHODS
from graphshift.methods import Method
from graphshift.methods.coral import CORAL
from graphshift.methods.dann import DANN, DANNMethod
from graphshift.methods.groupdro import GroupDRO, GroupDROMethod
from graphshift.methods.groups import divided
from graphshift.methods.irm import IRM
from graphshift.methods.srgnn import SRGNN
from graphshift.methods.vrex import VREx, VRExMethod
from small import environments

OTHERS = {name: kind for name, kind in METHODS.items() if kind.uses_backbone and name not in ("erm", "eerm")}


def network() -> GCN:
    torch.manual_seed(0)
    return GCN(5, 3, hidden_channels=6)


def gradients(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def stepped(
    method: Method, progress: float = 1.0, training: list[gs.Environment] | None = None
) -> dict[str, torch.Tensor]:
    """The gradients of a step that moves nothing."""
    found: dict[str, torch.Tensor] = {}
    method.descend = lambda: found.update(gradients(method.backbone))  # type: ignore[method-assign]
    method.step(environments(1) if training is None else training, progress)
    return found


def risks(backbone: GCN, count: int) -> torch.Tensor:
    """By hand: the cross-entropy of every part by degree."""
    (e,) = environments(1)
    output = backbone.train()(e.x, e.graph)
    assert e.y is not None
    return torch.stack([F.cross_entropy(output[part], e.y[part]) for part in divided([e], "degree", count)[0]])


def test_vrex_steps_on_mean_and_variance() -> None:
    twin = network()
    values = risks(twin, 4)
    ((values.mean() + 3 * ((values - values.mean()) ** 2).mean()) / 3).backward()
    found = stepped(VRExMethod(network(), VREx(penalty=3.0)))
    for name, gradient in gradients(twin).items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [VREx, IRM])
def test_before_the_penalty_counts_it_is_the_mean_risk_of_groups(kind: type[VREx]) -> None:
    twin = network()
    risks(twin, 4).mean().backward()
    found = stepped(kind(penalty=100.0, anneal=0.5).make_method(network()), progress=0.4)
    for name, gradient in gradients(twin).items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6)
    later = stepped(kind(penalty=100.0, anneal=0.5).make_method(network()), progress=0.5)
    assert any(not torch.allclose(later[name], found[name], rtol=1e-2) for name in found)


def test_groupdro_turns_to_the_worst_group() -> None:
    method, training = GroupDROMethod(network(), GroupDRO(group_lr=5.0, lr=0.0)), environments(1)
    for _ in range(20):
        method.step(training, 0.0)
    assert int(method.log_weights.argmax()) == int(risks(network(), 4).argmax())
    assert float(method.log_weights.exp().max()) > 0.9


@pytest.mark.parametrize("kind", [CORAL, SRGNN])
def test_penalties_pull_representations_together(kind: type[CORAL]) -> None:
    distances, training = {}, environments(1, nodes=60)
    for penalty in (0.0, 100.0):
        method = kind(penalty=penalty, lr=0.01).make_method(network())
        for _ in range(60):
            numbers = method.step(training, 1.0)
        distances[penalty] = numbers["penalty"]
    assert distances[100.0] < 0.5 * distances[0.0]


def test_danns_discriminator_learns_what_the_gnn_unlearns() -> None:
    """The discriminator's gradient is that of its cross-entropy; the GNN's is that of the risk less λ times it."""
    method = DANNMethod(network(), DANN(penalty=0.7))
    training = environments(1)
    method.step(training, 1.0)  # makes the discriminator
    assert method.discriminator is not None
    twin, judge = copy.deepcopy(method.backbone), copy.deepcopy(method.discriminator)
    found = stepped(method, training=training)
    (e,) = training
    assert e.y is not None
    parts = divided([e], "degree", 4)[0]
    hidden, output = twin.train().represent(twin.stem(e.x), e.graph)
    risk = torch.stack([F.cross_entropy(output[p], e.y[p]) for p in parts]).mean()
    which = torch.cat([torch.full((p.numel(),), i) for i, p in enumerate(parts)])
    told_apart = F.cross_entropy(judge(torch.cat([hidden[p] for p in parts])), which)
    (risk - 0.7 * told_apart).backward()
    for name, gradient in gradients(twin).items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6)
    for ours, theirs in zip(method.discriminator.parameters(), judge.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad / -0.7, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", OTHERS)
def test_a_method_learns_is_cloned_saved_and_loaded(name: str, tmp_path: Path) -> None:
    from sklearn.base import clone

    data = gs.load("planted", nodes=100)
    model = clone(METHODS[name](epochs=30, hidden_channels=8, lr=0.02, seed=1))
    model.fit(data.train, val=data.val, target=data.tests if model.needs_target else ())
    assert model.score(data.train[0]) > data.train[0].majority + 0.1
    model.save(tmp_path / "model")
    again = gs.load_model(tmp_path / "model")
    assert type(again) is METHODS[name]
    assert again.score(data.tests) == model.score(data.tests)
    assert again.settings() == model.settings_


@pytest.mark.parametrize("name", OTHERS)
def test_a_method_has_a_search_space_of_its_own(name: str) -> None:
    tuned = {setting for setting, about in hparams_of(METHODS[name]).items() if about.search}
    assert tuned > {"lr"}
    assert all(about.default in about.search for about in hparams_of(METHODS[name]).values() if about.search)


def test_what_was_computed_for_an_environment_belongs_to_it() -> None:
    """Not to its place: a step on another graph must not use the first one's groups."""
    a, b = environments(2, nodes=40)
    for estimator in (gs.IRM(groups=3), gs.GroupDRO(groups=3, group_by="degree")):
        method = estimator.make_method(network())
        method.step([a], 0.0)
        before = copy.deepcopy(method)
        numbers = method.step([b], 0.0)
        output = before.backbone.train()(b.x, b.graph)
        values = torch.stack([F.cross_entropy(output[p], b.y[p]) for p in divided([b], "degree", 3)[0]])
        told = "risk" if "risk" in numbers else "worst_risk"
        assert numbers[told] == pytest.approx(float(values.mean() if told == "risk" else values.max()), rel=1e-5)


def test_dann_is_told_of_all_graphs_before_it_starts() -> None:
    a, b = environments(2, nodes=40)
    method = gs.DANN(groups=3).make_method(network())
    method.step([a], 0.0)
    with pytest.raises(GraphshiftError, match="meet"):
        method.step([b], 0.0)
    whole = gs.DANN(groups=3, group_by="degree").make_method(network())
    whole.meet([a, b])
    whole.step([a], 0.0)
    whole.step([b], 0.0)
    assert whole.discriminator[-1].out_features == 6


@pytest.mark.parametrize("backbone", ["sage", "gat", "gcnii", "gprgnn", "sgc", "mlp"])
def test_every_backbone_has_a_representation(backbone: str) -> None:
    data = gs.load("planted", nodes=60)
    model = gs.CORAL(backbone, epochs=2, hidden_channels=8).fit(data.train, val=data.val)
    network = model.backbone_.eval()
    e = data.tests[0]
    hidden, output = network.represent(network.stem(e.x), e.graph)
    torch.testing.assert_close(output, network(e.x, e.graph))
    assert hidden.shape[0] == e.num_nodes


def test_several_graphs_are_the_groups() -> None:
    method = GroupDROMethod(network(), GroupDRO())
    method.step(environments(3), 0.0)
    assert method.log_weights.numel() == 3
