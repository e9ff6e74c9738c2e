"""Dataclasses that are kept as JSON: their types are checked when they are read."""

import json
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from graphshift.core.errors import GraphshiftError

_adapters: dict[type, TypeAdapter[Any]] = {}


def adapter(kind: type) -> TypeAdapter[Any]:
    """Of a stored class, made once."""
    return _adapters[kind] if kind in _adapters else _adapters.setdefault(kind, TypeAdapter(kind))


class Stored:
    """A dataclass that is kept as JSON. Types are checked when it is read; fields of later versions are left aside."""

    @classmethod
    def from_json(cls, content: Any, *, where: str = "") -> Self:
        """Reads what :meth:`to_json` gave; an error begins with ``where`` and names the first field that is wrong."""
        try:
            found: Self = adapter(cls).validate_json(json.dumps(content), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            what = "is missing" if first["type"] == "missing" else f"is {first['input']!r:.80}; {first['msg']}"
            raise GraphshiftError(f"{where}{f'field `{name}` ' if name else ''}{what}.") from None
        return found

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        found: dict[str, Any] = adapter(type(self)).dump_python(self, by_alias=True)
        return found


class Entry(Stored):
    """A line of a ledger: of several with the same ``id`` the last counts, and ``"failed"`` ones can be run again."""

    id: str
    status: str
