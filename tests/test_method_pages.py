"""Every method has a page in the docs, which says what the code does: settings, defaults, search space, objective."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest

from graphshift.cli.options import SHORT
from graphshift.estimators.settings import OWNERS, Settings
from graphshift.studies.space import METHOD_SPACES, PAPER_SPACE, paper_space

ROOT = Path(__file__).resolve().parent.parent
METHODS = sorted(METHOD_SPACES)


def page(method: str) -> str:
    return (ROOT / f"docs/methods/{method}.md").read_text(encoding="utf-8")


def shown(values: tuple[float, ...]) -> str:
    return "{" + ", ".join(f"{value:g}" for value in values) + "}"


def test_there_is_a_page_for_each_method_and_no_other() -> None:
    assert sorted(path.stem for path in (ROOT / "docs/methods").glob("*.md")) == METHODS


@pytest.mark.parametrize("method", METHODS)
def test_a_page_is_in_the_menu_and_in_the_overview(method: str) -> None:
    assert f": methods/{method}.md\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"[`{method}`](../methods/{method}.md)" in (ROOT / "docs/how-to/methods.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("method", METHODS)
def test_a_page_has_the_methods_settings(method: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (.+?) \|", page(method), re.MULTILINE)
    own = [setting for setting, owners in OWNERS.items() if method in owners]
    assert sorted(name for name, _, _ in rows) == sorted(["lr", *own])
    space = paper_space({"method": method})
    for name, default, tuned in rows:
        expected = Settings.model_fields[name].default
        assert default == (expected if isinstance(expected, str) else f"{expected:g}"), name
        assert tuned == (shown(space[name]) if name in space else "–"), name
    assert set(space) == {"lr", *METHOD_SPACES[method]} <= {name for name, _, _ in rows}
    assert space["lr"] == PAPER_SPACE["lr"]


@pytest.mark.parametrize("method", METHODS)
def test_a_page_names_the_objective_and_a_command_that_the_method_takes(method: str) -> None:
    text = page(method)
    function = re.search(r"the objective is `(\w+)`", text)
    assert function is not None
    assert callable(getattr(importlib.import_module(f"graphshift.methods.{method}"), function[1]))
    assert function[1] in (ROOT / "tests/methods/test_objectives.py").read_text(encoding="utf-8")
    command = re.search(r"^\$ graphshift fit planted (.+)$", text, re.MULTILINE)
    assert command is not None
    words = shlex.split(command[1])
    flags = {"--" + SHORT.get(name, name).replace("_", "-"): name for name in Settings.model_fields}
    given = {flags[flag]: value for flag, value in zip(words[::2], words[1::2], strict=True)}
    assert given.pop("method") == method
    for name, value in given.items():
        assert method in OWNERS[name]
        Settings.model_validate({"method": method, name: type(Settings.model_fields[name].default)(value)})
