"""Options by name, from a command line or a TOML file: their types are checked before the function is called."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from graphshift.core.errors import GraphshiftError


def check_types(where: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuses an option whose type is not that of the function's parameter, where this is int, float or bool.

    Parameters that may be None take it. A name that the function does not know is left to it.
    """
    parameters = inspect.signature(function).parameters
    for name, value in options.items():
        annotation = parameters[name].annotation if name in parameters else ""
        kind = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        optional = kind.endswith(" | None")
        if optional and value is None:
            continue
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
        number = whole or (isinstance(value, float) and math.isfinite(value))
        expected = {
            "int": None if whole else "a whole number (of 64 bits)",
            "float": None if number else "a finite number",
            "bool": None if isinstance(value, bool) else "true or false",
        }.get(kind.removesuffix(" | None"))
        if expected:
            expected += ", or none" if optional else ""
            raise GraphshiftError(f"{where}: {name} is {value!r}; expected {expected}.")
