"""Shows the doctests of docstrings as code, wherever they stand in the docstring."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^>>> .*(?:\n.+)*)(?:\n\n>>> .*(?:\n.+)*)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts each block of doctests between fences."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
