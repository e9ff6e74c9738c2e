"""MMD (Long et al., ICML 2015; Liu et al., AAAI 2024, A2GNN): hidden states of source and target become alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphshift.core.hparams import hparam
from graphshift.data.environment import Environment
from graphshift.estimators.base import METHODS
from graphshift.estimators.target import TargetEstimator
from graphshift.methods.grouped import penalised
from graphshift.training.method import Method

#: Widths of the kernels, as multiples of the mean squared distance.
_WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)


def maximum_mean_discrepancy(first: Tensor, second: Tensor) -> Tensor:
    """MMD² = mean k(a, a') + mean k(b, b') − 2 mean k(a, b), k the mean of five Gaussian kernels.

    k(u, v) = exp(−‖u − v‖² / w), with w from a quarter to four times the mean squared distance of all pairs.

    Args:
        first, second: representations, ``[n, width]`` and ``[m, width]``.
    """
    both = torch.cat([first, second])
    norms = both.square().sum(dim=1)
    distances = (norms.unsqueeze(1) + norms - 2 * both @ both.t()).clamp(min=0)
    scale = distances.detach().mean().clamp(min=torch.finfo(both.dtype).tiny)
    kernel = torch.stack([(-distances / (width * scale)).exp() for width in _WIDTHS]).mean(dim=0)
    n = first.shape[0]
    return kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2 * kernel[:n, n:].mean()


class MMDMethod(Method):
    """The mean risk of the source and λ times the MMD² between nodes drawn from the source and from the target."""

    hparams: "MMD"

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One pass of every graph, one step."""
        self.backbone.train()
        passed = [(e, *self.represented(e)) for e in (*environments, *self.target)]
        source, target = passed[: len(environments)], passed[len(environments) :]
        risk = torch.stack([e.risk(output) for e, _, output in source]).mean()
        samples = [self._drawn([hidden[e.counted] for e, hidden, _ in side]) for side in (source, target)]
        discrepancy = maximum_mean_discrepancy(*samples)
        loss = penalised(risk, discrepancy, self.hparams.penalty)
        loss.backward()
        self.descend()
        return {"loss": float(loss.detach()), "risk": float(risk.detach()), "penalty": float(discrepancy.detach())}

    def _drawn(self, hidden: Sequence[Tensor]) -> Tensor:
        """At most so many nodes, drawn anew in every step."""
        together = torch.cat(list(hidden))
        count, most = together.shape[0], self.hparams.sample
        return together if count <= most else together[torch.randperm(count, device=together.device)[:most]]


@METHODS.register("mmd", label="MMD")
@dataclass(eq=False, repr=False, kw_only=True)
class MMD(TargetEstimator):
    """The source's risk and λ times the maximum mean discrepancy of source and target; with backbone a2gnn: A2GNN.

    Args:
        penalty: λ.
        sample: nodes of each side that are compared in a step; the cost grows with its square.
        target: as in :class:`~graphshift.estimators.target.TargetEstimator`.
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
    """

    method_class = MMDMethod
    penalty: float = hparam(1.0, ge=0, le=1e12, search=(0.1, 1.0, 10.0), help="λ, the weight of the penalty")
    sample: int = hparam(1000, ge=2, le=100_000, help="nodes of each side that a step compares")
