"""graphshift: graph neural networks that hold up when the graph changes.

The public names are imported on first use, so that ``import graphshift`` and ``graphshift --help`` are quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphshift._version import __version__

if TYPE_CHECKING:
    from graphshift import backbones, explorers, methods, risks
    from graphshift.datasets import DATASETS, load
    from graphshift.datasets.own import from_networkx, from_pyg
    from graphshift.datasets.tables.from_tables import from_tables
    from graphshift.environments import Environment, ShiftDataset
    from graphshift.errors import GraphshiftError, GraphshiftWarning
    from graphshift.loading import load_model
    from graphshift.models import CORAL, DANN, EERM, ERM, IRM, SRGNN, Ensemble, GroupDRO, Mixup, Model, VREx
    from graphshift.risks import eerm_objective, variance
    from graphshift.tasks import Task
    from graphshift.training import Run

_HOMES = {
    "CORAL": "models", "DANN": "models", "GroupDRO": "models", "IRM": "models", "Mixup": "models", "SRGNN": "models",
    "VREx": "models", "Ensemble": "models", "DATASETS": "datasets", "EERM": "models", "ERM": "models",
    "Environment": "environments",
    "GraphshiftError": "errors", "GraphshiftWarning": "errors", "Model": "models", "Run": "training",
    "ShiftDataset": "environments", "Task": "tasks", "eerm_objective": "risks",
    "from_networkx": "datasets.own", "from_pyg": "datasets.own", "from_tables": "datasets.tables.from_tables",
    "load": "datasets", "load_model": "loading", "variance": "risks",
}  # fmt: skip
_MODULES = ("backbones", "explorers", "methods", "risks")

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
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"graphshift.{name}")
    if name in _HOMES:
        return getattr(import_module(f"graphshift.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'graphshift' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
