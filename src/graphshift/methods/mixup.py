"""Mixup for graphs (Wang et al., WWW 2021, *Mixup for Node and Graph Classification*), at the last hidden layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphshift.core.hparams import hparam
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task
from graphshift.estimators.base import METHODS
from graphshift.estimators.gnn import GNNEstimator
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
    """Every node is mixed with another of its graph; λ ~ Beta(α, α) is drawn anew at every step."""

    hparams: Mixup

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One step on the mean mixed risk of the training graphs."""
        self.backbone.train()
        risks = []
        for environment in environments:
            output = self.backbone(environment.x, environment.graph)[environment.counted]
            partner = torch.randperm(output.shape[0], device=output.device)
            share = float(torch.distributions.Beta(self.hparams.mix, self.hparams.mix).sample())
            risks.append(mixup_risk(output, environment.labels, partner, share, environment.task))
        loss = torch.stack(risks).mean()
        loss.backward()
        self.descend()
        return {"loss": float(loss.detach())}


@METHODS.register("mixup", label="Mixup")
@dataclass(eq=False, repr=False, kw_only=True)
class Mixup(GNNEstimator):
    """Mixup for graphs: nodes of a graph are mixed in pairs at the last hidden layer.

    Args:
        mix: α of Beta(α, α), from which the share of a mixture is drawn.
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
    """

    method_class = MixupMethod
    mix: float = hparam(
        1.0, ge=1e-3, le=1e6, search=(0.1, 0.2, 1.0, 2.0), help="α of the Beta distribution that Mixup draws from"
    )
