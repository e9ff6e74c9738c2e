"""Methods turn environments into training steps. One file each; a new one is added to ``METHODS`` in ``models``."""

from graphshift.methods.coral import CORALMethod
from graphshift.methods.dann import DANNMethod
from graphshift.methods.eerm import EERMMethod
from graphshift.methods.erm import ERMMethod
from graphshift.methods.groupdro import GroupDROMethod
from graphshift.methods.grouped import Group, GroupedMethod
from graphshift.methods.irm import IRMMethod
from graphshift.methods.mixup import MixupMethod
from graphshift.methods.srgnn import SRGNNMethod
from graphshift.methods.vrex import VRExMethod
from graphshift.training.method import Method

__all__ = [
    "CORALMethod",
    "DANNMethod",
    "EERMMethod",
    "ERMMethod",
    "Group",
    "GroupDROMethod",
    "GroupedMethod",
    "IRMMethod",
    "Method",
    "MixupMethod",
    "SRGNNMethod",
    "VRExMethod",
]
