"""How a command fails: one message on standard error, and a status."""

from __future__ import annotations

import sys
import typing


def fail(message: str, status: int) -> typing.NoReturn:
    """Ends the program."""
    print(f"graphshift: {message}", file=sys.stderr)
    raise SystemExit(status)
