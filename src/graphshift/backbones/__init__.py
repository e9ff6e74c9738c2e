"""Backbones are GNNs. One file each, which declares itself: ``@BACKBONES.register("name")``."""

from typing import TYPE_CHECKING

from graphshift.backbones.base import BACKBONES, Backbone, ModuleBackbone, make_backbone
from graphshift.backbones.gat import GAT
from graphshift.backbones.gcn import GCN
from graphshift.backbones.gcnii import GCNII
from graphshift.backbones.gprgnn import GPRGNN
from graphshift.backbones.mlp import MLP
from graphshift.backbones.readout import GraphLevel, graph_backbone
from graphshift.backbones.sage import SAGE
from graphshift.backbones.sgc import SGC

if not TYPE_CHECKING:
    __getattr__ = BACKBONES.class_named  # of a backbone whose file is not imported above
