"""ERM: minimise the mean risk of the training environments. The baseline for everything."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graphshift.data.environment import Environment
from graphshift.training.method import Method


class ERMMethod(Method):
    """Empirical risk minimisation: (1 / M) Σ_e L(G^e, Y^e; θ) over the M training environments."""

    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One step on the mean risk."""
        self.backbone.train()
        risks = torch.stack([e.risk(self.backbone(e.x, e.graph)) for e in environments])
        loss = risks.mean()
        loss.backward()
        self.descend()
        return {"loss": float(loss.detach())}
