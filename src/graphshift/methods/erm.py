"""ERM: minimise the mean risk of the training environments. The baseline for everything."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from graphshift.data.environment import Environment
from graphshift.estimators.base import METHODS
from graphshift.estimators.gnn import GNNEstimator
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


@METHODS.register("erm", label="ERM")
@dataclass(eq=False, repr=False, kw_only=True)
class ERM(GNNEstimator):
    """Empirical risk minimisation: the baseline.

    Args:
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.

    >>> import graphshift as gs
    >>> data = gs.load("planted", nodes=100)
    >>> model = gs.ERM("gcn", epochs=3).fit(data)
    >>> model.predict(data.tests[0]).shape
    (100,)
    """

    method_class = ERMMethod
