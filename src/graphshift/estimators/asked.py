"""What a fit is asked for: a dataset's defaults, graphs by role, further rules, callbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparams_of
from graphshift.data.environment import Environment, as_environments
from graphshift.data.together import check_together
from graphshift.estimators.predictor import Graphs
from graphshift.training.batches import Batches
from graphshift.training.callbacks import Callback
from graphshift.training.loop import Selection
from graphshift.training.run import Run
from graphshift.training.selection import SELECTIONS, Roles, SelectionRule

if TYPE_CHECKING:
    from graphshift.estimators.hyper_parameters import HyperParameters


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How a fit is to be done, beside its settings and its data."""

    also: Mapping[str, Selection]  #: further rules by name
    run: Run | None
    batches: Batches
    callbacks: Sequence[Callback]
    calibrating: Sequence[Environment]  #: labelled graphs, not trained on, that say how sure the model may be
    target: Sequence[Environment] = ()  #: graphs without labels that training may see


def fitting_defaults(
    estimator: type[HyperParameters], defaults: Mapping[str, Any], given: Mapping[str, Any], where: str = ""
) -> dict[str, Any]:
    """A dataset's defaults as far as they fit a method, and what was given, which counts more.

    Defaults of one backbone or method alone are under ``"by_backbone"`` and ``"by_method"``.
    """
    about = hparams_of(estimator)
    usual = about["backbone"].default if "backbone" in about else None
    if estimator.own_backbone is not None:
        defaults = {name: value for name, value in defaults.items() if name not in ("backbone", "backbone_options")}
    backbone = given.get("backbone", defaults.get("backbone", usual)) if estimator.uses_backbone else None
    by_backbone = defaults.get("by_backbone", {}).get(backbone, {}) if isinstance(backbone, str) else {}
    flat = {**defaults, **by_backbone, **defaults.get("by_method", {}).get(estimator.method, {})}
    fitting = {name: value for name, value in flat.items() if name in about} | dict(given)
    return estimator.completed(fitting, defaults, where)


def named_target(name: str, tests: Graphs) -> Graphs:
    """The graphs that are the target by a name."""
    if name != "tests":
        raise GraphshiftError(f"target is {name!r}; expected graphs, or 'tests' for the tests without their labels.")
    if not (found := as_environments(tests)):
        raise GraphshiftError("target is 'tests', and there are no test environments.")
    return found


def roles_of(train: Graphs, val: Graphs, tests: Graphs, target: Graphs, seed: int) -> Roles:
    """The environments of a fit, checked, with no label on those of the target."""
    training = as_environments(train, name="train")
    if not training:
        raise GraphshiftError("train: there is no training environment; at least one is needed.")
    task = training[0].task
    validation, testing = as_environments(val, task, "val"), as_environments(tests, task, "test")
    unlabelled = [e.unlabelled() for e in as_environments(target, task, "target", labelled=False)]
    names = {e.name for e in testing}  # the tests may be the target
    check_together(training, [*validation, *testing], [e for e in unlabelled if e.name not in names], where="fit")
    return Roles(training, validation, testing, seed, unlabelled)


def shared_rule(name: str) -> SelectionRule:
    """A rule that may choose an epoch of the same training."""
    rule = SELECTIONS.find(name, where="also: ")
    if not rule.shares_training:
        able = ", ".join(repr(one.name) for one in SELECTIONS.values() if one.shares_training)
        raise GraphshiftError(f"also is {name!r}; expected one of {able}, which leave training as it is.")
    return rule
