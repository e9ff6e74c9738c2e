"""Co-training with Deep Graph Infomax (Veličković et al., ICLR 2019): the risk, and what graphs say without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphshift.backbones import Backbone
from graphshift.backbones.batchnorm import frozen_statistics
from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparam
from graphshift.data.environment import Environment
from graphshift.data.tasks import Task, refuse_graph_level
from graphshift.estimators.base import METHODS
from graphshift.estimators.target import TargetEstimator
from graphshift.methods.grouped import penalised
from graphshift.training.method import Method, with_prefix

_PREFIX = "discriminator."


def infomax_loss(hidden: Tensor, corrupted: Tensor, weight: Tensor) -> Tensor:
    """−½ mean_v log D(h_v, s) − ½ mean_v log(1 − D(h̃_v, s)), D(h, s) = σ(hᵀ W s), s = σ(mean_v h_v) (its Eq. 1).

    Args:
        hidden: h, of the graph as it is, ``[nodes, width]``.
        corrupted: h̃, of the same graph with the nodes' features permuted, ``[nodes, width]``.
        weight: W, ``[width, width]``.
    """
    summary = weight @ hidden.mean(dim=0).sigmoid()
    return -0.5 * (F.logsigmoid(hidden @ summary).mean() + F.logsigmoid(-(corrupted @ summary)).mean())


class DGIMethod(Method):
    """The mean risk and λ times the mean infomax loss of the training graphs, and of the target where there is one."""

    hparams: DGI

    def __init__(self, backbone: Backbone, hparams: DGI) -> None:
        super().__init__(backbone, hparams)
        if not backbone.uses_edges:
            raise GraphshiftError(
                "method dgi learns which node stands where in a graph, and the backbone does not use edges; choose "
                "another backbone."
            )
        self.weight: nn.Parameter | None = None

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """Every graph is passed as it is and with its nodes' features permuted; one step."""
        self.backbone.train()
        passed = [self._passed(e) for e in (*environments, *self.target)]
        risks = [e.risk(output) for e, (_, _, output) in zip(environments, passed, strict=False)]
        risk = torch.stack(risks).mean()
        if self.weight is None:
            self._make(passed[0][0].shape[1], risk.device)
        assert self.weight is not None
        told = torch.stack([infomax_loss(h, other, self.weight) for h, other, _ in passed]).mean()
        loss = penalised(risk, told, self.hparams.penalty)
        loss.backward()
        self.descend()
        return {"loss": float(loss.detach()), "risk": float(risk.detach()), "infomax": float(told.detach())}

    def _passed(self, environment: Environment) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden states, those with permuted features, and the output. Running statistics are of the real graph."""
        self.backbone.at_target = environment.y is None
        try:
            # The stem looks at each node alone: permuting its result permutes the features.
            stem = self.backbone.stem(environment.x)
            hidden, output = self.backbone.represent(stem, environment.graph)
            with frozen_statistics(self.backbone):
                order = torch.randperm(environment.num_nodes, device=stem.device)
                other, _ = self.backbone.represent(stem[order], environment.graph)
        finally:
            self.backbone.at_target = False
        return hidden, other, output

    def _make(self, width: int, device: torch.device) -> None:
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, width)).to(device))
        self.optimizer.add_param_group({"params": [self.weight]})

    def apart(self) -> str:
        """Why it needs one process."""
        return "the discriminator of dgi is made at the first step, in every worker another"

    def state(self) -> dict[str, Tensor]:
        """The GNN, the optimiser, and the discriminator."""
        return super().state() | ({} if self.weight is None else {_PREFIX + "weight": self.weight.detach()})

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restores what :meth:`state` gave."""
        own = with_prefix(state, _PREFIX)
        if own and self.weight is None:
            self._make(own["weight"].shape[0], next(self.backbone.parameters()).device)
        super().load_state(state)
        if self.weight is not None:
            with torch.no_grad():
                self.weight.copy_(own["weight"])


@METHODS.register("dgi", label="Co-train DGI")
@dataclass(eq=False, repr=False, kw_only=True)
class DGI(TargetEstimator):
    """The risk and λ times the Deep Graph Infomax loss, of the training graphs and, where there is one, the target.

    Args:
        penalty: λ.
        target: as in :class:`~graphshift.estimators.target.TargetEstimator`; without one, the training graphs alone.
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
    """

    method_class = DGIMethod
    needs_target = False
    penalty: float = hparam(1.0, ge=0, le=1e12, search=(0.1, 1.0, 10.0), help="λ, the weight of the infomax loss")

    def check_task(self, task: Task) -> None:
        """Of nodes: their places in one graph are told apart."""
        refuse_graph_level(task, "method dgi, which compares the nodes of a graph with all of it,")
