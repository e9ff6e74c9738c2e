"""Checks of hyper-parameters: types, ranges, names. Every value that does not fit is explained."""

import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import Hparam, hparams_of
from graphshift.core.registry import REGISTRIES


def checked(owner: type[Any], values: Mapping[str, Any], *, where: str = "", names: bool = True) -> dict[str, Any]:
    """Hyper-parameters of a class with their types made right, or an error that explains each that does not fit.

    Args:
        owner: a dataclass with hyper-parameters.
        values: by name.
        where: what to put before each message, such as the file's name.
        names: check that named backbones, explorers and rules exist; a record may name those of a user's own.
    """
    own = {name for name, about in hparams_of(owner).items() if about.registry and not isinstance(values[name], str)}
    # An object of the user's own has no name to check; None stands for no options.
    plain = {n: {} if v is None and n.endswith("_options") else v for n, v in values.items() if n not in own}
    try:
        found = _schema(cast(Any, owner)).model_validate(plain).model_dump(include=set(plain))
    except ValidationError as error:
        raise GraphshiftError("\n".join(_explain(problem, where) for problem in error.errors())) from None
    for name, about in hparams_of(owner).items():
        if names and about.registry and name not in own:
            REGISTRIES[about.registry].find(found[name], where=where)
    together = {**values, **found}
    owner.check_together(together, where)
    return together


@cache
def _schema(owner: Any) -> type[BaseModel]:
    types = typing.get_type_hints(owner)
    fields: dict[str, Any] = {name: _field(types[name], about) for name, about in hparams_of(owner).items()}
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    return create_model(owner.__name__, __config__=config, **fields)


def _field(kind: Any, about: Hparam) -> tuple[Any, Any]:
    limits: dict[str, Any] = {"ge": about.ge, "gt": about.gt, "le": about.le, "lt": about.lt}
    return (str if about.registry else kind), Field(about.default, **limits)


def _explain(problem: Any, where: str) -> str:
    name = ".".join(str(part) for part in problem["loc"]) or "settings"
    expected = problem["msg"][0].lower() + problem["msg"][1:]
    return f"{where}{name} is {problem['input']!r}; {expected.replace('input should', 'it should')}."
