"""graphshift: graph neural networks that hold up when the graph changes.

The public names are imported on first use, so that ``import graphshift`` and ``graphshift --help`` are quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphshift._version import __version__

if TYPE_CHECKING:
    from graphshift import backbones, explorers, methods
    from graphshift.core.errors import GraphshiftError, GraphshiftWarning
    from graphshift.data.environment import Environment, ShiftDataset
    from graphshift.data.tasks import Task
    from graphshift.datasets import DATASETS, load
    from graphshift.datasets.own import from_networkx, from_pyg
    from graphshift.datasets.tables.from_tables import from_tables
    from graphshift.estimators import CORAL, DANN, EERM, ERM, IRM, SRGNN, Ensemble, GroupDRO, Mixup, Model, VREx
    from graphshift.estimators.loading import load_model
    from graphshift.methods import risks
    from graphshift.methods.risks import eerm_objective, variance
    from graphshift.training.loop import Run

_HOMES = {
    **dict.fromkeys(("CORAL", "DANN", "EERM", "ERM", "IRM", "SRGNN", "GroupDRO", "Mixup", "VREx"), "estimators"),
    "DATASETS": "datasets",
    "Ensemble": "estimators",
    "Environment": "data.environment",
    "GraphshiftError": "core.errors",
    "GraphshiftWarning": "core.errors",
    "Model": "estimators",
    "Run": "training.loop",
    "ShiftDataset": "data.environment",
    "Task": "data.tasks",
    "eerm_objective": "methods.risks",
    "from_networkx": "datasets.own",
    "from_pyg": "datasets.own",
    "from_tables": "datasets.tables.from_tables",
    "load": "datasets",
    "load_model": "estimators.loading",
    "variance": "methods.risks",
}
_MODULES = {"backbones": "backbones", "explorers": "explorers", "methods": "methods", "risks": "methods.risks"}

__all__ = [
    "CORAL",
    "DANN",
    "DATASETS",
    "EERM",
    "ERM",
    "IRM",
    "SRGNN",
    "Ensemble",
    "Environment",
    "GraphshiftError",
    "GraphshiftWarning",
    "GroupDRO",
    "Mixup",
    "Model",
    "Run",
    "ShiftDataset",
    "Task",
    "VREx",
    "__version__",
    "backbones",
    "eerm_objective",
    "explorers",
    "from_networkx",
    "from_pyg",
    "from_tables",
    "load",
    "load_model",
    "methods",
    "risks",
    "variance",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"graphshift.{_MODULES[name]}")
    if name in _HOMES:
        return getattr(import_module(f"graphshift.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'graphshift' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
