"""The method interface: ``step`` and ``predict``. The training loop knows nothing else of a method."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from graphshift.backbones import Backbone
from graphshift.backbones.in_chunks import output_of
from graphshift.core.errors import GraphshiftError
from graphshift.data.environment import Environment
from graphshift.graph.graph import Graph

_Found = TypeVar("_Found")


class OptimizerHparams(Protocol):
    """The hyper-parameters that every method has: those of AdamW."""

    lr: float
    weight_decay: float
    clip: float | None


class Method(ABC):
    """Turns environments into one training step.

    Args:
        backbone: the GNN. It is trained in place, by AdamW.
        hparams: the hyper-parameters: the estimator of this method, such as ``ERM(lr=0.001)``.

    Attributes:
        target: graphs without labels that a step may use; the estimator sets them before training
            (``estimators.target``).
    """

    target: Sequence[Environment] = ()

    def __init__(self, backbone: Backbone, hparams: OptimizerHparams) -> None:
        self.backbone, self.hparams = backbone, hparams
        self.optimizer = torch.optim.AdamW(backbone.parameters(), lr=hparams.lr, weight_decay=hparams.weight_decay)

    def meet(self, environments: Sequence[Environment]) -> None:  # noqa: B027 (most methods keep nothing)
        """Prepares what belongs to each environment. Steps do this themselves; here the order is fixed beforehand.

        Args:
            environments: all training environments, in the order that checkpoints number them by.
        """

    @property
    def settled(self) -> bool:
        """Whether the present weights may be chosen; before, training is still preparing."""
        return True

    def represented(self, environment: Environment) -> tuple[Tensor, Tensor]:
        """For every node what the last layer is given, and the output; of a training graph or of the target."""
        return self._run(environment, self.backbone.represent)

    def output(self, environment: Environment) -> Tensor:
        """For every node the output alone, which some networks have sooner than what :meth:`represented` gives."""
        return self._run(environment, self.backbone.propagate)

    def _run(self, environment: Environment, through: Callable[[Tensor, Graph], _Found]) -> _Found:
        self.backbone.at_target = environment.y is None
        try:
            return through(self.backbone.stem(environment.x), environment.graph)
        finally:
            self.backbone.at_target = False

    def begin(self, epoch: int) -> None:  # noqa: B027
        """An epoch begins."""

    def end(self, steps: Sequence[dict[str, float]], nodes: int) -> tuple[Sequence[dict[str, float]], int]:
        """An epoch is over: the numbers of its steps, and how many counted nodes they saw."""
        return steps, nodes

    def apart(self) -> str:
        """Why several processes that share the batches would learn different things; empty if they would not."""
        return ""

    def reseed(self, seed: int) -> None:  # noqa: B027
        """Has what the method draws follow from a seed, beside torch's own random state."""

    @abstractmethod
    def step(self, environments: Sequence[Environment], progress: float) -> dict[str, float]:
        """One step of training on one batch.

        Args:
            environments: the batch: training environments, all of them or some.
            progress: how much of training has passed: 0 in the first epoch, 1 in the last.

        Returns:
            Named numbers for the history; ``"loss"`` is among them.
        """

    def predict(self, environment: Environment) -> Tensor:
        """The output for every node, ``[nodes, out_channels]``, without a gradient."""
        self.backbone.eval()
        with torch.no_grad():
            return output_of(self.backbone, environment)

    def state(self) -> dict[str, Tensor]:
        """All that is needed to continue exactly."""
        state = {f"backbone.{name}": tensor for name, tensor in self.backbone.state_dict().items()}
        for index, slots in self.optimizer.state_dict()["state"].items():
            state |= {f"optimizer.{index}.{name}": tensor for name, tensor in slots.items()}
        return state

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restores what :meth:`state` gave."""
        self.backbone.load_state_dict(with_prefix(state, "backbone."))
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in with_prefix(state, "optimizer.").items():
            index, slot = name.split(".")
            slots.setdefault(int(index), {})[slot] = tensor
        optimizer = self.optimizer.state_dict()
        shapes = [p.shape for group in self.optimizer.param_groups for p in group["params"]]
        for number, own in slots.items():  # torch takes any; the next step would fail, or go anywhere
            expected = {"step": torch.Size([]), "exp_avg": shapes[number], "exp_avg_sq": shapes[number]}
            if {name: tensor.shape for name, tensor in own.items()} != expected:
                raise GraphshiftError(f"the optimiser's state of parameter {number} has other names or shapes")
            steps = float(own["step"])
            finite = all(bool(torch.isfinite(tensor).all()) for tensor in own.values())
            if not finite or not 1 <= steps < 2**53 or bool((own["exp_avg_sq"] < 0).any()):
                raise GraphshiftError(f"the optimiser's state of parameter {number} holds numbers that AdamW never has")
        self.optimizer.load_state_dict({"state": slots, "param_groups": optimizer["param_groups"]})

    def descend(self) -> None:
        """The optimiser's step on the gradients that are there; clears them."""
        if self.hparams.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.backbone.parameters(), self.hparams.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()


def with_prefix(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
