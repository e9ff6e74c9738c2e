"""The hyper-parameters of an estimator: what was given, what a dataset's defaults decide, copies with other values."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator
from torch import nn

from graphshift.core.hparams import hparams_of, refuse_renamed
from graphshift.estimators.asked import fitting_defaults
from graphshift.estimators.checking import checked


class HyperParameters(BaseEstimator):
    """Hyper-parameters by name, as in scikit-learn; those that are not given take the defaults of the dataset.

    Attributes:
        method, label: the method's name in the registry, and in tables.
        uses_backbone: whether the method trains a GNN; without one it has no epochs either.
        own_backbone: the one backbone that it is written for, if it is.
    """

    method: ClassVar[str]
    label: ClassVar[str]
    uses_backbone: ClassVar[bool] = False
    own_backbone: ClassVar[str | None] = None

    _given: set[str]
    _checked_values: dict[str, Any]

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """Remembers what was given: the rest takes the defaults of the dataset that ``fit`` gets."""
        refuse_renamed(given)
        self = super().__new__(cls)
        self._given, self._checked_values = set(given), {}
        return self

    @classmethod
    def of_checked(cls, values: Mapping[str, Any], **how: Any) -> Self:
        """An estimator with every hyper-parameter decided and checked; ``fit`` does not check these values again."""
        self = cls(**checked(cls, values, **how))
        self._checked_values = {name: getattr(self, name) for name in hparams_of(cls)}
        return self

    def set_params(self, **params: Any) -> Self:
        """Sets hyper-parameters, as in scikit-learn."""
        self._given |= params.keys()
        return super().set_params(**params)

    def __sklearn_clone__(self) -> Self:
        return type(self)(**{name: copy.deepcopy(getattr(self, name)) for name in self._given})

    def settings(self) -> dict[str, Any]:
        """The method's name and every hyper-parameter, as plain values."""
        values = self.get_params(deep=False)
        for name, about in hparams_of(self).items():
            if about.registry and not isinstance(values[name], str):  # a module or a function of the user's own
                own = type(values[name]) if isinstance(values[name], nn.Module) else values[name]
                values[name] = getattr(own, "__name__", "own")
        return {"method": self.method, **values}

    def resolved(self, defaults: Mapping[str, Any] | None = None) -> Self:
        """A copy in which every hyper-parameter is decided and checked, or this estimator if they are already.

        Args:
            defaults: of the dataset: what was not given takes these, else the general default.
        """
        values = {name: getattr(self, name) for name in hparams_of(self)}
        if values == self._checked_values:
            return self
        given = {name: values[name] for name in self._given}
        return self.of_checked(values | fitting_defaults(type(self), defaults or {}, given))

    @classmethod
    def check_together(cls, values: Mapping[str, Any], where: str) -> None:
        """Refuses values that fit one by one and not together."""

    @classmethod
    def idle(cls, name: str, values: Mapping[str, Any]) -> str:
        """Why a hyper-parameter has no effect beside other values; empty if it has one."""
        return ""

    @classmethod
    def completed(cls, values: dict[str, Any], defaults: Mapping[str, Any], where: str = "") -> dict[str, Any]:
        """Values whose own parts take a dataset's defaults as well; most methods have no such parts."""
        return values

    def replace(self, **changes: Any) -> Self:
        """A copy with other values of some hyper-parameters."""
        return type(self)(**{name: getattr(self, name) for name in hparams_of(self)} | changes)
