"""The search space: which settings tuning may choose, and the arms that methods, backbones and explorers make."""

from collections.abc import Mapping, Sequence
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.hparams import hparams_of
from graphshift.core.registry import expected_one_of
from graphshift.estimators.base import DEFAULT_METHOD, METHODS
from graphshift.estimators.settings import has_setting, methods_with, setting_names
from graphshift.studies.plan import Arm

#: Settings that differ between arms or runs; they cannot be tuned within an arm.
_MAKES_AN_ARM = ("method", "backbone", "explorer", "seed", "selection")


def method_label(method: str) -> str:
    """A method's name as people write it."""
    return METHODS[method].label


def uses(name: str, method: str, explorer: str | None = None) -> bool:
    """Whether a method, with an explorer where one is given, uses a setting."""
    return has_setting(name, {"method": method} | ({"explorer": explorer} if explorer else {}))


def paper_space(settings: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """The search values of an arm's method, for those hyper-parameters that it uses and that its settings leave open.

    EERM's are the paper's (appendix on implementation details); all methods have the same learning rates.
    """
    about = hparams_of(METHODS.find(settings.get("method", DEFAULT_METHOD)))
    return {n: one.search for n, one in about.items() if one.search and n not in settings and has_setting(n, settings)}


def crossed_arms(
    methods: Sequence[str],
    backbones: Sequence[str] | None,
    explorers: Sequence[str],
    *,
    common: Mapping[str, Any] | None = None,
    space: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
) -> list[Arm]:
    """Methods × backbones, and for EERM × explorers. A method without a choice of backbone is one arm.

    Args:
        methods: ``"erm"``, ``"eerm"`` and so on.
        backbones: by name; None for the one that the dataset prefers.
        explorers: by name; each is an arm of its own for ``"eerm"``.
        common: settings that all arms share; an arm that does not use one does without it.
        space: by method, from :func:`space_from_table`; None for the paper's.
    """
    common = common or {}
    arms = []
    used: set[str] = set()
    free = [method for method in methods if METHODS[method].uses_backbone and METHODS[method].own_backbone is None]
    pairs: list[tuple[str, str | None]] = [(method, None) for method in methods if method not in free]
    pairs += [(m, one) for one in backbones or (None,) for m in free]
    for method, backbone in pairs:
        for explorer in explorers if method == "eerm" else (None,):
            own = {n: v for n, v in common.items() if uses(n, method, explorer)}
            used |= own.keys()
            named = {"method": method, "backbone": backbone, "explorer": explorer}
            settings = {n: v for n, v in named.items() if v} | own
            searched = paper_space(settings)
            if space is not None:
                searched = {n: v for n, v in space[method].items() if uses(n, method, explorer)}
            name = f"{method_label(method)} {explorer}" if explorer else method_label(method)
            arms.append(Arm(f"{name}, {backbone}" if backbone else name, settings, searched))
    if unused := [name for name in common if name not in used]:
        raise GraphshiftError(f"{', '.join(unused)}: no arm uses it; leave it out.")
    return arms


def space_from_table(
    table: Mapping[str, Any], methods: Sequence[str], *, where: str = ""
) -> dict[str, dict[str, list[Any]]]:
    """A search space of the user's own, by method.

    Args:
        table: lists of values by setting; those at the top are for all methods, those in a table such as ``[eerm]``
            for that method alone.
        methods: that the study has.
        where: what to put before messages, such as the file's name.
    """
    known = setting_names()
    shared = {name: values for name, values in table.items() if not isinstance(values, Mapping)}
    found: dict[str, dict[str, list[Any]]] = {}
    for name, values in table.items():
        if isinstance(values, Mapping) and name not in METHODS:
            raise GraphshiftError(f"{where}[{name}] is not a method's table; {expected_one_of(name, list(METHODS))}")
    for method in methods:
        own = table.get(method, {})
        for name, values in {**shared, **own}.items():
            place = f"{where}[{method}] " if name in own else where
            if name not in known:
                raise GraphshiftError(f"{place}{name} is not a setting; {expected_one_of(name, known)}")
            if name in _MAKES_AN_ARM:
                fixed = "differs between arms or runs and is not tuned within an arm"
                raise GraphshiftError(f"{place}{name} {fixed}; leave it out.")
            if not isinstance(values, list) or not values:
                raise GraphshiftError(f"{place}{name} is {values!r}; expected a list of values, as [0.001, 0.01].")
            if not all(isinstance(value, str | int | float) for value in values):
                raise GraphshiftError(f"{place}{name} is {values!r}; expected numbers, words, true or false.")
            if not uses(name, method):
                if name not in own and not METHODS[method].uses_backbone:
                    continue  # a simple model has few settings, none of which is a GNN's
                there = f"put it under [{methods_with(name)[0]}]."
                raise GraphshiftError(f"{place}{name} is not used by method {method}; {there}")
        found[method] = {name: values for name, values in {**shared, **own}.items() if uses(name, method)}
        if not found[method]:  # nothing there is meant for it: it is tuned as it would be without the file
            found[method] = {name: list(values) for name, values in paper_space({"method": method}).items()}
    return found
