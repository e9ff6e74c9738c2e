"""Hyper-parameters: default, range, help and search values of each, in one line of the class that has it.

A class with hyper-parameters is a dataclass::

    @dataclass(eq=False, repr=False)
    class IRM(GroupedEstimator):
        penalty: float = hparam(1.0, ge=0, le=1e12, search=(1.0, 10.0, 100.0, 1000.0), help="λ, the penalty's weight")

Command line, TOML files, search spaces and the documentation's tables follow from these lines.
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphshift.core.errors import GraphshiftError

#: Hyper-parameters that have another name now.
RENAMED = {"explorers": "views"}


def refuse_renamed(given: Mapping[str, Any], *, where: str = "", spelled: str = "{}") -> None:
    """An old name is answered with what to write now; ``spelled`` is how names are written, such as ``"--{}"``."""
    for old, new in RENAMED.items():
        if old in given:
            was, now = spelled.format(old), spelled.format(new)
            raise GraphshiftError(f"{where}{was} is called {now} now; write {now} for the number of views.")


@dataclass(frozen=True)
class Hparam:
    """One hyper-parameter.

    Attributes:
        default: what it is if nobody says.
        help: one line for ``--help`` and the docs.
        ge, gt, le, lt: its range, of numbers.
        search: the values that tuning tries; empty if it is not tuned.
        registry: the kind of member that it names, such as ``"backbone"``; empty if it names none.
        flag: its name on the command line, where that is shorter.
        needs: the attribute that the chosen explorer must have for it to mean something, such as ``"learns"``.
    """

    default: Any
    help: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    search: Sequence[Any] = ()
    registry: str = ""
    flag: str = ""
    needs: str = ""


def hparam(default: Any, *, help: str, **about: Any) -> Any:
    """A dataclass field that is a hyper-parameter; see :class:`Hparam` for ``about``."""
    found = Hparam(default, help, **about)
    if isinstance(default, dict | list):
        return dataclasses.field(default_factory=lambda: copy.deepcopy(default), metadata={"hparam": found})
    return dataclasses.field(default=default, metadata={"hparam": found})


def hparams_of(owner: Any) -> dict[str, Hparam]:
    """The hyper-parameters of a dataclass, by name, in order."""
    return {f.name: f.metadata["hparam"] for f in dataclasses.fields(owner) if "hparam" in f.metadata}
