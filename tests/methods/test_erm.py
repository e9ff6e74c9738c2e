"""ERM's step is AdamW's on the gradient of the mean risk over environments."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from graphshift.backbones import GCN
from graphshift.data.environment import Environment
from graphshift.methods import ERMMethod
from graphshift.methods.erm import ERM
from small import assert_close, copied, environments


def mean_risk(backbone: GCN, training: list[Environment]) -> torch.Tensor:
    """By hand: the mean over environments of the mean cross-entropy over counted nodes."""
    total = torch.zeros(())
    for e in training:
        assert e.y is not None
        output = backbone(e.x, e.graph).log_softmax(dim=1)
        total = total - sum(output[v, e.y[v]] for v in range(e.num_nodes) if e.mask[v]) / int(e.mask.sum())
    return total / len(training)


@pytest.mark.parametrize("count", [1, 3])
def test_a_step_is_that_of_the_mean_risk(count: int) -> None:
    training = environments(count)
    backbone = GCN(5, 3, hidden_channels=6)
    twin = copy.deepcopy(backbone)
    method = ERMMethod(backbone, ERM(lr=0.03, weight_decay=0.1))
    optimizer = torch.optim.AdamW(twin.parameters(), lr=0.03, weight_decay=0.1)
    for _ in range(3):
        loss = mean_risk(twin, training)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert method.step(training, 0.0)["loss"] == pytest.approx(loss.item(), rel=1e-5)
    # A bias before batch normalisation has a zero gradient but for rounding, which Adam blows up.
    ours, theirs = (
        {k: v for k, v in m.state_dict().items() if k not in ("layers.0.bias", "norms.0.running_mean")}
        for m in (backbone, twin)
    )
    assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_labels_outside_the_mask_play_no_part() -> None:
    results = []
    for wrong in (False, True):
        (e,) = environments(1)
        assert e.y is not None
        if wrong:
            e = e.replace(y=torch.where(e.mask, e.y, (e.y + 1) % 3))
            assert not torch.equal(e.y, environments(1)[0].y)
        torch.manual_seed(0)
        backbone = GCN(5, 3, hidden_channels=6)
        ERMMethod(backbone, ERM()).step([e], 0.0)
        results.append(backbone.state_dict())
    assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("clip", [1e-3, 1e-1, 1e3])
def test_gradients_are_clipped_to_the_norm(clip: float, monkeypatch: pytest.MonkeyPatch) -> None:
    training = environments(2)
    norms, directions = [], []
    for limit in (None, clip):
        torch.manual_seed(0)
        method = ERMMethod(GCN(5, 3, hidden_channels=6), ERM(clip=limit))

        def record(method: ERMMethod = method) -> None:
            gradient = torch.cat([p.grad.flatten() for p in method.backbone.parameters() if p.grad is not None])
            norms.append(gradient.norm().item())
            directions.append(F.normalize(gradient, dim=0))

        monkeypatch.setattr(method.optimizer, "step", record)
        method.step(training, 0.0)
    assert norms[1] == pytest.approx(min(clip, norms[0]), rel=1e-3)
    torch.testing.assert_close(directions[0], directions[1], rtol=1e-3, atol=1e-5)
    assert norms[0] > 0.1  # so that the small limits bite and the large one does not


def test_gradients_do_not_add_up_over_steps() -> None:
    training = environments(1)
    method = ERMMethod(GCN(5, 3, hidden_channels=6), ERM())
    method.step(training, 0.0)
    assert all(p.grad is None or not p.grad.any() for p in method.backbone.parameters())


def test_predict_changes_nothing_and_is_without_dropout() -> None:
    (e,) = environments(1)
    method = ERMMethod(GCN(5, 3, hidden_channels=6, dropout=0.5), ERM())
    method.step([e], 0.0)
    before = copied(method.state())
    first, second = method.predict(e), method.predict(e)
    assert torch.equal(first, second)
    assert not first.requires_grad
    assert_close(method.state(), before, rtol=0, atol=0)


def test_a_state_taken_back_goes_on_exactly() -> None:
    training = environments(2)
    method = ERMMethod(GCN(5, 3, hidden_channels=6), ERM(weight_decay=0.01))
    for _ in range(3):
        method.step(training, 0.0)
    state = copied(method.state())
    for _ in range(2):
        method.step(training, 0.0)
    torch.manual_seed(7)
    other = ERMMethod(GCN(5, 3, hidden_channels=6), ERM(weight_decay=0.01))
    other.load_state(state)
    for _ in range(2):
        other.step(training, 0.0)
    assert_close(other.state(), method.state(), rtol=0, atol=0)
