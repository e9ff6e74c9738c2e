"""JSON and TOML from files that may be damaged or hostile: read whole, with limits, or refused with one message.

Python's own readers follow any nesting until the stack ends, take NaN for a number, and stop at long integers with an
error of their own. What passes here is shallow and finite, and everything behind can rely on that.
"""

import json
import math
import os
import re
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from graphshift.core.errors import GraphshiftError

#: Bytes of a file of JSON, or of a line of a ledger, and of a TOML file that a person wrote.
MOST_JSON, MOST_TOML = 64 * 1024**2, 1024**2
#: How deep lists and tables may lie in each other, and how many digits a number may have.
MOST_DEPTH, MOST_DIGITS = 50, 400
#: The largest whole number: of 25 digits.
MOST_WHOLE = 10**25

_Schema = TypeVar("_Schema", bound=BaseModel)

# tomllib takes time that grows with the square of a dotted key's length.
_DOTTED = re.compile(r"""(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){50}""")


class NotJSONError(GraphshiftError):
    """Text that is no JSON at all, as a half-written line; other than JSON beyond the limits."""


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes. Pipes and devices are refused: they may never end."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except FileNotFoundError:
        raise GraphshiftError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise GraphshiftError(f"{path}: cannot be read: {error.strerror}.") from None
    if len(content) > limit:
        raise GraphshiftError(f"{path}: has more than {limit / 1024**2:.0f} MB; a file of this kind never has.")
    return content


def check_regular(path: Path) -> None:
    """Refuses what is there and is neither a file nor a folder: a pipe, a device or a socket would hang a reader."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # whoever opens it says what is wrong
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise GraphshiftError(f"{path}: this is a pipe, a device or a socket; expected a file.")


def parse_json(
    text: str | bytes, *, where: str, nan: bool = False, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """JSON within the limits.

    Args:
        text: what to read; bytes are UTF-8.
        where: the file, for messages.
        nan: take NaN and infinities, which Python writes and JSON does not know.
        pairs: makes an object of its names and values; a dict by default.
    """

    def refuse(word: str) -> Any:
        raise GraphshiftError(f"{where}: a number is {word:.20}; expected a finite one.")

    def whole(digits: str) -> int:
        if len(digits) > MOST_DIGITS or abs(number := int(digits)) >= MOST_WHOLE:
            raise GraphshiftError(f"{where}: a number has {len(digits)} digits ({digits:.20}…); expected at most 25.")
        return number

    def real(digits: str) -> float:
        if len(digits) > MOST_DIGITS or not math.isfinite(number := float(digits)):
            return refuse(digits)
        return number

    try:
        text = text.decode() if isinstance(text, bytes) else text
        constant = None if nan else refuse
        found = json.loads(text, parse_int=whole, parse_float=real, parse_constant=constant, object_pairs_hook=pairs)
    except RecursionError:
        raise _too_deep(where) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise NotJSONError(f"{where}: this is not JSON ({error}); the file is damaged.") from None
    if pairs is None:
        check_depth(found, where)
    if re.search(r"\\u[dD][89a-fA-F]", text) and not _is_text(found):
        raise GraphshiftError(f"{where}: a text has half a character (a lone surrogate); the file is damaged.")
    return found


def parse_toml(text: str, *, where: str) -> dict[str, Any]:
    """TOML within the limits; :class:`tomllib.TOMLDecodeError` where it is none."""
    if len(text) > MOST_TOML:
        raise GraphshiftError(f"{where}: has more than {MOST_TOML / 1024**2:.0f} MB; expected a short file.")
    if _DOTTED.search(text):
        raise GraphshiftError(f"{where}: a name has more than 50 parts with dots between; expected one or two.")
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise _too_deep(where) from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # a number of thousands of digits, a date that is none
        raise GraphshiftError(f"{where}: a value cannot be read: {str(error).split(';')[0]}.") from None
    check_depth(found, where)
    return found


def check_depth(content: Any, where: str) -> None:
    """Refuses what is nested too deep, and whole numbers of too many digits, without recursion."""
    level: list[Any] = [content]
    for _ in range(MOST_DEPTH + 1):
        if any(type(one) is int and abs(one) >= MOST_WHOLE for one in level):
            raise GraphshiftError(f"{where}: a number has more than 25 digits; expected at most that.")
        inside = [one for one in level if isinstance(one, dict | list)]
        if not inside:
            return
        level = [item for one in inside for item in (one.values() if isinstance(one, dict) else one)]
    raise _too_deep(where)


def checked_note(kind: type[_Schema], content: Any, *, where: str) -> _Schema:
    """Content as a typed note, or an error that names the first field that is wrong; ``where`` is the file."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        what = "is missing" if first["type"] == "missing" else f"is {short(first['input'])}: {first['msg'].lower()}"
        raise GraphshiftError(f"{where}: {f'field `{name}` ' if name else 'the content '}{what}; damaged.") from None


def short(value: Any, most: int = 80) -> str:
    """A value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _too_deep(where: str) -> GraphshiftError:
    return GraphshiftError(f"{where}: lists or tables are nested more than {MOST_DEPTH} deep; the file is damaged.")


def _is_text(content: Any) -> bool:
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
