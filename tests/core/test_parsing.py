"""The one reader of JSON and TOML: what is too deep, too long, too large or no file at all is one message."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from graphshift.core.errors import GraphshiftError
from graphshift.core.parsing import NotJSONError, checked_note, parse_json, parse_toml, read_bytes
from graphshift.core.storage import read_json, read_shapes, read_tensors


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[" * 3000 + "]" * 3000, "nested more than 50 deep"),
        ('{"a":' * 51 + "1" + "}" * 51, "nested more than 50 deep"),
        ("9" * 5000, "has 5000 digits"),
        ("9" * 26, "has 26 digits"),
        ("1e999", "expected a finite one"),
        ("NaN", "expected a finite one"),
        ("[-Infinity]", "expected a finite one"),
        ('"\\ud800"', "half a character"),
    ],
)
def test_json_beyond_the_limits(text: str, match: str) -> None:
    with pytest.raises(GraphshiftError, match=match) as caught:
        parse_json(text, where="file")
    assert str(caught.value).startswith("file: ")
    assert not isinstance(caught.value, NotJSONError)


def test_json_within_the_limits() -> None:
    text = '{"a": [1, -2.5e300, true, null, "\\ud83d\\ude00", ' + "[" * 47 + "]" * 47 + "]}"
    assert parse_json(text, where="")["a"][:5] == [1, -2.5e300, True, None, "😀"]
    assert parse_json("[NaN]", where="", nan=True)[0] != 0
    with pytest.raises(NotJSONError, match="not JSON"):
        parse_json(b'{"a": \xff}', where="file")


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 2000 + "]" * 2000,
        "a" + ".a" * 100_000 + " = 1",
        '"a"' + ' . "a"' * 100 + " = 1",
        "[" + "a." * 60_000 + "a]",
        "x = {" + "a." * 60_000 + "a = 1}",
        "x = " + "9" * 5000,
        "x = 0x" + "F" * 9000,
        "# " + "x" * 2_000_000,
    ],
)
def test_toml_beyond_the_limits(text: str) -> None:
    with pytest.raises(GraphshiftError, match=r"^file: "):
        parse_toml(text, where="file")


def test_toml_within_the_limits() -> None:
    assert parse_toml('a.b.c = [1, "1.2.3.4"]', where="")["a"]["b"]["c"] == [1, "1.2.3.4"]
    with pytest.raises(tomllib.TOMLDecodeError):
        parse_toml("a", where="")


@pytest.mark.parametrize("read", [read_json, read_tensors, read_shapes, lambda path: read_bytes(path, 9)])
def test_a_pipe_and_a_device_are_refused_at_once(read: object, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(GraphshiftError, match="a pipe, a device or a socket; expected a file"):
            read(tmp_path / name)  # type: ignore[operator]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 2**40)
    with pytest.raises(GraphshiftError, match="has more than 64 MB"):
        read_json(tmp_path / "large")


class Note(BaseModel, strict=True):
    count: int
    names: list[str] = []


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ([3], r"the content is \[3\]"),
        ({}, "field `count` is missing"),
        ({"count": "3"}, "field `count` is '3': input should be a valid integer"),
        ({"count": 3, "names": ["a", 4]}, "field `names.1` is 4"),
        ({"count": "x" * 9000}, "…: input should be a valid integer"),
    ],
)
def test_a_note_names_its_first_wrong_field(content: object, match: str) -> None:
    with pytest.raises(GraphshiftError, match=match) as caught:
        checked_note(Note, content, where="file")
    assert len(str(caught.value)) < 200
