"""scikit-learn-like estimators, one for each method. One file each, but for those made from settings alone."""

from graphshift.estimators.base import FORMAT, Model, new_backbone
from graphshift.estimators.eerm import EERM
from graphshift.estimators.ensemble import Ensemble
from graphshift.estimators.erm import ERM
from graphshift.estimators.made import CORAL, DANN, IRM, SRGNN, GroupDRO, Mixup, VREx
from graphshift.estimators.predictor import Predictor
from graphshift.estimators.settings import Settings

__all__ = [
    "CORAL",
    "DANN",
    "EERM",
    "ERM",
    "FORMAT",
    "IRM",
    "METHODS",
    "SRGNN",
    "Ensemble",
    "GroupDRO",
    "Mixup",
    "Model",
    "Predictor",
    "VREx",
    "make_model",
    "new_backbone",
]

#: Every method by name.
METHODS: dict[str, type[Model]] = {
    "erm": ERM,
    "eerm": EERM,
    "irm": IRM,
    "vrex": VREx,
    "groupdro": GroupDRO,
    "mixup": Mixup,
    "coral": CORAL,
    "dann": DANN,
    "srgnn": SRGNN,
}


def make_model(settings: Settings) -> Model:
    """The estimator with these settings."""
    estimator = METHODS[settings.method]
    names = estimator().get_params(deep=False)
    return estimator(**{name: value for name, value in settings.model_dump().items() if name in names})
