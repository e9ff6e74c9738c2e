"""graphshift: graph neural networks that hold up when the graph changes.

Public names are imported on first use, so that ``import graphshift`` and ``graphshift --help`` are quick. The estimator
of every method is one of them, by the name of its class: ``graphshift.EERM``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphshift._version import __version__

if TYPE_CHECKING:  # for editors; methods of one's own are found at run time
    from graphshift import backbones, explorers, methods
    from graphshift.core.errors import GraphshiftError, GraphshiftWarning
    from graphshift.data.dataset import ShiftDataset
    from graphshift.data.environment import Environment
    from graphshift.data.tasks import Task
    from graphshift.datasets import DATASETS, load
    from graphshift.datasets.node_split import split_by
    from graphshift.datasets.own import from_networkx, from_pyg, from_tables
    from graphshift.datasets.partitions import partition, partition_tables
    from graphshift.datasets.shared_words import shared_words
    from graphshift.datasets.steady_columns import steady_columns
    from graphshift.estimators import Ensemble, Estimator
    from graphshift.estimators.export import export_model
    from graphshift.estimators.loading import load_model
    from graphshift.methods.blend import Blend
    from graphshift.methods.boosting import Boosting
    from graphshift.methods.canet import CaNet
    from graphshift.methods.coral import CORAL
    from graphshift.methods.correct_smooth import CorrectSmooth
    from graphshift.methods.dann import DANN
    from graphshift.methods.dgi import DGI
    from graphshift.methods.eerm import EERM
    from graphshift.methods.erm import ERM
    from graphshift.methods.forest import Forest
    from graphshift.methods.groupdro import GroupDRO
    from graphshift.methods.irm import IRM
    from graphshift.methods.label_propagation import LabelPropagation
    from graphshift.methods.logistic import Logistic
    from graphshift.methods.majority import Majority
    from graphshift.methods.mixup import Mixup
    from graphshift.methods.mmd import MMD
    from graphshift.methods.pair_align import PairAlign
    from graphshift.methods.risks import eerm_objective, variance
    from graphshift.methods.self_training import SelfTraining
    from graphshift.methods.srgnn import SRGNN
    from graphshift.methods.tar import TAR
    from graphshift.methods.vrex import VREx
    from graphshift.report.pictures import figure
    from graphshift.report.study_api import compare, recommend
    from graphshift.shift.auditing.audit import audit
    from graphshift.shift.auditing.explaining import as_module
    from graphshift.shift.calibrating import Calibrator, calibrate_to
    from graphshift.shift.comparing.compare import compare_graphs
    from graphshift.shift.estimating import estimate_score
    from graphshift.shift.reliability import reliability
    from graphshift.shift.watching import watch
    from graphshift.studies.engines import Engine
    from graphshift.training.callbacks import Callback
    from graphshift.training.run import Run

_PACKAGES = ("backbones", "explorers", "methods")
_HOMES = {
    "core.errors": ("GraphshiftError", "GraphshiftWarning"),
    "data.dataset": ("ShiftDataset",),
    "data.environment": ("Environment",),
    "data.tasks": ("Task",),
    "datasets": ("DATASETS", "load"),
    "datasets.node_split": ("split_by",),
    "datasets.own": ("from_networkx", "from_pyg", "from_tables"),
    "datasets.shared_words": ("shared_words",),
    "datasets.steady_columns": ("steady_columns",),
    "datasets.partitions": ("partition", "partition_tables"),
    "estimators": ("Ensemble", "Estimator"),
    "estimators.export": ("export_model",),
    "estimators.loading": ("load_model",),
    "methods": ("METHODS", "eerm_objective", "variance"),
    "report.pictures": ("figure",),
    "report.study_api": ("compare", "recommend"),
    "shift.auditing.audit": ("audit",),
    "shift.auditing.explaining": ("as_module",),
    "shift.calibrating": ("Calibrator", "calibrate_to"),
    "shift.comparing.compare": ("compare_graphs",),
    "shift.estimating": ("estimate_score",),
    "shift.reliability": ("reliability",),
    "shift.watching": ("watch",),
    "studies.engines": ("Engine",),
    "training.callbacks": ("Callback",),
    "training.run": ("Run",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"graphshift.{name}")
    if name in _HOME_OF:
        return getattr(import_module(f"graphshift.{_HOME_OF[name]}"), name)
    if not name.startswith("_"):
        for estimator in import_module("graphshift.methods").METHODS.values():
            if estimator.__name__ == name:
                return estimator
    raise AttributeError(f"module 'graphshift' has no attribute {name!r}")


def __dir__() -> list[str]:
    estimators = [estimator.__name__ for estimator in import_module("graphshift.methods").METHODS.values()]
    return sorted([*_PACKAGES, *_HOME_OF, *estimators, "__version__"])
