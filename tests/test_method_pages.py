"""Every method has a page in the docs, which names its objective and a command that the method takes."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest

from graphshift.core.hparams import hparams_of
from graphshift.methods import METHODS

ROOT = Path(__file__).resolve().parent.parent


#: Methods that have only the hyper-parameters of every method.
NONE_OF_ITS_OWN = ("erm", "majority")


def page(method: str) -> str:
    return (ROOT / f"docs/methods/{method}.md").read_text(encoding="utf-8")


def test_there_is_a_page_for_each_method_and_no_other() -> None:
    assert sorted(path.stem for path in (ROOT / "docs/methods").glob("*.md")) == sorted(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_a_page_is_in_the_menu_and_shows_its_hyper_parameters(method: str) -> None:
    assert f": methods/{method}.md\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    if method not in NONE_OF_ITS_OWN:
        assert f"<!-- begin generated hyper-parameters {method} -->" in page(method)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "erm"])
def test_a_page_names_the_equation(method: str) -> None:
    """The objective of a GNN; of the others what they predict."""
    what = "objective" if METHODS[method].uses_backbone else "(?:equation|prediction)"
    function = re.search(rf"The {what} is `(\w+)`; `(tests/[\w/]+\.py)`", page(method))
    assert function is not None
    assert callable(getattr(importlib.import_module(METHODS[method].__module__), function[1]))
    assert function[1] in (ROOT / function[2]).read_text(encoding="utf-8")


@pytest.mark.parametrize("method", METHODS)
def test_a_page_has_a_command_that_the_method_takes(method: str) -> None:
    command = re.search(r"^\$ graphshift fit planted (.+)$", page(method), re.MULTILINE)
    assert command is not None
    words = shlex.split(command[1])
    flags = {"--" + (h.flag or name).replace("_", "-"): name for name, h in hparams_of(METHODS[method]).items()}
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert given.pop("--method") == method
    values = {flags[flag]: value for flag, value in given.items()}
    defaults = {name: hparams_of(METHODS[method])[name].default for name in values}
    typed = {n: v if isinstance(defaults[n], list) else type(defaults[n])(v) for n, v in values.items()}
    METHODS[method](**typed).resolved()
