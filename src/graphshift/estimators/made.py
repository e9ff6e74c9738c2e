"""The estimators of methods that have nothing but settings: ERM's, and a few of their own."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from typing import Any

from graphshift.backbones import Backbone
from graphshift.estimators.base import Model
from graphshift.estimators.erm import ERM
from graphshift.estimators.settings import OWNERS, Settings
from graphshift.methods import (
    CORALMethod,
    DANNMethod,
    GroupDROMethod,
    IRMMethod,
    Method,
    MixupMethod,
    SRGNNMethod,
    VRExMethod,
)


def _estimator(name: str, method: type[Method]) -> type[Model]:
    """The estimator of one method.

    Its signature is put together from :class:`Settings`, since scikit-learn reads parameters from there.
    """
    key = name.lower()
    common = list(inspect.signature(ERM.__init__).parameters.values())
    own = [setting for setting, owners in OWNERS.items() if key in owners]
    fields = [
        inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=Settings.model_fields[n].default) for n in own
    ]
    signature = inspect.Signature([*common, *fields])

    def initialise(self: Model, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for parameter, value in list(bound.arguments.items())[1:]:
            setattr(self, parameter, value)

    def make_method(self: Model, backbone: Backbone, settings: Settings) -> Method:
        taken = {n: getattr(settings, n) for n in ("lr", "weight_decay", "clip", *own)}
        return method(backbone, **taken)

    initialise.__signature__ = signature  # type: ignore[attr-defined]
    lines = [f"        {n}: {Settings.model_fields[n].description}." for n in own]
    doc = f"{method.__doc__}".split("Args:")[0].rstrip()
    text = f"{doc}\n\n    Args:\n        backbone … seed: as in :class:`ERM`.\n" + "\n".join(lines)
    body = {"_method": key, "__init__": initialise, "make_method": make_method, "__doc__": text, "__module__": __name__}
    made: type[Model] = ABCMeta(name, (Model,), body)  # type: ignore[assignment]
    return made


IRM = _estimator("IRM", IRMMethod)
VREx = _estimator("VREx", VRExMethod)
GroupDRO = _estimator("GroupDRO", GroupDROMethod)
Mixup = _estimator("Mixup", MixupMethod)
CORAL = _estimator("CORAL", CORALMethod)
DANN = _estimator("DANN", DANNMethod)
SRGNN = _estimator("SRGNN", SRGNNMethod)
