"""The method interface: ``step`` and ``predict``. The trainer knows nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.data.environment import Environment


class Method(ABC):
    """Turns environments into one training step.

    Args:
        backbone: the GNN; it is trained in place, by AdamW.
        lr: α_f, the learning rate.
        weight_decay: of the GNN.
        clip: scales gradients down to this norm; None leaves them.
    """

    def __init__(
        self, backbone: Backbone, *, lr: float = 0.01, weight_decay: float = 1e-3, clip: float | None = None
    ) -> None:
        self.backbone, self.clip = backbone, clip
        self.optimizer = torch.optim.AdamW(backbone.parameters(), lr=lr, weight_decay=weight_decay)

    @abstractmethod
    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One step of training on all environments.

        Args:
            environments: the training environments, the same at every step.
            progress: how much of training has passed: 0 at the first step, 1 at the last.

        Returns:
            Named numbers for the history; ``"loss"`` is among them.
        """

    def predict(self, environment: Environment) -> Tensor:
        """The output for every node, ``[nodes, out_channels]``, without a gradient."""
        self.backbone.eval()
        with torch.no_grad():
            return self.backbone(environment.x, environment.graph)

    def state(self) -> dict[str, Tensor]:
        """All that is needed to go on exactly."""
        state = {f"backbone.{name}": tensor for name, tensor in self.backbone.state_dict().items()}
        for index, slots in self.optimizer.state_dict()["state"].items():
            state |= {f"optimizer.{index}.{name}": tensor for name, tensor in slots.items()}
        return state

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave."""
        self.backbone.load_state_dict(
            {name.removeprefix("backbone."): t for name, t in state.items() if name.startswith("backbone.")}
        )
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            if name.startswith("optimizer."):
                _, index, slot = name.split(".")
                slots.setdefault(int(index), {})[slot] = tensor
        optimizer = self.optimizer.state_dict()
        self.optimizer.load_state_dict({"state": slots, "param_groups": optimizer["param_groups"]})

    def descend(self) -> None:
        """The optimiser's step on the gradients that are there; clears them."""
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.backbone.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
