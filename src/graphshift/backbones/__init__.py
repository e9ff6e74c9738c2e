"""Backbones are GNNs. One file each; a new one is added to ``BACKBONES`` here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from graphshift.backbones.base import Backbone, ModuleBackbone
from graphshift.backbones.gat import GAT
from graphshift.backbones.gcn import GCN
from graphshift.backbones.gcnii import GCNII
from graphshift.backbones.gprgnn import GPRGNN
from graphshift.backbones.mlp import MLP
from graphshift.backbones.sage import SAGE
from graphshift.backbones.sgc import SGC
from graphshift.core.arguments import check_types
from graphshift.core.errors import GraphshiftError
from graphshift.core.registry import Registry

__all__ = [
    "BACKBONES",
    "GAT",
    "GCN",
    "GCNII",
    "GPRGNN",
    "MLP",
    "SAGE",
    "SGC",
    "Backbone",
    "ModuleBackbone",
    "make_backbone",
]

#: Every backbone by name.
BACKBONES: Registry[Callable[..., Backbone]] = Registry("backbone", "graphshift.backbones")
for _n, _c in {
    "gcn": GCN,
    "gcn-unnormalised": partial(GCN, normalize=False),
    "sage": SAGE,
    "gat": GAT,
    "gcnii": GCNII,
    "gprgnn": GPRGNN,
    "sgc": SGC,
    "mlp": MLP,
}.items():
    BACKBONES.register(_n)(_c)


def make_backbone(
    backbone: str | nn.Module,
    in_channels: int,
    out_channels: int,
    *,
    hidden_channels: int,
    num_layers: int,
    dropout: float,
    options: dict[str, Any] | None = None,
) -> Backbone:
    """A new backbone by name, or a copy of the user's own module.

    Args:
        backbone: a name from :data:`BACKBONES`, a :class:`Backbone`, or any module with ``forward(x, edge_index)``.
        in_channels: features of a node.
        out_channels: outputs for a node.
        hidden_channels: width; a module of the user's own has its own.
        num_layers: depth; likewise.
        dropout: likewise.
        options: options of the named backbone, such as ``{"heads": 2}``.
    """
    if isinstance(backbone, nn.Module):
        if options:
            raise GraphshiftError(f"backbone_options {options} are for named backbones; your own module has its own.")
        module = copy.deepcopy(backbone)
        return module if isinstance(module, Backbone) else ModuleBackbone(module, out_channels)
    if backbone not in BACKBONES:
        raise GraphshiftError(f"backbone is {backbone!r}; expected one of {', '.join(BACKBONES)}, or your own module.")
    check_types(f"backbone {backbone!r}", BACKBONES[backbone], options or {})
    try:
        return BACKBONES[backbone](
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            dropout=dropout,
            **(options or {}),
        )
    except (TypeError, ArithmeticError, RuntimeError) as error:
        if not options:
            raise
        raise GraphshiftError(f"backbone {backbone!r}: backbone_options {options} do not fit: {error}.") from None
