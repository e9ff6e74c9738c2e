"""CaNet (Wu et al., WWW 2024, *Graph Out-of-Distribution Generalization via Causal Intervention*)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphshift.backbones.canet import CaNetwork
from graphshift.core.hparams import hparam
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task, refuse_graph_level
from graphshift.estimators.base import METHODS
from graphshift.estimators.gnn import GNNEstimator
from graphshift.training.method import Method


def canet_objective(risks: Tensor, divergences: Tensor, weight: float) -> Tensor:
    """−E_q[log p(Y | G, E)] + λ KL(q(E | G) ‖ uniform), the mean over graphs; λ = 1 is the paper's variational bound.

    Args:
        risks: of each graph with environments drawn from q, ``[graphs]``.
        divergences: of each graph, the mean over its nodes and the layers, ``[graphs]``.
        weight: λ.
    """
    return (risks + weight * divergences).mean()


class CaNetMethod(Method):
    """The risk with inferred environments, which are kept close to uniform: so no expert belongs to one environment."""

    hparams: CaNet
    backbone: CaNetwork

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One step on all training graphs."""
        self.backbone.train()
        risks, divergences = [], []
        for environment in environments:
            output, divergence = self.backbone.with_divergence(environment.x, environment.graph)
            risks.append(environment.risk(output))
            divergences.append(divergence.mean())
        risk, divergence = torch.stack(risks), torch.stack(divergences)
        loss = canet_objective(risk, divergence, self.hparams.penalty)
        loss.backward()
        self.descend()
        numbers = {"risk": float(risk.detach().mean()), "divergence": float(divergence.detach().mean())}
        return {"loss": float(loss.detach()), **numbers}


@METHODS.register("canet", label="CaNet")
@dataclass(eq=False, repr=False, kw_only=True)
class CaNet(GNNEstimator):
    """Causal intervention: each layer infers environments of nodes and mixes an expert for each, kept close to uniform.

    The number of environments and the temperature are ``backbone_options={"experts": 3, "temperature": 1.0}``.

    Args:
        penalty: λ, the weight of the divergence.
        backbone: ``"canet"``, the network of this method; no other.
        hidden_channels … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
    """

    method_class = CaNetMethod
    own_backbone = "canet"
    backbone: str = hparam("canet", registry="backbone", help="CaNet's own network")
    penalty: float = hparam(1.0, ge=0, le=1e12, search=(0.1, 0.5, 1.0, 2.0), help="λ, the weight of the divergence")

    def check_task(self, task: Task) -> None:
        """Of nodes: its layers infer an environment for each of them."""
        refuse_graph_level(task, "method canet, which infers environments of nodes,")
