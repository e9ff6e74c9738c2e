"""Everything of one kind by name: methods, explorers, backbones, datasets, metrics, selection rules.

A member is declared once, where it is written::

    @EXPLORERS.register("drop-edge")
    class DropEdge(Explorer): ...

The registry finds it by importing the modules of its package, when somebody first asks. Names alone are read from the
source without importing (:mod:`graphshift.core.declared`), because ``--help`` must not wait for torch.

Members of your own live in any module: name it in ``GRAPHSHIFT_PLUGINS`` (module names or ``.py`` files, with commas
between), or publish it under the entry point group ``graphshift``. Workers of a study find them the same way.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from graphshift.core.declared import declared_names
from graphshift.core.errors import GraphshiftError

Member = TypeVar("Member")
Declared = TypeVar("Declared")

#: Every registry by the kind of its members.
REGISTRIES: dict[str, Registry[Any]] = {}

_ENVIRONMENT = "GRAPHSHIFT_PLUGINS"


class Registry(Mapping[str, Member], Generic[Member]):
    """The members of one kind, by name.

    Args:
        kind: what one member is called in messages, such as ``"explorer"``.
        package: the package, or the module, whose files declare the members.
        make: turns what is declared (a class or a function) into the member: ``make(name, declared, **about)``.
            None: what is declared is the member, and ``about`` must be empty.
    """

    def __init__(self, kind: str, package: str, make: Callable[..., Member] | None = None) -> None:
        self.kind, self.package, self._make = kind, package, make
        self._members: dict[str, Member] = {}
        self._places: dict[str, tuple[Any, Any]] = {}  # a module may be imported again, a name not be declared twice
        self._complete = False
        REGISTRIES[kind] = self

    def register(self, name: str, **about: Any) -> Callable[[Declared], Declared]:
        """Declares a member: a decorator of its class or function; ``about`` goes to ``make``."""

        def declare(thing: Declared) -> Declared:
            place = (getattr(thing, "__module__", None), getattr(thing, "__qualname__", None))
            if self._places.setdefault(name, place) != place:
                raise GraphshiftError(f"two {self.kind}s are called {name!r}; rename one of them.")
            self._members[name] = thing if self._make is None else self._make(name, thing, **about)  # type: ignore[assignment]
            return thing

        return declare

    def find(self, name: Any, *, where: str = "") -> Member:
        """The member of that name, or an error, after ``where``, that lists the names and suggests the nearest."""
        self._fill()
        if isinstance(name, str) and name in self._members:
            return self._members[name]
        raise GraphshiftError(f"{where}{self.kind} is {name!r}; {expected_one_of(name, list(self))}")

    def names(self) -> list[str]:
        """The names, without importing the members if that was not done yet."""
        if self._complete or wanted_plugins():
            return list(self)
        return sorted({*declared_names(self.package), *self._members})

    def class_named(self, name: str) -> Member:
        """The member that is a class of this name; a package's ``__getattr__``."""
        for member in self.values() if not name.startswith("_") else ():
            if getattr(member, "__name__", "") == name:
                return member
        raise AttributeError(f"module {self.package!r} has no attribute {name!r}")

    def __getitem__(self, name: str) -> Member:
        self._fill()
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        self._fill()
        return iter(sorted(self._members))

    def __len__(self) -> int:
        self._fill()
        return len(self._members)

    def __repr__(self) -> str:
        return f"Registry({self.kind!r}, {', '.join(self.names())})"

    def _fill(self) -> None:
        if self._complete:
            return
        self._complete = True  # before the imports: they may ask
        try:
            module = importlib.import_module(self.package)
            for info in pkgutil.iter_modules(getattr(module, "__path__", ())):
                importlib.import_module(f"{self.package}.{info.name}")
            load_plugins()
        except BaseException:
            self._complete = False
            raise


def expected_one_of(name: Any, known: list[str]) -> str:
    """``expected one of …``, with the nearest match where there is one."""
    near = get_close_matches(name, known, n=1) if isinstance(name, str) else []
    return f"expected one of {', '.join(known)}." + (f" Did you mean {near[0]!r}?" if near else "")


def load_plugins() -> None:
    """Imports the modules that declare members of the user's own, each once."""
    for name in wanted_plugins():
        if name.endswith(".py"):
            path = Path(name).resolve()
            if path.stem in sys.modules:
                continue
            spec = importlib.util.spec_from_file_location(path.stem, path)
            if spec is None or spec.loader is None or not path.is_file():
                raise GraphshiftError(f"{_ENVIRONMENT} names {name!r}, and there is no such file.")
            module = importlib.util.module_from_spec(spec)
            sys.modules[path.stem] = module
            spec.loader.exec_module(module)
        else:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                raise GraphshiftError(f"plug-in {name!r} cannot be imported: {error}.") from None


def wanted_plugins() -> list[str]:
    """The modules that declare members of the user's own."""
    named = [part.strip() for part in os.environ.get(_ENVIRONMENT, "").split(",") if part.strip()]
    return named + [point.value for point in entry_points(group="graphshift")]
