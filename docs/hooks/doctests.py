"""Shows the doctests of docstrings as code, wherever they stand, and names of other objects without their roles."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^>>> .*(?:\n.+)*)(?:\n\n>>> .*(?:\n.+)*)*", re.MULTILINE)
_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?(?:[\w.]*\.)?(\w+)`")


class Doctests(griffe.Extension):
    """Puts each block of doctests between fences; ``:meth:`~a.b``` becomes `b`."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
            obj.docstring.value = _ROLE.sub(r"`\1`", text)
