"""Mixup for graphs (Wang et al., WWW 2021, *Mixup for Node and Graph Classification*), at the last hidden layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.training.method import Method


def mixup_risk(output: Tensor, labels: Tensor, partner: Tensor, share: float, task: Task) -> Tensor:
    """λ l(z, y) + (1 − λ) l(z, y') with z = λ f + (1 − λ) f', of every node and its partner (Zhang et al., 2018).

    Both nodes pass messages along their own edges and are mixed afterwards, as the paper's two branches do. The last
    layer of our backbones (but GAT) is linear, so mixing outputs is mixing the hidden layer before it.

    Args:
        output: f of every node, ``[n, out_channels]``.
        labels: ``[n]``.
        partner: which node each is mixed with, ``[n]``.
        share: λ.
        task: whose loss l is.
    """
    mixed = share * output + (1 - share) * output[partner]
    return share * task.loss(mixed, labels) + (1 - share) * task.loss(mixed, labels[partner])


class MixupMethod(Method):
    """Every node is mixed with another of its graph; λ ~ Beta(α, α) anew at every step.

    Args:
        backbone: the GNN.
        mix: α.
        lr, weight_decay, clip: as in :class:`Method`.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        mix: float = 1.0,
        lr: float = 0.01,
        weight_decay: float = 1e-3,
        clip: float | None = None,
    ) -> None:
        super().__init__(backbone, lr=lr, weight_decay=weight_decay, clip=clip)
        self.mix = mix

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One step on the mean mixed risk of the training graphs."""
        self.backbone.train()
        risks = []
        for environment in environments:
            output = self.backbone(environment.x, environment.graph)[environment.counted]
            partner = torch.randperm(output.shape[0], device=output.device)
            share = float(torch.distributions.Beta(self.mix, self.mix).sample())
            risks.append(mixup_risk(output, environment.labels, partner, share, environment.task))
        loss = torch.stack(risks).mean()
        loss.backward()
        self.descend()
        return {"loss": float(loss.detach())}
