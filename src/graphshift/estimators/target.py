"""Training with an unlabelled target: which graphs a method may see, and that their labels are out of its reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparam
from graphshift.data.environment import Environment
from graphshift.estimators.base import Estimator
from graphshift.estimators.gnn import GNNEstimator
from graphshift.estimators.predictor import Graphs

#: What every table says of an arm whose training saw the unlabelled target, which its name is marked with.
MARK, MEANING = "†", "training, or the features, saw the unlabelled target; an arm without the mark has not seen it"


@dataclass(eq=False, repr=False, kw_only=True)
class SeesTarget(Estimator):
    """The base of methods whose training also sees unlabelled graphs, with a GNN or without.

    The graphs have no ``y`` and no labels that are known at prediction: :meth:`Environment.unlabelled`.

    Args:
        target: the graphs: ``"auto"`` takes the role ``target`` of the data (or the argument of ``fit``), ``"tests"``
            the test graphs with their labels hidden, as transductive domain adaptation does, ``"none"`` none.
        selection, seed: as in :class:`~graphshift.estimators.base.Estimator`.
    """

    uses_target = True
    #: Whether the method does nothing without a target, so that a fit without one is refused.
    needs_target: ClassVar[bool] = True

    target: Literal["auto", "tests", "none"] = hparam(
        "auto", help="unlabelled graphs to train with: the data's own, the tests without labels, or none"
    )

    def wanted_target(self, target: Graphs | str | None) -> Graphs | str | None:
        """The tests, if the setting says so and ``fit`` was given nothing else."""
        return "tests" if self.target == "tests" and not target else target

    def trained_with(self, target: Sequence[Environment]) -> Sequence[Environment]:
        """All of it, unless the setting says none; refused if the method needs a target and there is none."""
        seen = () if self.target == "none" else target
        if not seen and self.needs_target:
            raise GraphshiftError(
                f"method {self.method} trains with an unlabelled target, and there is none (target is "
                f"{self.target!r}). Give the data a role `target`, call fit(..., target=graphs), or choose target "
                "'tests' (--target tests): the test graphs without their labels."
            )
        return seen


@dataclass(eq=False, repr=False, kw_only=True)
class TargetEstimator(SeesTarget, GNNEstimator):
    """Those that train a GNN; their step finds the graphs in ``Method.target``.

    Args:
        target: as in :class:`SeesTarget`.
        backbone … seed: as in :class:`~graphshift.estimators.gnn.GNNEstimator`.
    """
