"""A few weights tuned on the unlabelled graph that is predicted, for as long as it is predicted (``adapt``).

- ``"tent"`` (Wang et al., ICLR 2021): scale and shift of batch normalisation, to lower the entropy of predictions.
- ``"hops"`` (Bao et al., ICLR 2025, Matcha): how much each hop of GPRGNN counts, to draw predicted classes apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from graphshift.backbones import Backbone
from graphshift.backbones.batchnorm import batch_norms, own_statistics
from graphshift.core.errors import GraphshiftWarning
from graphshift.data.environment import Environment

_STEPS, _RATE = 20, 0.01  # of Adam


def entropy(p: Tensor) -> Tensor:
    """H of each row."""
    return -(p * p.clamp(min=torch.finfo(p.dtype).tiny).log()).sum(dim=-1)


def mutual_information(probabilities: Tensor) -> float:
    """H(mean p) − mean H(p): large where predictions are sure and no class is lost (Bridle et al., 1992)."""
    return float(entropy(probabilities.mean(dim=0)) - entropy(probabilities).mean())


def mean_entropy(output: Tensor, environment: Environment) -> Tensor:
    """What ``"tent"`` lowers: the mean entropy of the counted nodes' predictions."""
    return entropy(differentiable(output, environment)[environment.counted]).mean()


def spread_within(output: Tensor, environment: Environment) -> Tensor:
    """What ``"hops"`` lowers: Σ_v Σ_c p_vc ‖z_v − μ_c‖² / Σ_v ‖z_v − μ‖², z the outputs, μ_c the mean weighted by p_c.

    The part of the outputs' variance that is within predicted classes, from 0 to 1.
    """
    p, z = differentiable(output, environment)[environment.counted], output[environment.counted]
    centres = (p.t() @ z) / p.sum(dim=0).clamp(min=torch.finfo(p.dtype).tiny).unsqueeze(1)
    within = (p * torch.cdist(z, centres).square()).sum()
    return within / (z - z.mean(dim=0)).square().sum().clamp(min=torch.finfo(p.dtype).tiny)


def differentiable(output: Tensor, environment: Environment) -> Tensor:
    """Class probabilities with a gradient, ``[nodes, classes]``."""
    if environment.task.out_channels > 1:
        return output.softmax(dim=1)
    positive = output.squeeze(1).sigmoid()
    return torch.stack([1 - positive, positive], dim=1)


def tunable(backbone: Backbone, way: str) -> list[nn.Parameter]:
    """The weights that a way tunes; none if the backbone has no such."""
    if way == "tent":
        return [p for norm in batch_norms(backbone) for p in (norm.weight, norm.bias) if p is not None]
    gamma = getattr(backbone, "gamma", None)
    return [gamma] if isinstance(gamma, nn.Parameter) else []


@contextmanager
def tuned(backbone: Backbone, environment: Environment, way: str) -> Iterator[None]:
    """The backbone with these weights tuned on a graph; afterwards they are what they were.

    Left as it is, with a warning, if the mutual information of node and predicted class has fallen: lower entropy by
    giving classes up is no gain.

    Args:
        backbone: in evaluation mode.
        environment: whose labels are not looked at.
        way: ``"tent"`` or ``"hops"``.
    """
    loss: Callable[[Tensor, Environment], Tensor] = mean_entropy if way == "tent" else spread_within
    chosen = tunable(backbone, way)
    before = [p.detach().clone() for p in chosen]
    # Weights of the model are all asked for a gradient; the others' would be computed for nothing.
    asked = [(p, p.requires_grad) for p in backbone.parameters()]
    with own_statistics(backbone) if way == "tent" else nullcontext():
        try:
            for p, _ in asked:
                p.requires_grad_(any(p is one for one in chosen))
            old = _information(backbone, environment)
            _descend(chosen, lambda: loss(backbone(environment.x, environment.graph), environment))
            if not _information(backbone, environment) >= old:  # NaN as well
                _put(chosen, before)
                warnings.warn(
                    f"environment {environment.name!r}: the model was left as it is: tuned on the graph ({way}), its "
                    "predictions say less about the nodes' classes than before.",
                    GraphshiftWarning,
                    stacklevel=6,
                )
            yield
        finally:
            _put(chosen, before)
            for p, wanted in asked:
                p.requires_grad_(wanted)
                p.grad = None


def _descend(parameters: Sequence[nn.Parameter], loss: Callable[[], Tensor]) -> None:
    optimizer = torch.optim.Adam(parameters, lr=_RATE)
    with torch.enable_grad():
        for _ in range(_STEPS):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()


def _information(backbone: Backbone, environment: Environment) -> float:
    with torch.no_grad():
        p = environment.task.probabilities(backbone(environment.x, environment.graph))
    return mutual_information(p[environment.counted.cpu()])


def _put(parameters: Sequence[nn.Parameter], values: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for p, value in zip(parameters, values, strict=True):
            p.copy_(value)
