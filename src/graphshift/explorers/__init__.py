"""Explorers make views. One file each; a new one is added to ``EXPLORERS`` here."""

from graphshift.core.registry import Registry
from graphshift.explorers.add_edge import AddEdge
from graphshift.explorers.base import Change, Explorer, Risk, SharedRisk, View, apply_actions, as_graph
from graphshift.explorers.drop_edge import DropEdge
from graphshift.explorers.features import FeatureExplorer, MixedExplorer
from graphshift.explorers.gradient import AIMS, Gradient
from graphshift.explorers.policy import SparsePolicy
from graphshift.explorers.random import Random
from graphshift.explorers.reinforce import Reinforce

__all__ = [
    "AIMS",
    "EXPLORERS",
    "AddEdge",
    "Change",
    "DropEdge",
    "Explorer",
    "FeatureExplorer",
    "Gradient",
    "MixedExplorer",
    "Random",
    "Reinforce",
    "Risk",
    "SharedRisk",
    "SparsePolicy",
    "View",
    "apply_actions",
    "as_graph",
]

#: Every explorer by name.
EXPLORERS: Registry[type[Explorer]] = Registry("explorer", "graphshift.explorers")
for _n, _c in {
    "reinforce": Reinforce,
    "random": Random,
    "gradient": Gradient,
    "features": FeatureExplorer,
    "mixed": MixedExplorer,
    "drop-edge": DropEdge,
    "add-edge": AddEdge,
}.items():
    EXPLORERS.register(_n)(_c)
