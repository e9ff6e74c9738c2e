"""The members of a blend: their settings, as people give them and as they are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import parse_json, short
from graphshift.estimators.base import METHODS, Estimator
from graphshift.estimators.settings import has_setting, make_estimator, recorded_estimator

#: How many members a blend may have.
FEWEST, MOST = 2, 32

_EXPECTED = """expected names, as "forest,erm", or settings, as [{"method": "forest"}, {"method": "erm", "lr": 0.01}]"""


def read_members(given: Any, where: str = "") -> list[dict[str, Any]]:
    """Members as people give them: names with commas, JSON, or a list of names and of settings by name."""
    if isinstance(given, str):
        text = given.strip()
        if text[:1] in ("[", "{"):
            try:
                given = parse_json(text, where=f"{where}members")
            except GraphshiftError:
                raise GraphshiftError(f"{where}members is {short(text)}: this is not JSON; {_EXPECTED}.") from None
        else:
            given = [name.strip() for name in text.split(",")]
    if not isinstance(given, Sequence) or isinstance(given, str) or not FEWEST <= len(given) <= MOST:
        raise GraphshiftError(f"{where}members is {short(given)}; {_EXPECTED}: {FEWEST} to {MOST} of them.")
    found = []
    for i, one in enumerate(given, start=1):
        member = {"method": one} if isinstance(one, str) else one
        if not isinstance(member, Mapping) or "method" not in member:
            raise GraphshiftError(f"{where}member {i} is {short(one)}; {_EXPECTED}.")
        found.append(dict(member))
    return found


def completed_members(
    given: Any, rule: str, defaults: Mapping[str, Any] | None = None, where: str = ""
) -> list[dict[str, Any]]:
    """Members with every setting that means something to their method.

    Args:
        given: as :func:`read_members` takes them.
        rule: the blend's selection rule, which is every member's.
        defaults: of the dataset, for what is not given.
        where: what to put before messages, such as the file's name.

    Returns:
        For each its settings, without ``selection``, and without ``seed`` unless it was given: both are the blend's.
    """
    found = []
    for i, member in enumerate(read_members(given, where), start=1):
        here = f"{where}member {i}: "
        _refuse(member, here)
        settings = make_estimator({**member, "selection": rule}, defaults, where=here).settings()
        left_out = {"selection"} | ({"seed"} if "seed" not in member else set())
        found.append({n: v for n, v in settings.items() if n not in left_out and has_setting(n, settings)})
    return found


def checked_members(members: Any, seed: int, rule: str, where: str = "") -> list[Estimator]:
    """The estimators of complete members, not fitted; a file may hold anything in their place.

    Args:
        members: as :func:`completed_members` gave them.
        seed: of those without one.
        rule: of all.
        where: what to put before messages.
    """
    found = []
    for i, member in enumerate(read_members(members, where), start=1):
        here = f"{where}member {i}: "
        _refuse(member, here)
        found.append(recorded_estimator({"seed": seed, **member, "selection": rule}, where=here))
    return found


def _refuse(member: Mapping[str, Any], where: str) -> None:
    """Refuses a blend in a blend, a rule of a member's own, and what could not be written down."""
    method = member["method"]
    METHODS.find(method, where=where)
    if method == "blend":
        raise GraphshiftError(f"{where}a blend cannot be a member of a blend; name its members instead.")
    if "selection" in member:
        raise GraphshiftError(f"{where}selection is {member['selection']!r}; it is the blend's: leave it out here.")
    try:
        json.dumps(dict(member))
    except (TypeError, ValueError):
        raise GraphshiftError(
            f"{where}a setting is neither a number nor a text; a member's backbone and explorer are given by name."
        ) from None
