"""Explorers make views. One file each, which declares itself: ``@EXPLORERS.register("name")``."""

from typing import TYPE_CHECKING

from graphshift.explorers.add_edge import AddEdge
from graphshift.explorers.base import EXPLORERS, Change, Explorer, Risk, SharedRisk, View, apply_actions, as_graph
from graphshift.explorers.drop_edge import DropEdge
from graphshift.explorers.features import FeatureExplorer, MixedExplorer
from graphshift.explorers.gradient import AIMS, Gradient
from graphshift.explorers.policy import SparsePolicy
from graphshift.explorers.random import Random
from graphshift.explorers.reinforce import Reinforce
from graphshift.explorers.swap_edges import SwapEdges

if not TYPE_CHECKING:
    __getattr__ = EXPLORERS.class_named  # of an explorer whose file is not imported above
