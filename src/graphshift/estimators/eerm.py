"""The estimator ``EERM``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from graphshift.backbones import Backbone
from graphshift.core.arguments import check_types
from graphshift.core.errors import GraphshiftError
from graphshift.core.randomness import derive_seed
from graphshift.estimators.base import Model
from graphshift.estimators.settings import Settings
from graphshift.explorers import AIMS, EXPLORERS, Explorer
from graphshift.methods import EERMMethod, Method


class EERM(Model):
    """Explore-to-Extrapolate Risk Minimization (Wu et al., ICLR 2022).

    K explorers edit the graph to make virtual environments whose risks differ as much as possible; the GNN minimises
    the variance of these risks plus β times their mean (Eq. 5, Algorithm 1).

    Args:
        backbone, hidden_channels, num_layers, dropout, backbone_options, epochs, lr, weight_decay, clip, selection,
            patience, device, seed: as in :class:`ERM`.
        explorer: ``"reinforce"`` (the paper's), ``"random"``, ``"drop-edge"`` or ``"add-edge"`` (controls),
            ``"gradient"``, ``"features"`` or ``"mixed"`` (ours: follow the risk's gradient), or a function
            ``seed -> Explorer``.
        explorer_options: options of the named explorer, such as ``{"candidates": 20}`` for ``"gradient"``.
        explorers: K, at least 2.
        edits_per_node: s.
        inner_steps: T.
        beta: β.
        beta_end: None keeps β constant; a number moves it there in a straight line over training.
        explorer_lr: learning rate of the explorers.
        explorer_optimizer: ``"adam"`` or ``"sgd"``.
        explorer_weight_decay: of the explorers' logits.
        explorer_baseline: decay of a running mean of rewards that is taken off the reward; None for none (the paper).
        credit: ``"shared"`` (the paper: all explorers get the variance) or ``"difference"`` (each gets what it adds).
        reset_explorers: forget at every epoch, as parts of the authors' code do.
        directed_edits: flip one direction of an undirected edge, as in the paper's formula.
        low_memory: one view at a time, with a second forward pass; the gradient is the same.
    """

    _method = "eerm"

    def __init__(
        self,
        backbone: str | nn.Module = "gcn",
        *,
        hidden_channels: int = 32,
        num_layers: int = 2,
        dropout: float = 0.0,
        backbone_options: dict[str, Any] | None = None,
        epochs: int = 200,
        lr: float = 0.01,
        weight_decay: float = 1e-3,
        clip: float | None = None,
        selection: str = "val",
        patience: int | None = None,
        device: str = "cpu",
        seed: int = 0,
        explorer: str | Callable[[int], Explorer] = "reinforce",
        explorer_options: dict[str, Any] | None = None,
        explorers: int = 3,
        edits_per_node: int = 5,
        inner_steps: int = 1,
        beta: float = 1.0,
        beta_end: float | None = None,
        explorer_lr: float = 0.005,
        explorer_optimizer: str = "adam",
        explorer_weight_decay: float = 0.0,
        explorer_baseline: float | None = None,
        credit: str = "shared",
        reset_explorers: bool = False,
        directed_edits: bool = False,
        low_memory: bool = False,
    ) -> None:
        self.backbone, self.backbone_options = backbone, backbone_options
        self.hidden_channels, self.num_layers, self.dropout = hidden_channels, num_layers, dropout
        self.epochs, self.lr, self.weight_decay, self.clip = epochs, lr, weight_decay, clip
        self.selection, self.patience, self.device, self.seed = selection, patience, device, seed
        self.explorer, self.explorers, self.edits_per_node, self.inner_steps = (
            explorer,
            explorers,
            edits_per_node,
            inner_steps,
        )
        self.beta, self.beta_end, self.credit, self.explorer_options = beta, beta_end, credit, explorer_options
        self.explorer_lr, self.explorer_optimizer = explorer_lr, explorer_optimizer
        self.explorer_weight_decay, self.explorer_baseline = explorer_weight_decay, explorer_baseline
        self.reset_explorers, self.directed_edits, self.low_memory = reset_explorers, directed_edits, low_memory

    def make_method(self, backbone: Backbone, settings: Settings) -> Method:
        """EERM, with explorers by name or from a function."""
        if isinstance(self.explorer, str) and self.explorer not in EXPLORERS:
            raise GraphshiftError(f"explorer is {self.explorer!r}; expected one of {', '.join(EXPLORERS)}.")
        return EERMMethod(
            backbone,
            lambda m, k: self.make_explorer(settings, k, derive_seed(settings.seed, 2, m, k)),
            explorers=settings.explorers,
            inner_steps=settings.inner_steps,
            beta=settings.beta,
            beta_end=settings.beta_end,
            credit=settings.credit,
            reset_explorers=settings.reset_explorers,
            low_memory=settings.low_memory,
            lr=settings.lr,
            weight_decay=settings.weight_decay,
            clip=settings.clip,
        )

    def make_explorer(self, settings: Settings, k: int, seed: int) -> Explorer:
        """Explorer k of a training graph; options that it has not are refused."""
        if not isinstance(self.explorer, str):
            return self.explorer(seed)
        offered: dict[str, Any] = {
            "edits_per_node": settings.edits_per_node,
            "directed": settings.directed_edits,
            "seed": seed,
            "lr": settings.explorer_lr,
            "optimizer": settings.explorer_optimizer,
            "weight_decay": settings.explorer_weight_decay,
            "baseline": settings.explorer_baseline,
            "aim": AIMS[k % 2],  # by turns: opposite aims differ most
        }
        make = EXPLORERS[self.explorer]
        taken = inspect.signature(make).parameters  # a random explorer, say, has no learning rate
        check_types(f"explorer {self.explorer!r}", make, settings.explorer_options)
        unknown = [name for name in settings.explorer_options if name not in taken]
        if unknown:
            raise GraphshiftError(
                f"explorer {self.explorer!r} has no option {', '.join(unknown)}; its options are {', '.join(taken)}."
            )
        chosen = {name: value for name, value in offered.items() if name in taken}
        return make(**{**chosen, **settings.explorer_options})
