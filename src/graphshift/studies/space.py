"""The search space: which settings tuning may choose, and the arms that methods, backbones and explorers make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.estimators.settings import OWNERS, Settings, idle_settings
from graphshift.studies.plan import Arm

#: The paper's search space (Appendix on implementation details): the same learning rates for all methods.
PAPER_SPACE: dict[str, tuple[Any, ...]] = {
    "lr": (0.0001, 0.0002, 0.001, 0.005, 0.01),
    "explorer_lr": (0.0001, 0.001, 0.005, 0.01),
    "beta": (0.2, 0.5, 1.0, 2.0, 3.0),
    "edits_per_node": (1, 5, 10),
    "inner_steps": (1, 5),
}

#: What the other methods have to tune beside the learning rate; ranges as in their papers and DomainBed.
METHOD_SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "irm": {"penalty": (1.0, 10.0, 100.0, 1000.0), "anneal": (0.0, 0.1, 0.5)},
    "vrex": {"penalty": (1.0, 10.0, 100.0, 1000.0), "anneal": (0.0, 0.1, 0.5)},
    "groupdro": {"group_lr": (0.001, 0.01, 0.1, 1.0)},
    "mixup": {"mix": (0.1, 0.2, 1.0, 2.0)},
    "coral": {"penalty": (0.01, 0.1, 1.0, 10.0)},
    "dann": {"penalty": (0.01, 0.1, 1.0, 10.0)},
    "srgnn": {"penalty": (0.01, 0.1, 1.0, 10.0)},
}

#: What makes an arm is not tuned within one.
_MAKES_AN_ARM = ("method", "backbone", "explorer", "seed", "selection")


def fits(name: str, method: str, explorer: str) -> bool:
    """Whether a setting means something to a method with an explorer."""
    return name not in idle_settings(method, explorer)


def paper_space(settings: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """The part of the paper's space that fits an arm's settings and that they leave open, and its method's own."""
    method, explorer = settings.get("method", "eerm"), settings.get("explorer", "reinforce")
    whole = {**PAPER_SPACE, **METHOD_SPACES.get(method, {})}
    return {n: v for n, v in whole.items() if fits(n, method, explorer) and n not in settings}


def crossed_arms(
    methods: Sequence[str],
    backbones: Sequence[str] | None,
    explorers: Sequence[str],
    *,
    common: Mapping[str, Any] | None = None,
    space: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
) -> list[Arm]:
    """Methods × backbones, and for EERM × explorers.

    Args:
        methods: ``"erm"``, ``"eerm"`` and so on.
        backbones: by name; None for the one that the dataset prefers.
        explorers: by name; each is an arm of its own for ``"eerm"``.
        common: settings that all arms share; those that mean nothing to an arm are left out of it.
        space: by method, from :func:`space_from_table`; None for the paper's.
    """
    common = common or {}
    arms = []
    used: set[str] = set()
    for backbone in backbones or (None,):
        for method in methods:
            for explorer in explorers if method == "eerm" else (None,):
                own = {n: v for n, v in common.items() if fits(n, method, explorer or "")}
                used |= own.keys()
                settings: dict[str, Any] = {"method": method}
                settings |= {"backbone": backbone} if backbone else {}
                settings |= {"explorer": explorer} if explorer else {}
                settings |= own
                if space is None:
                    tried: Mapping[str, Sequence[Any]] = paper_space(settings)
                else:
                    tried = {n: v for n, v in space[method].items() if fits(n, method, explorer or "")}
                name = f"{method.upper()} {explorer}" if explorer else method.upper()
                arms.append(Arm(f"{name}, {backbone}" if backbone else name, settings, tried))
    if idle := [name for name in common if name not in used]:
        raise GraphshiftError(f"{', '.join(idle)}: means nothing to any of the arms; leave it out.")
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
    known = Settings.model_fields
    methods_known = ("erm", "eerm", *METHOD_SPACES)
    shared = {name: values for name, values in table.items() if not isinstance(values, Mapping)}
    found: dict[str, dict[str, list[Any]]] = {}
    for name, values in table.items():
        if isinstance(values, Mapping) and name not in methods_known:
            raise GraphshiftError(f"{where}[{name}]: expected a method's table, as [eerm], or lists by setting.")
    for method in methods:
        own = table.get(method, {})
        for name, values in {**shared, **own}.items():
            place = f"{where}[{method}] " if name in own else where
            if name not in known:
                raise GraphshiftError(f"{place}{name} is not a setting; the settings are {', '.join(known)}.")
            if name in _MAKES_AN_ARM:
                raise GraphshiftError(f"{place}{name} makes arms and is not tuned within one; leave it out.")
            if not isinstance(values, list) or not values:
                raise GraphshiftError(f"{place}{name} is {values!r}; expected a list of values, as [0.001, 0.01].")
            if not all(isinstance(value, str | int | float) for value in values):
                raise GraphshiftError(f"{place}{name} is {values!r}; expected numbers, words, true or false.")
            if not fits(name, method, "reinforce"):
                raise GraphshiftError(
                    f"{place}{name} means nothing to method {method}; put it under [{OWNERS[name][0]}]."
                )
        found[method] = {**shared, **own}
    return found
