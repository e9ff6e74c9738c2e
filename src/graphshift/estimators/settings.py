"""The settings of a fit: the name of a method and its hyper-parameters, from a command line, a file or a record."""

from collections.abc import Mapping
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import RENAMED, hparams_of, refuse_renamed
from graphshift.core.registry import expected_one_of
from graphshift.estimators.asked import fitting_defaults
from graphshift.estimators.base import DEFAULT_METHOD, METHODS, Estimator
from graphshift.estimators.gnn import GNNEstimator


def setting_names() -> list[str]:
    """The names of all settings: the hyper-parameters of all methods, and ``method``."""
    return list(dict.fromkeys(["method", *(name for one in METHODS.values() for name in hparams_of(one))]))


def short_names() -> dict[str, str]:
    """Short names that stand for settings, such as ``hidden``: those of the command line."""
    return {about.flag: name for one in METHODS.values() for name, about in hparams_of(one).items() if about.flag}


def methods_with(name: str) -> list[str]:
    """The methods that have a hyper-parameter; those with a backbone of their own, which narrows values, come last."""
    found = [method for method, estimator in METHODS.items() if name in hparams_of(estimator)]
    return sorted(found, key=lambda method: METHODS[method].own_backbone is not None)


def has_setting(name: str, settings: Mapping[str, Any]) -> bool:
    """Whether a setting means something to the method, and to the explorer if there is one, of other settings."""
    estimator = METHODS.find(settings.get("method", DEFAULT_METHOD))
    return name == "method" or (name in hparams_of(estimator) and not estimator.idle(name, settings))


def make_estimator(
    given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None, *, where: str = ""
) -> Estimator:
    """The estimator with these settings, all of them checked.

    Args:
        given: settings by name, ``method`` among them.
        defaults: of the dataset, for what is not given.
        where: what to put before messages, such as the file's name.
    """
    given = {short_names().get(name, name): value for name, value in given.items()}
    method = given.pop("method", DEFAULT_METHOD)
    estimator = METHODS.find(method, where=where)
    refuse_renamed(given, where=where)
    for name in given:
        if name not in hparams_of(estimator):
            if owners := methods_with(name):
                needed = f"method {' or '.join(owners)}"
                if name in hparams_of(GNNEstimator):
                    needed = "a method that trains a GNN"
                raise GraphshiftError(f"{where}{name} needs {needed}; the method is {method}.")
            raise GraphshiftError(f"{where}{name} is not a setting; {expected_one_of(name, setting_names())}")
    chosen = fitting_defaults(estimator, defaults or {}, given, where)
    for name in given:
        if why := estimator.idle(name, chosen):
            raise GraphshiftError(f"{where}{name}: {why}; leave it out.")
    values = {name: about.default for name, about in hparams_of(estimator).items()} | chosen
    return estimator.of_checked(values, where=where)


def recorded_estimator(settings: Mapping[str, Any], *, where: str = "") -> Estimator:
    """The estimator of a record: settings as :meth:`Estimator.settings` gave them, in this version or an earlier one.

    Earlier versions wrote down the settings of all methods, and called ``views`` ``explorers``.
    """
    if not isinstance(settings, Mapping):
        raise GraphshiftError(f"{where}settings is {settings!r}; expected a table of settings by name.")
    now = {RENAMED.get(name, name): value for name, value in settings.items()}
    estimator = METHODS.find(now.pop("method", None), where=where)
    if unknown := [name for name in now if name not in setting_names()]:
        raise GraphshiftError(f"{where}{unknown[0]} is not a setting; {expected_one_of(unknown[0], setting_names())}")
    values = {name: about.default for name, about in hparams_of(estimator).items()}
    values |= {name: value for name, value in now.items() if name in values}
    return estimator.of_checked(values, where=where, names=False)
