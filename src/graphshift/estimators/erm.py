"""The estimator ``ERM``."""

from __future__ import annotations

from typing import Any

from torch import nn

from graphshift.backbones import Backbone
from graphshift.estimators.base import Model
from graphshift.estimators.settings import Settings
from graphshift.methods import ERMMethod, Method


class ERM(Model):
    """Empirical risk minimisation: the baseline.

    Args:
        backbone: a name from :data:`graphshift.backbones.BACKBONES`, or your own ``torch.nn.Module`` with
            ``forward(x, edge_index)`` (a copy is trained, from the weights that it has).
        hidden_channels: width of hidden layers.
        num_layers: number of layers.
        dropout: after hidden layers.
        backbone_options: options of the named backbone, such as ``{"heads": 2}`` for ``"gat"``.
        epochs: steps of training.
        lr: learning rate (AdamW).
        weight_decay: of the GNN.
        clip: norm to which gradients are clipped; None leaves them.
        selection: the rule that chooses the epoch, see :data:`graphshift.training.selection.SELECTIONS`.
        patience: stop after this many epochs without a better score.
        device: ``"cpu"``, ``"cuda"`` or ``"mps"``.
        seed: of everything random; the same seed gives the same bits on the same machine.
    """

    _method = "erm"

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
    ) -> None:
        self.backbone, self.backbone_options = backbone, backbone_options
        self.hidden_channels, self.num_layers, self.dropout = hidden_channels, num_layers, dropout
        self.epochs, self.lr, self.weight_decay, self.clip = epochs, lr, weight_decay, clip
        self.selection, self.patience, self.device, self.seed = selection, patience, device, seed

    def make_method(self, backbone: Backbone, settings: Settings) -> Method:
        """ERM."""
        return ERMMethod(backbone, lr=settings.lr, weight_decay=settings.weight_decay, clip=settings.clip)
