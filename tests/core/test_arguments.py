"""Options of the wrong type are named before the function is called; what it does not know is left to it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from graphshift.core.arguments import check_types
from graphshift.core.errors import GraphshiftError


def maker(nodes: int = 3, share: float = 0.5, loops: bool = False, *, name: str = "", odd: int | None = None) -> None:
    """Something with options."""


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"nodes": 3, "share": 0.5, "loops": True},
        {"share": 1},  # a whole number is a number
        {"name": 3, "odd": None, "unknown": object()},  # names and unknowns are not checked here
        {"nodes": -5, "share": -1.0},  # nor are ranges
    ],
)
@pytest.mark.parametrize("function", [maker, partial(maker, loops=True)], ids=["plain", "partial"])
def test_what_fits_passes(function: Any, options: dict[str, Any]) -> None:
    check_types("here", function, options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 2.0}, "here: nodes is 2.0; expected a whole number (of 64 bits)."),
        ({"nodes": "2"}, "here: nodes is '2'; expected a whole number (of 64 bits)."),
        ({"nodes": True}, "here: nodes is True; expected a whole number (of 64 bits)."),
        ({"nodes": 2**63}, "here: nodes is 9223372036854775808; expected a whole number (of 64 bits)."),
        ({"share": "half"}, "here: share is 'half'; expected a finite number."),
        ({"share": float("nan")}, "here: share is nan; expected a finite number."),
        ({"share": True}, "here: share is True; expected a finite number."),
        ({"loops": 1}, "here: loops is 1; expected true or false."),
    ],
)
def test_what_does_not_fit_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphshiftError) as caught:
        check_types("here", partial(maker, name="x"), options)
    assert str(caught.value) == message


def test_a_parameter_that_may_be_none_takes_it_and_is_checked_otherwise() -> None:
    def function(bound: int | None = 3, size: int = 2) -> None: ...

    check_types("here", function, {"bound": None})
    check_types("here", function, {"bound": 7})
    with pytest.raises(GraphshiftError, match=r"here: bound is 'many'; expected a whole number .*, or none"):
        check_types("here", function, {"bound": "many"})
    with pytest.raises(GraphshiftError, match=r"size is None; expected a whole number \(of 64 bits\)\.$"):
        check_types("here", function, {"size": None})
