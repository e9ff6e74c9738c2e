"""Backbones are GNNs. One file each, which declares itself: ``@BACKBONES.register("name")``."""

from typing import TYPE_CHECKING

from graphshift.backbones.base import BACKBONES, Backbone, ModuleBackbone, make_backbone
from graphshift.backbones.gat import GAT
from graphshift.backbones.gcn import GCN
from graphshift.backbones.gcnii import GCNII
from graphshift.backbones.gprgnn import GPRGNN
from graphshift.backbones.mlp import MLP
from graphshift.backbones.sage import SAGE
from graphshift.backbones.sgc import SGC

if not TYPE_CHECKING:

    def __getattr__(name: str) -> type:
        """The class of a backbone whose file is not imported above."""
        for member in BACKBONES.values() if not name.startswith("_") else ():
            if member.__name__ == name:
                return member
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
