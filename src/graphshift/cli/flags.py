"""One command-line option for every hyper-parameter of every method, as their files declare them."""

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

import typer

from graphshift.core.declared import declared_classes, declared_names
from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import RENAMED, Hparam, hparams_of, refuse_renamed
from graphshift.core.registry import wanted_plugins

_PACKAGES = {
    "method": "graphshift.methods",
    "backbone": "graphshift.backbones",
    "explorer": "graphshift.explorers",
    "selection": "graphshift.training.selection",
}
_BASES = "graphshift.estimators"
_METAVARS = {"int": "N", "float": "X", "str": "NAME"}
_WIDTH = 24  # of a placeholder; a longer one would be broken inside of names
_TYPES: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": str}


@dataclass(frozen=True)
class Flag:
    """A hyper-parameter as the command line has it."""

    name: str  # in Python
    about: Hparam
    kind: str  # its type, as written
    owners: tuple[str, ...]  # the methods that have it
    common: bool  # whether all have it
    of_gnns: bool = False  # whether all that train a GNN have it

    @property
    def spelled(self) -> str:
        """On the command line: ``--hidden``."""
        name = self.about.flag or self.name
        return "--" + (name.removesuffix("s") if self.is_pairs else name).replace("_", "-")

    @property
    def is_pairs(self) -> bool:
        """Whether it is given as ``NAME=VALUE``, any number of times."""
        return self.kind.startswith("dict")

    @property
    def is_list(self) -> bool:
        """Whether it is a list of methods, given as names with commas or as JSON; its owner reads both."""
        return self.kind.startswith("list")


@cache
def flags() -> dict[str, Flag]:
    """The hyper-parameters of all methods by name, those that all have first."""
    found: dict[str, Flag] = {}
    methods = _methods()
    common, of_gnns = _own_hparams("Estimator")[0], _own_hparams("GNNEstimator")
    for name, about in of_gnns[0].items():
        owners = tuple(method for method, (hparams, _) in methods.items() if name in hparams)
        found[name] = Flag(name, about, of_gnns[1][name], owners, name in common, name not in common)
    for method, (hparams, types) in methods.items():
        for name in (name for name in hparams if name not in of_gnns[0]):
            known = found.get(name, Flag(name, hparams[name], types[name], (), False))
            found[name] = replace(known, owners=(*known.owners, method))
    return found


def names_of(kind: str) -> list[str]:
    """The names of all methods, backbones, explorers or selection rules, without importing them."""
    if wanted_plugins():
        from graphshift.core.registry import REGISTRIES
        from graphshift.methods import METHODS  # noqa: F401 (makes the registries)

        return list(REGISTRIES[kind])
    return declared_names(_PACKAGES[kind])


def check_owners(given: Mapping[str, Any], method: str) -> None:
    """Refuses an option that the method does not have; of a method that there is not, the fit says more."""
    for name in given if method in names_of("method") else ():
        flag = flags().get(name)
        if flag is not None and not flag.common and method not in flag.owners:
            needed = "a method that trains a GNN" if flag.of_gnns else f"--method {' or '.join(flag.owners)}"
            raise GraphshiftError(f"{flag.spelled} needs {needed}; the method is {method}.")


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command an option for ``method`` and for every hyper-parameter."""
    signature = inspect.signature(command, eval_str=True)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    text, metavar = _one_of("what to train with", names_of("method"))
    method = typer.Option("--method", help=text, metavar=metavar, show_default="eerm", rich_help_panel="Training")
    parameters.append(_parameter("method", Annotated[str | None, method]))
    parameters += [_parameter(flag.name, _annotation(flag)) for flag in flags().values()]
    for old in RENAMED:
        parameters.append(_parameter(old, Annotated[str | None, typer.Option(f"--{old}", hidden=True)]))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def given_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What was given on the command line, of the options of :func:`with_settings`."""
    from graphshift.cli.options import pairs

    given = {name: value for name, value in settings.items() if value is not None}
    refuse_renamed(given, spelled="--{}")
    return {n: pairs(v, flags()[n].spelled) if n in flags() and flags()[n].is_pairs else v for n, v in given.items()}


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _annotation(flag: Flag) -> Any:
    kind = flag.kind.removesuffix(" | None")
    text, panel = flag.about.help, "Training"
    if not flag.common and not flag.of_gnns:
        panel = "EERM" if flag.owners == ("eerm",) else "Other methods"
        text += "" if panel == "EERM" else f" ({', '.join(flag.owners)})"
    default = "none" if flag.about.default in (None, {}) else str(flag.about.default)
    if flag.is_list:
        default = ",".join(one["method"] for one in flag.about.default)
    if kind == "bool":
        option = typer.Option(flag.spelled, help=text, show_default="off", rich_help_panel=panel)
        return Annotated[bool | None, option]
    if flag.about.registry:
        text, metavar = _one_of(text, names_of(flag.about.registry))
    elif kind.startswith("Literal"):
        text, metavar = _one_of(text, ast.literal_eval(kind.removeprefix("Literal")))
    else:
        metavar = "NAME=VALUE" if flag.is_pairs else "NAMES|JSON" if flag.is_list else _METAVARS[kind]
    option = typer.Option(flag.spelled, help=text, metavar=metavar, show_default=default, rich_help_panel=panel)
    return Annotated[(list[str] if flag.is_pairs else _TYPES.get(kind, str)) | None, option]


def _one_of(text: str, names: Sequence[str]) -> tuple[str, str]:
    """The help and the placeholder of an option with named values: a few stand in the placeholder, many in the help."""
    metavar = "|".join(names)
    return (text, metavar) if len(metavar) <= _WIDTH else (f"{text}; one of {', '.join(names)}", "NAME")


def _methods() -> dict[str, tuple[dict[str, Hparam], dict[str, str]]]:
    """By method its hyper-parameters and their types as written, inherited ones included."""
    if wanted_plugins():
        from graphshift.methods import METHODS

        return {name: (hparams_of(one), _written_types(one)) for name, one in METHODS.items()}
    classes = declared_classes("graphshift.methods")
    return {one.registered: _own_hparams(one.name) for one in classes.values() if one.registered is not None}


def _own_hparams(name: str) -> tuple[dict[str, Hparam], dict[str, str]]:
    classes = {**declared_classes(_BASES), **declared_classes("graphshift.methods")}
    hparams: dict[str, Hparam] = {}
    types: dict[str, str] = {}
    for base in classes[name].bases:
        if base in classes:
            inherited, written = _own_hparams(base)
            hparams, types = {**hparams, **inherited}, {**types, **written}
    return {**hparams, **classes[name].hparams}, {**types, **classes[name].types}


def _written_types(owner: type[Any]) -> dict[str, str]:
    written = [item for one in reversed(owner.__mro__) for item in inspect.get_annotations(one).items()]
    return {name: kind if isinstance(kind, str) else inspect.formatannotation(kind) for name, kind in written}
