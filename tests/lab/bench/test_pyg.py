"""PyG's side of the comparison is the same network, trained in the same way."""

from __future__ import annotations

import pytest
import torch

from graphshift.lab.bench.bars.pyg import pyg_method
from graphshift.lab.bench.workload import new_method, planted_environment


@pytest.mark.parametrize("csr", [False, True])
def test_the_same_weights_take_the_same_steps(csr: bool) -> None:
    environment = planted_environment(80)
    ours, theirs = new_method(environment, "erm"), pyg_method(environment, csr=csr)
    by_shape = sorted((p for p in ours.backbone.parameters()), key=lambda p: list(p.shape))
    others = sorted((p for p in theirs.backbone.parameters()), key=lambda p: list(p.shape))
    assert [p.shape for p in by_shape] == [p.shape for p in others]
    matrices = [(p, q) for p, q in zip(by_shape, others, strict=True) if p.dim() == 2]
    with torch.no_grad():  # biases are zero and norms are one in both
        for mine, other in matrices:
            other.copy_(mine)
    for _ in range(3):
        losses = [method.step([environment], 0.0)["loss"] for method in (ours, theirs)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    # In training mode: a bias before a batch norm has no gradient but rounding, which AdamW makes steps of.
    outputs = [method.backbone.train()(environment.x, environment.graph) for method in (ours, theirs)]
    torch.testing.assert_close(*outputs, atol=1e-3, rtol=1e-3)
